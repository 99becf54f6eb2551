"""Entries of kernels/unseen/*.py: what the rules of counting by machine code were not made from."""

from __future__ import annotations

import zlib
from functools import partial

import numpy as np

from corpus.emulator import draws
from corpus.emulator.entry import Approximate, Entry, read, update, write

_BOTH = Approximate(8, "approximate functions", 1e-5)


def _entry(file: str, name: str, expected, *arguments, tolerance=0.0, approximate=None, **inputs) -> Entry:
    path, function = f"kernels/unseen/{file}.py", name
    label = f"unseen/numba_{name}" if file == "numba" else f"unseen/{name}"
    return Entry(label, path, function, arguments, inputs, expected, tolerance, approximate)


_signals = partial(_entry, "signals")
_order = partial(_entry, "algorithms")
_algebra = partial(_entry, "algebra")
_numba = partial(_entry, "numba", tolerance=1e-5)


def _complex(a: np.ndarray) -> np.ndarray:
    pairs = a.astype(np.float64).reshape(*a.shape[:-1], -1, 2)
    return pairs[..., 0] + 1j * pairs[..., 1]


def _pairs(z: np.ndarray) -> np.ndarray:
    return np.stack([z.real, z.imag], -1).reshape(*z.shape[:-1], -1)


def _walsh(v: dict) -> dict:
    x = v["a"].astype(np.float64)
    step = 1
    while step < 256:
        y = x.reshape(len(x), -1, 2, step)
        x = np.stack([y[:, :, 0] + y[:, :, 1], y[:, :, 0] - y[:, :, 1]], 2).reshape(len(x), 256)
        step *= 2
    return {"out": x}


def _stencil_5(v: dict) -> dict:
    a = np.pad(v["a"].astype(np.float64), 1)
    c = a[1:-1, 1:-1]
    return {"out": c + 0.1 * (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:] - 4 * c)}


def _stencil_shared(v: dict) -> dict:
    a = np.pad(v["a"].astype(np.float64), 4)
    return {"out": sum(a[k : k + v["a"].size] * (k + 1) for k in range(9))}


def _stencil_27(v: dict) -> dict:
    a = v["a"].astype(np.float64).reshape(3, 10, 34)
    return {"out": sum(a[z, y : y + 8, x : x + 32] for z in range(3) for y in range(3) for x in range(3)) / 27}


def _sparse_rows(v: dict) -> dict:
    products = v["values"].astype(np.float64) * v["x"][v["columns"]]
    return {"y": np.array([products[b:e].sum() for b, e in zip(v["starts"], v["starts"][1:], strict=False)])}


def _banded(lower: np.ndarray, main: np.ndarray, upper: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solutions of tridiagonal systems, each a row."""
    result = np.empty(right.shape)
    for row in range(len(right)):
        full = np.diag(main[row].astype(np.float64)) + np.diag(lower[row, 1:].astype(np.float64), -1)
        full += np.diag(upper[row, :-1].astype(np.float64), 1)
        result[row] = np.linalg.solve(full, right[row].astype(np.float64))
    return result


def _columns(v: dict) -> dict:
    return {"x": _banded(*(v[name].T for name in ("lower", "main", "upper", "right"))).T}


def _rows(v: dict) -> dict:
    return {"x": _banded(*(v[name] for name in ("lower", "main", "upper", "right")))}


def _lu(v: dict) -> dict:
    a = v["a"].astype(np.float64).copy()
    for m in a:
        for k in range(7):
            m[k + 1 :, k] /= m[k, k]
            m[k + 1 :, k + 1 :] -= np.outer(m[k + 1 :, k], m[k, k + 1 :])
    return {"out": a}


def _dominant(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Matrices with a heavy diagonal."""
    return (generator.uniform(-1, 1, shape) + 10 * np.eye(shape[-1])).astype(dtype)


def _positive(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    x = generator.standard_normal(shape)
    return (x @ np.swapaxes(x, 1, 2) + np.eye(shape[-1])).astype(dtype)


def _subsequence(v: dict) -> dict:
    table = np.zeros((65, 65), np.int32)
    for i in range(64):
        for j in range(64):
            same = v["a"][i] == v["b"][j]
            table[i + 1, j + 1] = table[i, j] + 1 if same else max(table[i, j + 1], table[i + 1, j])
    return {"out": table[64, 64:]}


def _knapsack(v: dict) -> dict:
    best = np.zeros(128, np.int32)
    for weight, worth in zip(v["weights"], v["worths"], strict=True):
        best[weight:] = np.maximum(best[weight:], best[: 128 - weight] + worth)
    return {"out": best}


def _shortest(v: dict) -> dict:
    d = v["a"].copy()
    for k in range(16):
        d = np.minimum(d, d[:, k : k + 1] + d[k : k + 1])
    return {"out": d}


def _forces(v: dict) -> dict:
    b = v["bodies"].astype(np.float64)
    d = b[None, :, :3] - b[:, None, :3]
    r = 1 / np.sqrt((d * d).sum(-1) + 0.01)
    return {"out": ((b[None, :, 3] * r**3)[..., None] * d).sum(1)}


def _mandelbrot(v: dict) -> dict:
    i = np.arange(v["out"].size)
    cx, cy = -2 + 0.0625 * (i % 48), -1 + 0.125 * (i // 48)
    x, y, n = np.zeros(i.size), np.zeros(i.size), np.zeros(i.size, np.int32)
    for _ in range(50):
        inside = x * x + y * y < 4
        x, y, n = np.where(inside, x * x - y * y + cx, x), np.where(inside, 2 * x * y + cy, y), n + inside
    return {"out": n.astype(np.int64)}


def _xorshift(v: dict) -> dict:
    x, total = v["state"].copy(), np.zeros(v["state"].size, np.uint32)
    for _ in range(10):
        x ^= x << np.uint32(13)
        x ^= x >> np.uint32(17)
        x ^= x << np.uint32(5)
        total += x >> np.uint32(16)
    return {"state": x, "out": total}


def _philox(v: dict) -> dict:
    c = [v["a"].astype(np.uint64), *(np.full(v["a"].size, n, np.uint64) for n in (1, 2, 3))]
    k0, k1, low = 0x1234567, 0x89ABCDE, np.uint64(0xFFFFFFFF)
    for _ in range(10):
        p, q = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        shift = np.uint64(32)
        c = [q >> shift ^ c[1] ^ np.uint64(k0), q & low, p >> shift ^ c[3] ^ np.uint64(k1), p & low]
        k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
    return {"out": np.stack(c, -1).astype(np.uint32)}


def _convolve_rows(v: dict) -> dict:
    a = np.pad(v["a"].astype(np.float64), ((0, 0), (0, 16)))
    return {"out": sum(a[:, k : k + 128] * v["taps"][k] for k in range(16))}


def _convolve_2d(v: dict) -> dict:
    a, k = v["a"].astype(np.float64), v["taps"].reshape(3, 3)
    return {"out": sum(a[y : y + 16, x : x + 16] * k[y, x] for y in range(3) for x in range(3))}


def _structs(v: dict) -> dict:
    a = v["a"]
    wide = a.astype(np.float64)
    kind = np.ascontiguousarray(a[:, 4]).view(np.int32) & 255
    return {"x": wide[:, 0] + wide[:, 1] * wide[:, 2], "mass": a[:, 3] * np.float32(2), "kind": kind}


def _structs_shared(v: dict) -> dict:
    a, t = v["a"].astype(np.float64)[::-1], np.arange(64)[::-1]
    return {"out": a.sum(1) * (1 + t) + t}


def _half_axpy(v: dict) -> dict:
    return {"out": v["a"].astype(np.float64) * np.array([1.5, -0.5]) + v["b"]}


def _polynomial(v: dict) -> dict:
    y = np.ones(v["a"].shape, np.longdouble)
    for k in range(10, 0, -1):
        y = y * v["a"].astype(np.longdouble) / k + 1
    return {"out": y}


def _softmax(v: dict) -> dict:
    e = np.exp(v["a"].astype(np.float64) - v["a"].max(1, keepdims=True))
    return {"out": e / e.sum(1, keepdims=True)}


def _gelu(v: dict) -> dict:
    x = v["a"].astype(np.float64)
    return {"out": 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))}


def _gray(v: dict) -> dict:
    a = v["a"]
    g = a ^ (a >> np.uint32(1))
    text = [f"{x:032b}" for x in g.tolist()]
    extra = [s.count("1") + (len(s) - len(s.lstrip("0"))) + int(s[::-1], 2) // 2**24 for s in text]
    return {"out": a + np.array(extra, np.uint32)}


def _bit_transpose(v: dict) -> dict:
    rows = v["a"].reshape(-1, 32)
    bits = rows[:, :, None] >> np.arange(32, dtype=np.uint32) & np.uint32(1)
    turned = (bits.transpose(0, 2, 1).astype(np.uint64) << np.arange(32, dtype=np.uint64)).sum(-1)
    return {"out": turned.astype(np.uint32).reshape(-1)}


def _crc(v: dict) -> dict:
    return {"out": np.array([zlib.crc32(bytes(row)) for row in v["a"].astype(np.uint8)], np.uint32)}


def _primes(v: dict) -> dict:
    out = v["out"].copy()
    out[2:] = [all(i % d for d in range(2, int(i**0.5) + 1)) for i in range(2, out.size)]
    return {"out": out}


def _collatz(v: dict) -> dict:
    steps = []
    for i in range(1, v["out"].size + 1):
        n, x = 0, i
        while x != 1:
            x, n = (3 * x + 1 if x % 2 else x // 2), n + 1
        steps.append(n)
    return {"out": np.array(steps, np.int32)}


def _nearest(points: np.ndarray, queries: np.ndarray) -> np.ndarray:
    d = ((queries[:, None].astype(np.float64) - points[None]) ** 2).sum(-1)
    return d.argmin(1)


def _k_means(v: dict) -> dict:
    which = _nearest(v["centres"], v["points"])
    sums, counts = np.zeros((8, 2)), np.zeros(8, np.int32)
    np.add.at(sums, which, v["points"].astype(np.float64))
    np.add.at(counts, which, 1)
    return {"sums": sums, "counts": counts}


def _bilinear(v: dict) -> dict:
    image = v["image"].astype(np.float64)
    y, x = np.mgrid[0:32, 0:32] * 0.5
    j, i = y.astype(int), x.astype(int)
    s, t = x - i, y - j
    top = (1 - s) * image[j, i] + s * image[j, i + 1]
    return {"out": (1 - t) * top + t * ((1 - s) * image[j + 1, i] + s * image[j + 1, i + 1])}


def _median(v: dict) -> dict:
    a = v["a"]
    return {"out": np.median([np.r_[a[:1], a[:-1]], a, np.r_[a[1:], a[-1:]]], axis=0).astype(np.float32)}


def _jacobi(v: dict) -> dict:
    a, x = v["a"].astype(np.float64), np.zeros(32)
    diagonal = np.diag(a)
    for _ in range(5):
        x = (v["b"] - (a - np.diag(diagonal)) @ x) / diagonal
    return {"x": x}


def _power(v: dict) -> dict:
    x = np.ones(32)
    for _ in range(4):
        x = v["a"].astype(np.float64).T @ x
        x /= np.abs(x).max()
    return {"out": x}


def _most_frequent(v: dict) -> dict:
    return {"out": np.array([np.bincount(row & 15, minlength=16).argmax() for row in v["a"]], np.int32)}


def _registers(v: dict) -> dict:
    x = list(v["a"].astype(np.float64))
    for r in range(1, 4):
        for k in range(48):
            x[k] = x[k] + x[(k * 5 + r) % 48] * 0.5
    return {"out": sum(y * (1 if k % 3 == 0 else -1) for k, y in enumerate(x))}


def _life(v: dict) -> dict:
    a = v["a"]
    alive = sum(np.roll(a, (y, x), (0, 1)) for y in (-1, 0, 1) for x in (-1, 0, 1)) - a
    return {"out": ((alive == 3) | (alive == 2) & (a == 1)).astype(np.int32)}


def _compact(v: dict) -> dict:
    kept = v["a"][v["a"] % 3 == 0]
    out = v["out"].copy()
    out[: kept.size] = kept
    return {"out": out, "count": np.array([kept.size], np.int32)}


_BANDS = (read("lower", "float32", 16, 100), read("main", "float32", 16, 100), read("upper", "float32", 16, 100),
          read("right", "float32", 16, 100))  # fmt: skip
_LONG = (read("lower", "float32", 2, 128), read("main", "float32", 2, 128), read("upper", "float32", 2, 128),
         read("right", "float32", 2, 128))  # fmt: skip
_DIAGONALS = {"lower": draws.uniform(-1, 1), "upper": draws.uniform(-1, 1), "main": draws.uniform(3, 4)}

ENTRIES: tuple[Entry, ...] = (
    _signals("fft_64", lambda v: {"out": _pairs(np.fft.fft(_complex(v["a"])))}, read("a", "float32", 8, 128),
          write("out", "float32", 8, 128), tolerance=1e-5, approximate=_BOTH),
    _signals("dft_4", lambda v: {"out": _pairs(np.fft.fft(_complex(v["a"])))}, read("a", "float32", 128, 8),
          write("out", "float32", 128, 8), tolerance=1e-5),
    _signals("walsh_hadamard", _walsh, read("a", "float32", 2, 256), write("out", "float32", 2, 256), tolerance=1e-5),
    _signals("stencil_5", _stencil_5, read("a", "float32", 37, 70), write("out", "float32", 37, 70)),
    _signals("stencil_shared", _stencil_shared, read("a", "float32", 300), write("out", "float32", 300)),
    _signals("stencil_27", _stencil_27, read("a", "float32", 1020), write("out", "float32", 8, 32)),
    _order("bitonic_256", lambda v: {"out": np.sort(v["a"], 1)}, read("a", "int32", 2, 256),
          write("out", "int32", 2, 256)),
    _order("odd_even", lambda v: {"out": np.sort(v["a"], 1)}, read("a", "uint16", 4, 64),
           write("out", "uint16", 4, 64)),
    _order("rank_sort", lambda v: {"out": np.sort(v["a"])}, read("a", "float32", 128), write("out", "float32", 128)),
    _order("merge_paths", lambda v: {"out": np.sort(np.r_[v["a"], v["b"]])}, read("a", "int32", 100),
          read("b", "int32", 130), write("out", "int32", 230), a=draws.fixed(np.arange(100) * 3),
          b=draws.fixed(np.arange(130) * 2)),
    _order("scan_hillis", lambda v: {"out": np.cumsum(v["a"], 1, dtype=np.int32)}, read("a", "int32", 2, 256),
          write("out", "int32", 2, 256)),
    _order("scan_blelloch", lambda v: {"out": np.r_[0, np.cumsum(v["a"].astype(np.float64))[:-1]]},
          read("a", "float32", 256), write("out", "float32", 256), tolerance=1e-5),
    _order("scan_warps", lambda v: {"out": np.cumsum(v["a"], dtype=np.int32)}, read("a", "int32", 256),
          write("out", "int32", 256)),
    _algebra("spmv_csr", _sparse_rows, read("starts", "int32", 101), read("columns", "int32", 400),
          read("values", "float32", 400), read("x", "float32", 90), write("y", "float32", 100),
          starts=draws.row_starts(400), columns=draws.integers(0, 90)),
    _algebra("spmv_ell", lambda v: {"y": (v["values"].astype(np.float64) * v["x"][v["columns"]]).sum(0)},
          read("columns", "int32", 8, 100), read("values", "float32", 8, 100), read("x", "float32", 90),
          write("y", "float32", 100), columns=draws.integers(0, 90)),
    _order("histogram_bytes", lambda v: {"out": np.bincount(v["a"], minlength=256).astype(np.uint32)},
          read("a", "uint8", 2000), update("out", "uint32", 256), out=draws.zeros, a=draws.integers(0, 40)),
    _algebra("thomas", _columns, *_BANDS, write("x", "float32", 16, 100), tolerance=1e-5, **_DIAGONALS),
    _algebra("cyclic_reduction", _rows, *_LONG, write("x", "float32", 2, 128), tolerance=1e-5, **_DIAGONALS),
    _algebra("lu_8", _lu, read("a", "float32", 4, 8, 8), write("out", "float32", 4, 8, 8), tolerance=1e-5, a=_dominant),
    _algebra("cholesky_4", lambda v: {"out": np.linalg.cholesky(v["a"]).astype(np.longdouble)},
          read("a", "float64", 50, 4, 4), write("out", "float64", 50, 4, 4), tolerance=1e-12, a=_positive),
    _algebra("inverse_3", lambda v: {"out": np.linalg.inv(v["a"].astype(np.float64))}, read("a", "float32", 100, 3, 3),
          write("out", "float32", 100, 3, 3), tolerance=1e-5, a=_dominant),
    _order("find_word", lambda v: {"found": np.array([bytes(v["text"][i : i + 4]) == b"abac" for i in range(500)],
                                                    np.int32)},
          read("text", "uint8", 500), write("found", "int32", 500), text=draws.integers(97, 100)),
    _order("common_subsequence", _subsequence, read("a", "int32", 64), read("b", "int32", 64), write("out", "int32", 1),
          a=draws.integers(0, 6), b=draws.integers(0, 6)),
    _order("knapsack", _knapsack, read("weights", "int32", 20), read("worths", "int32", 20), write("out", "int32", 128),
          weights=draws.integers(1, 40), worths=draws.integers(1, 100)),
    _order("floyd_warshall", _shortest, read("a", "int32", 16, 16), write("out", "int32", 16, 16),
          a=draws.integers(1, 1000)),
    _algebra("n_body", _forces, read("bodies", "float32", 128, 4), write("out", "float32", 128, 3), tolerance=1e-5,
          approximate=_BOTH),
    _order("mandelbrot", _mandelbrot, write("out", "int32", 768)),
    _order("xorshift", _xorshift, update("state", "uint32", 128), write("out", "uint32", 128)),
    _order("philox", _philox, read("a", "uint32", 128), write("out", "uint32", 128, 4)),
    _signals("convolve_rows", _convolve_rows, read("a", "float32", 4, 130), read("taps", "float32", 16),
          write("out", "float32", 4, 128), tolerance=1e-5),
    _signals("convolve_2d", _convolve_2d, read("a", "float32", 18, 18), read("taps", "float32", 9),
          write("out", "float32", 16, 16), tolerance=1e-5),
    _algebra("matmul_micro", lambda v: {"c": v["a"].astype(np.float64) @ v["b"].astype(np.float64)},
          read("a", "float32", 64, 64), read("b", "float32", 64, 64), write("c", "float32", 64, 64), tolerance=1e-5),
    _algebra("structs_to_arrays", _structs, read("a", "float32", 128, 6), write("x", "float32", 128),
          write("mass", "float32", 128), write("kind", "int32", 128)),
    _algebra("structs_shared", _structs_shared, read("a", "float32", 64, 3), write("out", "float32", 64)),
    _algebra("transpose_8", lambda v: {"out": v["a"].T}, read("a", "float32", 32, 32), write("out", "float32", 32, 32)),
    _signals("half2_axpy", _half_axpy, read("a", "float16", 128, 2), read("b", "float16", 128, 2),
          write("out", "float16", 128, 2)),
    _signals("half_norm", lambda v: {"out": np.sqrt((v["a"].astype(np.float64) ** 2).sum(1))},
          read("a", "float16", 3, 128), write("out", "float32", 3)),
    _signals("double_polynomial", _polynomial, read("a", "float64", 128), write("out", "float64", 128)),
    _signals("double_dot", lambda v: {"out": (v["a"].astype(np.longdouble) * v["b"]).sum(1)},
          read("a", "float64", 3, 128), read("b", "float64", 3, 128), write("out", "float64", 3), tolerance=1e-13),
    _signals("kahan", lambda v: {"out": v["a"].astype(np.float64).sum(0)}, read("a", "float32", 20, 128),
          write("out", "float32", 128)),
    _signals("row_softmax", _softmax, read("a", "float32", 8, 128), write("out", "float32", 8, 128), tolerance=1e-5,
          approximate=_BOTH),
    _signals("gelu_tanh", _gelu, read("a", "float32", 256), write("out", "float32", 256), tolerance=1e-5,
          approximate=_BOTH),
    _signals("angles", lambda v: {"out": np.arctan2(*v["a"].astype(np.float64).T[::-1]) + np.hypot(*v["a"].T)},
          read("a", "float32", 128, 2), write("out", "float32", 128), tolerance=1e-5, approximate=_BOTH),
    _order("compact", _compact, read("a", "int32", 128), write("out", "int32", 128), update("count", "int32", 1),
          count=draws.zeros, a=draws.integers(0, 1000)),
    _order("gray_codes", _gray, read("a", "uint32", 256), write("out", "uint32", 256)),
    _order("bit_transpose", _bit_transpose, read("a", "uint32", 128), write("out", "uint32", 128)),
    _order("crc_32", _crc, read("a", "uint8", 256, 12), write("out", "uint32", 256)),
    _order("prime_sieve", _primes, write("out", "uint8", 258)),
    _order("collatz", _collatz, write("out", "int32", 128)),
    _algebra("k_nearest", lambda v: {"out": _nearest(v["points"], v["queries"])}, read("points", "float32", 50, 2),
          read("queries", "float32", 128, 2), write("out", "int32", 128)),
    _algebra("k_means", _k_means, read("points", "float32", 256, 2), read("centres", "float32", 8, 2),
          update("sums", "float32", 8, 2), update("counts", "int32", 8), sums=draws.zeros, counts=draws.zeros,
          tolerance=1e-5, approximate=Approximate(64, "atomic sums depend on their order", 1e-4)),
    _order("atomic_minimum", lambda v: {"out": v["a"].min(keepdims=True).reshape(1)}, read("a", "int32", 3, 128),
          update("out", "int32", 1), out=draws.fixed([2**31 - 1])),
    _signals("bilinear", _bilinear, read("image", "float32", 17, 17), write("out", "float32", 32, 32)),
    _signals("median_3", _median, read("a", "float32", 150), write("out", "float32", 150)),
    _algebra("jacobi", _jacobi, read("a", "float32", 32, 32), read("b", "float32", 32), write("x", "float32", 32),
          tolerance=1e-5, a=_dominant),
    _algebra("power_iteration", _power, read("a", "float32", 32, 32), write("out", "float32", 32), tolerance=1e-5,
          a=draws.uniform(0, 1)),
    _order("local_window", _most_frequent, read("a", "int32", 64, 20), write("out", "int32", 64)),
    _algebra("many_registers", _registers, read("a", "float32", 48, 64), write("out", "float32", 64), tolerance=1e-5),
    _numba("saxpy_pairs", lambda v: {"out": 2.5 * v["a"].astype(np.float64) + v["b"]}, read("a", "float32", 500),
           read("b", "float32", 500), write("out", "float32", 500)),
    _numba("tiled_product", lambda v: {"c": v["a"].astype(np.float64) @ v["b"].astype(np.float64)},
           read("a", "float32", 32, 32), read("b", "float32", 32, 32), write("c", "float32", 32, 32)),
    _numba("moving_average", lambda v: {"out": np.convolve(v["a"].astype(np.float64), np.ones(8) / 8, "valid")},
           read("a", "float32", 256), write("out", "float32", 249)),
    _numba("variance", lambda v: {"out": v["a"].astype(np.longdouble).var(1)}, read("a", "float32", 3, 128),
           write("out", "float64", 3)),
    _numba("horner", lambda v: {"out": np.polyval([0.5, -1.5, 2, -0.25, 1], v["a"].astype(np.float64))},
           read("a", "float32", 256), write("out", "float32", 256)),
    _numba("game_of_life", _life, read("a", "int32", 20, 30),
           write("out", "int32", 20, 30), a=draws.integers(0, 2)),
    _numba("shell_sort", lambda v: {"out": np.sort(v["a"], 1)}, read("a", "int32", 64, 16),
           write("out", "int32", 64, 16)),
    _numba("distances", lambda v: {"out": np.sqrt(((v["points"][:, None].astype(np.float64) - v["points"]) ** 2)
                                                  .sum(-1))},
           read("points", "float32", 40, 2), write("out", "float32", 40, 40)),
    _numba("suffix_minimum", lambda v: {"out": np.minimum.accumulate(v["a"][:, ::-1], 1)[:, ::-1]},
           read("a", "int32", 2, 128), write("out", "int32", 2, 128)),
)  # fmt: skip
