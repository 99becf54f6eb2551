"""Races in global memory: each planted one is found at its lines and rightly named, its mended twin gives nothing."""

from __future__ import annotations

import pytest

from corpus.emulator.faults import marked_lines
from corpus.emulator.global_races import PAIRS, Pair
from tests.sampling import part_of
from tests.simt.pairs import run_pair

LOOK_ONCE = (
    "relaxed_for_a_release",
    "relaxed_for_an_acquire",
    "exchange_without_order",
    "queue_without_fence",
    "released_by_a_fence_of_the_block",
)


@pytest.mark.parametrize("pair", [pytest.param(p, id=p.name) for p in part_of(PAIRS, 3, lambda pair: pair.file)])
def test_race_is_found_and_its_twin_is_clean(pair: Pair) -> None:
    marked = marked_lines(pair)
    for order in ({}, {"reverse": True}, {"seed": 1}):
        found = run_pair(pair, **order).findings
        said = [(f.line, f.message) for f in found]
        assert all(f.kind is pair.kind and f.line in marked for f in found), said
        if not order:
            assert any(f"({sort})" in f.message for f in found for sort in pair.sorts), said
        # In another order of blocks a flag may be looked at before it is set, and then nothing races.
        assert found or (order and pair.function in LOOK_ONCE), f"nothing is found: {order}"
        assert [f.message for f in run_pair(pair.mended, **order).findings] == []


def test_findings_are_the_same_on_any_number_of_workers() -> None:
    for pair in PAIRS[::3]:
        alone, shared = run_pair(pair, seed=3, workers=1), run_pair(pair, seed=3, workers=4)
        assert alone.findings == shared.findings and alone.notes == shared.notes, pair.name


def test_the_corpus_is_large_and_its_names_are_unique() -> None:
    assert len({p.name for p in PAIRS}) == len(PAIRS) >= 60
