"""Entries of kernels/unseen_second/bits.py."""

from __future__ import annotations

import base64
import hashlib
import math
from itertools import permutations

import numpy as np

from corpus.emulator import draws
from corpus.emulator.catalogue.making import maker
from corpus.emulator.entry import Entry, read, update, write

_entry = maker("unseen_second", "bits")
_WORD = 0xFFFFFFFF
_TEXT = (
    b"the Quick brown fox jumps over the lazy dog and SO do eleven more while A tenth sleeps under an old oak tree " * 4
)
_STARTS = [0] + [i + 1 for i, letter in enumerate(_TEXT[:-1]) if letter == ord(" ")]
_NUMBERS = [n * 7919 * (-1) ** n for n in range(90)] + [2**31 - 1, 1 - 2**31, 0, 5]
_LINES = [f"{' ' * (i % 4)}{'+' if i % 5 == 0 and n >= 0 else ''}{n}\n" for i, n in enumerate(_NUMBERS)]


def _chacha(v: dict) -> dict:
    key, out = v["key"].tolist(), []

    def quarter(s: list[int], a: int, b: int, c: int, d: int) -> None:
        for x, y, z, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            s[x] = (s[x] + s[y]) & _WORD
            s[z] ^= s[x]
            s[z] = (s[z] << turn | s[z] >> (32 - turn)) & _WORD

    for i, text in enumerate(v["text"].tolist()):
        start = [*np.frombuffer(b"expand 32-byte k", "<u4").tolist(), *key[:8], 1 + i, *key[8:]]
        s = list(start)
        for _ in range(10):
            for k in range(4):
                quarter(s, k, 4 + k, 8 + k, 12 + k)
            for k in range(4):
                quarter(s, k, 4 + (k + 1) % 4, 8 + (k + 2) % 4, 12 + (k + 3) % 4)
        out.append([(x + y & _WORD) ^ z for x, y, z in zip(s, start, text, strict=True)])
    return {"out": np.array(out, np.uint32)}


def _sha(v: dict) -> dict:
    digests = [hashlib.sha256(bytes(row[:n])).digest() for row, n in zip(v["text"], v["lengths"], strict=True)]
    return {"out": np.array([np.frombuffer(d, ">u4") for d in digests], np.uint32)}


def _words(v: dict) -> dict:
    out = []
    for word in bytes(v["text"]).lower().split():
        h = 14695981039346656037
        for letter in word:
            h = (h ^ letter) * 1099511628211 % 2**64
        out.append(h)
    return {"out": np.array(out, np.uint64)}


def _twelve(v: dict) -> dict:
    whole = sum(x << 12 * i for i, x in enumerate(v["a"].tolist()))
    packed = np.frombuffer(whole.to_bytes(4 * v["packed"].size, "little"), "<u4")
    return {"packed": packed, "out": v["a"]}


def _base_64(v: dict) -> dict:
    return {"out": np.frombuffer(base64.b64encode(bytes(v["a"])), np.uint8).reshape(v["out"].shape)}


def _morton(v: dict) -> dict:
    codes = []
    for point in np.clip((v["points"].astype(np.float64) + 2) * 256, 0, 1023).astype(int).tolist():
        text = "".join("".join(bits) for bits in zip(*(f"{x:010b}" for x in point), strict=True))
        codes.append(int(text, 2))
    return {"out": np.array(codes, np.uint32)}


def _hamming(v: dict) -> dict:
    a, b = (np.unpackbits(v[name].view(np.uint8), axis=1).astype(int) for name in "ab")
    return {"out": (a[:, None] != b[None]).sum(-1)}


def _edit_distance(a: list[int], b: list[int]) -> int:
    row = list(range(len(b) + 1))
    for i, x in enumerate(a):
        corner, row[0] = i, i + 1
        for j, y in enumerate(b):
            corner, row[j + 1] = row[j + 1], min(corner + (x != y), row[j] + 1, row[j + 1] + 1)
    return row[-1]


def _edits(v: dict) -> dict:
    rows = zip(v["others"].tolist(), v["lengths"].tolist(), strict=True)
    return {"out": np.array([_edit_distance(v["word"].tolist(), other[:n]) for other, n in rows], np.int32)}


def _local_score(a: list[int], b: list[int]) -> int:
    table = np.zeros((len(a) + 1, len(b) + 1), int)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            beside = max(table[i, j + 1], table[i + 1, j]) - 4
            table[i + 1, j + 1] = max(0, table[i, j] + (3 if x == y else -2), beside)
    return int(table.max())


def _alignments(v: dict) -> dict:
    pairs = zip(v["a"].tolist(), v["b"].tolist(), strict=True)
    return {"out": np.array([_local_score(a, b) for a, b in pairs], np.int32)}


def _printed(v: dict) -> dict:
    return {"out": np.array([list(f"{x:10d}".encode()) for x in v["a"].tolist()], np.int8)}


def _modular(v: dict) -> dict:
    a, e, m = (v[name].tolist() for name in ("a", "exponents", "modulus"))
    powers = [pow(x, y, z) for x, y, z in zip(a, e, m, strict=True)]
    divisors = [math.gcd(x & _WORD | 1, z & _WORD | 1) for x, z in zip(a, m, strict=True)]
    return {"out": np.array(powers, np.uint64), "divisors": np.array(divisors, np.uint32)}


def _odd(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Odd numbers below 2**63, some of them small."""
    return (generator.integers(0, 2**62, shape) >> generator.integers(0, 60, shape) << 1 | 1).astype(dtype)


def _no_zeros(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Whole numbers of either sign from one digit to nine."""
    return (10.0 ** generator.uniform(0, 9, shape) * generator.choice((-1, 1), shape)).astype(dtype)


def _divisions(v: dict) -> dict:
    rows = []
    for a, b, c, d in zip(*(v[name].tolist() for name in "abcd"), strict=True):

        def cut(x: int, y: int) -> int:
            return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)

        u = a & _WORD
        rows.append([cut(a, b), a - b * cut(a, b), u // d << 16 | u % d, cut(c, b), c - 1000003 * cut(c, 1000003)])
    return {"out": np.array(rows, np.int64)}


def _whole(words: np.ndarray) -> list[int]:
    """Numbers of the columns, the lowest word first."""
    return [sum(x << 32 * i for i, x in enumerate(column)) for column in words.T.tolist()]


def _long_products(v: dict) -> dict:
    products = [x * y for x, y in zip(_whole(v["a"]), _whole(v["b"]), strict=True)]
    return {"out": np.array([[p >> 32 * i & _WORD for p in products] for i in range(16)], np.uint32)}


def _long_sums(v: dict) -> dict:
    sums = [x + y for x, y in zip(_whole(v["a"].T), _whole(v["b"].T), strict=True)]
    return {"out": np.array([[s >> 32 * i & _WORD for i in range(4)] for s in sums], np.uint32)}


def _blocks(v: dict) -> dict:
    field, where, blended = v["field"].view(np.uint8).astype(int), [], []
    for i, p in enumerate(v["pattern"].view(np.uint8).reshape(-1, 4).astype(int)):
        sums = [int(abs(p - field[4 * i + k : 4 * i + k + 4]).sum()) for k in range(4)]
        where.append(int(np.argmin(sums)) << 16 | min(sums))
        low, high = field[4 * i : 4 * i + 4], field[4 * i + 4 : 4 * i + 8]
        kept = np.maximum((p + low + 1) // 2, np.minimum(abs(p - high), 64))
        word = sum(int(x) << 8 * k for k, x in enumerate(kept))
        halves = [int(x[2 * k] + 256 * x[2 * k + 1]) for x in (p, low) for k in range(2)]
        blended.append(word + (halves[0] > halves[2]) + ((halves[1] > halves[3]) << 16) & _WORD)
    return {"where": np.array(where, np.int32), "blended": np.array(blended, np.uint32)}


def _clamped(v: dict) -> dict:
    doubled = np.clip(2 * v["a"].astype(int), -32768, 32767)
    sizes = abs(np.clip(doubled, -8192, 8192))
    rest = np.maximum(0x3000 - (doubled & 0x7FFF), 0)
    halves = sizes ^ rest
    return {"out": (halves[:, 0] | halves[:, 1] << 16).astype(np.uint32)}


def _queens(v: dict) -> dict:
    found = sum(
        len({p[i] + i for i in range(8)}) == len({p[i] - i for i in range(8)}) == 8 for p in permutations(range(8))
    )
    return {"total": np.array([found], np.int32)}


def _bloom(v: dict) -> dict:
    def places(key: int) -> set[int]:
        return {key * (0x9E3779B1 * (2 * k + 1) & _WORD) % 2**32 >> 20 for k in (1, 2, 3)}

    bits = set().union(*(places(key) for key in v["keys"].tolist()))
    words = [sum(1 << b for b in range(32) if 32 * i + b in bits) for i in range(128)]
    return {"filter": np.array(words, np.uint32), "out": np.array([places(q) <= bits for q in v["queries"].tolist()])
            .astype(np.int32)}  # fmt: skip


ENTRIES: tuple[Entry, ...] = (
    _entry("chacha", _chacha, read("key", "uint32", 11), read("text", "uint32", 128, 16),
           write("out", "uint32", 128, 16)),
    _entry("sha_256", _sha, read("text", "uint8", 128, 60), read("lengths", "int32", 128),
           write("out", "uint32", 128, 8), lengths=draws.integers(0, 56)),
    _entry("word_hashes", _words, read("text", "uint8", len(_TEXT)), read("starts", "int32", len(_STARTS)),
           write("out", "uint64", len(_STARTS)), text=draws.fixed(list(_TEXT)), starts=draws.fixed(_STARTS)),
    _entry("twelve_bits", _twelve, read("a", "uint16", 512), write("packed", "uint32", 192),
           write("out", "uint16", 512), a=draws.integers(0, 4096)),
    _entry("to_base_64", _base_64, read("a", "uint8", 301), write("out", "uint8", 101, 4)),
    _entry("morton_codes", _morton, read("points", "float32", 110, 3), write("out", "uint32", 110)),
    _entry("hamming", _hamming, read("a", "uint32", 37, 4), read("b", "uint32", 29, 4), write("out", "uint8", 37, 29)),
    _entry("edit_by_bits", _edits, read("word", "uint8", 50), read("others", "uint8", 128, 40),
           read("lengths", "int32", 128), write("out", "int32", 128), word=draws.integers(97, 103),
           others=draws.integers(97, 123), lengths=draws.integers(0, 41)),
    _entry("align_locally", _alignments, read("a", "uint8", 3, 60), read("b", "uint8", 3, 45), write("out", "int32", 3),
           a=draws.integers(0, 4), b=draws.integers(0, 4)),
    _entry("parse_numbers", lambda v: {"out": np.array(_NUMBERS, np.int32)},
           read("text", "int8", sum(map(len, _LINES))), read("starts", "int32", len(_LINES)),
           write("out", "int32", len(_LINES)), text=draws.fixed(list("".join(_LINES).encode())),
           starts=draws.fixed(np.cumsum([0, *map(len, _LINES)])[:-1])),
    _entry("print_numbers", _printed, read("a", "uint32", 100), write("out", "int8", 100, 10),
           a=draws.fixed([int(1.26**k) - 1 for k in range(95)] + [10, 100, 99, 2**32 - 1, 10**9])),
    _entry("modular", _modular, read("a", "uint64", 64), read("exponents", "uint32", 64), read("modulus", "uint64", 64),
           write("out", "uint64", 64), write("divisors", "uint32", 64), exponents=draws.integers(0, 300), modulus=_odd),
    _entry("divisions", _divisions, read("a", "int32", 100), read("b", "int32", 100), read("c", "int64", 100),
           read("d", "uint16", 100), write("out", "int64", 100, 5), b=_no_zeros, d=draws.integers(1, 65536)),
    _entry("long_products", _long_products, read("a", "uint32", 8, 100), read("b", "uint32", 8, 100),
           write("out", "uint32", 16, 100)),
    _entry("long_sums", _long_sums, read("a", "uint32", 128, 4), read("b", "uint32", 128, 4),
           write("out", "uint32", 128, 4)),
    _entry("match_blocks", _blocks, read("pattern", "uint32", 100), read("field", "uint32", 101),
           write("where", "int32", 100), write("blended", "uint32", 100)),
    _entry("clamp_samples", _clamped, read("a", "int16", 100, 2), write("out", "uint32", 100)),
    _entry("queens", _queens, update("total", "int32", 1), total=draws.zeros),
    _entry("bloom", _bloom, read("keys", "uint32", 100), read("queries", "uint32", 200),
           update("filter", "uint32", 128), write("out", "uint8", 200), filter=draws.zeros,
           keys=draws.integers(0, 400), queries=draws.integers(0, 1000)),
)  # fmt: skip
