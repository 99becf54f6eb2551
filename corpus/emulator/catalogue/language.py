"""Entries of kernels/language.py."""

from __future__ import annotations

import numpy as np

from corpus.emulator import draws
from corpus.emulator.entry import Entry, read, write

FILE = "kernels/language.py"


# What stands in local memory is ptxas's choice: the frames of calls are not in the PTX.
_FRAMES = {"virtual_functions", "function_pointers", "recursion", "structures"}


def _entry(name: str, expected, *arguments, tolerance: float = 0.0, **inputs) -> Entry:
    uncounted = "the frames of its calls are not in the PTX" if name in _FRAMES else ""
    return Entry(f"language/{name}", FILE, name, arguments, inputs, expected, tolerance=tolerance, uncounted=uncounted)


def _virtual_functions(v: dict) -> dict:
    a, t = v["a"], np.arange(64)
    square, triangle = a * a + np.float32(4), a * np.float32(3) / np.float32(2) + np.float32(3)
    return {"out": np.where(t % 3, square, triangle).astype(np.float64)}


def _signed(x: int, width: int = 32) -> int:
    x &= (1 << width) - 1
    return x - (1 << width) if x >> width - 1 else x


def _function_pointers(v: dict) -> dict:
    steps = (lambda a, b: a + b, lambda a, b: a * b, lambda a, b: a - b, lambda a, b: (a ^ b) * 3)
    out = []
    for t, row in enumerate(v["a"].reshape(-1, 5).tolist()):
        value = t
        for x in row:
            value = _signed(steps[row[0] & 3](value, x))
        out.append(value)
    return {"out": np.array(out, np.int32)}


def _recursion(v: dict) -> dict:
    def hanoi(n: int, a: int, b: int, c: int) -> tuple[int, int]:
        if n == 0:
            return 0, 0
        (x, p), (y, q) = hanoi(n - 1, a, c, b), hanoi(n - 1, c, b, a)
        return x + y + n * (3 * a + b), p + q + 1

    rows = []
    for row in v["a"].reshape(32, 12):
        rows.append([*np.sort(row), *hanoi(int(row[0]) & 3, 0, 2, 1)])
    return {"out": np.array(rows, np.int32).ravel()}


def _templates(v: dict) -> dict:
    x, t = v["a"].astype(np.float64), np.arange(64)
    return {"out": np.stack([(1.5 + x) * 2, x**5, x + 2 + 3 + t, (t + x) * 2], 1).ravel()}


def _structures(v: dict) -> dict:
    a, t = v["a"].astype(np.float64), np.arange(64)
    value = 7 + 6.0 * a + 0.125 + 21 + t + t + 1
    return {"out": np.where(a < 0, -value, value).astype(np.longdouble)}


def _unions(v: dict) -> dict:
    a = v["a"].astype(np.int64)
    sums = (a & 255) + 256 * (a >> 24) + (a & 127) * 3 + (a >> 7 & 0x1FFF) * 5 + (a >> 20) * 7
    middle = (a >> 7 & 0x1FFF) + 77 & 0x1FFF
    word = (a & ~(0x1FFF << 7) | middle << 7) ^ 0x5A00
    return {"out": (word ^ sums).astype(np.uint32)}


_TEXTS = "12 -7 3.25 -0.5 1x _ 99999.9 4. - 1.2.3 0007 .5 --1 123456. 8 -12.75".replace("_", "").split(" ")


def _parse_numbers(v: dict) -> dict:
    out = []
    for text in _TEXTS * 2:
        body = text[1:] if text.startswith("-") else text
        if body.count(".") > 1 or not body.replace(".", "").isdigit() and body not in ("", "."):
            done = body.partition(".")  # what was read before the first character that does not fit
            fraction = 0
            for c in done[2]:
                if not c.isdigit():
                    break
                fraction += 1
            out += [-999999, 10**fraction if done[0].isdigit() or not done[0] else 1]
        else:
            digits = body.replace(".", "")
            fraction = len(body.partition(".")[2])
            out += [(-1 if text.startswith("-") else 1) * int(digits or 0), 10**fraction]
    return {"out": np.array(out, np.int32)}


def _long_division(v: dict) -> dict:
    out = []
    for row, divisor in zip(v["a"].reshape(-1, 3).tolist(), v["b"].tolist(), strict=True):
        quotient, rest = divmod(row[0] << 64 | row[1] << 32 | row[2], divisor | 1)
        out += [quotient >> 64 & 0xFFFFFFFF, quotient >> 32 & 0xFFFFFFFF, quotient & 0xFFFFFFFF, rest]
    return {"out": np.array(out, np.uint32)}


def _wide_integers(v: dict) -> dict:
    out = []
    for a, b in zip(v["a"].tolist(), v["b"].tolist(), strict=True):
        x = a * b + (a << 40)
        out += [_signed(x, 64), _signed(x >> 64, 64)]
    return {"out": np.array(out, np.int64)}


def _half_vectors(v: dict) -> dict:
    a, b = v["a"].astype(np.float64), v["b"].astype(np.float64)
    x = (a * b + 0.25).astype(np.float16)
    out = np.clip(x, np.float16(-2), np.float16(2))
    s = x[:, 0].reshape(2, 32)
    for d in (16, 8, 4, 2, 1):
        s = s + s[:, np.arange(32) ^ d]
    return {"out": out, "sums": s[:, 0]}


ENTRIES: tuple[Entry, ...] = (
    _entry("virtual_functions", _virtual_functions, read("a", "float32", 64), write("out", "float32", 64)),
    _entry("function_pointers", _function_pointers, read("a", "int32", 320), write("out", "int32", 64)),
    _entry("recursion", _recursion, read("a", "int32", 384), write("out", "int32", 448), a=draws.integers(0, 1000)),
    _entry("templates", _templates, read("a", "float32", 64), write("out", "float32", 256)),
    _entry("structures", _structures, read("a", "float32", 64), write("out", "float64", 64), tolerance=1e-6),
    _entry("unions", _unions, read("a", "uint32", 64), write("out", "uint32", 64)),
    _entry("parse_numbers", _parse_numbers, read("text", "int8", 32, 8), write("out", "int32", 64),
           text=draws.fixed([list(text.ljust(8).encode()) for text in _TEXTS * 2])),
    _entry("asserted", lambda v: {"out": v["a"] + 1}, read("a", "int32", 64), write("out", "int32", 64),
           a=draws.integers(0, 100)),
    _entry("long_division", _long_division, read("a", "uint32", 192), read("b", "uint32", 64),
           write("out", "uint32", 256)),
    _entry("wide_integers", _wide_integers, read("a", "int64", 64), read("b", "int64", 64), write("out", "int64", 128)),
    _entry("half_vectors", _half_vectors, read("a", "float16", 64, 2), read("b", "float16", 64, 2),
           write("out", "float16", 64, 2), write("sums", "float16", 2)),
)  # fmt: skip
