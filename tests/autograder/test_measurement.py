from __future__ import annotations

import io

import pytest

from autograder.records.measurement import Library, Measurement, Unmeasured, from_wire
from tests.autograder.handmade import measurement
from warplab.worker import wire


@pytest.mark.parametrize(
    "timing",
    [
        measurement(),
        measurement(library=Library("torch.mm", 0.2, 0.2), throttled=True, throttle_reasons=("hot",), datasheet={}),
        measurement(message="No kernel can be so fast."),
        Unmeasured("wrong", "a timed launch gave a wrong result"),
    ],
)
def test_what_was_timed_survives_the_wire(timing: Measurement | Unmeasured) -> None:
    assert from_wire(wire.read(io.BytesIO(wire.encode(timing.to_wire())))) == timing


@pytest.mark.parametrize("change", [{"median_ms": float("nan")}, {"shared_fraction": 1e300}, {"work": {"copy": 1.0}}])
def test_numbers_that_no_stopwatch_gives_are_refused(change: dict) -> None:
    with pytest.raises(ValueError):
        measurement(**change)
