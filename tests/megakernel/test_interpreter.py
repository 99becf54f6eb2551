"""The interpreter on the emulator: its tokens beside float64, whatever comes first, and what a missing wait does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import warplab
from warplab.megakernel import launch, reference
from warplab.megakernel.schedule import Op, schedule
from warplab.megakernel.shapes import TOY
from warplab.plan.execution import FindingKind
from warplab.simt.executor import execute

SMS, SLOTS = 4, 6
GIVEN = (7, 9)  # the third token is the one that the second step chooses
STEPS = 3


@pytest.fixture(scope="module")
def weights() -> reference.Weights:
    return reference.draw(TOY, seed=1)


def arguments(weights: reference.Weights) -> tuple[Any, ...]:
    given = np.full(TOY.room, -1, np.int32)
    given[: len(GIVEN)] = GIVEN
    return weights.rows, weights.gains, given, launch.turns(TOY)


def same_but_for_clocks(first: Any, second: Any) -> list[str]:
    """Names of buffers that differ; uint32 are records of the clock, and counters."""
    return [
        name
        for name, array in first.outputs.items()
        if array.dtype != np.uint32 and not np.array_equal(array, second.outputs[name])
    ]


@pytest.fixture(scope="module")
def decoded(weights: reference.Weights) -> Any:
    lists = [schedule(TOY, SMS, position) for position in range(STEPS)]
    return warplab.run(launch.decode, TOY, SLOTS, lists, *arguments(weights))


def test_each_token_is_that_of_float64(decoded: Any, weights: reference.Weights) -> None:
    tokens = launch.tokens(decoded.returned["chosen"], STEPS)
    exact = reference.logits(TOY, weights, launch.turns(TOY), [*GIVEN, *tokens[len(GIVEN) - 1 : -1]])
    error = decoded.returned["logits"] - exact[-1]
    assert np.sqrt((error**2).mean()) < reference.allowed(TOY) * exact[-1].std()
    best = np.sort(exact, -1)
    assert (best[:, -1] - best[:, -2] > 8 * np.abs(error).std()).all(), "two tokens are too near: draw other weights"
    assert tokens.tolist() == exact.argmax(-1).tolist()


def test_nothing_is_found(decoded: Any) -> None:
    assert decoded.findings == ()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_order_of_warps_blocks_and_copies_changes_a_bit(decoded: Any, seed: int) -> None:
    again = execute(decoded.plan, {}, architecture="sm_90a", seed=seed)
    assert again.findings == ()
    assert same_but_for_clocks(decoded.execution, again) == []


def test_weights_that_are_loaded_late_give_the_same_tokens(decoded: Any, weights: reference.Weights) -> None:
    lists = [schedule(TOY, SMS, position) for position in range(STEPS)]
    # Without a seed a copy comes when no warp can go on, and the loader always can: it asks for the next counter
    late = warplab.run(launch.decode, TOY, SLOTS, lists, *arguments(weights), ahead=False, seed=1)
    assert late.findings == ()
    assert np.array_equal(late.returned["logits"], decoded.returned["logits"])


def test_attention_over_two_pages_of_the_cache_is_put_together() -> None:
    shape = replace(TOY, layers=1)
    weights = reference.draw(shape, seed=3)
    last = shape.positions + 1  # the second position of the second page
    sequence = np.random.default_rng(3).integers(0, shape.vocabulary, last + 1)
    given = np.full(shape.room, -1, np.int32)
    given[: last + 1] = sequence
    lists = [schedule(shape, SMS, position) for position in range(last + 1)]
    for early in lists[:last]:  # what a later step needs of these is keys and values
        for sm, lines in enumerate(early):
            early[sm] = [line for line in lines if line.op in (Op.EMBED, Op.QKV)]
    table = launch.turns(shape)
    result = warplab.run(launch.decode, shape, SLOTS, lists, weights.rows, weights.gains, given, table)
    exact = reference.logits(shape, weights, table, sequence.tolist())[-1]
    error = result.returned["logits"] - exact
    assert np.sqrt((error**2).mean()) < reference.allowed(shape) * exact.std()
    assert result.findings == ()
    for seed in (1, 2):  # copies that come early have not got this position's keys and values
        early = execute(result.plan, {}, architecture="sm_90a", seed=seed)
        assert early.findings == ()
        assert same_but_for_clocks(result.execution, early) == []


def test_records_say_when_what_was_there(decoded: Any) -> None:
    lists = schedule(TOY, SMS, STEPS - 1)
    for of_sm, times in zip(lists, decoded.returned["records"][-1].astype(np.int64), strict=True):
        begun, ready, loaded, done, told = times[: len(of_sm)].T
        assert (begun <= ready).all() and (begun <= loaded).all() and (np.maximum(ready, loaded) <= done).all()
        assert (done <= told).all() and (told[:-1] <= begun[1:]).all(), "an SM does one thing after another"


def test_an_instruction_that_does_not_wait_is_a_race(weights: reference.Weights) -> None:
    hasty = [
        [replace(line, wait=-1) if line.op is Op.DOWN else line for line in lines] for lines in schedule(TOY, SMS, 0)
    ]
    result = warplab.run(launch.decode, TOY, SLOTS, [hasty], *arguments(weights))
    assert any(finding.kind is FindingKind.RACE for finding in result.findings)
