"""The interpreter on the emulator: its tokens beside float64, whatever comes first, and what a missing wait does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import warplab
from systems.megakernel import launch, reference
from systems.megakernel.schedule import Op, schedule
from systems.megakernel.shapes import TOY
from tests.sampling import WHOLE, only_whole, part_of
from warplab.emulator.executor import execute
from warplab.plan.capture.nvrtc import compile_cpp
from warplab.plan.execution import FindingKind

pytestmark = pytest.mark.processes

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


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=only_whole), pytest.param(3, marks=only_whole)])
def test_no_order_of_warps_blocks_and_copies_changes_a_bit(decoded: Any, seed: int) -> None:
    again = execute(decoded.plan, {}, architecture="sm_90a", seed=seed)
    assert again.findings == ()
    assert same_but_for_clocks(decoded.execution, again) == []


@pytest.mark.parametrize("seed", [pytest.param(None, marks=only_whole), 1])
def test_counters_that_are_released_and_acquired_order_the_same_step(
    decoded: Any, weights: reference.Weights, seed: int | None
) -> None:
    lists = [schedule(TOY, SMS, position) for position in range(STEPS)]
    released = warplab.run(launch.decode, TOY, SLOTS, lists, *arguments(weights), flags=False, seed=seed)
    assert released.findings == ()
    assert np.array_equal(released.returned["logits"], decoded.returned["logits"])
    assert np.array_equal(released.returned["chosen"], decoded.returned["chosen"])


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
    for seed in (1, 2) if WHOLE else (1,):  # copies that come early have not got this position's keys and values
        early = execute(result.plan, {}, architecture="sm_90a", seed=seed)
        assert early.findings == ()
        assert same_but_for_clocks(result.execution, early) == []
    released = warplab.run(
        launch.decode, shape, SLOTS, lists, weights.rows, weights.gains, given, table, flags=False, seed=1
    )
    assert released.findings == ()
    assert np.array_equal(released.returned["logits"], result.returned["logits"])


def test_records_say_when_what_was_there(decoded: Any) -> None:
    lists = schedule(TOY, SMS, STEPS - 1)
    for of_sm, times in zip(lists, decoded.returned["records"][-1].astype(np.int64), strict=True):
        begun, ready, loaded, done, told = times[: len(of_sm)].T
        assert (begun <= ready).all() and (begun <= loaded).all() and (np.maximum(ready, loaded) <= done).all()
        assert (done <= told).all() and (told[:-1] <= begun[1:]).all(), "an SM does one thing after another"


def test_without_flags_an_instruction_that_does_not_wait_is_a_race(weights: reference.Weights) -> None:
    hasty = [
        [replace(line, wait=-1) if line.op is Op.DOWN else line for line in lines] for lines in schedule(TOY, SMS, 0)
    ]
    result = warplab.run(launch.decode, TOY, SLOTS, [hasty], *arguments(weights), flags=False)
    assert any(finding.kind is FindingKind.RACE for finding in result.findings)


@pytest.fixture(scope="module")
def unordered(weights: reference.Weights) -> tuple[Any, np.ndarray]:
    """The second step with no wait for a counter in it, as if all counters were seen before the data; and its logits in
    float64. The rows of OUT go to SMs that have nothing else to do, and so nothing to wait for before they begin."""
    first = schedule(TOY, SMS, 0) + [[] for _ in range(SMS)]
    second = [[replace(line, wait=-1) for line in lines] for lines in schedule(TOY, SMS, 1)]
    second = [[line for line in lines if (line.op is Op.OUT) == out] for out in (False, True) for lines in second]
    result = warplab.run(launch.decode, TOY, SLOTS, [first, second], *arguments(weights))
    return result, reference.logits(TOY, weights, launch.turns(TOY), GIVEN)[-1]


def right(execution: Any, exact: np.ndarray) -> bool:
    (found,) = (array for array in execution.outputs.values() if array.dtype == np.float32)
    return bool(np.sqrt(((found - exact) ** 2).mean()) < reference.allowed(TOY) * exact.std())


@pytest.mark.parametrize(
    "seed",
    [pytest.param(None, marks=only_whole), 1, pytest.param(2, marks=only_whole), pytest.param(3, marks=only_whole)],
)
def test_flags_alone_order_a_step(unordered: tuple[Any, np.ndarray], seed: int | None) -> None:
    result, exact = unordered
    execution = execute(result.plan, {}, architecture="sm_90a", seed=seed)
    assert execution.findings == ()
    assert right(execution, exact)


TAKES = {
    "x": "take(v, norm + 1, ",
    "q": "take(got, flag, [&](int) { return m.vectors->q",
    "fresh": "take(got, flag, [&](int) { return m.vectors->fresh",
    "parts and peaks": "take(got, in.layer + 1, ",
    "hidden": "take(v, in.layer + 1, ",
    "rows to add to": "take(before, flag, ",
}


FAULTY_BUDGET = 20_000_000  # warp instructions; a kernel that went wrong may wait for ever
LOOKS = "{ return word >> 32 == flag; }"


def with_source(plan: Any, source: str) -> Any:
    """The plan with an interpreter of another source."""
    made = compile_cpp(source, "interpreter.cu", launch.options(TOY, SLOTS), (), "sm_90a")
    return replace(plan, kernels={"decode": replace(plan.kernels["decode"], ptx={"sm_90a": made.ptx})})


@pytest.mark.parametrize("vector", part_of(TAKES, 3, type))
def test_a_vector_whose_flags_are_not_looked_at_is_taken_too_soon(
    unordered: tuple[Any, np.ndarray], vector: str
) -> None:
    result, exact = unordered
    source, call = launch.source(), TAKES[vector]
    assert source.count(LOOKS) == source.count(call) == source.count("take(") - len(TAKES) == 1
    begin, _, rest = call.split(", ", 2)
    blind = source.replace(call, f"{begin}, 0, {rest}").replace(LOOKS, "{ return !flag || word >> 32 == flag; }")
    faulty = with_source(result.plan, blind)
    assert not right(execute(faulty, {}, architecture="sm_90a", seed=1, instruction_budget=FAULTY_BUDGET), exact)


def test_the_flag_of_an_earlier_layer_is_not_taken_for_the_one_that_is_due(unordered: tuple[Any, np.ndarray]) -> None:
    result, exact = unordered
    assert launch.source().count(LOOKS) == 1
    careless = launch.source().replace(LOOKS, "{ return word >> 32 != 0; }")
    faulty = with_source(result.plan, careless)
    assert not right(execute(faulty, {}, architecture="sm_90a", seed=1, instruction_budget=FAULTY_BUDGET), exact)
