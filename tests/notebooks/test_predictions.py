"""What chapters ask of a reader: fields that are remembered apart and answered, sliders, a quiz, who built on it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import jupytext
import pytest

from course.lesson import EVIDENCE
from course.quiz import load

pytestmark = pytest.mark.pages

FOLDER = Path(__file__).resolve().parents[2] / "notebooks" / "source"
SOURCES = sorted(FOLDER.glob("*.md"))
FIRST = [source for source in SOURCES if int(source.stem[:2]) < 9]
CALL = re.compile(r"^(\w+) = predict\(\"([^\"]+)\", \"([^\"]+)\", \"([^\"]+)\"\)$", re.M)


def names(source: Path) -> list[str]:
    return [name for _, name, _, _ in CALL.findall(source.read_text(encoding="utf-8"))]


def test_no_two_fields_are_remembered_as_one() -> None:
    every = [name for source in SOURCES for name in names(source)]
    assert len(every) > 30 and len(every) == len(set(every))


@pytest.mark.parametrize("source", FIRST, ids=lambda source: source.stem)
def test_each_field_is_answered(source: Path) -> None:
    text = source.read_text(encoding="utf-8")
    asked = CALL.findall(text)
    assert len(asked) == text.count("predict(") and not re.search(r"^\w+ = None", text, re.M)
    for variable, name, _, unit in asked:
        assert name.startswith(f"{source.stem[:2]} ") and unit
        after = text[text.index(f"{variable} = predict(") :]
        assert re.search(rf"reveal\({variable},|outcome\(.*, {variable}\)", after), f"nothing answers {variable}"


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_each_answer_names_its_evidence(source: Path) -> None:
    for cell in jupytext.read(source).cells:
        if cell.cell_type == "code" and "reveal(" in cell.source:
            tree = ast.parse(re.sub(r"^[%!].*$", "", cell.source, flags=re.M))
            calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "reveal"]
            for call in calls:
                how = [*call.args[3:4], *(word.value for word in call.keywords if word.arg == "how")]
                assert how and re.match(rf"f?'({'|'.join(EVIDENCE)})\b", ast.unparse(how[0])), ast.unparse(call)


@pytest.mark.parametrize("source", FIRST, ids=lambda source: source.stem)
def test_a_chapter_asks_and_ends_with_a_quiz_and_with_who_built_on_it(source: Path) -> None:
    text = source.read_text(encoding="utf-8")
    assert len(names(source)) + len(re.findall(r"^\w+_sliders?\(|^explore_\w+\(|Explorer\(", text, re.M)) >= 3
    assert f'quiz("{source.stem}")' in text and len(load(source.stem[:2]).questions) >= 8
    assert text.index("· Quiz") < text.index("## Who built on this")
