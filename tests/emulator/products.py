"""Products of tensor cores by the emulator's rules, on bit patterns: of any type, for 32 bits hold them all.

A type of its own would have the same code compiled again, which takes seconds each.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from warplab.emulator.core.tensor.numerics import multiply_accumulate

Bits = NDArray[np.unsignedinteger]


def product(a: Bits, b: Bits, c: Bits, rule: int) -> Bits:
    """D = A B + C of one instruction, as `multiply_accumulate` has it; D's type is C's."""
    wide = [np.ascontiguousarray(x, np.uint32) for x in (a, b, c)]
    d = np.zeros_like(wide[2])
    multiply_accumulate(*wide, d, rule)
    return d.astype(c.dtype)


def dot(a: Bits, b: Bits, c: int, rule: int) -> int:
    """One element of D: `a` and `b` along one instruction's k."""
    return int(product(a.reshape(1, -1), b.reshape(1, -1), np.array([[c]], np.uint32), rule)[0, 0])


def in_steps(a: Bits, b: Bits, c: Bits, rule: int, k: int) -> Bits:
    """D = A B + C by a chain of instructions along k, each `k` long, as a kernel's main loop issues them."""
    for first in range(0, a.shape[1], k):
        c = product(a[:, first : first + k], b[:, first : first + k], c, rule)
    return c
