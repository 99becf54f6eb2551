"""Entries of kernels/global_memory.py: strides, offsets, widths, gathers, partial warps."""

from __future__ import annotations

import numpy as np

from corpus.emulator import draws
from corpus.emulator.entry import Entry, read, scalar, update, write

FILE = "kernels/global_memory.py"
N = 160
STRIDES = (1, 2, 3, 4, 8, 16, 32, 33)
DTYPES = {1: ("int8", 1), 2: ("int16", 1), 4: ("float32", 1), 8: ("float64", 1), 16: ("float32", 4)}
MASKS = {
    "one_lane": 1 << 13,
    "odd_lanes": 0xAAAAAAAA,
    "first_half": 0xFFFF,
    "quarter": 0xFF000000,
    "every_fourth": 0x11111111,
    "scattered": 0x8421_9C07,
}


def _elements(array: np.ndarray, width: int) -> np.ndarray:
    """One row for each element of `width` bytes."""
    return array.reshape(-1, DTYPES[width][1])


def _load_expected(v: dict) -> dict:
    a, out = _elements(v["a"], v["width"]), _elements(v["out"], v["width"])
    out[:] = a[v["offset"] :: v["stride"]][: len(out)]
    return {"out": v["out"]}


def _store_expected(v: dict) -> dict:
    a, out = _elements(v["a"], v["width"]), _elements(v["out"], v["width"])
    out[v["offset"] :: v["stride"]][: len(a)] = a
    return {"out": v["out"]}


def _masked_expected(v: dict) -> dict:
    a, out = _elements(v["a"], v["width"]), _elements(v["out"], v["width"])
    lanes = np.array([v["lanes"] >> (i & 31) & 1 for i in range(len(a))], bool)
    out[lanes] = a[lanes]
    return {"out": v["out"]}


def _strided(operation: str, width: int, stride: int, offset: int) -> Entry:
    dtype, parts = DTYPES[width]
    far, near = (offset + (N - 1) * stride + 1) * parts, N * parts
    a, out = (far, near) if operation == "load" else (near, far)
    name = f"{operation}_{width}_bytes/" + (f"offset_{offset}" if offset else f"stride_{stride}")
    arguments = (
        *(read("a", dtype, a), write("out", dtype, out)),
        *(scalar("width", width), scalar("stride", stride), scalar("offset", offset)),
    )
    expected = _load_expected if operation == "load" else _store_expected
    return Entry(name, FILE, operation, arguments, {"a": draws.bits}, expected)


def _masked(width: int, name: str) -> Entry:
    dtype, parts = DTYPES[width]
    arguments = (
        *(read("a", dtype, 64 * parts), write("out", dtype, 64 * parts)),
        *(scalar("width", width), scalar("lanes", MASKS[name])),
    )
    return Entry(f"masked_{width}_bytes/{name}", FILE, "masked", arguments, {"a": draws.bits}, _masked_expected)


def _gather(name: str, index: draws.Draw, n: int = 256) -> Entry:
    arguments = (read("a", "float32", 1024), read("index", "int32", n), write("out", "float32", n))
    return Entry(f"gather/{name}", FILE, "gather", arguments, {"index": index}, lambda v: {"out": v["a"][v["index"]]})


def _scatter_expected(v: dict) -> dict:
    v["out"][v["index"]] = v["a"]
    return {"out": v["out"]}


def _scatter(name: str, dtype: str, index: draws.Draw) -> Entry:
    arguments = (read("a", dtype, 256), read("index", "int32", 256), write("out", dtype, 512))
    return Entry(f"scatter/{name}", FILE, "scatter", arguments, {"index": index}, _scatter_expected)


def _copy(n: int) -> Entry:
    arguments = (read("a", "float32", n), write("out", "float32", n))
    return Entry(f"copy/{n}", FILE, "copy", arguments, {}, lambda v: {"out": v["a"]})


def _widths_expected(v: dict) -> dict:
    v["out"][:1984] = v["a"][:1984]
    return {"out": v["out"]}


def _hints_expected(v: dict) -> dict:
    a, b, n = v["a"], v["b"], v["a"].size
    other = np.arange(n) ^ 1
    x, y = a + b, a[other] + b[other] + b
    return {"out": np.concatenate([x, y, x * y])}


def _volume_expected(v: dict) -> dict:
    x, y, z = np.indices(v["a"].shape)
    extra = z % 5 + 10 * (y // 4)
    return {"out": v["a"].astype(np.float64) * 2 + extra}


def _nc_vectors_expected(v: dict) -> dict:
    a = v["a"].reshape(32, 4)
    last = a[:, 0] + v["b"][:32].astype(np.float32)
    return {"out": np.stack([a[:, 3], a[:, 2], a[:, 1], last], 1).ravel()}


_HALVES = np.repeat(np.arange(16), 16)

ENTRIES: tuple[Entry, ...] = (
    *(_strided(op, width, stride, 0) for op in ("load", "store") for width in DTYPES for stride in STRIDES),
    *(_strided(op, width, 1, offset) for op in ("load", "store") for width in DTYPES for offset in (1, 7)),
    *(_masked(width, name) for width in DTYPES for name in MASKS),
    *(_copy(n) for n in (1, 7, 31, 32, 33, 100)),
    _gather("random", draws.integers(0, 1024)),
    _gather("same", draws.fixed(np.full(256, 77))),
    _gather("same_by_half_warp", draws.fixed(_HALVES * 40 + 3)),
    _gather("reversed", draws.fixed(np.arange(256)[::-1])),
    _gather("few", draws.integers(0, 24)),
    _gather("ragged", draws.integers(0, 1024), 77),
    _scatter("random", "float32", lambda g, shape, dtype: g.permutation(512)[:256].astype(dtype)),
    _scatter("random_bytes", "uint8", lambda g, shape, dtype: g.permutation(512)[:256].astype(dtype)),
    _scatter("random_doubles", "float64", lambda g, shape, dtype: g.permutation(512)[:256].astype(dtype)),
    _scatter("neighbours_swapped", "float32", draws.fixed(np.arange(256) ^ 1)),
    Entry(
        "widths",
        FILE,
        "widths",
        (read("a", "uint8", 2048), write("out", "uint8", 2048)),
        {},
        _widths_expected,
    ),
    Entry(
        "wide_to_narrow",
        FILE,
        "wide_to_narrow",
        (read("a", "float32", 128), write("out", "float32", 128)),
        {},
        lambda v: {"out": v["a"].reshape(32, 4).T.ravel()},
    ),
    Entry(
        "cache_hints",
        FILE,
        "hints",
        (read("a", "float32", 100), read("b", "float32", 100), write("out", "float32", 300)),
        {},
        _hints_expected,
    ),
    Entry(
        "read_only_vectors",
        FILE,
        "nc_vectors",
        (read("a", "float32", 128), read("b", "int16", 32), write("out", "float32", 128)),
        {},
        _nc_vectors_expected,
    ),
    Entry(
        "volatile",
        FILE,
        "volatiles",
        (update("a", "int32", 64), write("out", "int32", 64)),
        {"a": draws.integers(-1000, 1000)},
        lambda v: {"a": v["a"], "out": 2 * v["a"]},
    ),
    Entry(
        "sum_along_rows",
        FILE,
        "sum_along_rows",
        (read("a", "float32", 50, 40), write("out", "float32", 50)),
        {},
        lambda v: {"out": v["a"].astype(np.float64).sum(1)},
    ),
    Entry(
        "sum_along_columns",
        FILE,
        "sum_along_columns",
        (read("a", "float32", 40, 50), write("out", "float32", 50)),
        {},
        lambda v: {"out": v["a"].astype(np.float64).sum(0)},
    ),
    Entry(
        "grid_stride",
        FILE,
        "grid_stride",
        (read("a", "float32", 1000), write("out", "float32", 1000)),
        {},
        lambda v: {"out": v["a"] + np.float32(1)},
    ),
    Entry(
        "strided_view",
        FILE,
        "strided_view",
        (read("a", "float32", 33, 30), write("out", "float32", 15, 17)),
        {},
        lambda v: {"out": v["a"][::2, 1::2].T},
    ),
    Entry(
        "volume",
        FILE,
        "volume",
        (read("a", "float32", 7, 11, 9), write("out", "float32", 7, 11, 9)),
        {},
        _volume_expected,
    ),
)
