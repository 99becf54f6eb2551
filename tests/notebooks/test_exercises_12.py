"""Notebook 12: what is given does not reach the goals, the printed solutions do; its models say what its text says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jupytext
import pytest

from warplab import results
from warplab.network.collectives import Collective, bus_factor

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
