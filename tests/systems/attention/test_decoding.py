"""Attention of decoding on the emulator beside float64: forms of heads, ragged lengths, pages, and shares of blocks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import warplab
from systems.attention import decoding as launch

pytestmark = pytest.mark.processes

UNITS = {np.dtype(np.float16): 2.0**-11, np.dtype(np.uint16): 2.0**-8}  # of rounding to nearest, or cutting off


def narrow(array: np.ndarray, bfloat16: bool) -> np.ndarray:
    """In float16, or the upper halves of float32."""
    return (array.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16) if bfloat16 else array.astype(np.float16)


def wide(array: np.ndarray) -> np.ndarray:
    """As float64."""
    if array.dtype == np.float16:
        return array.astype(np.float64)
    return (array.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def drawn(
    seed: int, heads: int, key_heads: int, width: int, lengths: list[int], bfloat16: bool = False
) -> dict[str, np.ndarray]:
    """Arguments of `decode`: pages in a drawn order, NaN in what no sequence has and behind all ends."""
    draw = np.random.default_rng(seed)
    pages = [-(-length // launch.PAGE) for length in lengths]
    order = draw.permutation(sum(pages) + 3).astype(np.int32)
    table = np.full((len(lengths), max(pages) + 1), 1 << 30, np.int32)
    k, v = (np.full((len(order), key_heads, launch.PAGE, width), np.nan, np.float32) for _ in range(2))
    used = 0
    for row, (length, count) in enumerate(zip(lengths, pages, strict=True)):
        table[row, :count] = order[used : used + count]
        used += count
        for key in range(length):
            at = table[row, key // launch.PAGE], slice(None), key % launch.PAGE
            k[at], v[at] = draw.standard_normal((2, key_heads, width))
    q = 2 * draw.standard_normal((len(lengths), heads, width))
    given = {name: narrow(array, bfloat16) for name, array in (("q", q), ("k", k), ("v", v))}
    return given | {"table": table, "lengths": np.array(lengths, np.int32)}


def ratio(given: dict[str, np.ndarray], out: np.ndarray) -> float:
    """The largest error over what rounding of weights and results allows, against float64."""
    q, k, v = (wide(given[name]) for name in "qkv")
    group, unit, worst = q.shape[1] // k.shape[1], UNITS[out.dtype], 0.0
    for row, length in enumerate(given["lengths"]):
        pages = given["table"][row, : -(-length // launch.PAGE)]
        for head in range(q.shape[1]):
            keys, values = (array[pages, head // group].reshape(-1, q.shape[2])[:length] for array in (k, v))
            scores = keys @ q[row, head] / math.sqrt(q.shape[2])
            weights = np.exp(scores - scores.max())
            weights /= weights.sum()
            right, sizes = weights @ values, weights @ np.abs(values)
            found = wide(out[row, head])
            allowed = unit * (np.abs(right) + 2 * sizes) + 1e-5 * sizes + 2.0**-24
            worst = max(worst, float((np.abs(found - right) / allowed).max()))  # a NaN is found below
            if not np.isfinite(found).all():
                return math.inf
    return worst


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
