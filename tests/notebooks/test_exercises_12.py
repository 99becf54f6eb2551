"""Notebook 12: what is given does not reach the goals, the printed solutions do; its models say what its text says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jupytext
import pytest

from benchmarks import collectives
from course import results
from systems.network.collectives import Collective, bus_factor

SOURCE = Path(__file__).resolve().parents[2] / "notebooks" / "source" / "12_collectives.md"
CELLS = [cell.source for cell in jupytext.read(SOURCE).cells if cell.cell_type == "code"]
TEXT = SOURCE.read_text(encoding="utf-8")
GIVEN = {1: "curve_alpha_us = ", 2: "broadcast_chunks = ", 3: "nodes_for_trees = "}  # by exercise


def cell_with(text: str) -> str:
    """The first code cell with that text, without magics."""
    cell = next(cell for cell in CELLS if text in cell)
    return "\n".join(line for line in cell.splitlines() if not line.startswith("%"))


def solution_of(number: int) -> str:
    """The fenced Python of a printed solution, or the assignment in backticks."""
    after = TEXT[TEXT.index(f"### Exercise {number}:") :]
    folded = after[after.index("<details>") : after.index("</details>")]
    if found := re.search(r"```python\n(.*?)```", folded, re.S):
        return found.group(1)
    (assignment,) = re.findall(r"`(\w+ = [\w*]+)`", folded)
    return assignment


@pytest.fixture
def names() -> dict[str, Any]:
    """What the cells use of the notebook, nothing drawn or shown."""
    made: dict[str, Any] = {"display": lambda *shown: None}
    exec(cell_with("ALL_REDUCE, BROADCAST ="), made)
    return made | {
        "reveal": lambda *said, **how: None,
        "table": lambda heads, rows: rows,
        "cost_lines": lambda *drawn, **how: None,
        "latency_percent": None,
        "crossing_mb": None,
        "trees_up_to": None,
        "one_shot_times": None,
    }


def reached(number: int, assignment: str, names: dict[str, Any]) -> bool:
    """What the cell says that comes after the given one of an exercise, with `assignment` in its place."""
    given = next(cell for cell in CELLS if cell.startswith(GIVEN[number]))
    said: list[bool] = []
    mine = {**names, "goal": lambda yes, _: said.append(bool(yes))}
    exec(assignment, mine)
    exec(CELLS[CELLS.index(given) + 1], mine)
    return said[0]


@pytest.mark.parametrize("number", GIVEN)
def test_only_the_solution_reaches_the_goal(number: int, names: dict[str, Any]) -> None:
    given = next(cell for cell in CELLS if cell.startswith(GIVEN[number]))
    assert not reached(number, given, names)
    assert reached(number, solution_of(number), names)


@pytest.mark.parametrize(
    ("number", "attempt"),
    [
        (1, "curve_alpha_us = 21\ncurve_bus_gb = 341.1"),
        (1, "curve_alpha_us = 20.66\ncurve_bus_gb = 321.7"),  # size over time at 64 MiB, as if there were no latency
        (2, solution_of(2).replace("32", "4")),  # too few pieces
        (2, solution_of(2).replace("rank + chunk, rank,", "chunk, rank,")),  # sent before it is there
        (2, "broadcast_chunks = 1\nbroadcast = [Transfer(0, 0, 9, 0)]"),  # no such rank
        (3, "nodes_for_trees = 32"),
        (3, "nodes_for_trees = 128"),
        (3, "nodes_for_trees = 60"),
    ],
)
def test_what_comes_close_does_not(number: int, attempt: str, names: dict[str, Any]) -> None:
    assert not reached(number, attempt, names)


def test_the_fit_finds_the_protocols_again(names: dict[str, Any]) -> None:
    """The three lines are those of the tuner's table, which the fit has not seen."""
    for text in ("latency_percent, 100", "powers = [", "cross = (", "found from the times alone"):
        exec(cell_with(text), names)
    table = [names["cells"][names["nccl"].Method.RING, protocol] for protocol in names["nccl"].PROTOCOLS]
    found = names["fit"](names["points"])
    assert [line.alpha for line in found] == pytest.approx([entry.latency for entry in table], rel=1e-3)
    assert [line.bandwidth for line in found] == pytest.approx([entry.bandwidth for entry in table], rel=1e-3)


def test_latency_is_no_part_of_the_ceiling(names: dict[str, Any]) -> None:
    """By hand: 14 steps of 3.4 us beside the bytes of 1 GB at the tuner's 360 GB/s."""
    exec(cell_with("latency_percent, 100"), names)
    bytes_alone = 1e9 * bus_factor(Collective.ALL_REDUCE, 8) / 360e9
    assert 14 * names["step"] / names["whole"] == pytest.approx(14 * 3.4e-6 / (bytes_alone + 8.4e-6 + 14 * 3.4e-6))
    assert 14 * names["step"] / names["whole"] < 0.015


@pytest.mark.slow
def test_trees_win_for_small_sizes_and_many_nodes_only(names: dict[str, Any]) -> None:
    exec(cell_with("def networks("), names)
    exec(cell_with("def two_trees("), names)
    for rings, trees in names["by_nodes"].values():
        assert trees[0] < rings[0] and trees[-1] > rings[-1]
    ring, trees = (times[0] for times in names["by_nodes"][64])
    assert ring > 9 * trees  # as exercise 3 says
    assert TEXT.count(f"{ring * 1e6:.0f} µs") and TEXT.count(f"{trees * 1e6:.0f} µs")


def test_gpus_are_quoted_only_if_they_were_measured(
    names: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(names["on_gpus"].__globals__, "DIRECTORY", tmp_path)
    assert names["on_gpus"]("all_reduce") == []
    header = results.Header("some GPU", "1", {}, "abc", "make bench NET=1", "2026-01-01T00:00:00+00:00")
    records = [
        results.Record("all_reduce", "time", value, "us", variant, (gpus, size), "float32")
        for gpus, size, value, variant in ((2, 1024, 9.0, "nccl"), (2, 2048, 9.5, "nccl"), (2, 1024, 99.0, "gloo"))
    ]
    results.write(tmp_path / "collectives.json", header, records)
    assert names["on_gpus"]("all_reduce") == [(2, 1024, 9.0), (2, 2048, 9.5)]


def test_the_mark_is_where_one_shot_and_two_shot_cross(names: dict[str, Any]) -> None:
    """For every number of ranks on the slider; and the answer to the prediction is the one for eight."""
    drawn: list[tuple[Any, float]] = []
    names |= {
        "cost_lines": lambda lines, *, marks, **how: drawn.append((lines, marks[0][0])),
        "Explorer": lambda draw, ranks: [draw(n) for n in ranks[1]],
        "two_shot_from": None,
    }
    exec(cell_with("def by_protocol("), names)
    assert len(drawn) == 7
    for lines, mark in drawn:
        one, two = (next(line for line in lines if name in line.name) for name in ("one-shot", "two-shot"))
        slower = [size for size, a, b in zip(one.sizes, one.values, two.values, strict=True) if a > b]
        before = [size for size in one.sizes if size < slower[0]]
        assert before[-1] <= mark <= slower[0]
    assert names["cross"] == drawn[-1][1]


@pytest.mark.processes
def test_all_reduces_by_hand_are_shown_if_they_were_measured(names: dict[str, Any], tmp_path: Path) -> None:
    names["Markdown"] = lambda text: text
    names["DIRECTORY"] = tmp_path
    for cell in ("def raced(", "fused = {"):
        exec(cell_with(cell), names)
        assert "Not measured yet" in names["shown"]
    ways = {"nccl": [1e-5] * 3, "one-shot": [4e-6] * 3, "two-shot": [8e-6] * 3, "two-shot, LL": [5e-6] * 3}
    less = {way: ways[way] for way in ("nccl", "one-shot")}  # as it is where the time was over before the others
    said = {"name": "all_reduce", "dtype": "float32", "shape": [1024], "memory": "", "ways": ways}
    fused = said | {"name": "all_reduce, residual, RMS norm", "dtype": "bfloat16", "shape": [4, 8192]}
    fused["ways"] = {"nccl": [1e-5] * 3, "nccl and torch": [2e-5] * 3, "one-shot": [5e-6] * 3, "fused": [3e-6] * 3}
    records = [*collectives.by_hand(said, 2), *collectives.by_hand(fused, 2)]
    records += collectives.by_hand(said | {"shape": [2048], "ways": less}, 2)
    results.write(tmp_path / "collectives.json", results.make_header("x"), records)
    shown: list[Any] = []
    names["display"] = lambda one: shown.append(one)
    exec(cell_with("def raced("), names)
    assert shown == [
        [
            ("1 KiB", "10.00", "4.00", "8.00", "5.00", "0.40", "0.80", "0.50"),
            ("2 KiB", "10.00", "4.00", "", "", "0.40", "", ""),
        ]
    ]
    exec(cell_with("fused = {"), names)
    assert names["shown"] == [("2 GPUs, 4 rows of 8192", "20.00", "10.00", "5.00", "3.00")]
