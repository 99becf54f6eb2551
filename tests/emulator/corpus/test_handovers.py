"""Shared memory that is handed over too early: each fault is found at its lines, its mended twin gives nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from corpus.emulator.faults import marked_lines
from corpus.emulator.global_races import Pair
from corpus.emulator.handovers import LONE_LANES, UNREAD_SOURCES
from tests.emulator.pairs import ARCHITECTURE, BUDGET, run_pair
from warplab import emulator
from warplab.plan.capture.submission import capture
from warplab.plan.execution import Execution

pytestmark = pytest.mark.stored

ORDERS: tuple[dict, ...] = ({}, {"reverse": True}, {"seed": 1}, {"seed": 2}, {"seed": 3})


def line_of(pair: Pair, pattern: str) -> int:
    """The first line of a pair's kernel that matches a pattern."""
    lines = pair.path.read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if f"void {pair.function}(" in line)
    return next(number + 1 for number in range(start, len(lines)) if re.search(pattern, lines[number]))


@pytest.mark.parametrize("pair", [*UNREAD_SOURCES, *LONE_LANES], ids=lambda p: p.name)
def test_fault_is_found_in_any_order_and_its_twin_is_clean(pair: Pair) -> None:
    marked = marked_lines(pair)
    for order in ORDERS:
        found = run_pair(pair, **order).findings
        said = [(f.line, f.message) for f in found]
        assert found and all(f.kind is pair.kind and f.line in marked for f in found), (order, said)
        assert [f.message for f in run_pair(pair.mended, **order).findings] == [], order


@pytest.mark.parametrize("pair", UNREAD_SOURCES, ids=lambda p: p.name)
def test_store_and_write_are_named_and_the_wait_for_its_group(pair: Pair) -> None:
    for order in ORDERS:
        for found in run_pair(pair, **order).findings:
            store = re.search(r"which the bulk copy of line (\d+) may still be reading", found.message)
            assert store and int(store[1]) == line_of(pair, r"^ *STORE"), found.message
            assert "wait for its bulk group (cp.async.bulk.wait_group.read)" in found.message


def with_syncwarp(path: Path, lines: frozenset[int]) -> str:
    """The text of a file with __syncwarp() before these lines."""
    text = path.read_text().splitlines()
    for number in lines:
        text[number - 1] = "__syncwarp(); " + text[number - 1]
    return "\n".join(text) + "\n"


def test_the_syncwarp_that_a_finding_names_mends_it(tmp_path: Path) -> None:
    named: dict[str, int] = {}
    for pair in LONE_LANES:
        named[pair.name] = line_of(pair, r"\bif \(lane .* ARRIVE\(")
        for found in run_pair(pair).findings:  # several where the compiler unrolled a loop
            assert re.search(r"that line \d+ (reads|writes) in another warp\. ", found.message)
            arrival = re.search(r"The arrival of line (\d+) .* put __syncwarp\(\) before it", found.message)
            assert arrival and int(arrival[1]) == named[pair.name], found.message
    path = tmp_path / "mended.py"
    path.write_text(with_syncwarp(LONE_LANES[0].path, frozenset(named.values())))
    for pair, plan in zip(
        LONE_LANES, capture(path, [p.call for p in LONE_LANES], (ARCHITECTURE,), timeout=300.0), strict=True
    ):
        result: Execution = emulator.execute(plan, pair.draw(), architecture=ARCHITECTURE, instruction_budget=BUDGET)
        assert [f.message for f in result.findings] == []
