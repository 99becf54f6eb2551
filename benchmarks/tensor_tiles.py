"""Tensor-core instructions on random and adversarial tiles, the model against the card.

`python -m benchmarks.tensor_tiles` gives every type of mma.sync and wgmma.mma_async 100,000 tiles, an instruction each,
in equal parts from several families of operands. The outputs must be equal bit for bit; the number of those that are
not stands in benchmarks/results/tensor_tiles.json. Needs a Hopper GPU.
"""

from __future__ import annotations

import os
import sys
import threading
import zlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import numba
import numpy as np

from corpus.tensor import probe
from corpus.tensor.probe import COLUMNS, Instruction, IntegerInstruction
from course import results
from warplab.emulator.core.state.raw import fused_multiply_add
from warplab.emulator.core.tensor.numerics import FORMATS, multiply_accumulate, rule_number

COMMAND = "python -m benchmarks.tensor_tiles"
TILES = 100_000
CHUNK = 2_500
FLOAT_FAMILIES = ("any", "near", "wide", "tiny", "huge", "edges", "zeros", "cancel")
INTEGER_FAMILIES = ("any", "extremes", "overflow", "small")
DOUBLE_FAMILIES = ("any", "near", "wide", "cancel")
_GPU = threading.Lock()


class DoubleInstruction:
    """mma.sync.m8n8k4 of doubles."""

    rows, k = 8, 4

    def __str__(self) -> str:
        return "mma_f64_f64_f64_k4"


_DOUBLE_SOURCE = """
extern "C" __global__ void probe(const double* a, const double* b, const double* c, double* d) {
  int t = threadIdx.x, g = t / 4, q = t % 4;
  a += blockIdx.x * 32; b += blockIdx.x * 32; c += blockIdx.x * 64; d += blockIdx.x * 64;
  double x = c[g * 8 + 2 * q], y = c[g * 8 + 2 * q + 1];
  asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
               : "+d"(x), "+d"(y) : "d"(a[t]), "d"(b[t]));
  d[g * 8 + 2 * q] = x; d[g * 8 + 2 * q + 1] = y;
}"""

AnyInstruction = Instruction | IntegerInstruction | DoubleInstruction


def instructions() -> list[AnyInstruction]:
    """Every type of both instructions."""
    found: list[AnyInstruction] = [i for i in probe.instructions() if i.row_bytes == 32]
    for name, a, b, saturates in product(("mma", "wgmma"), ("s8", "u8"), ("s8", "u8"), (False, True)):
        found.append(IntegerInstruction(name, a, b, saturates=saturates))
    return [*found, DoubleInstruction()]


def families(instruction: AnyInstruction) -> tuple[str, ...]:
    """The families of operands for an instruction."""
    if isinstance(instruction, DoubleInstruction):
        return DOUBLE_FAMILIES
    return INTEGER_FAMILIES if isinstance(instruction, IntegerInstruction) else FLOAT_FAMILIES


# Tiles


def _cancelling(a: np.ndarray, b: np.ndarray, sign: int, generator: np.random.Generator) -> None:
    """Make neighbours along k cancel but for the last bits of some."""
    a[..., 1::2], b[..., 1::2] = a[..., ::2], b[..., ::2] ^ b.dtype.type(sign)
    a[..., 1::2] ^= (generator.random(a[..., 1::2].shape) < 0.2).astype(a.dtype)


def _floats(instruction: Instruction, family: str, tiles: int, generator: np.random.Generator) -> list[np.ndarray]:
    base = "near" if family == "cancel" else family
    shapes = (
        (tiles, instruction.rows, instruction.k),
        (tiles, COLUMNS, instruction.k),
        (tiles, instruction.rows, COLUMNS),
    )
    kinds = (instruction.a, instruction.b, instruction.accumulator)
    a, b, c = (probe.patterns(k, s, base, generator) for k, s in zip(kinds, shapes, strict=True))
    if family in ("tiny", "huge", "wide"):
        # An accumulator of the products' own size meets them more often than one from the whole range.
        c[::2] = probe.patterns(instruction.accumulator, c[::2].shape, "near", generator)
    if family == "cancel":
        exponent_bits, fraction_bits, ignored = (int(field) for field in FORMATS[instruction.b])
        _cancelling(a, b, 1 << (exponent_bits + fraction_bits + ignored), generator)
    return [a, b, c]


def _integers(
    instruction: IntegerInstruction, family: str, tiles: int, generator: np.random.Generator
) -> list[np.ndarray]:
    shapes = ((tiles, instruction.rows, instruction.k), (tiles, COLUMNS, instruction.k))
    if family in ("extremes", "overflow"):
        a, b = (generator.choice(np.array([0, 1, 127, 128, 255], np.uint8), s) for s in shapes)
    else:
        a, b = (generator.integers(0, 4 if family == "small" else 256, s, np.uint8) for s in shapes)
    c_shape = (tiles, instruction.rows, COLUMNS)
    c = generator.integers(-(2**31), 2**31, c_shape).astype(np.int32)
    if family == "overflow":
        c = (c >> 12) ^ generator.choice(np.array([0x7FFFFFFF, -(2**31)], np.int32), c_shape)
    return [a, b, c.view(np.uint32)]


def _doubles(family: str, tiles: int, generator: np.random.Generator) -> list[np.ndarray]:
    spread = {"any": 2046, "near": 6, "wide": 1000, "cancel": 4}[family] // 2
    arrays = []
    for shape in ((tiles, 8, 4), (tiles, 8, 4), (tiles, 8, 8)):
        exponent = generator.integers(1023 - spread, 1023 + spread + 1, shape)
        bits = exponent << 52 | generator.integers(0, 1 << 52, shape) | generator.integers(-1, 1, shape) << 63
        arrays.append(bits.view(np.uint64))
    if family == "cancel":
        _cancelling(arrays[0], arrays[1], 1 << 63, generator)
    return arrays


def tiles_of(instruction: AnyInstruction, family: str, tiles: int, number: int) -> list[np.ndarray]:
    """A (tiles, rows, k), B transposed (tiles, 8, k) and C (tiles, rows, 8) as bit patterns."""
    generator = np.random.default_rng([zlib.crc32(f"{instruction} {family}".encode()), number])
    if isinstance(instruction, DoubleInstruction):
        return _doubles(family, tiles, generator)
    if isinstance(instruction, IntegerInstruction):
        return _integers(instruction, family, tiles, generator)
    return _floats(instruction, family, tiles, generator)


# The model and the card


@numba.njit(nogil=True, error_model="numpy")
def _float_tiles(a, b, c, d, rule):
    for tile in range(len(a)):
        multiply_accumulate(a[tile], b[tile], c[tile], d[tile], rule)


@numba.njit(nogil=True, error_model="numpy")
def _double_tiles(a, b, c, d):
    for tile in range(len(a)):
        for i in range(8):
            for j in range(8):
                total = c[tile, i, j]
                for k in range(4):
                    total = fused_multiply_add(a[tile, i, k], b[tile, j, k], total)
                d[tile, i, j] = total


def model(instruction: AnyInstruction, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """What the emulator computes, as bit patterns."""
    d = np.zeros_like(c)
    if isinstance(instruction, DoubleInstruction):
        _double_tiles(*(x.view(np.float64) for x in (a, b, c, d)))
    elif isinstance(instruction, IntegerInstruction):
        left, right = (
            x.view(kind).astype(np.float64)
            for x, kind in zip((a, b), (_INTEGERS[instruction.a], _INTEGERS[instruction.b]), strict=True)
        )
        total = (left @ right.transpose(0, 2, 1)).astype(np.int64) + c.view(np.int32)
        total = np.clip(total, -(2**31), 2**31 - 1) if instruction.saturates else total
        d = total.astype(np.int32).view(np.uint32)
    else:
        rule = rule_number("sm_90a", instruction.name, instruction.a, instruction.b, instruction.accumulator)
        _float_tiles(a, b, c, d, rule)
    return d


_INTEGERS = {"s8": np.int8, "u8": np.uint8}


def card(instruction: AnyInstruction, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """What the GPU computes, as bit patterns."""
    import cupy

    with _GPU:
        if not isinstance(instruction, DoubleInstruction):
            return probe.run(instruction, a, b, c)
        function = cupy.RawKernel(_DOUBLE_SOURCE, "probe", backend="nvrtc", options=("-arch=sm_90a",))
        d = cupy.zeros(c.shape, c.dtype)
        function((len(a),), (32,), (*(cupy.asarray(x) for x in (a, b, c)), d))
        return cupy.asnumpy(d)


def _is_nan(instruction: AnyInstruction, d: np.ndarray) -> np.ndarray:
    if isinstance(instruction, DoubleInstruction):
        return np.isnan(d.view(np.float64))
    return np.zeros(d.shape, bool)


def compare(instruction: AnyInstruction, family: str, tiles: int, number: int) -> tuple[int, int]:
    """Elements of a chunk of tiles, and how many of them differ."""
    a, b, c = tiles_of(instruction, family, tiles, number)
    expected, found = model(instruction, a, b, c), card(instruction, a, b, c)
    differ = expected != found
    # Which NaN a double is, the model does not say.
    differ &= ~(_is_nan(instruction, expected) & _is_nan(instruction, found))
    return differ.size, int(differ.sum())


def main() -> int:
    """1 if anything differs; writes the record."""
    jobs = []
    for instruction in instructions():
        for family in families(instruction):
            share = TILES // len(families(instruction))
            jobs += [(instruction, family, min(CHUNK, share - start), start) for start in range(0, share, CHUNK)]
    elements: Counter[str] = Counter()
    differing: Counter[str] = Counter()
    where: dict[str, Counter[str]] = {str(i): Counter() for i in instructions()}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for job, (size, wrong) in zip(jobs, pool.map(lambda j: compare(*j), jobs), strict=True):
            name = str(job[0])
            elements[name] += size
            differing[name] += wrong
            where[name][job[1]] += wrong
    records = []
    for instruction in instructions():
        name = str(instruction)
        tiles = sum(job[2] for job in jobs if str(job[0]) == name)
        extra = {"tiles": tiles, "elements": elements[name], "families": dict(where[name])}
        records.append(results.Record(name, "differing elements", differing[name], "elements", extra=extra))
        print(f"{name}: {tiles} tiles, {elements[name]} elements, {differing[name]} differ {dict(+where[name])}")
    results.write(results.DIRECTORY / "tensor_tiles.json", results.make_header(COMMAND), records)
    return 1 if any(differing.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
