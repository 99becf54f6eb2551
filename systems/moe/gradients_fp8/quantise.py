"""What lies in memory before the product: tokens along the lines, codes of e4m3, a scale for 128 tokens of a line.

Hopper's tensor cores read FP8 along the sum alone, here along tokens. So a matrix of tokens is transposed as it is
quantised, and an expert's tokens begin at a multiple of 128, that no block of a scale is two experts'. All of this
follows from counts on the device: nothing waits for the host. `xp` is NumPy or CuPy.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

BLOCK = 128  # tokens that share a scale
LARGEST = np.float32(448)  # of e4m3
LEAST_SCALE = np.float32(2.0**-126)  # the smallest normal float32: a smaller scale would be zero on some hardware


def slots(tokens: int, experts: int) -> int:
    """Room along a line for `tokens` of all `experts`, whatever the counts are; a multiple of 128."""
    return (tokens // BLOCK + experts) * BLOCK


def firsts(xp: ModuleType, count: Any) -> Any:
    """Where each expert's tokens begin along a line (int32, experts), one behind the other: multiples of 128."""
    padded = -(-count // BLOCK) * BLOCK
    return (xp.cumsum(padded) - padded).astype(np.int32)


def quantised(xp: ModuleType, x: Any, count: Any) -> tuple[Any, Any]:
    """Codes (uint8, n x slots) and scales (float32, slots / 128 x n) of x (float32, tokens x n, finite).

    Rows of x are in the experts' order, count[e] (int32) of expert e; together they are all of x. Slots of nobody hold
    zeros. A scale is a block's largest magnitude over 448, that the largest becomes e4m3's largest number
    (Micikevicius et al., arXiv:2209.05433); for a block of zeros it is 1.
    """
    tokens, n = x.shape
    row = xp.arange(tokens)
    ends = xp.cumsum(count)
    expert = xp.searchsorted(ends, row, side="right")
    room = slots(tokens, len(count))
    lines = xp.zeros((room, n), np.float32)
    lines[row - (ends - count)[expert] + firsts(xp, count)[expert]] = x
    blocks = xp.ascontiguousarray(lines.T).reshape(n, room // BLOCK, BLOCK)
    largest = xp.abs(blocks).max(axis=2)
    scale = xp.where(largest > 0, xp.maximum(largest / LARGEST, LEAST_SCALE), np.float32(1))
    return encoded(xp, (blocks / scale[:, :, None]).reshape(n, room)), xp.ascontiguousarray(scale.T)


def encoded(xp: ModuleType, x: Any) -> Any:
    """Codes (uint8) of the e4m3 numbers nearest to finite x (float32, of any shape), ties to even, 448 at most."""
    magnitude = xp.minimum(xp.abs(x), LARGEST)
    bits = magnitude.view(np.uint32)
    kept = (bits + np.uint32(0x7FFFF) + (bits >> np.uint32(20) & np.uint32(1))) >> np.uint32(20)  # three fraction bits
    normal = kept.astype(np.int32) - (127 - 7 << 3)  # less the difference of the formats' biases
    subnormal = xp.rint(magnitude * np.float32(2.0**9)).astype(np.int32)
    code = xp.where(magnitude < np.float32(2.0**-6), subnormal, normal)
    return (code | xp.where(xp.signbit(x), 128, 0)).astype(np.uint8)
