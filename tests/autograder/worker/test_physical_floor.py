from __future__ import annotations

import math

import pytest

from autograder.worker.physical_floor import impossible

DATASHEET = {"copy": 4.8e12, "fp32_fma": 6.7e13}  # an H200's


@pytest.mark.parametrize("milliseconds", [0.0, -1.0, math.nan, math.inf, -math.inf])
def test_what_is_no_time_is_rejected_on_every_gpu(milliseconds: float) -> None:
    """A judge once ranked the geometric mean of zeros first."""
    assert "no time" in impossible(milliseconds, {"copy": 1e9}, {})


def test_a_time_below_the_datasheet_is_rejected_by_either_ceiling() -> None:
    bytes_moved = 4.8e9  # 1 ms at the datasheet's bandwidth
    assert "by copy" in impossible(0.97, {"copy": bytes_moved}, DATASHEET)
    assert not impossible(0.99, {"copy": bytes_moved}, DATASHEET)
    assert "by fp32_fma" in impossible(0.97, {"copy": 0.0, "fp32_fma": 6.7e10}, DATASHEET)
    assert not impossible(1e-6, {"copy": bytes_moved}, {}), "no datasheet, no floor"
