"""Handouts: the block of points and budgets has the judge's figures, and a command keeps it so."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from autograder import cli
from autograder.handout import BEGIN, END, grade_block, handout
from autograder.spec.lab import LabError, checkout, find_any, known_labs, labs_folder
from autograder.spec.task import Task
from tests.autograder.handmade import LAB_TOML, make_lab

WORDS = """
[handout]
correctness = "every element"
safety = "no race"
traffic = "the budgets below"
efficiency = "the time for all"
"""
README = f"# Twice\n\nBefore.\n\n{BEGIN}\n{END}\n\nAfter.\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    lab = make_lab(tmp_path, toml=LAB_TOML.replace("target = 0.9", "target = 0.018").replace("0.1", "0.009") + WORDS)
    (lab.folder / "README.md").write_text(README)
    monkeypatch.setenv("WARPLAB_LABS", str(tmp_path / "labs"))
    monkeypatch.setattr(cli, "BUILD", tmp_path / "build")
    return lab.folder


def test_points_scale_and_budgets_are_those_of_the_judge(folder: Path) -> None:
    block = grade_block(find_any(folder.name))
    assert "| correctness | 30 | every element |" in block
    assert "| the time for all: full points at 1.8% of the roofline, none at 0.9% |" in block
    assert "nominal size *n* = 1,024" in block
    assert "| `global_load_sectors` | 128 |" in block


def test_a_limit_between_two_whole_numbers_is_the_lower_one() -> None:
    assert "| `global_written_sectors` | 3,276 |" in grade_block(find_any("02_divergence"))  # 3,276.8


def test_points_that_only_gpus_give_and_each_functions_budgets_are_named() -> None:
    lab = find_any("12_collectives")
    changed = grade_block(replace(lab, points=replace(lab.points, efficiency=40)))
    assert "| efficiency | 40 | 31 points: the modelled time" in changed and "; 9 points: the measured time" in changed
    ranks = (
        "| `one_f_one_b` | *ranks* = 5, *micro_batches* = 13 | `held_by_rank_0` to `held_by_rank_4` | 5, 4, 3, 2, 1 |"
    )
    assert ranks in grade_block(find_any("14_pipeline_schedule"))
    assert "full points" not in grade_block(find_any("18_break_the_judge"))


def test_hours_and_what_a_lab_needs_stand_above_its_points(folder: Path) -> None:
    toml = folder / "lab.toml"
    assert "Plan" not in grade_block(find_any(folder.name))
    toml.write_text('hours = [0.5, 2]\nbefore = [["a", "docs/a.md"], ["b", "docs/b.md"]]\n' + toml.read_text())
    block = grade_block(find_any(folder.name))
    assert block.startswith("Plan 0.5 to 2 hours. The lab needs [a](../../docs/a.md) and [b](../../docs/b.md).\n\n|")


@pytest.mark.parametrize("name", known_labs())
def test_every_lab_says_its_hours_what_it_needs_and_what_its_predictions_were_worth(name: str) -> None:
    folder = labs_folder() / name
    texts = tomllib.loads((folder / "lab.toml").read_text(encoding="utf-8"))
    low, high = texts["hours"]
    assert 0 < low < high <= 10
    assert texts["before"] and all((checkout() / where).is_file() for _, where in texts["before"])
    text = (folder / "README.md").read_text(encoding="utf-8")
    asked = text.split("\n## Predict\n")[1].split("\n## ")[0]
    assert len(find_any(name).predictions) == len(re.findall(r"^\d\. ", asked, re.MULTILINE)) > 0


def test_handouts_of_tensor_labs_name_what_tensor_cores_must_do() -> None:
    for name in known_labs():
        task, block = find_any(name).task, grade_block(find_any(name))
        assert ("tensor cores to make" in block) is bool(isinstance(task, Task) and task.tensor_share), name
    assert "make 8,388,608 multiply-adds or more" in grade_block(find_any("07_tensor_core_hgemm"))


def test_the_command_writes_what_is_stale_and_leaves_the_rest(folder: Path, capsys) -> None:
    path = folder / "README.md"
    assert cli.main(["handouts", "--check"]) == cli.NOT_FULL_MARKS and path.read_text() == README
    assert cli.main(["handouts"]) == cli.FULL_MARKS
    text = path.read_text()
    assert text.startswith("# Twice\n\nBefore.\n\n") and text.endswith("\n\nAfter.\n") and "| safety | 20 |" in text
    assert cli.main(["handouts", "--check"]) == cli.FULL_MARKS
    toml = folder / "lab.toml"
    toml.write_text(toml.read_text().replace("safety = 20", "safety = 21"))
    assert cli.main(["handouts", "--check"]) == cli.NOT_FULL_MARKS


@pytest.mark.parametrize(
    ("name", "old", "new", "words"),
    [
        ("README.md", END, "", "has no block for the grade"),
        ("README.md", BEGIN, f"{BEGIN}\n{END}\n{BEGIN}", "or several"),
        ("lab.toml", 'safety = "no race"', "", "does not say what earns points for safety"),
    ],
)
def test_what_is_missing_is_one_sentence(folder: Path, name: str, old: str, new: str, words: str) -> None:
    path = folder / name
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(LabError, match=words):
        handout(find_any(folder.name))
