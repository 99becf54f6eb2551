"""Numba kernels of one warp for each function of warplab.ptx, with inputs and what NumPy says they give.

Fragments come and go as arrays [register, lane], so that a kernel is little more than the instruction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numba import cuda
from numba.cuda import types

from tests.emulator.plans import numba_plan
from warplab import ptx
from warplab.plan.model import Plan, Role

LANE = np.arange(32)
G, Q = LANE // 4, LANE % 4
PARITY = 0


@dataclass(frozen=True)
class Case:
    """A kernel, its inputs by name, and the outputs that it must give, bit by bit."""

    name: str
    kernel: Callable
    inputs: dict[str, np.ndarray]
    outputs: dict[str, np.ndarray]

    def plan(self) -> Plan:
        values = self.inputs | {name: np.zeros_like(array) for name, array in self.outputs.items()}
        return numba_plan(self.kernel, values, {name: Role.OUTPUT for name in self.outputs}, (1,), (32,))


def _small(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Integers that every operand type holds exactly, so that sums are exact in any order."""
    return rng.integers(-4, 5, shape).astype(dtype)


def _pairs(matrix: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Registers of the 16-bit elements at (rows, columns) and the column behind, low half first."""
    low, high = matrix[rows, columns].view(np.uint16), matrix[rows, columns + 1].view(np.uint16)
    return low.astype(np.uint32) | high.astype(np.uint32) << 16


def _a_fragment(a: np.ndarray) -> np.ndarray:
    return np.stack([_pairs(a, G + 8 * (i % 2), 2 * Q + 8 * (i // 2)) for i in range(a.shape[1] // 4)])


def _b_fragment(b: np.ndarray) -> np.ndarray:
    return np.stack([_pairs(b.T, G, 2 * Q + 8 * i) for i in range(b.shape[0] // 8)])


def _sums(c: np.ndarray) -> np.ndarray:
    return np.stack([c[G + 8 * (i // 2), 2 * Q + i % 2] for i in range(4)])


_product_f16_8 = ptx.mma("f16", k=8)
_product_f16_f16 = ptx.mma("f16", k=16, sums="f16")


def _multiply(product: Callable) -> Callable:
    """A kernel of one product with four registers of a, two of b and four sums."""

    def kernel(a, b, c, d):
        t = cuda.threadIdx.x
        sums = product((a[0, t], a[1, t], a[2, t], a[3, t]), (b[0, t], b[1, t]), (c[0, t], c[1, t], c[2, t], c[3, t]))
        for i in range(4):
            d[i, t] = sums[i]

    return kernel


def _multiply_f16_k8(a, b, c, d):
    t = cuda.threadIdx.x
    sums = _product_f16_8((a[0, t], a[1, t]), b[0, t], (c[0, t], c[1, t], c[2, t], c[3, t]))
    for i in range(4):
        d[i, t] = sums[i]


def _multiply_f16_f16(a, b, c, d):
    t = cuda.threadIdx.x
    sums = _product_f16_f16((a[0, t], a[1, t], a[2, t], a[3, t]), (b[0, t], b[1, t]), (c[0, t], c[1, t]))
    d[0, t], d[1, t] = sums[0], sums[1]


def _as_bf16(values: np.ndarray) -> np.ndarray:
    """Small integers as bf16 bits, which NumPy has no type for."""
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


_E4M3 = {0: 0x00, 1: 0x38, 2: 0x40, 3: 0x44, 4: 0x48}
_E5M2 = {0: 0x00, 1: 0x3C, 2: 0x40, 3: 0x42, 4: 0x44}


def _as_byte(values: np.ndarray, table: dict[int, int]) -> np.ndarray:
    return np.array([[table[abs(int(v))] | (0x80 if v < 0 else 0) for v in row] for row in values], np.uint8)


def _quads(matrix: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Registers of four neighbouring bytes."""
    places = [matrix[rows, columns + i].view(np.uint8).astype(np.uint32) << (8 * i) for i in range(4)]
    return np.bitwise_or.reduce(places)


def _bytes_case(name: str, kernel: Callable, rng: np.random.Generator, kinds: tuple[str, str], sums: str) -> Case:
    a, b = rng.integers(-4, 5, (16, 32)), rng.integers(-4, 5, (32, 8))
    if kinds[1] == "u8":
        b = abs(b)
    encode = {"e4m3": lambda m: _as_byte(m, _E4M3), "e5m2": lambda m: _as_byte(m, _E5M2)}
    a_bits = encode.get(kinds[0], lambda m: m.astype(np.int8))(a)
    b_bits = encode.get(kinds[1], lambda m: m.astype(np.uint8))(b)
    c = _small(rng, (16, 8), sums)
    a_part = np.stack([_quads(a_bits, G + 8 * (i % 2), 4 * Q + 16 * (i // 2)) for i in range(4)])
    b_part = np.stack([_quads(np.ascontiguousarray(b_bits.T), G, 4 * Q + 16 * i) for i in range(2)])
    return Case(name, kernel, {"a": a_part, "b": b_part, "c": _sums(c)}, {"d": _sums((a @ b + c).astype(sums))})


def _products() -> list[Case]:
    rng = np.random.default_rng(1)
    cases = []
    for name, kernel, k in (("mma f16 k16", _multiply(ptx.mma("f16", k=16)), 16), ("mma f16 k8", _multiply_f16_k8, 8)):
        a, b, c = _small(rng, (16, k), "f2"), _small(rng, (k, 8), "f2"), _small(rng, (16, 8), "f4")
        inputs = {"a": _a_fragment(a), "b": _b_fragment(b), "c": _sums(c)}
        cases.append(Case(name, kernel, inputs, {"d": _sums(a.astype("f4") @ b.astype("f4") + c)}))
    a, b, c = _small(rng, (16, 16), "f2"), _small(rng, (16, 8), "f2"), _small(rng, (16, 8), "f2")
    d = (a.astype("f4") @ b.astype("f4") + c).astype("f2")
    halves = {"c": c, "d": d}
    pairs = {n: np.stack([_pairs(m, G + 8 * i, 2 * Q) for i in range(2)]) for n, m in halves.items()}
    inputs = {"a": _a_fragment(a), "b": _b_fragment(b), "c": pairs["c"]}
    cases.append(Case("mma f16 sums f16", _multiply_f16_f16, inputs, {"d": pairs["d"]}))
    c4 = c.astype("f4")
    inputs = {"a": _a_fragment(_as_bf16(a)), "b": _b_fragment(_as_bf16(b)), "c": _sums(c4)}
    cases.append(
        Case("mma bf16", _multiply(ptx.mma("bf16", k=16)), inputs, {"d": _sums(a.astype("f4") @ b.astype("f4") + c4)})
    )
    a4, b4 = _small(rng, (16, 8), "f4"), _small(rng, (8, 8), "f4")
    a_part = np.stack([a4[G + 8 * (i % 2), Q + 4 * (i // 2)] for i in range(4)]).view(np.uint32)
    b_part = np.stack([b4[Q + 4 * i, G] for i in range(2)]).view(np.uint32)
    inputs = {"a": a_part, "b": b_part, "c": _sums(c4)}
    cases.append(Case("mma tf32", _multiply(ptx.mma("tf32", k=8)), inputs, {"d": _sums(a4 @ b4 + c4)}))
    a8, b8, c8 = _small(rng, (16, 8), "f8"), _small(rng, (8, 8), "f8"), _small(rng, (16, 8), "f8")
    a_part = np.stack([a8[G + 8 * (i % 2), Q + 4 * (i // 2)] for i in range(4)])
    b_part = np.stack([b8[Q + 4 * i, G] for i in range(2)])
    cases.append(
        Case(
            "mma f64",
            _multiply(ptx.mma("f64", k=8)),
            {"a": a_part, "b": b_part, "c": _sums(c8)},
            {"d": _sums(a8 @ b8 + c8)},
        )
    )
    cases.append(_bytes_case("mma e4m3 e5m2", _multiply(ptx.mma("e4m3", b="e5m2", k=32)), rng, ("e4m3", "e5m2"), "f4"))
    cases.append(_bytes_case("mma s8 u8", _multiply(ptx.mma("s8", b="u8", k=32)), rng, ("s8", "u8"), "i4"))
    return cases


def _move_matrices(source, loaded, crossed, turned, stored):
    tile = cuda.shared.array((32, 8), types.uint16, alignment=16)
    back = cuda.shared.array((32, 8), types.uint16, alignment=16)
    t = cuda.threadIdx.x
    for i in range(8):
        tile[t, i] = source[t, i]
    cuda.syncwarp()
    straight = ptx.ldmatrix_x4(ptx.shared_address(tile, 8 * t))
    across = ptx.ldmatrix_x4_trans(ptx.shared_address(tile, 8 * t))
    for i in range(4):
        loaded[i, t] = straight[i]
        crossed[i, t] = across[i]
    two = ptx.ldmatrix_x2(ptx.shared_address(tile, 8 * (t % 16)))
    turned[0, t] = ptx.movmatrix(two[0])
    turned[1, t] = two[1] ^ ptx.ldmatrix_x1_trans(ptx.shared_address(tile, 8 * (8 + t % 8)))
    ptx.stmatrix_x4_trans(ptx.shared_address(back, 8 * t), straight)
    cuda.syncwarp()
    for i in range(8):
        stored[t, i] = back[t, i]


def _moves() -> Case:
    source = np.random.default_rng(2).integers(0, 2**16, (32, 8)).astype(np.uint16)
    tiles = source.reshape(4, 8, 8)
    across = np.ascontiguousarray(tiles.transpose(0, 2, 1))
    loaded = np.stack([_pairs(m, G, 2 * Q) for m in tiles])
    crossed = np.stack([_pairs(m, G, 2 * Q) for m in across])
    turned = np.stack([crossed[0], loaded[1] ^ crossed[1]])
    outputs = {"loaded": loaded, "crossed": crossed, "turned": turned, "stored": across.reshape(32, 8)}
    return Case("matrix moves", _move_matrices, {"source": source}, outputs)


_all_but_one = ptx.cp_async_wait_group(1)


def _copy_tiles(source, target, edge):
    first = cuda.shared.array(128, types.uint32, alignment=16)
    second = cuda.shared.array(128, types.uint32, alignment=16)
    barrier = cuda.shared.array(1, types.uint64)
    t = cuda.threadIdx.x
    signal = ptx.shared_address(barrier, 0)
    if t == 0:
        ptx.mbarrier_init(signal, 32)
    cuda.syncwarp()
    ptx.cp_async_16(ptx.shared_address(first, 4 * t), ptx.address(source, 4 * t), 16)
    ptx.cp_async_commit()
    count = 8 if t == 31 else 16
    ptx.cp_async_16_l1(ptx.shared_address(second, 4 * t), ptx.address(source, 128 + 4 * t), count)
    ptx.cp_async_commit()
    _all_but_one()
    cuda.syncwarp()
    for i in range(4):
        target[32 * i + t] = first[32 * i + t]
    ptx.cp_async_mbarrier_arrive(signal)
    ptx.mbarrier_wait(signal, PARITY)
    for i in range(4):
        edge[32 * i + t] = second[32 * i + t]


def _copies() -> Case:
    source = np.random.default_rng(3).integers(0, 2**32, 256).astype(np.uint32)
    edge = source[128:].copy()
    edge[126:] = 0
    return Case("cp.async", _copy_tiles, {"source": source}, {"target": source[:128], "edge": edge})


def _convert(source, halves, brains, fours, fives, back):
    t = cuda.threadIdx.x
    x, y = source[2 * t], source[2 * t + 1]
    halves[t] = ptx.pack_f16(x, y)
    brains[t] = ptx.pack_bf16(x, y)
    fours[t] = ptx.pack_e4m3(x, y)
    fives[t] = ptx.pack_e5m2(x, y)
    low, high = ptx.unpack_f16(halves[t])
    back[0, t], back[1, t] = low, high
    low, high = ptx.unpack_bf16(brains[t])
    back[2, t], back[3, t] = low, high
    low, high = ptx.unpack_e4m3(fours[t])
    back[4, t], back[5, t] = low, high
    low, high = ptx.unpack_e5m2(fives[t])
    back[6, t], back[7, t] = low, high


def _rounded(values: np.ndarray, fraction: int, least: int, most: float) -> np.ndarray:
    """Round to `fraction` bits behind the leading one, nearest even, exponents from `least` on; saturate at `most`."""
    exponent = np.maximum(np.floor(np.log2(np.maximum(abs(values), 2.0**-60))), least)
    step = 2.0 ** (exponent - fraction)
    return np.clip(np.round(values / step) * step, -most, most)


def _small_float_bits(values: np.ndarray, fraction: int, bias: int) -> np.ndarray:
    """Bits of numbers that a format of 8 bits holds exactly."""
    size = abs(values)
    exponent = np.maximum(np.floor(np.log2(np.maximum(size, 2.0**-60))), 1 - bias)
    mantissa = np.round(size / 2.0 ** (exponent - fraction)).astype(np.int64)
    biased = np.where(mantissa >> fraction, exponent + bias, 0).astype(np.int64)
    bits = (biased << fraction) + (mantissa & ((1 << fraction) - 1))
    return (bits | np.where(np.signbit(values), 0x80, 0)).astype(np.uint16)


def _conversions() -> Case:
    rng = np.random.default_rng(4)
    source = (rng.standard_normal(64) * 2.0 ** rng.integers(-12, 14, 64)).astype(np.float32)
    source[:6] = [0.0, -0.0, 448.0, 464.0, -1e5, 2.0**-9]
    wide = source.astype(np.float64)
    with np.errstate(over="ignore"):
        half = source.astype(np.float16)
    bits = source.view(np.uint32).astype(np.uint64)
    brain = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    four, five = _rounded(wide, 3, -6, 448.0), _rounded(wide, 2, -14, 57344.0)
    four_bits, five_bits = _small_float_bits(four, 3, 7), _small_float_bits(five, 2, 15)
    unpacked = [half.astype("f4"), (brain.astype(np.uint32) << 16).view("f4"), four.astype("f4"), five.astype("f4")]
    outputs = {
        "halves": half.view(np.uint32),
        "brains": brain.view(np.uint32),
        "fours": (four_bits[::2] | four_bits[1::2] << 8).astype(np.uint16),
        "fives": (five_bits[::2] | five_bits[1::2] << 8).astype(np.uint16),
        "back": np.stack([v[i::2] for v in unpacked for i in range(2)]),
    }
    return Case("conversions", _convert, {"source": source}, outputs)


def _look_around(lanes, elected, ranks):
    t = cuda.threadIdx.x
    lanes[t] = ptx.laneid()
    ranks[t] = ptx.cluster_ctarank() + 2 * ptx.cluster_nctarank()
    before, began = ptx.clock64(), ptx.globaltimer()
    elected[t] = ptx.elect()
    if ptx.clock64() < before or ptx.globaltimer() < began or ptx.smid() >= ptx.nsmid():
        lanes[t] = 99


def _surroundings() -> Case:
    lanes = np.arange(32, dtype=np.uint32)
    elected = (lanes == 0).astype(np.uint32)  # hardware and emulator choose the lowest lane
    return Case("surroundings", _look_around, {}, {"lanes": lanes, "elected": elected, "ranks": lanes * 0 + 2})


def _agree(a, sums, largest, smallest):
    t = cuda.threadIdx.x
    sums[t] = ptx.redux_add(a[t])
    largest[t] = ptx.redux_max(a[t])
    smallest[t] = ptx.redux_min(a[t])


def _agreement() -> Case:
    a = np.random.default_rng(3).integers(0, 1 << 32, 32, dtype=np.uint32)  # the sum wraps, half are negative as int32
    every = np.ones(32, np.uint32)
    outputs = {"sums": every * a.sum(dtype=np.uint32), "largest": every * a.max(), "smallest": every * a.min()}
    return Case("agreement", _agree, {"a": a}, outputs)


def _tell(a, words, pairs):
    t = cuda.threadIdx.x
    if t < 16:
        ptx.store_relaxed_4(ptx.address(words, t), a[t])
        ptx.store_relaxed_8(ptx.address(pairs, t), types.uint64(a[t]) << types.uint64(32))
    else:
        ptx.store_release_4(ptx.address(words, t), a[t])
        ptx.store_release_8(ptx.address(pairs, t), types.uint64(a[t]) << types.uint64(32))
    cuda.syncwarp()
    one = ptx.load_relaxed_4(ptx.address(words, 31 - t)) ^ ptx.load_acquire_4(ptx.address(words, t))
    two = ptx.load_relaxed_8(ptx.address(pairs, t)) | ptx.load_acquire_8(ptx.address(pairs, 31 - t)) >> types.uint64(32)
    cuda.syncwarp()
    words[t] = one
    pairs[t] = two


def _words_of_other_blocks() -> Case:
    a = np.random.default_rng(4).integers(0, 1 << 32, 32, dtype=np.uint32)
    return Case(
        "relaxed, acquire, release", _tell, {"a": a}, {"words": a ^ a[::-1], "pairs": a.astype("u8") << 32 | a[::-1]}
    )


def _tell_other_gpus(a, words, seen):
    t = cuda.threadIdx.x
    ptx.store_release_4_system(ptx.address(words, t), a[t])
    cuda.syncwarp()
    seen[t] = ptx.load_acquire_4_system(ptx.address(words, 31 - t))


def _words_of_other_gpus() -> Case:
    a = np.random.default_rng(5).integers(0, 1 << 32, 32, dtype=np.uint32)
    return Case("system scope", _tell_other_gpus, {"a": a}, {"words": a, "seen": a[::-1]})


CASES = [
    *_products(),
    _moves(),
    _copies(),
    _conversions(),
    _surroundings(),
    _agreement(),
    _words_of_other_blocks(),
    _words_of_other_gpus(),
]
