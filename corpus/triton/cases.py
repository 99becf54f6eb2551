"""The launches of the Triton kernels, with what NumPy says that they compute. Needs no Triton."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import erf

import numpy as np

from corpus.emulator import draws
from corpus.emulator.entry import Approximate, Entry, read, scalar, update, write

_EXP2 = "ex2.approx is within 2 ulp of the power on either side; sums, quotients and roundings to half carry it on"


@dataclass(frozen=True)
class Case:
    """A launch of a Triton kernel: `entry.function` names it, `kinds` gives the element type of pointers that NumPy
    lacks, `constants` the compile-time arguments, `tiles` the blocks of arrays that are passed as tensor descriptors.
    """

    entry: Entry
    grid: tuple[int, ...]
    constants: Mapping[str, int | str] = field(default_factory=dict)
    warps: int = 4
    stages: int = 3
    kinds: Mapping[str, str] = field(default_factory=dict)
    tiles: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the entry, which its files carry."""
        return self.entry.name


def _softmax(v: dict) -> dict:
    a = v["a"].astype(np.float64)
    e = np.exp(a - a.max(1, keepdims=True))
    return {"out": e / e.sum(1, keepdims=True)}


def _layer_norm(v: dict) -> dict:
    a = v["a"].astype(np.float64)
    d = a - a.mean(1, keepdims=True)
    return {"out": v["gain"] * d / np.sqrt((d * d).mean(1, keepdims=True) + 1e-5) + v["bias"]}


def _number(kind: str, bits: np.ndarray) -> np.ndarray:
    """Float64 values of an array whose element type NumPy lacks."""
    if kind == "bfloat16":
        return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if kind == "float8e4nv":
        exponent, fraction = bits >> 3 & 15, (bits & 7).astype(np.float64)
        size = np.where(exponent == 0, fraction * 2.0**-9, (1 + fraction / 8) * 2.0 ** (exponent.astype(int) - 7))
        return np.where(bits >> 7, -size, size)
    return bits.astype(np.float64)


def _product(kind: str = "", transposed: bool = False):
    def expected(v: dict) -> dict:
        a, b = _number(kind, v["a"]), _number(kind, v["b"])
        return {"c": a @ (b.T if transposed else b)}

    return expected


def _byte_product(v: dict) -> dict:
    return {"c": v["a"].astype(np.int32) @ v["b"].astype(np.int32).T}


def _attention(v: dict) -> dict:
    q, k, x = (v[name].astype(np.float64) for name in "qkv")
    scores = np.where(np.tri(len(q)) > 0, q @ k.T * v["scale"], -np.inf)
    e = 2 ** (scores - scores.max(1, keepdims=True))
    return {"out": e / e.sum(1, keepdims=True) @ x}


def _integers(v: dict) -> dict:
    a = v["a"]
    return {
        "sorted": np.sort(a),
        "sums": np.cumsum(a, dtype=np.int32),
        "counts": np.bincount(a & 63, minlength=64).astype(np.int32),
        "largest": np.array([a.argmax(), np.bitwise_xor.reduce(a)], np.int32),
    }


def _functions(v: dict) -> dict:
    x = v["a"].astype(np.float64)
    gelu = 0.5 * x * (1 + np.vectorize(erf)(x * 0.70710678))
    size = np.abs(x) + 0.25
    return {"out": gelu + 1 / (1 + np.exp(-x)) + np.log(size) + np.sqrt(size) + np.sin(x) * np.cos(x) + np.tanh(x)}


def philox(seed: int, counters: np.ndarray) -> np.ndarray:
    """The first word of ten rounds of Philox 4x32 (Salmon et al. 2011) on the counters (c, 0, 0, 0)."""
    mask = np.uint64(0xFFFFFFFF)
    c = [counters.astype(np.uint64), *(np.zeros(counters.shape, np.uint64) for _ in range(3))]
    keys = [np.uint64(seed & 0xFFFFFFFF), np.uint64(seed >> 32)]
    for _ in range(10):
        first, second = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        high = np.uint64(32)
        c = [second >> high ^ c[1] ^ keys[0], second & mask, first >> high ^ c[3] ^ keys[1], first & mask]
        keys = [keys[0] + np.uint64(0x9E3779B9) & mask, keys[1] + np.uint64(0xBB67AE85) & mask]
    return c[0].astype(np.uint32)


def _dropout(v: dict) -> dict:
    word = philox(v["seed"], np.arange(v["a"].size)).view(np.int32)
    chance = np.where(word < 0, ~word, word) * 4.6566127342e-10
    return {"out": np.where(chance.astype(np.float32) > np.float32(v["chance"]), v["a"] / (1 - v["chance"]), 0.0)}


def _associative(v: dict) -> dict:
    a, b = v["a"].astype(np.float64), v["b"].astype(np.float64)
    out, state = np.empty(b.shape), np.zeros(len(b))
    for i in range(b.shape[1]):
        state = state * a[:, i] + b[:, i]
        out[:, i] = state
    return {"out": out}


def _case(name: str, function: str, arguments, grid, expected, constants=(), **more) -> Case:
    options = {key: more.pop(key) for key in ("warps", "stages", "kinds", "tiles") if key in more}
    inputs = more.pop("inputs", {})
    entry = Entry(f"triton/{name}", "kernels.py", function, tuple(arguments), inputs, expected, **more)
    return Case(entry, grid, dict(constants), **options)


def _matmul(name: str, m: int, n: int, k: int, tile: tuple[int, int, int], **more) -> Case:
    arguments = (
        *(read("a", "float16", m, k), read("b", "float16", k, n), write("c", "float32", m, n)),
        *(scalar("m", m), scalar("n", n), scalar("k", k)),
    )
    grid = (-(-m // tile[0]), -(-n // tile[1]))
    constants = dict(zip(("BM", "BN", "BK"), tile, strict=True))
    return _case(name, "matmul", arguments, grid, _product(), constants, tolerance=1e-5, **more)


def _transposed(
    name: str, dtype: str, kind: str, expected, m: int, n: int, k: int, tile, out="float32", **more
) -> Case:
    arguments = (
        *(read("a", dtype, m, k), read("b", dtype, n, k), write("c", out, m, n)),
        *(scalar("n", n), scalar("k", k)),
    )
    constants = {**dict(zip(("BM", "BN", "BK"), tile, strict=True)), "KIND": "int32" if out == "int32" else "float32"}
    kinds = {"a": kind, "b": kind} if kind else {}
    grid = (m // tile[0], n // tile[1])
    return _case(name, "matmul_transposed", arguments, grid, expected, constants, kinds=kinds, **more)


def _small_fp8(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Signs, exponents 2^-3 to 2^2 and all fractions of e4m3."""
    sign, exponent = generator.integers(0, 2, shape) << 7, generator.integers(4, 10, shape) << 3
    return (sign | exponent | generator.integers(0, 8, shape)).astype(dtype)


def _attend(name: str, length: int, tile: tuple[int, int], width: int, warps: int) -> Case:
    arguments = (
        *(read(x, "float16", length, width) for x in "qkv"),
        *(write("out", "float16", length, width), scalar("length", length), scalar("scale", 0.25)),
    )
    constants = {"BM": tile[0], "BN": tile[1], "D": width}
    return _case(
        name,
        "attention",
        arguments,
        (length // tile[0],),
        _attention,
        constants,
        warps=warps,
        tolerance=2e-3,
        approximate=Approximate(4, _EXP2, absolute=2e-3),
    )


CASES: tuple[Case, ...] = (
    _case(
        "softmax",
        "softmax",
        (read("a", "float32", 16, 500), write("out", "float32", 16, 500), scalar("columns", 500)),
        (16,),
        _softmax,
        {"BLOCK": 512},
        approximate=Approximate(16, _EXP2),
    ),
    _case(
        "softmax_one_warp",
        "softmax",
        (read("a", "float32", 6, 77), write("out", "float32", 6, 77), scalar("columns", 77)),
        (6,),
        _softmax,
        {"BLOCK": 128},
        warps=1,
        approximate=Approximate(16, _EXP2),
    ),
    _case(
        "layer_norm",
        "layer_norm",
        (
            *(read("a", "float16", 6, 700), read("gain", "float32", 700), read("bias", "float32", 700)),
            *(write("out", "float16", 6, 700), scalar("columns", 700)),
        ),
        (6,),
        _layer_norm,
        {"BLOCK": 256},
        tolerance=2e-3,
        approximate=Approximate(1, "rsqrt.approx is within 2 ulp on either side, which may round to the next half"),
    ),
    _matmul("matmul_mma", 48, 64, 80, (32, 32, 32), stages=2),
    _matmul("matmul_ragged", 50, 37, 70, (16, 16, 32), warps=2),
    _matmul("matmul_wgmma", 128, 128, 128, (64, 64, 32)),
    _matmul("matmul_wgmma_wide", 128, 128, 128, (128, 128, 64), warps=8),
    _transposed(
        "matmul_bf16",
        "uint16",
        "bfloat16",
        _product("bfloat16", True),
        64,
        128,
        128,
        (64, 64, 64),
        tolerance=1e-5,
        inputs={"a": draws.bfloats, "b": draws.bfloats},
    ),
    _transposed(
        "matmul_fp8",
        "uint8",
        "float8e4nv",
        _product("float8e4nv", True),
        64,
        64,
        256,
        (64, 64, 128),
        tolerance=2e-3,
        inputs={"a": _small_fp8, "b": _small_fp8},
    ),
    _transposed(
        "matmul_fp8_mma",
        "uint8",
        "float8e4nv",
        _product("float8e4nv", True),
        32,
        32,
        128,
        (32, 32, 64),
        tolerance=2e-3,
        inputs={"a": _small_fp8, "b": _small_fp8},
    ),
    _transposed("matmul_tf32", "float32", "", _product("", True), 64, 64, 64, (64, 64, 32), tolerance=2e-3),
    _transposed("matmul_bytes", "int8", "", _byte_product, 64, 64, 128, (64, 64, 64), "int32"),
    _transposed("matmul_bytes_mma", "int8", "", _byte_product, 32, 32, 64, (32, 32, 32), "int32"),
    _attend("attention", 128, (64, 64), 32, 4),
    _attend("attention_small", 64, (16, 32), 32, 2),
    _case(
        "sum_atomic",
        "sum_atomic",
        (read("a", "int32", 3000), update("out", "int32", 2), scalar("n", 3000)),
        (3,),
        lambda v: {
            "out": np.array([v["out"][0] + v["a"].sum(dtype=np.int32), max(v["out"][1], v["a"].max(initial=0))]).astype(
                np.int32
            )
        },
        {"BLOCK": 1024},
    ),
    _case(
        "integers",
        "integers",
        (
            *(read("a", "int32", 512), write("sorted", "int32", 512), write("sums", "int32", 512)),
            *(write("counts", "int32", 64), write("largest", "int32", 2)),
        ),
        (1,),
        _integers,
        {"BLOCK": 512},
    ),
    _case(
        "functions",
        "functions",
        (read("a", "float32", 1000), write("out", "float32", 1000), scalar("n", 1000)),
        (2,),
        _functions,
        {"BLOCK": 512},
        inputs={"a": draws.uniform(-3, 3)},
        approximate=Approximate(64, "ex2 and lg2 are approximate; cancellations enlarge it", absolute=4e-6),
    ),
    _case(
        "dropout",
        "dropout",
        (
            *(read("a", "float32", 2000), write("out", "float32", 2000)),
            *(scalar("n", 2000), scalar("seed", 12345), scalar("chance", 0.3)),
        ),
        (4,),
        _dropout,
        {"BLOCK": 512},
        approximate=Approximate(3, "div.full is within 2 ulp on the GPU, and rounded once on the emulator"),
    ),
    _case(
        "transpose",
        "transpose",
        (read("a", "float32", 70, 45), write("out", "float32", 45, 70), scalar("m", 70), scalar("n", 45)),
        (3, 2),
        lambda v: {"out": v["a"].T},
        {"BLOCK": 32},
    ),
    _case(
        "gather_rows",
        "gather_rows",
        (read("table", "uint16", 50, 64), read("index", "int64", 32), write("out", "float32", 32, 64)),
        (2,),
        lambda v: {"out": _number("bfloat16", v["table"])[v["index"]].astype(np.float32)},
        {"WIDTH": 64, "COUNT": 16},
        kinds={"table": "bfloat16"},
        inputs={"table": draws.bfloats, "index": draws.integers(0, 50)},
    ),
    _case(
        "associative",
        "associative",
        (read("a", "float32", 2, 256), read("b", "float32", 2, 256), write("out", "float32", 2, 256)),
        (2,),
        _associative,
        {"BLOCK": 256},
        inputs={"a": draws.uniform(0, 1)},
    ),
    _case(
        "matmul_tma",
        "matmul_tma",
        (
            read("a", "float16", 128, 128),
            read("b", "float16", 128, 128),
            write("c", "float16", 128, 128),
            scalar("k", 128),
        ),
        (2, 2),
        _product(),
        {"BM": 64, "BN": 64, "BK": 64},
        tolerance=2e-3,
        tiles={"a": (64, 64), "b": (64, 64), "c": (64, 64)},
    ),
)

# What torch.compile makes of softmax(2 a + 1); its launch has the two sizes after the arrays.
INDUCTOR = _case(
    "inductor_softmax",
    "",
    (read("a", "float32", 24, 300), write("out", "float32", 24, 300), scalar("rows", 24), scalar("columns", 300)),
    (24,),
    lambda v: _softmax({"a": v["a"].astype(np.float64) * 2 + 1}),
    approximate=Approximate(16, _EXP2),
)
