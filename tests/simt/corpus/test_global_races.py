"""Races in global memory: each planted one is found at its lines and rightly named, its mended twin gives nothing."""

from __future__ import annotations

from functools import cache

import pytest

from corpus.emulator.faults import marked_lines
from corpus.emulator.global_races import PAIRS, Pair
from corpus.emulator.plans import assemble_file
from warplab import simt
from warplab.plan.execution import Execution
from warplab.plan.model import Plan

ARCHITECTURE = "sm_90a"
BUDGET = 200_000  # warp instructions; the largest of these kernels takes a tenth


@cache
def _plans(file: str) -> dict[str, Plan]:
    pairs = [p for p in PAIRS if p.file == file]
    return assemble_file([*pairs, *(p.mended for p in pairs)], ARCHITECTURE)


def _run(pair: Pair, seed: int | None = None, workers: int = 1) -> Execution:
    plan = _plans(pair.file)[pair.name]
    return simt.execute(
        plan, pair.draw(), architecture=ARCHITECTURE, instruction_budget=BUDGET, seed=seed, workers=workers
    )


@pytest.mark.parametrize("pair", [pytest.param(p, id=p.name) for p in PAIRS])
def test_race_is_found_and_its_twin_is_clean(pair: Pair) -> None:
    marked = marked_lines(pair)
    for seed in (None, 1):
        found = _run(pair, seed).findings
        said = [(f.line, f.message) for f in found]
        assert found, "nothing is found"
        assert all(f.kind is pair.kind and f.line in marked for f in found), said
        assert any(f"({sort})" in f.message for f in found for sort in pair.sorts), said
        assert [f.message for f in _run(pair.mended, seed).findings] == []


def test_findings_are_the_same_on_any_number_of_workers() -> None:
    for pair in PAIRS[::3]:
        alone, shared = _run(pair, 3, workers=1), _run(pair, 3, workers=4)
        assert alone.findings == shared.findings and alone.notes == shared.notes, pair.name


def test_the_corpus_is_large_and_its_names_are_unique() -> None:
    assert len({p.name for p in PAIRS}) == len(PAIRS) >= 60
