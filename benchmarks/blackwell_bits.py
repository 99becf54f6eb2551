"""The sums of Blackwell's tensor cores beside those of MMA-Sim (https://github.com/microsoft/MMA-Sim), bit by bit.

Operands are drawn over many exponents, so that most sums lose bits. MMA-Sim has to be importable.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import numba
import numpy as np

from warplab.emulator.core.tensor.numerics import Kind, multiply_accumulate, rule_number
from warplab.emulator.core.tensor.scaled import multiply_bytes, multiply_nibbles, split_scale

PLAIN = [  # m x n x k, types of D, A and B
    ("m64n8k16", "f32", "f16", "f16"), ("m64n8k16", "f16", "f16", "f16"), ("m64n8k16", "f32", "bf16", "bf16"),
    ("m64n8k8", "f32", "tf32", "tf32"), ("m64n8k32", "f32", "e4m3", "e4m3"), ("m64n8k32", "f32", "e5m2", "e4m3"),
    ("m64n8k32", "f32", "e5m2", "e5m2"), ("m64n8k32", "f16", "e4m3", "e5m2"),
]  # fmt: skip
SCALED = [  # elements of a scale, types of A and B, and of the scales
    ("block32", "e4m3", "e4m3", "ue8m0"), ("block32", "e5m2", "e4m3", "ue8m0"), ("block32", "e2m1", "e2m1", "ue8m0"),
    ("block16", "e2m1", "e2m1", "ue8m0"), ("block16", "e2m1", "e2m1", "ue4m3"),
]  # fmt: skip
WORDS = {"f32": np.uint32, "tf32": np.uint32, "f16": np.uint16, "bf16": np.uint16}
FRACTION = {"f32": 23, "tf32": 23, "f16": 10, "bf16": 7, "e4m3": 3, "e5m2": 2}
EXPONENTS = {"f32": 8, "tf32": 8, "f16": 5, "bf16": 8, "e4m3": 4, "e5m2": 5}


def compared() -> Iterator[tuple[str, int, int]]:
    """For each product: its name, how many sums differ, of how many."""
    rng = np.random.default_rng(1)
    for one in PLAIN:
        yield _plain(rng, *one)
    for block in SCALED:
        yield _scaled(rng, *block)


def _drawn(rng: np.random.Generator, shape: tuple[int, ...], kind: str) -> np.ndarray:
    """Finite bit patterns with exponents within ten of one's."""
    fraction, exponents = FRACTION[kind], EXPONENTS[kind]
    bias, most = (1 << exponents - 1) - 1, (1 << exponents) - 2
    exponent = rng.integers(max(bias - 10, 0), min(bias + 10, most) + 1, shape)
    bits = (
        rng.integers(0, 2, shape) << exponents + fraction | exponent << fraction | rng.integers(0, 1 << fraction, shape)
    )
    return bits.astype(WORDS.get(kind, np.uint8))


def _tensor(bits: np.ndarray, kind: str) -> Any:
    torch = import_module("torch")
    names = {"f32": "float32", "tf32": "float32", "f16": "float16", "bf16": "bfloat16", "e4m3": "float8_e4m3fn",
             "e5m2": "float8_e5m2", "ue8m0": "float8_e8m0fnu", "ue4m3": "float8_e4m3fn"}  # fmt: skip
    return torch.from_numpy(bits.copy()).view(getattr(torch, names[kind]))


def _differing(ours: np.ndarray, theirs: Any, sums: str) -> int:
    torch = import_module("torch")
    bits = theirs.contiguous().view(torch.int32 if sums == "f32" else torch.int16).numpy().view(WORDS[sums])
    return int(np.count_nonzero(ours.astype(WORDS[sums]) != bits))


def _plain(rng: np.random.Generator, shape: str, sums: str, a_kind: str, b_kind: str) -> tuple[str, int, int]:
    simulator = import_module("mmasim.simulator.nv_ptx").tcgen05mma("Blackwell", f"{shape}.{sums}.{a_kind}.{b_kind}")
    m, n, k = simulator.m, simulator.n, simulator.k
    a, b, c = _drawn(rng, (m, k), a_kind), _drawn(rng, (n, k), b_kind), _drawn(rng, (m, n), sums)
    kinds = Kind[a_kind.upper()], Kind[b_kind.upper()]
    rule = rule_number("sm_100a", "tcgen05", *kinds, Kind[sums.upper()])
    d = np.zeros((m, n), np.uint32)
    multiply_accumulate(a.astype(np.uint32), b.astype(np.uint32), c.astype(np.uint32), d, rule)
    theirs = simulator(_tensor(a, a_kind), _tensor(b, b_kind).T, _tensor(c, sums))
    return f"{shape}.{sums}.{a_kind}.{b_kind}", _differing(d, theirs, sums), m * n


@numba.njit(error_model="numpy")
def _split(bytes_, powers, significands, exponents):
    for i in range(bytes_.shape[0]):
        for j in range(bytes_.shape[1]):
            significands[i, j], exponents[i, j] = split_scale(np.int64(bytes_[i, j]), powers)


@numba.njit(error_model="numpy")
def _bytes(a, b, d, a_kind, b_kind, a_scales, b_scales, rule):
    multiply_bytes(a, b, d, a_kind, b_kind, a_scales, b_scales, rule)


@numba.njit(error_model="numpy")
def _nibbles(a, b, d, a_significands, a_exponents, b_significands, b_exponents):
    multiply_nibbles(a, b, d, a_significands, a_exponents, b_significands, b_exponents)


def _scaled(rng: np.random.Generator, block: str, a_kind: str, b_kind: str, scale: str) -> tuple[str, int, int]:
    nibbles = a_kind == "e2m1"
    m, n, k = 128, 8, 64 if nibbles else 32
    name = f"m{m}n{n}k{k}.{block}.f32.{a_kind}.{b_kind}.{scale}"
    simulator = import_module("mmasim.simulator.nv_ptx").tcgen05mma_block_scale("Blackwell", name)
    c = _drawn(rng, (m, n), "f32")
    count = k // int(block.removeprefix("block"))
    low, high = (117, 138) if scale == "ue8m0" else (0, 0x7F)
    scales = [rng.integers(low, high, (rows, count), dtype=np.uint8) for rows in (m, n)]
    parts = []
    for one in scales:
        significands, exponents = np.empty(one.shape, np.int64), np.empty(one.shape, np.int64)
        _split(one, scale == "ue8m0", significands, exponents)
        parts += [significands, exponents]
    d = c.copy()
    if nibbles:
        a, b = (rng.integers(0, 16, (rows, k), dtype=np.uint8) for rows in (m, n))
        _nibbles(a.astype(np.uint32), b.astype(np.uint32), d, parts[0], parts[1], parts[2], parts[3])
        torch = import_module("torch")
        left, right = (torch.from_numpy(x[:, ::2] | x[:, 1::2] << 4) for x in (a, b))
    else:
        a, b = _drawn(rng, (m, k), a_kind), _drawn(rng, (n, k), b_kind)
        kinds = Kind[a_kind.upper()], Kind[b_kind.upper()]
        rule = rule_number("sm_100a", "tcgen05", *kinds, Kind.F32)
        _bytes(a.astype(np.uint32), b.astype(np.uint32), d, int(kinds[0]), int(kinds[1]), parts[1], parts[3], rule)
        left, right = _tensor(a, a_kind), _tensor(b, b_kind)
    theirs = simulator(left, right.T, _tensor(c, "f32"), _tensor(scales[0], scale), _tensor(scales[1], scale).T)
    return name, _differing(d, theirs, "f32"), m * n
