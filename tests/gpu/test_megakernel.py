"""The interpreter on a GPU: the toy's tokens are those of float64 each time, with any ring."""

from __future__ import annotations

import numpy as np
import pytest

from systems.megakernel import launch, reference
from systems.megakernel.schedule import schedule
from systems.megakernel.shapes import TOY

STEPS, TIMES = 20, 30

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(
    ("sms", "slots", "ahead", "in_flight", "flags"),
    [
        (4, 6, True, 2, True),
        (100, 13, True, 2, True),
        (100, 13, True, 13, True),
        (100, 13, True, 1, True),
        (100, 3, True, 2, True),
        (100, 13, False, 2, True),
        (100, 13, True, 2, False),
        (100, 13, True, 13, False),
        (100, 13, False, 2, False),
    ],
)
def test_tokens_are_those_of_float64_each_time(sms: int, slots: int, ahead: bool, in_flight: int, flags: bool) -> None:
    weights, table = reference.draw(TOY, seed=1), launch.turns(TOY)
    given = np.full(TOY.room, -1, np.int32)
    given[:2] = 7, 9
    lists = [schedule(TOY, sms, position) for position in range(STEPS)]
    arguments = (TOY, slots, lists, weights.rows, weights.gains, given, table, ahead, in_flight, flags)
    first = launch.decode(*arguments)
    tokens = launch.tokens(first["chosen"], STEPS)
    exact = reference.logits(TOY, weights, table, [7, 9, *tokens[1:-1]])
    error = first["logits"] - exact[-1]
    assert np.sqrt((error**2).mean()) < reference.allowed(TOY) * exact[-1].std()
    short = exact.max(-1) - exact[np.arange(STEPS), tokens]
    assert short.max() < 10 * np.abs(error).std()  # two logits that are each off by five errors
    for _ in range(TIMES):
        again = launch.decode(*arguments)
        assert np.array_equal(again["chosen"], first["chosen"])
        assert np.array_equal(again["logits"], first["logits"])
