"""Notebook 11: what is given does not reach the goals, the printed solutions do; its models say what its text says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jupytext
import pytest

from systems.network.clusters import cluster
from systems.network.schedules import Flaw

SOURCE = Path(__file__).resolve().parents[2] / "notebooks" / "source" / "11_the_network.md"
CELLS = [cell.source for cell in jupytext.read(SOURCE).cells if cell.cell_type == "code"]
TEXT = SOURCE.read_text(encoding="utf-8")
GIVEN = {1: "gather_size = ", 2: "rings_of_mesh = ", 3: "chunks_of_mine = ", 4: "bucket_mb = "}  # by exercise


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


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """What the exercises use of the notebook."""
    made: dict[str, Any] = {"display": lambda *shown: None}
    exec(cell_with("ALL_REDUCE, ALL_TO_ALL ="), made)
    made |= {"reveal": lambda *said, **how: None, "one_ring_ms": None, "node": made["nvswitch_node"]()}
    exec("alpha, port = node.alpha(0, 1), node.rate(0, 1)\nnic = find_link('infiniband_ndr')", made)
    exec(cell_with("NODES, LARGE ="), made)
    exec(re.findall(r"^def two_levels.*?\n\n\n", cell_with("def two_levels("), re.S | re.M)[0], made)
    exec(cell_with("def schedule_of("), made)
    return made


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
        (1, "gather_size = 2**26"),  # near, but not the smallest
        (1, "gather_size = 2**25 - 1"),
        (2, "rings_of_mesh = [[0, 1, 2, 3, 4, 5, 6, 6]]"),  # does not visit all
        (2, "rings_of_mesh = [[0, 3, 2, 1, 5, 6, 7, 4], [4, 7, 6, 5, 1, 2, 3, 0]]"),  # a third of what there is
        (3, solution_of(3).replace("(a ^ 1) % 2, REDUCE", "a % 2, REDUCE")),  # the neighbour's share stays away
        (3, "chunks_of_mine = 1\nmine = [Transfer(0, 0, 9, 0)]"),  # no such rank
        (4, "bucket_mb = 78"),
    ],
)
def test_what_comes_close_does_not(number: int, attempt: str, names: dict[str, Any]) -> None:
    assert not reached(number, attempt, names)


def test_the_checker_names_what_the_text_is_about(names: dict[str, Any]) -> None:
    found = [names["check"](names["schedule_of"](name, moves)) for name, moves in names["tries"].items()]
    kinds = [finding and finding.kind for finding in found]
    assert kinds == [
        None,
        Flaw.MISSING,
        Flaw.MISSING,
        Flaw.ADDED_TWICE,
        Flaw.DEADLOCK,
    ]


def test_one_memory_serves_the_sum_of_all_bytes(names: dict[str, Any]) -> None:
    """Against a sum by hand: a step of a ring of four moves one array in all, in turns; a port each moves a quarter."""
    mine = {**names}
    text = cell_with("def one_memory(")
    exec(text[: text.index("\ndef forecast(")], mine)
    ring, size = mine["build"].ring(mine["ALL_REDUCE"], 4), 4e6
    assert mine["simulate"](ring, mine["one_memory"](1e-3, 1e9), size).seconds == pytest.approx(6 * (1e-3 + size / 1e9))
    assert mine["simulate"](ring, mine["port_each"](1e-3, 1e9), size).seconds == pytest.approx(6 * (1e-3 + size / 4e9))


def test_the_order_of_the_ranks_decides(names: dict[str, Any]) -> None:
    """By hand: eight rings put an eighth of 2 x 31/32 GB on a NIC if one hop in eight crosses, all of it if each does."""
    mine = {**names, "pod": cluster(4), "round_robin_times": None}
    exec(cell_with("def orders("), mine)
    once = 2 * 31 / 32 * 1e9 / 50e9
    runs = mine["runs"]
    assert runs["round robin"].seconds == pytest.approx(once, rel=0.01)
    assert runs["node after node"].seconds == pytest.approx(once / 8, rel=0.06)  # and some latency
    assert runs["shuffled"].seconds > 2 * once


def test_the_rings_fill_a_slimmer_tree_only_from_4_to_1(names: dict[str, Any]) -> None:
    mine = {**names, "rings_slower": None, "all_to_all_slower": None, "network_map": lambda *a, **k: None}
    mine |= {"pod": cluster(4), "round_robin_times": None}
    exec(cell_with("def orders("), mine)
    exec(cell_with("tapers = ("), mine)
    by_taper = {name: [run.seconds for run in runs] for name, runs in mine["times"].items()}
    rings, everybody = by_taper["eight rings, node after node"], by_taper["all-to-all"]
    assert rings[1] == pytest.approx(rings[0]) and rings[2] > 1.8 * rings[0]
    # Half of 32 GPUs' GB goes up from each GPU through a 16th of what its group has: 0.5 GB at 50/4 GB/s.
    assert everybody[2] == pytest.approx(0.5e9 / (50e9 / 4), rel=0.01)


def test_few_fat_flows_collide_and_many_small_ones_do_not(names: dict[str, Any]) -> None:
    mine = {
        **names,
        "pod": cluster(4),
        "round_robin_times": None,
        "suffers_more": None,
        "table": lambda heads, rows: rows,
    }
    exec(cell_with("def orders("), mine)
    exec(cell_with("fabrics = {"), mine)
    halving, everybody, rings = mine["ratios"]
    assert halving > 1.3 and everybody < 1.05 and rings < 1.05
