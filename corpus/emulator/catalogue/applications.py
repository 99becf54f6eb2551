"""Entries of kernels/transposes.py, products.py, rows.py and control.py."""

from __future__ import annotations

import numpy as np

from corpus.emulator import draws
from corpus.emulator.entry import Approximate, Entry, read, scalar, update, write

TRANSPOSES = "kernels/transposes.py"
PRODUCTS = "kernels/products.py"
ROWS = "kernels/rows.py"
CONTROL = "kernels/control.py"
NONZEROS = 300


def _transpose(name: str, m: int, n: int, dtype: str = "float32", pitch: int | None = None) -> Entry:
    extra = (scalar("pitch", pitch),) if pitch else ()
    label = f"transpose/{name}" + (f"_pitch_{pitch}" if pitch else "") + f"_{m}x{n}"
    arguments = (read("a", dtype, m, n), write("out", dtype, n, m), *extra)
    return Entry(label, TRANSPOSES, name, arguments, {}, lambda v: {"out": v["a"].T})


def _from_bfloat(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def _wide(v: dict) -> dict:
    kind = np.longdouble if v["a"].dtype == np.float64 else np.float64
    return {"c": v["a"].astype(kind) @ v["b"].astype(kind)}


def _product(name: str, m: int, n: int, k: int, dtype: str = "float32", out: str = "float32") -> Entry:
    arguments = (read("a", dtype, m, k), read("b", dtype, k, n), write("c", out, m, n))
    return Entry(f"product/{name}_{m}x{n}x{k}", PRODUCTS, name, arguments, {}, _wide, tolerance=k * 1e-7)


def _bfloat_product(v: dict) -> dict:
    return {"c": _from_bfloat(v["a"]).astype(np.float64) @ _from_bfloat(v["b"]).astype(np.float64)}


def _byte_product(v: dict) -> dict:
    return {"c": v["a"].astype(np.int32) @ v["b"].astype(np.int32).T}


def _sparse(v: dict) -> dict:
    products = v["values"].astype(np.float64) * v["x"][v["columns"]]
    starts = v["starts"]
    return {"y": np.array([products[b:e].sum() for b, e in zip(starts, starts[1:], strict=False)])}


def _sparse_entry(name: str) -> Entry:
    arguments = (
        *(read("starts", "int32", 71), read("columns", "int32", NONZEROS), read("values", "float32", NONZEROS)),
        *(read("x", "float32", 90), write("y", "float32", 70)),
    )
    inputs = {"starts": draws.row_starts(NONZEROS), "columns": draws.integers(0, 90)}
    return Entry(f"product/{name}", PRODUCTS, name, arguments, inputs, _sparse)


def _softmax(v: dict) -> dict:
    a = v["a"].astype(np.float64)
    e = np.exp(a - a.max(1, keepdims=True))
    return {"out": e / e.sum(1, keepdims=True)}


def _layer_norm(v: dict) -> dict:
    a = v["a"].astype(np.float64)
    d = a - a.mean(1, keepdims=True)
    return {"out": v["gain"] * d / np.sqrt((d * d).mean(1, keepdims=True) + 1e-5)}


def _laplace(v: dict) -> dict:
    a = np.pad(v["a"].astype(np.float64), 1)
    return {"out": 4 * a[1:-1, 1:-1] - a[:-2, 1:-1] - a[2:, 1:-1] - a[1:-1, :-2] - a[1:-1, 2:]}


def _heat(v: dict) -> dict:
    a = v["a"].astype(np.float64)
    for _ in range(v["steps"]):
        padded = np.concatenate([a[:1], a, a[-1:]])
        a = a / 2 + (padded[:-2] + padded[2:]) / 4
    return {"out": a}


def _each(function):
    """An expectation from a function of one element and its place."""
    return lambda v: {"out": np.array([function(int(x), i) for i, x in enumerate(v["a"])], v["out"].dtype)}


def _nested(x: int, i: int) -> int:
    if x > 0:
        if x % 2:
            return 3 * x + 1 + 7
        return x // 2 + (100 if x % 3 == 0 else 0) + 7
    if x == 0:
        return -1
    x = -x
    while x > 10:
        x -= 10
    return x


def _collatz(x: int, i: int) -> int:
    n, steps = x % 50 + 1, 0
    while n != 1:
        n, steps = (n // 2 if n % 2 == 0 else 3 * n + 1), steps + 1
    return steps


def _break_continue(x: int, i: int) -> int:
    total = 0
    for k in range(40):
        if (k + i) % 5 == 0:
            continue
        if k > x % 40:
            break
        total += k
        for j in range(i % 4):
            total ^= j + k
    return total


def _switch(v: int, i: int) -> int:
    cases = [v + 1, v * v, 17 - v, 17 - v, v << 3, v // 3, -v, bin(v).count("1"), 0]
    return cases[v % 9]


def _goto(x: int, i: int) -> int:
    v, steps = x & 31, 0
    while True:
        if v & 1:
            v, steps = v * 3 + 1, steps + 1
            if steps > 50:
                break
        elif v > 1:
            v, steps = v >> 1, steps + 1
            if v % 7 == 3:
                break
        else:
            break
    return v * 100 + steps


def _early_return(v: dict) -> dict:
    a, out, i = v["a"], v["out"], np.arange(v["a"].size)
    out[a < 0] = -1
    kept = (a >= 0) & (i % 3 != 0)
    out[kept] = 2 * a[kept]
    return {"out": out}


def _loop_with_barriers(v: dict) -> dict:
    blocks = []
    t = np.arange(64)
    for number, value in enumerate(v["a"].reshape(-1, 64)):
        for _ in range(number + 2):
            value = np.where(t % 2 == 0, value + value[(t + 1) % 64], value - value[(t + 7) % 64])
        blocks.append(value)
    return {"out": np.concatenate(blocks)}


def _local_array(v: dict) -> dict:
    counts = np.array([np.bincount(row & 15, minlength=16) for row in v["a"]])
    best = counts.argmax(1)
    return {"out": (best * 1000 + counts[np.arange(len(best)), best]).astype(np.int32)}


def _device_function(v: dict) -> dict:
    def polynomial(x: np.ndarray, degree: np.ndarray) -> np.ndarray:
        total = np.zeros(x.shape)
        for k in range(5):
            total = np.where(k < degree, total * x + (k + 1), total)
        return total

    a = v["a"].astype(np.float64)
    return {"out": polynomial(a, np.arange(a.size) % 5) + 4.25}


def _outlined(v: dict) -> dict:
    a = v["a"].astype(np.float64)
    out = np.stack([a.mean(1), a.max(1)], 1)
    for i in range(0, len(a), 3):
        extra = a.ravel()[: 2 + i % 4]
        out[i, 0] += extra.mean()
        out[i, 1] = max(out[i, 1], extra.max())
    return {"out": out.ravel()}


def _structures(v: dict) -> dict:
    a = v["a"].reshape(-1, 2)
    i = np.arange(len(a))
    third = np.where(a[:, 0] > a[:, 1], i + 2, i + 1).astype(np.float32)
    return {"out": np.stack([a.min(1), a.max(1), third], 1).ravel()}


def _recursion(x: int, i: int) -> int:
    def ackermann(m: int, n: int) -> int:
        if m == 0:
            return n + 1
        return ackermann(m - 1, 1) if n == 0 else ackermann(m - 1, ackermann(m, n - 1))

    return [0, 1, 1, 2, 3, 5, 8, 13][x & 7] * 1000 + ackermann(x >> 3 & 1, x >> 4 & 3)


def _local_vectors(v: dict) -> dict:
    a, index = v["a"].reshape(32, 8, 4).copy(), v["index"]
    for t in range(32):
        for k in range(8):
            j = index[t * 8 + k] & 7
            vector = a[t, j].copy()
            vector[0] += np.float32(k)
            a[t, (j + 1) & 7] = vector
    return {"out": a[np.arange(32), index[:32] & 7].ravel()}


def _short_circuit(v: dict) -> dict:
    a, n = [int(x) for x in v["a"]], v["a"].size
    out = []
    for i in range(n):
        r = int(i > 0 and a[i - 1] > 5 and (i + 1 >= n or a[i + 1] % 2 == 0))
        r += (a[(i + 1) % n] if a[i] > 6 else 20) if a[i] > 3 else a[(i + 2) % n] * 3
        while True:
            r = r * 5 % 97
            if r <= 60:
                break
        out.append(r)
    return {"out": np.array(out, np.int32)}


# Lanes that return from calls of several depths or functions do not meet again, and frames are not in the PTX.
_CALLS = {"recursion", "pointers"}


def _control(name: str, expected, n: int = 64, low: int = 0, high: int = 1000, gap: str = "") -> Entry:
    arguments = (read("a", "int32", n), write("out", "int32", n))
    uncounted = "lanes do not meet behind its calls, whose frames are not in the PTX" if name in _CALLS else ""
    inputs = {"a": draws.integers(low, high)}
    return Entry(f"control/{name}", CONTROL, name, arguments, inputs, expected, gap=gap, uncounted=uncounted)


_EXP_WHY = "expf is within 2 ulp of the exponential on either side; the sums and the quotient add their roundings"

ENTRIES: tuple[Entry, ...] = (
    *(_transpose(name, 70, 45) for name in ("naive", "unpadded", "padded")),
    _transpose("padded_double", 33, 40, "float64"),
    _transpose("padded_half", 40, 66, "float16"),
    *(_transpose("dynamic", 32, 64, pitch=pitch) for pitch in (32, 33, 36)),
    _transpose("swizzled", 64, 64),
    _transpose("quads", 64, 64),
    _product("naive", 20, 37, 19),
    _product("tiled", 40, 37, 21),
    _product("half_in", 20, 33, 24, "float16"),
    _product("register_tile", 64, 64, 64),
    Entry(
        "product/half_product",
        PRODUCTS,
        "half_product",
        (read("a", "float16", 32, 32), read("b", "float16", 32, 32), write("c", "float16", 32, 32)),
        {"a": draws.integers(-3, 4), "b": draws.integers(-3, 4)},
        lambda v: {"c": (v["a"].astype(np.float64) @ v["b"].astype(np.float64)).astype(np.float16)},
    ),
    Entry(
        "product/half_product_rounded",
        PRODUCTS,
        "half_product",
        (read("a", "float16", 32, 32), read("b", "float16", 32, 32), write("c", "float16", 32, 32)),
        {},
        _wide,
        tolerance=0.02,
    ),
    Entry(
        "product/bfloat_product",
        PRODUCTS,
        "bfloat_product",
        (read("a", "uint16", 32, 32), read("b", "uint16", 32, 32), write("c", "float32", 32, 32)),
        {"a": draws.bfloats, "b": draws.bfloats},
        _bfloat_product,
        tolerance=1e-5,
    ),
    _product("double_product", 32, 32, 32, "float64", "float64"),
    Entry(
        "product/byte_product",
        PRODUCTS,
        "byte_product",
        (read("a", "int8", 8, 64), read("b", "int8", 32, 64), write("c", "int32", 8, 32)),
        {},
        _byte_product,
    ),
    Entry(
        "product/matrix_vector",
        PRODUCTS,
        "matrix_vector",
        (read("a", "float32", 21, 77), read("x", "float32", 77), write("y", "float32", 21)),
        {},
        lambda v: {"y": v["a"].astype(np.float64) @ v["x"]},
    ),
    _sparse_entry("sparse_scalar"),
    _sparse_entry("sparse_vector"),
    Entry(
        "rows/online_softmax",
        ROWS,
        "online_softmax",
        (read("a", "float32", 4, 200), write("out", "float32", 4, 200)),
        {},
        _softmax,
        approximate=Approximate(16, _EXP_WHY),
    ),
    Entry(
        "rows/layer_norm",
        ROWS,
        "layer_norm",
        (read("a", "float32", 4, 200), read("gain", "float32", 200), write("out", "float32", 4, 200)),
        {},
        _layer_norm,
    ),
    Entry(
        "rows/bitonic",
        ROWS,
        "bitonic",
        (read("a", "int32", 128), write("out", "int32", 128)),
        {},
        lambda v: {"out": np.sort(v["a"])},
    ),
    *(
        Entry(
            f"rows/{name}",
            ROWS,
            name,
            (read("a", "float32", 21, 45), write("out", "float32", 21, 45)),
            {},
            _laplace,
        )
        for name in ("stencil_plain", "stencil_tiled")
    ),
    Entry(
        "rows/stencil_line",
        ROWS,
        "stencil_line",
        (read("a", "float32", 200), write("out", "float32", 200)),
        {},
        lambda v: {"out": np.convolve(v["a"].astype(np.float64), np.ones(7), "same")},
    ),
    Entry(
        "rows/heat",
        ROWS,
        "heat",
        (read("a", "float32", 150), write("out", "float32", 150), scalar("steps", 5)),
        {},
        _heat,
    ),
    _control("nested", _each(_nested), 128, -100, 100),
    _control("early_return", _early_return, 100, -50, 50),
    _control("collatz", _each(_collatz)),
    _control("break_continue", _each(_break_continue)),
    _control("loop_with_barriers", _loop_with_barriers, 192),
    _control("switch_case", _each(_switch), 128),
    _control("recursion", _each(_recursion), 32, 0, 64),
    _control("pointers", _each(lambda x, i: (x + i, x * i, x - i)[x % 3])),
    _control("goto_loop", _each(_goto)),
    _control("short_circuit", _short_circuit, 64, 0, 10),
    Entry(
        "control/exit_before_barrier",
        CONTROL,
        "exit_before_barrier",
        (read("a", "int32", 64), write("out", "int32", 40)),
        {},
        lambda v: {"out": v["a"][39::-1]},
    ),
    Entry(
        "control/lock_in_a_warp",
        CONTROL,
        "lock_in_a_warp",
        (read("a", "int32", 32), update("lock", "int32", 1), update("total", "int32", 1)),
        {"lock": draws.fixed([0])},
        lambda v: {"lock": v["lock"], "total": v["total"] + v["a"].sum(dtype=np.int32)},
    ),
    Entry(
        "control/ticket",
        CONTROL,
        "ticket",
        (read("a", "int32", 4), update("turn", "int32", 1), write("out", "int32", 4)),
        {"turn": draws.fixed([0])},
        lambda v: {"turn": v["turn"] + 4, "out": v["a"][::-1]},
        uncounted="how often its warps look depends on their order",
    ),
    Entry(
        "control/local_array",
        CONTROL,
        "local_array",
        (read("a", "int32", 40, 30), write("out", "int32", 40)),
        {},
        _local_array,
    ),
    Entry(
        "control/device_function",
        CONTROL,
        "device_function",
        (read("a", "float32", 64), write("out", "float32", 64)),
        {},
        _device_function,
    ),
    Entry(
        "control/outlined",
        CONTROL,
        "outlined",
        (read("a", "float32", 40, 11), write("out", "float32", 80)),
        {},
        _outlined,
    ),
    Entry(
        "control/structures",
        CONTROL,
        "structures",
        (read("a", "float32", 64), write("out", "float32", 96)),
        {},
        _structures,
    ),
    Entry(
        "control/local_vectors",
        CONTROL,
        "local_vectors",
        (read("a", "float32", 1024), read("index", "int32", 256), write("out", "float32", 128)),
        {},
        _local_vectors,
    ),
)
