"""labs/*/rungs.json says what the rungs are today, and nothing that a student should not read."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from autograder.report.resemblance import APART, LIKE, distance
from autograder.spec.lab import CHECKOUT, Lab, find_lab, kernel_labs, solutions_folder
from autograder.spec.recorded import FILE, INSTRUCTIONS, Recorded, recorded
from autograder.spec.score import budget_share, traffic_points
from benchmarks import rungs
from tests.sampling import part_of

pytestmark = pytest.mark.processes

LABS = [find_lab(name) for name in kernel_labs() if list((solutions_folder() / name).glob("rung_*.py"))]
each_lab = pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.name)


def known(lab: Lab) -> Recorded:
    found = recorded(lab.folder)
    assert found is not None, f"{lab.folder / FILE} is missing: python -m benchmarks.rungs {lab.name}"
    return found


@each_lab
def test_every_rung_is_recorded_with_its_line_and_its_speed(lab: Lab) -> None:
    paths = {path.stem: path for path in rungs.sources(lab)}
    found = known(lab)
    assert {rung.name for rung in found.rungs} | set(found.left_out) == paths.keys()
    assert [rung.name for rung in found.rungs] == [name for name in paths if name not in found.left_out]
    assert (found.gpu, found.of) == (rungs.gpu(), rungs.of(lab))
    for rung in found.rungs:
        assert rung.what == rungs.what(paths[rung.name])
        assert rung.share == rungs.measured(lab, paths[rung.name])
        assert {json.dumps(one.size) for one in rung.counted} == {json.dumps(dict(size)) for size in rungs.sizes(lab)}
        for one in rung.counted:
            assert list(one.counters) == [*(budget.counter for budget in lab.task.budgets), INSTRUCTIONS]


@pytest.mark.parametrize(
    "path",
    part_of((path for lab in LABS for path in rungs.sources(lab)), 25, kind=lambda path: ""),
    ids=lambda path: f"{path.parent.name}/{path.stem}",
)
def test_their_counters_are_those_of_today(path: Path) -> None:
    lab = find_lab(path.parent.name)
    found = {rung.name: rung for rung in known(lab).rungs}.get(path.stem)
    size = rungs.sizes(lab)[-1]
    counted = rungs.counted(lab, path, size)
    assert (counted is None) == (path.stem in known(lab).left_out)
    for one in counted or ():
        assert found is not None and min(distance(one.counters, other) for other in found.at(size)) < 0.01


@each_lab
def test_the_file_has_no_line_of_a_solution(lab: Lab) -> None:
    data = json.loads((lab.folder / FILE).read_text(encoding="utf-8"))
    assert set(data) == {"gpu", "of", "rungs", "left_out"}
    code = {line for path in rungs.sources(lab) for line in code_lines(path.read_text(encoding="utf-8"))}
    for rung in data["rungs"]:
        assert set(rung) == {"name", "what", "share", "counted"}
        assert all(one.keys() == {"size", "counters"} for one in rung["counted"])
        assert rung["what"] not in code and "\n" not in rung["what"] and len(rung["what"]) < 120


def code_lines(text: str) -> set[str]:
    """The lines below a file's docstring that are not empty."""
    below = text.splitlines()[ast.parse(text).body[0].end_lineno :]
    return {line.strip() for line in below} - {""}


@each_lab
def test_a_first_rung_is_not_like_the_reference_of_any_size(lab: Lab) -> None:
    first, reference = known(lab).rungs[0], next(rung for rung in known(lab).rungs if rung.name == "submission")
    for size in rungs.sizes(lab):
        apart = [distance(one, other) for one in first.at(size) for other in reference.at(size)]
        assert apart and min(apart) > APART
    assert LIKE > APART


def test_the_documented_points_of_the_rungs_follow_from_their_counters() -> None:
    """docs/grading.md has a row a lab: what each rung earns without a GPU, right and safe as all of them are."""
    text = (CHECKOUT / "docs" / "grading.md").read_text(encoding="utf-8")
    for lab in LABS:
        points = lab.points
        certain = points.correctness + points.safety
        worst = [
            max(value for name, value in rung.counted[0].counters.items() if name != INSTRUCTIONS)
            for rung in known(lab).rungs
            if rung.name.startswith("rung_")
        ]
        earned = [certain + traffic_points(budget_share(round(value, 3), 1.0), points.traffic) for value in worst]
        most = certain + points.traffic
        times = "kept" if worst[0] <= 1 else f"{worst[0]:.1f}" if worst[0] < 10 else f"{worst[0]:.0f}"
        first = f"{earned[0]:g} of {most:g} ({earned[0] / most:.0%})"
        row = f"| {lab.name} | {times} | {first} | {', '.join(f'{score:g}' for score in earned[1:])} |"
        assert row in text, row
