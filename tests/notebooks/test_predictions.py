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
CHAPTERS = [source for source in SOURCES if source.stem[0].isdigit()]


def calls(source: Path) -> list[tuple[str, ast.Call]]:
    """The calls of `predict`, and the variable that holds what each gives."""
    found = []
    for cell in jupytext.read(source).cells:
        if cell.cell_type == "code" and "predict(" in cell.source:
            for node in ast.walk(ast.parse(re.sub(r"^[%!].*$", "", cell.source, flags=re.M))):
                if isinstance(node, ast.Assign) and ast.unparse(node.value).startswith("predict("):
                    assert isinstance(node.value, ast.Call)
                    found.append((ast.unparse(node.targets[0]), node.value))
    return found


def names(source: Path) -> list[str]:
    return [ast.literal_eval(call.args[0]) for _, call in calls(source)]


def test_no_two_fields_are_remembered_as_one() -> None:
    every = [name for source in SOURCES for name in names(source)]
    assert len(every) > 30 and len(every) == len(set(every))


@pytest.mark.parametrize("source", CHAPTERS, ids=lambda source: source.stem)
def test_no_prediction_is_a_variable_without_a_field(source: Path) -> None:
    assert not re.search(r"^\w+ = None", source.read_text(encoding="utf-8"), re.M)


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_each_field_is_answered(source: Path) -> None:
    text = source.read_text(encoding="utf-8")
    asked = calls(source)
    assert len(asked) == text.count("predict(")
    number = re.search(r"\d\d", source.stem)
    assert number
    for variable, call in asked:
        assert ast.literal_eval(call.args[0]).startswith(number[0])
        choices = [ast.literal_eval(word.value) for word in call.keywords if word.arg == "choices"]
        assert len(call.args) == 3 or len(choices[0]) >= 3, "a unit, or three choices"
        after = text[text.index(f"{variable} = predict(") :]
        assert re.search(rf"reveal\(\s*{variable},|outcome\(.*, {variable}\)", after), f"nothing answers {variable}"


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_each_answer_names_its_evidence(source: Path) -> None:
    for cell in jupytext.read(source).cells:
        if cell.cell_type == "code" and "reveal(" in cell.source:
            tree = ast.parse(re.sub(r"^[%!].*$", "", cell.source, flags=re.M))
            found = [
                node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "reveal"
            ]
            for call in found:
                how = [*call.args[3:4], *(word.value for word in call.keywords if word.arg == "how")]
                assert how and re.match(rf"f?'({'|'.join(EVIDENCE)})\b", ast.unparse(how[0])), ast.unparse(call)


@pytest.mark.parametrize("source", CHAPTERS, ids=lambda source: source.stem)
def test_a_chapter_asks_and_ends_with_a_quiz_and_with_who_built_on_it(source: Path) -> None:
    text = source.read_text(encoding="utf-8")
    assert len(names(source)) + len(re.findall(r"^\w+_sliders?\(|^explore_\w+\(|Explorer\(", text, re.M)) >= 3
    assert f'quiz("{source.stem}")' in text and len(load(source.stem).questions) >= 6
    assert text.index("· Quiz") < text.index("## Who built on this")


@pytest.mark.parametrize("source", [s for s in CHAPTERS if int(s.stem[:2]) >= 6], ids=lambda source: source.stem)
def test_a_chapter_ends_with_an_explanation_and_a_page(source: Path) -> None:
    text = source.read_text(encoding="utf-8")
    colleague, summary = text.index("## Explain it to a colleague"), text.index("## Summary")
    assert text.index("· Quiz") < colleague < summary < text.index("## Who built on this")
    page = re.sub(r"```\{code-cell\}.*?```", "", text[summary : text.index("## Who built on this")], flags=re.DOTALL)
    words = re.sub(r"\]\([^)]*\)|<!--.*?-->", "", page).split()
    assert len(words) <= 250, "one page"
