"""Draws elements of inputs on the GPU in one pass: the bits that `autograder.spec.inputs` draws with NumPy, faster.

Operation by operation CuPy would write and read the GPU's memory dozens of times for an array, and a stopwatch draws
all inputs twice a turn.
"""

from __future__ import annotations

import math
from functools import cache

import cupy
import numpy as np

from autograder.spec.task import Family

_HASH = """
__device__ __forceinline__ unsigned long long warplab_hash(unsigned long long number, unsigned long long key)
{
    unsigned long long state = number * 0x9E3779B97F4A7C15ull + key;
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9ull;
    state = (state ^ (state >> 27)) * 0x94D049BB133111EBull;
    return state ^ (state >> 31);
}

__device__ __forceinline__ int warplab_halves(unsigned long long bits)
{
    return int(bits & 0xFFFF) + int(bits >> 16 & 0xFFFF) + int(bits >> 32 & 0xFFFF) + int(bits >> 48);
}
"""
_WHOLE = "const long long drawn = (long long)((warplab_hash(i + 1, key) >> 40) * 9 >> 24);"
_BYTE = "const long long drawn = (long long)(warplab_hash(i + 1, key) >> 57);"
_NORMAL = """
const int total = warplab_halves(warplab_hash(i + 1, key))
                + warplab_halves(warplab_hash(i + 1, key ^ 0xD1B54A32D192ED03ull));
const float drawn = __fmul_rn(float(total - 8 * 65535 / 2), scale);
"""
_WIDE = """
const unsigned long long bits = warplab_hash(i + 1, key);
const unsigned exponent = unsigned(bits >> 23 & 0xF) + 127 - 8;
const float drawn = __uint_as_float(unsigned(bits >> 63) << 31 | exponent << 23 | unsigned(bits & 0x7FFFFF));
"""
_SCALE = np.float32(1 / math.sqrt(8 * (65536.0**2 - 1) / 12))


def fill(array: cupy.ndarray, family: Family, key: int) -> None:
    """Fill a contiguous `array` of a type of floats or integers with its elements, number 0 on, of `key`."""
    _kernel(family, array.dtype.kind)(np.uint64(key), _SCALE, array)


@cache
def _kernel(family: Family, kind: str) -> cupy.ElementwiseKernel:
    if family is Family.INTEGERS:
        code, shift = _WHOLE, 4
    elif kind in "iu":
        code, shift = _BYTE, 64
    else:
        code, shift = _NORMAL if family is Family.NORMAL else _WIDE, 0
    drawn = f"drawn - {shift}" if shift and kind != "u" else "drawn"
    cast = "float" if kind == "f" else "long long"  # exact either way, and CuPy's float16 is made from a float
    code += f"\nout = (T)({cast})({drawn});"
    return cupy.ElementwiseKernel("uint64 key, float32 scale", "T out", code, "warplab_draw", preamble=_HASH)
