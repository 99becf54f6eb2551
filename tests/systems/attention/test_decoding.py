"""Attention of decoding on the emulator beside float64: forms of heads, ragged lengths, pages, and shares of blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warplab
from systems.attention import decoding as launch
from tests.systems.attention.references import drawn, ratio

pytestmark = pytest.mark.processes

FORMS = {
    "group of 4": (8, 2, 128, [200, 64, 1, 129]),
    "group of 8": (8, 1, 128, [65, 300]),
    "narrow": (8, 2, 64, [130, 63, 257]),
    "one head each": (3, 3, 64, [17, 100]),
}


def run(given: dict[str, np.ndarray], **options: Any) -> Any:
    return warplab.run(launch.decode, *given.values(), **options)


@pytest.mark.parametrize("bfloat16", [False, True], ids=["float16", "bfloat16"])
@pytest.mark.parametrize("form", FORMS)
def test_is_attention_within_its_roundings(form: str, bfloat16: bool) -> None:
    given = drawn(1, *FORMS[form], bfloat16)
    for sms in (2, 5):  # shares of several sequences, and sequences of several shares
        result = run(given, sms=sms)
        assert not result.findings
        (out,) = result.returned
        assert ratio(given, out) <= 1


def test_a_second_call_finds_counts_as_the_first_did() -> None:
    given = drawn(2, *FORMS["narrow"])
    result = run(given, sms=2, times=2)
    assert not result.findings
    first, second = result.returned
    assert np.array_equal(first, second)


@pytest.mark.parametrize("seed", [1, 2])
def test_no_order_of_warps_blocks_and_copies_changes_a_bit(seed: int) -> None:
    given = drawn(3, *FORMS["narrow"])
    in_order, drawn_order = run(given, sms=5), run(given, sms=5, seed=seed)
    assert not drawn_order.findings
    assert np.array_equal(in_order.returned[0], drawn_order.returned[0])


def test_each_key_and_value_is_read_once_for_the_group() -> None:
    given = drawn(4, 8, 1, 128, [64, 64])
    total = run(given, sms=1).execution.total
    copied = total.amount("global_read_sectors") - total.global_load_sectors
    assert copied == 2 * 2 * 128 * 128 // 32


def test_blocks_that_are_busy_have_equal_shares() -> None:
    lengths, heads, blocks = [100, 64, 1000], 2, 7  # 2, 1 and 16 pages of each head
    shares = [38 * (b + 1) // blocks - 38 * b // blocks for b in range(blocks)]
    assert launch.busy(lengths, heads, blocks) == pytest.approx(np.mean(shares) / max(shares))
