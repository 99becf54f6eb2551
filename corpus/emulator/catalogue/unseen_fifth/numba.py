"""Entries of kernels/unseen_fifth/numba.py."""

from __future__ import annotations

import math

import numpy as np

from corpus.emulator import draws
from corpus.emulator.catalogue.making import maker
from corpus.emulator.entry import Approximate, Entry, read, update, write

_entry = maker("unseen_fifth", "numba", "numba_")
_WIDE = Approximate(16, "approximate functions", 1e-12)


def _totients(v: dict) -> dict:
    return {"out": np.array([sum(math.gcd(n, k) == 1 for k in range(1, n + 1)) for n in v["numbers"].tolist()])}


def _powers(v: dict) -> dict:
    pairs = zip(v["bases"].tolist(), v["exponents"].tolist(), strict=True)
    return {"out": np.array([pow(b, e, 4294967291) for b, e in pairs])}


def _facts(v: dict) -> dict:
    out = []
    for word in v["words"].tolist():
        bits = f"{word:032b}"
        first = bits[::-1].find("1") + 1
        out.append((bits.count("1"), 32 - word.bit_length(), first, int(bits[::-1], 2) >> 20))
    return {"out": np.array(out).T}


def _words(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Words of which many begin or end with zeros; the first is 0."""
    words = generator.integers(0, 2**32, shape) >> generator.integers(0, 32, shape)
    words = words << generator.integers(0, 32, shape) & 0xFFFFFFFF
    words[0] = 0
    return words.astype(dtype)


def _ways(v: dict) -> dict:
    out = []
    for purse in v["purses"].tolist():
        ways = [1] + [0] * 63
        for coin in purse:
            for total in range(coin, 64) if coin > 0 else ():
                ways[total] += ways[total - coin]
        out.append(ways[63])
    return {"out": np.array(out)}


def _chains(v: dict) -> dict:
    out = []
    for s in v["sizes"].tolist():
        n = len(s) - 1
        cost = [[0] * n for _ in range(n)]
        for length in range(1, n):
            for i in range(n - length):
                j = i + length
                cost[i][j] = min(cost[i][k] + cost[k + 1][j] + s[i] * s[k + 1] * s[j + 1] for k in range(i, j))
        out.append(cost[0][-1])
    return {"out": np.array(out)}


def _thresholds(v: dict) -> dict:
    p = np.pad(v["image"].astype(int), 3, mode="edge")
    totals = np.lib.stride_tricks.sliding_window_view(p, (7, 7)).sum((2, 3))
    return {"out": 255 * (v["image"].astype(int) * 49 > totals - 245)}


def _ranges(v: dict) -> dict:
    values, groups = v["values"], v["groups"]
    least, most = v["least"].copy(), v["most"].copy()
    np.minimum.at(least, groups, values)
    np.maximum.at(most, groups, values)
    return {"least": least, "most": most}


def _flags(v: dict) -> dict:
    some, every, odd = np.zeros(8, np.uint32), np.full(8, 0xFFFFFFFF, np.uint32), np.zeros(8, np.uint32)
    np.bitwise_or.at(some, v["groups"], v["masks"])
    np.bitwise_and.at(every, v["groups"], v["masks"])
    np.bitwise_xor.at(odd, v["groups"], v["masks"])
    return {"some": some, "every": every, "odd": odd}


def _masks(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Words of bits that are seldom set, bits that seldom are not, and others."""
    seldom, often = (generator.random((*shape, 32)) < share for share in (0.02, 0.98))
    bits = np.choose(np.arange(32) % 3, [seldom, often, generator.random((*shape, 32)) < 0.5])
    return (bits.astype(np.uint32) << np.arange(32, dtype=np.uint32)).sum(-1).astype(dtype)


def _polar(v: dict) -> dict:
    x, y = v["points"].astype(np.longdouble).T
    return {"out": np.column_stack([np.hypot(x, y), np.arctan2(y, x)])}


def _years(v: dict) -> dict:
    def growth(s: np.ndarray) -> np.ndarray:
        x, y = s
        return np.stack([x * one_one - two_fifths * x * y, tenth * x * y - two_fifths * y])

    one_one, two_fifths, tenth, dt = (np.longdouble(n) for n in (1.1, 0.4, 0.1, 0.05))
    s = v["start"].astype(np.longdouble).T
    for _ in range(12):
        a = growth(s)
        b = growth(s + dt / 2 * a)
        c = growth(s + dt / 2 * b)
        d = growth(s + dt * c)
        s = s + dt / 6 * (a + 2 * b + 2 * c + d)
    return {"out": s.T}


ENTRIES: tuple[Entry, ...] = (
    _entry("totients", _totients, read("numbers", "int32", 80), write("out", "int32", 80),
           numbers=draws.integers(1, 90)),
    _entry("modular_powers", _powers, read("bases", "uint32", 130), read("exponents", "uint32", 130),
           write("out", "uint32", 130)),
    _entry("bit_facts", _facts, read("words", "uint32", 170), write("out", "int32", 4, 170), words=_words),
    _entry("coin_ways", _ways, read("purses", "int32", 75, 6), write("out", "int64", 75),
           purses=draws.integers(-3, 20)),
    _entry("chain_cost", _chains, read("sizes", "int32", 4, 22), write("out", "int32", 4), sizes=draws.integers(1, 60)),
    _entry("local_threshold", _thresholds, read("image", "uint8", 21, 45), write("out", "uint8", 21, 45)),
    _entry("ranges", _ranges, read("values", "float64", 500), read("groups", "int32", 500),
           update("least", "float64", 12), update("most", "float64", 12), groups=draws.integers(0, 11),
           least=draws.fixed([1e300] * 12), most=draws.fixed([-1e300] * 12)),
    _entry("flags", _flags, read("masks", "uint32", 350), read("groups", "int32", 350), update("some", "uint32", 8),
           update("every", "uint32", 8), update("odd", "uint32", 8), masks=_masks, groups=draws.integers(0, 8),
           some=draws.zeros, every=draws.fixed([2**32 - 1] * 8), odd=draws.zeros),
    _entry("polar", _polar, read("points", "float64", 150, 2), write("out", "float64", 150, 2), approximate=_WIDE),
    _entry("hares_and_foxes", _years, read("start", "float64", 90, 2), write("out", "float64", 90, 2),
           start=draws.uniform(0.5, 8), tolerance=1e-13),
    _entry("contract_four",
           lambda v: {"out": np.einsum("ijpq,qkp->ijk", v["a"].astype(np.int64), v["b"].astype(np.int64))},
           read("a", "int32", 5, 7, 6, 4), read("b", "int32", 4, 11, 6), write("out", "int32", 5, 7, 11),
           a=draws.integers(-500, 500), b=draws.integers(-500, 500)),
)  # fmt: skip
