"""Draws a case's inputs from a seed.

Every element is a hash of its index and of a key, so NumPy and a GPU (`drawn_on_gpu`) give the same bits: the
emulator's inputs and the GPU's inputs are equal, nothing is shipped, and pristine copies can be made again after a
kernel ran. Only integer arithmetic, one exact conversion and one correctly rounded multiplication are used, so there is
nothing to differ.

The hash is the output function of SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators,
OOPSLA 2014) over a Weyl sequence that starts at the key.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from random import Random
from types import ModuleType

import numpy as np

from autograder.spec.seeds import seeded
from autograder.spec.task import Array, ArraySpec, Case, Family, ScalarSpec, Task, Values
from warplab.plan.model import HostCall, Role

_WEYL = 0x9E3779B97F4A7C15
_WORD = 0xFFFFFFFFFFFFFFFF
_PLAIN = 1 / 128  # a scalar factor is this far from 0, 1 and -1, for which forgetting it makes no difference
_PIECE = 1 << 24  # elements drawn at a time: the hash takes several times the memory of what is drawn


def generate(xp: ModuleType, task: Task, case: Case, seed: int, iteration: int = 0) -> Values:
    """Arrays (INPUT and INOUT) and scalars of a case, by argument name, made with the array module `xp`, NumPy or CuPy.

    `iteration` gives other arrays with the same scalars: a plan has the scalars compiled in, while a stopwatch must
    never show a kernel the same data twice.
    """
    values: dict[str, Array] = dict(scalars(task, case, seed))
    for spec in task.arrays(Role.INPUT, Role.INOUT):
        key = seeded(seed, task.function, case.name, spec.name, iteration)
        values[spec.name] = _array(xp, spec, task.shape(spec, case.dimensions), case.family, key)
    if task.place is not None:
        # Python's generator: its numbers are the same in every version and for every array module
        task.place(xp, case.family, values, Random(seeded(seed, task.function, case.name, "placed", iteration)))
    return values


def scalars(task: Task, case: Case, seed: int) -> dict[str, int | float]:
    """Values of the scalar arguments: the dimension of the same name, else drawn from the case's family."""
    drawn: dict[str, int | float] = {}
    for spec in task.arguments:
        if isinstance(spec, ScalarSpec):
            if spec.name in case.dimensions:
                drawn[spec.name] = case.dimensions[spec.name]
            else:
                key = seeded(seed, task.function, case.name, spec.name, 0)
                drawn[spec.name] = _scalar(np.dtype(spec.dtype), case.family, key)
    return drawn


def _array(xp: ModuleType, spec: ArraySpec, shape: tuple[int, ...], family: Family, key: int) -> Array:
    drawn = xp.empty(math.prod(shape), np.dtype(spec.dtype))
    _must_be_drawable(drawn.dtype)
    if xp is not np:
        from autograder.spec import drawn_on_gpu  # there is no CuPy where there is no GPU

        drawn_on_gpu.fill(drawn, family, key)
        return drawn.reshape(shape)
    for first in range(0, drawn.size, _PIECE):
        piece = drawn[first : first + _PIECE]
        piece[:] = _draw(piece.size, drawn.dtype, family, key, first)
    return drawn.reshape(shape)


def _scalar(dtype: np.dtype, family: Family, key: int) -> int | float:
    # 0, 1 and -1 would hide a factor that a kernel forgot
    if family is Family.INTEGERS:
        magnitude = 2 + key % 3
        value = magnitude if dtype.kind == "u" or key >> 63 else -magnitude
        return float(value) if dtype.kind == "f" else value
    draws = (_draw(1, dtype, family, key, number)[0].item() for number in itertools.count())
    return next(value for value in draws if abs(value) >= _PLAIN and abs(abs(value) - 1) >= _PLAIN)


def _must_be_drawable(dtype: np.dtype) -> None:
    if dtype.kind not in "fiu":
        raise ValueError(f"inputs of dtype {dtype} cannot be drawn")


def _draw(count: int, dtype: np.dtype, family: Family, key: int, first: int = 0) -> np.ndarray:
    """Elements `first` to `first + count` of an array."""
    if family is Family.INTEGERS:
        bits = _hash(count, key, first) >> np.uint64(40)
        whole = bits * np.uint64(9) >> np.uint64(24)  # 0 to 8, without a division
        return whole.astype(dtype) if dtype.kind == "u" else (whole.astype(np.int64) - 4).astype(dtype)
    if dtype.kind in "iu":  # a byte of noise: any integer type holds it
        byte = (_hash(count, key, first) >> np.uint64(57)).astype(np.int64)
        return byte.astype(dtype) if dtype.kind == "u" else (byte - 64).astype(dtype)
    values = (_normal if family is Family.NORMAL else _wide)(count, key, first)
    return values.astype(dtype)  # from float32: rounded once, to nearest even, as by the GPU


def _hash(count: int, key: int, first: int) -> np.ndarray:
    state = np.arange(first + 1, first + count + 1, dtype=np.uint64)
    state *= np.uint64(_WEYL)
    state += np.uint64(key & _WORD)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        state ^= state >> np.uint64(shift)
        state *= np.uint64(factor)
    state ^= state >> np.uint64(31)
    return state


def _normal(count: int, key: int, first: int) -> np.ndarray:
    """Sum of eight uniform 16-bit integers (Irwin-Hall), centred and scaled to variance 1; at most 4.9 in magnitude."""
    total = np.zeros(count, dtype=np.int32)
    for half in range(2):
        bits = _hash(count, key ^ (half * 0xD1B54A32D192ED03), first)
        for shift in (0, 16, 32, 48):
            total += ((bits >> np.uint64(shift)) & np.uint64(0xFFFF)).astype(np.int32)
    total -= np.int32(8 * 65535 // 2)
    return total.astype(np.float32) * np.float32(1 / math.sqrt(8 * (65536.0**2 - 1) / 12))


def _wide(count: int, key: int, first: int) -> np.ndarray:
    """Either sign, a magnitude in [2^-8, 2^8) with a uniform exponent and a uniform significand."""
    bits = _hash(count, key, first)
    exponent = ((bits >> np.uint64(23)) & np.uint64(0xF)) + np.uint64(127 - 8)
    sign = (bits >> np.uint64(63)) << np.uint64(31)
    pattern = sign | (exponent << np.uint64(23)) | (bits & np.uint64(0x7FFFFF))
    return pattern.astype(np.uint32).view(np.float32)


def host_calls(task: Task, cases: Sequence[Case], seed: int) -> list[HostCall]:
    """The calls that capture these cases."""
    return [task.host_call(case.dimensions, scalars(task, case, seed)) for case in cases]
