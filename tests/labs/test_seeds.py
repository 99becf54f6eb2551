"""What a lab must catch is caught for every seed, and what is right passes for every one.

Two seeds of a third of the submissions for which luck once decided, or could (`# tests: seeds`); with
WARPLAB_SEEDS=200, as `make test-long` sets it, all submissions and mutants, as `python -m benchmarks.seeds` does.
"""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from benchmarks.seeds import BLOCK, Contender, contenders, judge
from corpus.judge.entries import further_tests
from tests.sampling import part_of

pytestmark = pytest.mark.processes

SEEDS = os.environ.get("WARPLAB_SEEDS")
ORDINARY = 2
ALL = list(contenders())
LUCK = [one for one in ALL if "seeds" in further_tests(one.text)]
CHOSEN = ALL if SEEDS else part_of(LUCK, 5, lambda one: one.lab)


@pytest.mark.parametrize("contender", CHOSEN, ids=lambda one: one.identifier)
def test_luck_decides_nothing(contender: Contender) -> None:
    count = int(SEEDS or ORDINARY)
    for first in range(0, count, BLOCK):
        tally = judge(contender, range(first, min(first + BLOCK, count)))
        assert tally.seeds > 0 and not tally.wrong, tally.wrong


def test_a_submission_that_is_not_captured_gets_its_verdict_too() -> None:
    asks_the_host = next(one for one in ALL if one.status == "unsupported host call")
    tally = judge(asks_the_host, range(2))
    assert tally.seeds == 1 and not tally.wrong  # the second seed is not judged, and not counted
    right = replace(asks_the_host, corpus="correct", status="passed")
    assert "unsupported host call" in judge(right, range(1)).wrong[0]


def test_every_lab_has_right_and_wrong_submissions_and_names_are_distinct() -> None:
    identifiers = {one.identifier for one in ALL}
    assert len(identifiers) == len(ALL) and LUCK
    for lab in {one.lab for one in ALL}:
        assert {one.corpus for one in ALL if one.lab == lab} == {"reference", "correct", "wrong", "mutant"}
        assert all(one.right == (one.corpus in ("reference", "correct")) for one in ALL if one.lab == lab)
