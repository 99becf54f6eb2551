"""Races in global memory: each planted one is found at its lines and rightly named, its mended twin gives nothing.

A block barrier is named only where one mends it; that it does is seen in test_advice.py.
"""

from __future__ import annotations

import re

import pytest

from corpus.emulator.faults import marked_lines
from corpus.emulator.global_races import PAIRS, Pair
from tests.emulator.pairs import run_pair
from tests.sampling import part_of

pytestmark = pytest.mark.stored

LOOK_ONCE = (
    "relaxed_for_a_release",
    "relaxed_for_an_acquire",
    "exchange_without_order",
    "queue_without_fence",
    "released_by_a_fence_of_the_block",
    "look_back_at_an_unfenced_sum",
    "hand_barrier_counts_from_zero_again",
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
        # In another order of blocks a flag may be looked at before it is set, or they stay in step: then nothing races.
        assert found or (order and pair.function in LOOK_ONCE), f"nothing is found: {order}"
        assert [f.message for f in run_pair(pair.mended, **order).findings] == []


def test_findings_are_the_same_on_any_number_of_workers() -> None:
    for pair in PAIRS[::3]:
        alone, shared = run_pair(pair, seed=3, workers=1), run_pair(pair, seed=3, workers=4)
        assert alone.findings == shared.findings and alone.notes == shared.notes, pair.name


def test_the_corpus_is_large_and_its_names_are_unique() -> None:
    assert len({p.name for p in PAIRS}) == len(PAIRS) >= 60


def _twin(pair: Pair) -> str:
    """What the mended twin of a kernel has where the faulty one has something else."""
    text = pair.path.read_text()
    start = re.search(rf"(?:void|def) {pair.function}(?:_kernel)?\(", text)
    assert start
    kernel = re.split(r"\n(?:extern|\}\n|@cuda|def )", text[start.end() :])[0]
    return " ".join(re.findall(r"FIX\(([^;\n]*)", kernel)) if "FIX(" in kernel else kernel


IN_CPP = [pair for pair in PAIRS if "in_numba" not in pair.file]


@pytest.mark.parametrize("pair", part_of(IN_CPP, 3, lambda pair: pair.file), ids=lambda p: p.name)
def test_a_block_barrier_is_named_only_where_the_twin_has_one(pair: Pair) -> None:
    """Or an atomic update, where that is offered, or where other findings say what mends the race of other blocks."""
    for order in ({}, {"reverse": True}):
        found = run_pair(pair, **order).findings
        elsewhere = any("of its own" in f.message or "one of the blocks alone" in f.message for f in found)
        for message in (f.message for f in found if "__syncthreads()" in f.message):
            offered = r"__syncthreads|block" + (r"|atomic" if "atomic" in message else "")
            assert re.search(offered, _twin(pair)) or ("atomic" in message and elsewhere), message
