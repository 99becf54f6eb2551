"""Chapters in Colab and Kaggle: the badges, the cell that sets these up, and what it says when Colab changes."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import jupytext
import nbformat
import pytest
from IPython.core.inputtransformer2 import TransformerManager

from scripts import badges, colab

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "notebooks" / "source").glob("*.md"))
ADDRESS = ("someone", "a-course")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
@pytest.mark.pages
def test_every_chapter_gets_a_badge_and_a_cell_in_both_its_forms(source: Path) -> None:
    text = badges.marked(source.read_text(encoding="utf-8"), source.stem, None)
    marked = badges.marked(text, source.stem, ADDRESS)
    assert badges.marked(marked, source.stem, ("another", "course")).count("github/another/course/") == 1
    assert badges.marked(marked, source.stem, None) == text
    notebook = jupytext.reads(marked, "md:myst")
    target = f"(https://colab.research.google.com/github/someone/a-course/blob/main/notebooks/{source.stem}.ipynb)"
    assert target in notebook.cells[0].source
    welcome = "https://kaggle.com/kernels/welcome?src=https://github.com/someone/a-course/blob/main/notebooks/"
    assert f"({welcome}{source.stem}.ipynb)" in notebook.cells[0].source
    first = next(cell for cell in notebook.cells if cell.cell_type == "code")
    assert "git clone -q --depth 1 https://github.com/someone/a-course " in first.source
    nbformat.validate(notebook)


def test_the_cell_does_nothing_outside_of_colab_and_kaggle(monkeypatch: pytest.MonkeyPatch) -> None:
    """As IPython runs it: a call of the shell, which is not there, would be a NameError."""
    monkeypatch.delenv("KAGGLE_KERNEL_RUN_TYPE", raising=False)
    exec(TransformerManager().transform_cell(badges.setup_lines(*ADDRESS)), {})


@pytest.mark.parametrize(("variable", "module"), [("KAGGLE_KERNEL_RUN_TYPE", ""), ("", "google.colab")])
def test_the_cell_fetches_the_course_into_the_folder_that_is_kept(
    variable: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KAGGLE_KERNEL_RUN_TYPE", raising=False)
    if variable:
        monkeypatch.setenv(variable, "Interactive")
    if module:
        monkeypatch.setitem(sys.modules, module, sys)
    asked: list[str] = []
    shell = SimpleNamespace(system=asked.append, run_line_magic=lambda name, line: asked.append(f"{name} {line}"))
    names = {"get_ipython": lambda: shell}
    exec(TransformerManager().transform_cell(badges.setup_lines(*ADDRESS)), names)
    assert names["course"] == ("/kaggle/working/a-course" if variable else "/content/a-course")
    assert asked[0].endswith("git clone -q --depth 1 https://github.com/someone/a-course $course")
    assert asked[1:] == ["cd -q $course/notebooks", "run ../scripts/colab.py"]


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("https://github.com/someone/a-course", ADDRESS),
        ("https://github.com/someone/a-course.git", ADDRESS),
        ("https://example.org/a-course", None),
        ("", None),
    ],
)
def test_the_address_comes_from_the_project(url: str, address: tuple[str, str] | None) -> None:
    assert badges.repository({"urls": {"Repository": url}}) == address
    assert badges.repository({}) is None


@pytest.mark.pages
def test_chapters_have_the_badges_of_the_address_that_is_set() -> None:
    address = badges.repository(PROJECT)
    stale = [s.stem for s in SOURCES if badges.marked(t := s.read_text(encoding="utf-8"), s.stem, address) != t]
    assert stale == [], "run python -m scripts.badges"


def test_what_has_changed_in_colab_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"numpy": "2.1.3", "numba-cuda": "0.24.0", "torch": "2.11.0"}
    monkeypatch.setattr(colab, "_installed", lambda name: there.get(name, ""))
    expected = {"numpy": "2.1.3", "numba-cuda": "0.22.2", "rich": "13.9.4"}
    assert colab.changes({"numpy": "2.1.3"}, (3, 13)) == []
    assert colab.changes(expected, (3, 14)) == [
        "Python is 3.14 here, and the course needs 3.11 to 3.13.",
        "numba-cuda is 0.24.0 here; the course was tried with 0.22.2.",
        "rich is not installed here any more; the course was tried with 13.9.4.",
    ]


def test_only_what_colab_lacks_is_installed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    colabs, added = colab.pins(colab.PINS.read_text(encoding="utf-8"))
    there = {**colabs, "cuda-core": "0.3.2"}
    del there["rich"]
    commands: list[list[str]] = []

    def run(command: list[str], **_: object) -> object:
        commands.append(command)
        return type("Done", (), {"returncode": 0, "stderr": ""})

    monkeypatch.setattr(colab, "_installed", lambda name: there.get(name, ""))
    monkeypatch.setattr(colab.subprocess, "run", run)
    monkeypatch.setenv("PYTHONPATH", "")
    assert colab.main() == 0
    assert set(commands[0][-3:]) == {"cuda-core==0.7.0", f"msgspec=={added['msgspec']}", f"rich=={colabs['rich']}"}
    assert "rich is not installed here any more" in capsys.readouterr().out


@pytest.mark.pages
def test_colabs_versions_are_those_that_the_project_takes() -> None:
    colabs, added = colab.pins(colab.PINS.read_text(encoding="utf-8"))
    extras = (row for extra in ("notebook", "grader", "course") for row in PROJECT["optional-dependencies"][extra])
    wanted = (*PROJECT["dependencies"], *(row for row in extras if not row.startswith("warplab[")))
    names = {re.split(r"[^\w-]", row)[0] for row in wanted}
    assert names - colabs.keys() - added.keys() == {"jupyterlab"}  # Colab is the page itself
    assert not colabs.keys() & added.keys()
