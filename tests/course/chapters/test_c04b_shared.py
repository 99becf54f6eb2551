"""Chapter 04b's shared GPU: its figure against the records read in another way, its text, its exercise."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from course.chapters import c04b_shared_gpu as shared
from tests.course.exercises import Exercises

ROOT = Path(__file__).resolve().parents[3]
RECORDS = json.loads((ROOT / "benchmarks" / "results" / "sharing.json").read_text(encoding="utf-8"))["records"]


def value(name: str, metric: str, variant: str) -> float:
    (found,) = [
        one["value"] for one in RECORDS if (one["name"], one["metric"], one["variant"]) == (name, metric, variant)
    ]
    return found


def test_points_of_the_figure_are_times_as_slow() -> None:
    made = shared.figure_of_neighbours()
    copy, _, small, loads = made.axes
    alone, beside = (value("copy", "rate", f"streams, beside {other}") for other in ("nobody", "product"))
    (streams,) = [line for line in copy.lines if line.get_label() == "streams"]
    assert np.asarray(streams.get_xdata())[1] == pytest.approx(alone / beside)
    alone, beside = (value("dependent loads in L2", "latency", f"MPS, beside {other}") for other in ("nobody", "copy"))
    (mps,) = [line for line in loads.lines if line.get_label() == "MPS"]
    assert np.asarray(mps.get_xdata())[0] == pytest.approx(beside / alone)
    low, high = small.get_xlim()
    points = np.concatenate([np.asarray(line.get_xdata()) for axes in made.axes for line in axes.lines[1:]])
    assert points.size == 48 and low < points.min() and points.max() < high


def test_the_records_say_what_the_text_says() -> None:
    slices = [shared.of("small kernel", "time slices", other).value for other in shared.NEIGHBOURS]
    assert all(2.41e-3 < one < 2.47e-3 for one in slices)
    assert shared.of("small kernel", "time slices", "nobody").value == pytest.approx(23e-6, rel=0.02)
    shares = [1 / shared.slower("copy", "time slices", other) for other in shared.NEIGHBOURS]
    assert all(0.42 < one < 0.43 for one in shares)
    assert 1 / shared.slower("copy", "MPS", "copy") == pytest.approx(0.506, abs=1e-3)
    for way in ("streams", "MPS"):
        assert shared.slower("dependent loads in L2", way, "copy") == pytest.approx(9.4, abs=0.1)
        assert 2.8 < shared.slower("dependent loads in L2", way, "L2 sweep") < 3.0
    assert all(
        1.13 < shared.slower("dependent loads in L2", "time slices", other) < 1.19 for other in shared.NEIGHBOURS
    )


def test_what_is_left_and_which_processes_a_fault_ends() -> None:
    rows = [
        [cell.strip() for cell in row.split("|")[1:-1]] for row in shared.table_of_what_is_left().data.splitlines()[2:]
    ]
    assert len(rows) == 6
    assert {row[0]: row[2:] for row in rows if row[1] == "another, still running"} == {
        "fresh memory": ["0% of the words", "0% of the words"],
        "shared memory": ["0% of the words", "100% of the words"],
        "a fault": ["ends itself", "ends both"],
    }
    for one in RECORDS:
        if one["metric"] == "left behind":
            assert one["value"] + value(one["name"], "zero", one["variant"]) == pytest.approx(1)


def test_the_exercise_is_solved_by_its_solution_only() -> None:
    exercises = Exercises("04b_transfers", {2: "my_launches = "})
    assert exercises.only_the_solution_reaches_the_goal(2, {"shared": shared})
    given = exercises.given(2)
    too_many = re.sub(r"\d+", "5", given, count=1)
    assert not exercises.reached(2, too_many, {"shared": shared})
