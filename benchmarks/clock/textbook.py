"""The cases of kernels.py: sizes, inputs, and what NumPy says that each computes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import erf, sqrt
from pathlib import Path
from typing import Any

import numpy as np

from corpus.emulator import draws
from corpus.emulator.draws import Draw
from corpus.emulator.entry import Entry, read, scalar, update, write
from warplab.plan.model import ArrayArgument, ScalarArgument

FILE = Path(__file__).with_name("kernels.py")
KI, MI = 1 << 10, 1 << 20
U32, F32 = "uint32", "float32"
CHECKED = 4096  # elements, where NumPy has no function for all of them


@dataclass(frozen=True)
class Textbook(Entry):
    """A case; `name` is the function and its size."""

    @property
    def path(self) -> Path:
        """The file with the kernels."""
        return FILE


def _case(
    function: str,
    size: str,
    *arguments: ArrayArgument | ScalarArgument,
    expected: Callable[[dict], dict[str, np.ndarray]],
    tolerance: float = 2e-5,
    **inputs: Draw,
) -> Textbook:
    return Textbook(
        f"{function}/{size}", FILE.name, function, arguments, inputs, expected=expected, tolerance=tolerance
    )


def _label(n: int) -> str:
    return f"{n // MI}_mi" if n % MI == 0 else f"{n // KI}_ki"


def _wide(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float64)


def _saxpy(n: int) -> Textbook:
    arrays = read("x", F32, n), update("y", F32, n), scalar("a", 0.5)
    return _case("saxpy", _label(n), *arrays, expected=lambda v: {"y": 0.5 * _wide(v["x"]) + v["y"]})


def _add(n: int) -> Textbook:
    arrays = read("a", F32, n), read("b", F32, n), write("out", F32, n)
    return _case("add_loop", _label(n), *arrays, expected=lambda v: {"out": _wide(v["a"]) + v["b"]})


def _scale(n: int) -> Textbook:
    arrays = read("a", F32, n), write("out", F32, n)
    return _case("scale4", _label(n), *arrays, expected=lambda v: {"out": 2 * v["a"]})


def _gray(n: int) -> Textbook:
    def expected(v: dict) -> dict[str, np.ndarray]:
        return {"out": ((v["rgb"].astype(np.int64) @ [77, 150, 29]) >> 8).astype(np.uint8)}

    return _case("gray", _label(n), read("rgb", "uint8", n, 3), write("out", "uint8", n), expected=expected)


def _sum(function: str, n: int) -> Textbook:
    arrays = read("a", F32, n), update("out", F32, 1)
    draw: dict[str, Any] = {"a": draws.uniform(0, 1), "out": draws.zeros}
    return _case(function, _label(n), *arrays, expected=lambda v: {"out": _wide(v["a"]).sum(keepdims=True)}, **draw)


def _dot(n: int) -> Textbook:
    arrays = read("a", F32, n), read("b", F32, n), update("out", F32, 1)
    draw: dict[str, Any] = {"a": draws.uniform(0, 1), "b": draws.uniform(0, 1), "out": draws.zeros}
    return _case("dot", _label(n), *arrays, expected=lambda v: {"out": np.array([_wide(v["a"]) @ v["b"]])}, **draw)


def _count(n: int) -> Textbook:
    def expected(v: dict) -> dict[str, np.ndarray]:
        return {"out": np.array([(v["a"] % 3 == 0).sum()], np.uint32)}

    return _case("count_all", _label(n), read("a", U32, n), update("out", U32, 1), expected=expected, out=draws.zeros)


def _turned(function: str, n: int) -> Textbook:
    return _case(function, str(n), read("a", F32, n, n), write("out", F32, n, n), expected=lambda v: {"out": v["a"].T})


def _matvec(function: str, rows: int, columns: int) -> Textbook:
    arrays = read("a", F32, rows, columns), read("x", F32, columns), write("out", F32, rows)
    return _case(function, f"{rows}x{columns}", *arrays, expected=lambda v: {"out": _wide(v["a"]) @ v["x"]})


def _matmul(function: str, n: int) -> Textbook:
    arrays = read("a", F32, n, n), read("b", F32, n, n), write("c", F32, n, n)
    return _case(function, str(n), *arrays, expected=lambda v: {"c": _wide(v["a"]) @ _wide(v["b"])})


def _rows(
    function: str, rows: int, columns: int, of: Callable[[np.ndarray], np.ndarray], tolerance: float = 2e-5
) -> Textbook:
    arrays = read("a", F32, rows, columns), write("out", F32, rows, columns)
    size = f"{rows}x{columns}"
    return _case(function, size, *arrays, expected=lambda v: {"out": of(_wide(v["a"]))}, tolerance=tolerance)


def _softmax(a: np.ndarray) -> np.ndarray:
    powers = np.exp(a - a.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def _layer_norm(a: np.ndarray) -> np.ndarray:
    return (a - a.mean(axis=1, keepdims=True)) / np.sqrt(a.var(axis=1, keepdims=True) + 1e-5)


def _rms_norm(a: np.ndarray) -> np.ndarray:
    return a / np.sqrt((a * a).mean(axis=1, keepdims=True) + 1e-5)


def _bins(function: str, n: int) -> Textbook:
    def expected(v: dict) -> dict[str, np.ndarray]:
        return {"counts": np.bincount(v["a"] & 255, minlength=256).astype(np.uint32)}

    arrays = read("a", U32, n), update("counts", U32, 256)
    return _case(function, _label(n), *arrays, expected=expected, counts=draws.zeros)


def _scan(n: int) -> Textbook:
    def expected(v: dict) -> dict[str, np.ndarray]:
        return {"out": v["a"].reshape(-1, 512).cumsum(axis=1, dtype=np.uint32).reshape(-1)}

    return _case("scan_blocks", _label(n), read("a", U32, n), write("out", U32, n), expected=expected)


def _neighbours(a: np.ndarray) -> np.ndarray:
    total = a.copy()
    for axis in range(a.ndim):
        total += np.roll(a, 1, axis) + np.roll(a, -1, axis)
    return total[(slice(1, -1),) * a.ndim]


def _stencil(function: str, *shape: int) -> Textbook:
    def expected(v: dict) -> dict[str, np.ndarray]:
        out = np.zeros(shape)
        out[(slice(1, -1),) * len(shape)] = _neighbours(_wide(v["a"]))
        return {"out": out}

    arrays = read("a", F32, *shape), update("out", F32, *shape)
    return _case(function, str(shape[0]), *arrays, expected=expected, out=draws.zeros)


def _windows(a: np.ndarray, w: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    out = np.zeros(shape)
    for at in np.ndindex(w.shape):
        out += w[at] * a[tuple(slice(i, i + n) for i, n in zip(at, shape, strict=True))]
    return out


def _convolve(n: int) -> Textbook:
    arrays = read("a", F32, n + 32), read("w", F32, 32), write("out", F32, n)
    return _case(
        "convolve", _label(n), *arrays, expected=lambda v: {"out": _windows(_wide(v["a"]), _wide(v["w"]), (n,))}
    )


def _filter(n: int) -> Textbook:
    arrays = read("a", F32, n + 4, n + 4), read("w", F32, 5, 5), write("out", F32, n, n)
    return _case("filter", str(n), *arrays, expected=lambda v: {"out": _windows(_wide(v["a"]), _wide(v["w"]), (n, n))})


def _pool(n: int) -> Textbook:
    arrays = read("a", F32, 2 * n, 2 * n), write("out", F32, n, n)
    return _case("pool", str(n), *arrays, expected=lambda v: {"out": v["a"].reshape(n, 2, n, 2).max(axis=(1, 3))})


def _bodies(n: int) -> Textbook:
    def expected(v: dict) -> dict[str, np.ndarray]:
        at = _wide(v["at"])
        out = np.zeros((n, 4))
        for first in range(0, n, 256):
            way = at[None, :, :3] - at[first : first + 256, None, :3]
            weight = at[None, :, 3] * ((way**2).sum(axis=2) + 0.01) ** -1.5
            out[first : first + 256, :3] = (way * weight[:, :, None]).sum(axis=1)
        return {"out": out}

    return _case("bodies", str(n), read("at", F32, n, 4), write("out", F32, n, 4), expected=expected, tolerance=1e-4)


def _options(n: int) -> Textbook:
    def expected(v: dict) -> dict[str, np.ndarray]:
        price, strike = _wide(v["price"][:CHECKED]), _wide(v["strike"][:CHECKED])
        first = (np.log(price / strike) + 0.065) / 0.3
        near, far = (0.5 + 0.5 * np.array([erf(x / sqrt(2)) for x in d]) for d in (first, first - 0.3))
        return {"call": price * near - strike * np.exp(-0.02) * far}

    arrays = read("price", F32, n), read("strike", F32, n), write("call", F32, n)
    drawn = {"price": draws.uniform(5, 30), "strike": draws.uniform(5, 30)}
    return _case("options", _label(n), *arrays, expected=expected, tolerance=1e-4, **drawn)


def _mandelbrot(n: int) -> Textbook:
    # Which pixels leave the disk a step later depends on rounding: nothing is expected of them.
    return _case("mandelbrot", str(n), write("out", "int32", n, n), expected=lambda v: {})


def _sort(n: int) -> Textbook:
    return _case(
        "sort_blocks", _label(n), update("a", U32, n),
        expected=lambda v: {"a": np.sort(v["a"].reshape(-1, 1024), axis=1).reshape(-1)},
    )  # fmt: skip


def _pick(n: int) -> Textbook:
    arrays = read("a", F32, n), read("index", "int32", n), write("out", F32, n)
    return _case("pick", _label(n), *arrays, expected=lambda v: {"out": v["a"][v["index"]]}, index=draws.integers(0, n))


def _permutation(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return generator.permutation(shape[0])


def _put(n: int) -> Textbook:
    def expected(v: dict) -> dict[str, np.ndarray]:
        out = np.empty(n, np.float32)
        out[v["index"]] = v["a"]
        return {"out": out}

    arrays = read("a", F32, n), read("index", "int32", n), write("out", F32, n)
    return _case("put", _label(n), *arrays, expected=expected, index=_permutation)


def _sparse(rows: int, each: int) -> Textbook:
    def expected(v: dict) -> dict[str, np.ndarray]:
        return {"out": (_wide(v["values"]) * v["x"][v["columns"]]).sum(axis=1)}

    arrays = read("columns", "int32", rows, each), read("values", F32, rows, each), read("x", F32, rows)
    draw = draws.integers(0, rows)
    return _case("sparse_thread", f"{rows}x{each}", *arrays, write("out", F32, rows), expected=expected, columns=draw)


def _embed(tokens: int, width: int) -> Textbook:
    arrays = read("table", F32, 16384, width), read("token", "int32", tokens), write("out", F32, tokens, width)
    draw = draws.integers(0, 16384)
    return _case("embed", f"{tokens}x{width}", *arrays, expected=lambda v: {"out": v["table"][v["token"]]}, token=draw)


def _hashes(blocks: int, rounds: int) -> Textbook:
    def expected(v: dict) -> dict[str, np.ndarray]:
        h = v["a"]
        for i in range(rounds):
            h = h ^ (h >> np.uint32(16))
            h = h * np.uint32(0x85EBCA6B)
            h = h ^ (h >> np.uint32(13))
            h = h * np.uint32(0xC2B2AE35) + np.uint32(i)
        return {"a": h}

    arrays = update("a", U32, 256 * blocks), scalar("rounds", rounds)
    return _case("hashes", f"{blocks}x{rounds}", *arrays, expected=expected)


def _horner(function: str, dtype: str, blocks: int, rounds: int) -> Textbook:
    def expected(v: dict) -> dict[str, np.ndarray]:
        x, s = v["a"].astype(np.longdouble), np.zeros(256 * blocks, np.longdouble)
        for _ in range(rounds):
            s = s * x + 0.5
        return {"a": s}

    arrays = update("a", dtype, 256 * blocks), scalar("rounds", rounds)
    return _case(function, f"{blocks}x{rounds}", *arrays, expected=expected, a=draws.uniform(-0.9, 0.9))


def _waves(blocks: int, rounds: int) -> Textbook:
    def expected(v: dict) -> dict[str, np.ndarray]:
        x = v["a"]
        return {"a": sum(np.sin(_wide(x + np.float32(i))) * np.cos(_wide(x - np.float32(i))) for i in range(rounds))}

    return _case("waves", f"{blocks}x{rounds}", update("a", F32, 256 * blocks), scalar("rounds", rounds),
                 expected=expected, tolerance=1e-4)  # fmt: skip


def _one_block(n: int) -> Textbook:
    arrays = read("a", F32, n), write("out", F32, 1)
    draw = draws.uniform(0, 1)
    return _case("one_block", _label(n), *arrays, expected=lambda v: {"out": np.array([_wide(v["a"]).sum()])}, a=draw)


def _cycle(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    order = generator.permutation(shape[0])
    following = np.empty(shape[0], dtype)
    following[order] = np.roll(order, -1)
    return following


def _jump(n: int, threads: int, steps: int) -> Textbook:
    def expected(v: dict) -> dict[str, np.ndarray]:
        at = np.arange(threads)
        for _ in range(steps):
            at = v["following"][at]
        return {"out": at.astype(np.int32)}

    arrays = read("following", "int32", n), write("out", "int32", threads), scalar("steps", steps)
    return _case("jump", f"{_label(n)}_by_{threads}", *arrays, expected=expected, following=_cycle)


def _again(n: int, times: int) -> Textbook:
    threads = 132 * 512

    def expected(v: dict) -> dict[str, np.ndarray]:
        quads = _wide(v["a"]).reshape(-1, 4).sum(axis=1)
        rounds = -(-len(quads) // threads)
        padded = np.pad(quads, (0, rounds * threads - len(quads)))
        return {"out": times * padded.reshape(rounds, threads).sum(axis=0)}

    arrays = read("a", F32, n), write("out", F32, threads), scalar("times", times)
    return _case("again", f"{_label(n)}_{times}_times", *arrays, expected=expected)


def _spill(n: int) -> Textbook:
    def expected(v: dict) -> dict[str, np.ndarray]:
        a = v["a"].astype(np.int64)
        mine, rows = a[:, None] + np.arange(32), np.arange(n)
        for k in range(64):
            mine[rows, (a + 7 * k) & 31] += k
        return {"out": np.bitwise_xor.reduce(mine, axis=1).astype(np.int32)}

    arrays = read("a", "int32", n), write("out", "int32", n)
    return _case("spill", _label(n), *arrays, expected=expected, a=draws.integers(0, 1000))


def _jacobi(blocks: int, steps: int) -> Textbook:
    def expected(v: dict) -> dict[str, np.ndarray]:
        a = _wide(v["a"]).reshape(blocks, 256)
        for _ in range(steps):
            a = 0.5 * (np.hstack([a[:, :1], a[:, :-1]]) + np.hstack([a[:, 1:], a[:, -1:]]))
        return {"out": a.reshape(-1)}

    arrays = read("a", F32, 256 * blocks), write("out", F32, 256 * blocks), scalar("steps", steps)
    return _case("jacobi_shared", f"{blocks}x{steps}", *arrays, expected=expected)


def _decode(heads: int, keys: int) -> Textbook:
    def expected(v: dict) -> dict[str, np.ndarray]:
        scores = _softmax(np.einsum("hd,hkd->hk", _wide(v["q"]), _wide(v["k"])) / 8)
        return {"out": np.einsum("hk,hkd->hd", scores, _wide(v["v"]))}

    arrays = read("q", F32, heads, 64), read("k", F32, heads, keys, 64), read("v", F32, heads, keys, 64)
    return _case("decode", f"{heads}x{keys}", *arrays, write("out", F32, heads, 64), expected=expected, tolerance=1e-4)


def _quantize(n: int) -> Textbook:
    def expected(v: dict) -> dict[str, np.ndarray]:
        return {"scales": np.abs(_wide(v["a"])).reshape(-1, 128).max(axis=1) / 127}

    arrays = read("a", F32, n), write("out", "int8", n), write("scales", F32, n // 128)
    return _case("quantize", _label(n), *arrays, expected=expected)


TEXTBOOK: tuple[Textbook, ...] = (
    *(_saxpy(n) for n in (16 * KI, MI, 16 * MI)),
    *(_add(n) for n in (256 * KI, 8 * MI)),
    *(_scale(n) for n in (MI, 16 * MI)),
    *(_gray(n) for n in (256 * KI, 4 * MI)),
    *(_sum("sum_tree", n) for n in (256 * KI, 4 * MI)),
    *(_sum("sum_shuffle", n) for n in (MI, 16 * MI)),
    *(_dot(n) for n in (512 * KI, 8 * MI)),
    *(_count(n) for n in (64 * KI, 2 * MI)),
    *(_turned(function, n) for function in ("turn", "turn_conflicts") for n in (512, 2048)),
    *(_matvec("matvec_warp", *size) for size in ((512, 1024), (4096, 4096))),
    *(_matvec("matvec_thread", *size) for size in ((1024, 256), (16384, 512))),
    *(_matmul("matmul", n) for n in (128, 384)),
    *(_matmul("matmul_tiles", n) for n in (192, 640)),
    *(_matmul("matmul_registers", n) for n in (256, 1024)),
    *(_rows("softmax_rows", *size, _softmax) for size in ((128, 1024), (2048, 4096))),
    *(_rows("layer_norm", *size, _layer_norm, 1e-4) for size in ((1024, 256), (16384, 512))),
    *(_rows("rms_norm", *size, _rms_norm) for size in ((256, 1024), (4096, 2048))),
    *(_bins("bins_shared", n) for n in (256 * KI, 8 * MI)),
    *(_bins("bins_global", n) for n in (64 * KI, 2 * MI)),
    *(_scan(n) for n in (64 * KI, 2 * MI)),
    *(_stencil("cross", n, n) for n in (512, 2048)),
    *(_stencil("cube", n, n, n) for n in (64, 160)),
    *(_convolve(n) for n in (64 * KI, 2 * MI)),
    *(_filter(n) for n in (256, 1024)),
    *(_pool(n) for n in (256, 1024)),
    *(_bodies(n) for n in (1024, 8192)),
    *(_options(n) for n in (64 * KI, 4 * MI)),
    *(_mandelbrot(n) for n in (128, 768)),
    *(_sort(n) for n in (32 * KI, 512 * KI)),
    *(_pick(n) for n in (64 * KI, 4 * MI)),
    *(_put(n) for n in (64 * KI, 4 * MI)),
    *(_sparse(*size) for size in ((4096, 16), (131072, 16))),
    *(_embed(*size) for size in ((512, 512), (8192, 1024))),
    *(_hashes(*size) for size in ((132, 64), (1056, 200))),
    *(_horner("doubles", "float64", *size) for size in ((132, 64), (1056, 200))),
    *(_horner("dependent", F32, *size) for size in ((66, 500), (1056, 300))),
    *(_waves(*size) for size in ((132, 16), (1056, 32))),
    *(_one_block(n) for n in (16 * KI, 256 * KI)),
    *(_jump(*size) for size in ((64 * KI, 32, 100), (8 * MI, 64 * KI, 20))),
    *(_again(*size) for size in ((2 * MI, 4), (8 * MI, 4))),
    *(_spill(n) for n in (16 * KI, 256 * KI)),
    *(_jacobi(*size) for size in ((132, 100), (2112, 50))),
    *(_decode(*size) for size in ((16, 512), (264, 1024))),
    *(_quantize(n) for n in (256 * KI, 8 * MI)),
)
