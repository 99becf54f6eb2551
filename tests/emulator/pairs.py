"""Runs the pairs of racy kernels and their mended twins; each file of them is captured once."""

from __future__ import annotations

from functools import cache
from typing import Any

from corpus.emulator.global_races import PAIRS, Pair
from corpus.emulator.handovers import LONE_LANES, UNREAD_SOURCES
from tests.emulator.corpus.files import ARCHITECTURE, plans_of_file
from warplab import emulator
from warplab.plan.execution import Execution
from warplab.plan.model import Plan

BUDGET = 5_000_000  # warp instructions; one that waits for a block that has not started takes four millions of them


@cache
def _plans(file: str) -> dict[str, Plan]:
    pairs = [p for p in (*PAIRS, *UNREAD_SOURCES, *LONE_LANES) if p.file == file]
    return plans_of_file([*pairs, *(p.mended for p in pairs)])


def run_pair(pair: Pair, **options: Any) -> Execution:
    """Run a pair's faulty kernel, or its twin if that is what it is; `options` are those of `execute`."""
    plan = _plans(pair.file)[pair.name]
    return emulator.execute(plan, pair.draw(), architecture=ARCHITECTURE, instruction_budget=BUDGET, **options)
