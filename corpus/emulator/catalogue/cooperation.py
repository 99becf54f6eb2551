"""Entries of kernels/reductions.py and kernels/warps.py: threads that work together."""

from __future__ import annotations

from functools import reduce

import numpy as np

from corpus.emulator import draws
from corpus.emulator.entry import Entry, read, update, write

REDUCTIONS = "kernels/reductions.py"
WARPS = "kernels/warps.py"
THREADS = 128
WHOLE = draws.integers(-4, 5)  # every partial sum of a float is exact, so the order does not matter


def _sum(name: str) -> Entry:
    return Entry(
        f"reduction/{name}",
        REDUCTIONS,
        name,
        (read("a", "float32", 4 * THREADS), write("out", "float32", 4)),
        {"a": WHOLE},
        lambda v: {"out": v["a"].reshape(4, THREADS).sum(1)},
    )


def _scan(name: str, exclusive: bool) -> Entry:
    def expected(v: dict) -> dict:
        total = np.cumsum(v["a"], dtype=np.int32)
        return {"out": total - v["a"] if exclusive else total}

    return Entry(f"scan/{name}", REDUCTIONS, name, (read("a", "int32", 128), write("out", "int32", 128)), {}, expected)


def _wrapped(start: int, count: int, top: int, down: bool) -> int:
    """The value that atomicInc or atomicDec leaves after `count` steps."""
    for _ in range(count):
        below = top if start == 0 or start > top else start - 1
        above = 0 if start >= top else start + 1
        start = below if down else above
    return start


def _shared_atomics(v: dict) -> dict:
    sums = []
    for block in v["a"].reshape(-1, THREADS):
        logic = [int(op.reduce(block)) for op in (np.bitwise_and, np.bitwise_or, np.bitwise_xor)]
        counts = [_wrapped(0, THREADS, 100, False), _wrapped(5, THREADS, 9, True)]
        sums.append([block.sum(), block.min(), block.max(), *logic, *counts])
    return {"sums": np.array(sums).astype(np.int32)}


def _shared_atomic_loops(v: dict) -> dict:
    blocks = v["a"].reshape(-1, THREADS)
    doubles = blocks.astype(np.float64).sum(1)
    squares = (blocks.astype(np.int64) ** 2).sum(1)
    return {"floats": np.fmod(blocks, 8).sum(1).astype(np.float32), "doubles": doubles, "wide": squares.astype("u8")}


def _global_atomics(v: dict) -> dict:
    a, out, floats, doubles, wide = v["a"], v["out"], v["floats"], v["doubles"], v["wide"]
    n, lanes = a.size, np.arange(a.size)
    out[0] += a.sum(dtype=np.int32)
    out[1], out[2] = min(out[1], a.min()), max(out[2], a.max())
    out[3] &= reduce(np.bitwise_and, a)
    out[4] |= reduce(np.bitwise_or, a)
    out[5] ^= reduce(np.bitwise_xor, a)
    out[6], out[7] = _wrapped(int(out[6]), n, 40, False), _wrapped(int(out[7]), n, 40, True)
    for k in range(4):
        out[8 + k] -= a[lanes % 4 == k].sum(dtype=np.int32)
    for k in range(2):
        floats[k] += np.fmod(a, 8)[lanes % 2 == k].sum()
    doubles[0] += a.sum()
    unsigned = a.view(np.uint32).astype(np.uint64)
    wide[0] += unsigned.sum()
    wide[1] = max(wide[1], (unsigned << np.uint64(20)).max())
    return {"out": out, "floats": floats, "doubles": doubles, "wide": wide}


def _half_atomics(v: dict) -> dict:
    pairs = v["a"].reshape(-1, 4, 2).sum(0)
    return {"out": (v["out"].reshape(4, 2) + pairs).astype(np.float16).ravel()}


def _exchange(v: dict) -> dict:
    a, slots = v["a"], v["slots"]
    return {"slots": np.full(32, 100, np.int32), "out": np.concatenate([slots, a, a + 3, np.full(32, 7, np.int32)])}


def _counted(name: str) -> Entry:
    size = 256 if name == "histogram" else 512
    source, dtype, array = ("a", "uint8", "uint32") if name == "histogram" else ("index", "int32", "int32")

    def expected(v: dict) -> dict:
        return {"out": v["out"] + np.bincount(v[source].ravel(), minlength=size).astype(v["out"].dtype)}

    arguments = (read(source, dtype, 256), update("out", array, size))
    index = draws.integers(0, 100) if name == "histogram" else draws.integers(0, 512)
    return Entry(f"atomics/{name}", REDUCTIONS, name, arguments, {source: index, "out": WHOLE}, expected)


def _numba_atomics(v: dict) -> dict:
    a, sums = v["a"], v["sums"]
    for k in range(sums.size):
        sums[k] += a[np.arange(a.size) % sums.size == k].sum()
    return {"sums": sums, "extremes": np.array([max(v["extremes"][0], a.max()), min(v["extremes"][1], a.min())])}


def _segment(values: np.ndarray, width: int, source: np.ndarray, keep: np.ndarray) -> np.ndarray:
    """shfl over 32 lanes: the lane reads `source` where `keep`, else itself."""
    lanes = np.arange(32)
    return np.where(keep, values[:, np.where(keep, source, lanes)], values)


def _shuffles(v: dict) -> dict:
    a, b = v["a"].reshape(-1, 32), v["b"].reshape(-1, 32)
    lane = np.arange(32)
    every = lane >= 0
    by_value = np.take_along_axis(a, a & 31, 1)
    rows = [
        _segment(a, 32, 0 * lane + 5, every),
        by_value,
        _segment(a, 8, (lane & ~7) | (lane + 3 & 7), every),
        _segment(a, 32, lane - 3, lane >= 3),
        _segment(a, 4, lane - 2, lane % 4 >= 2),
        _segment(a, 32, lane + 1, lane < 31),
        _segment(a, 16, lane + 5, lane % 16 < 11),
        _segment(a, 32, lane ^ 9, every),
        _segment(a, 8, lane ^ 16, lane >= 16),  # only towards lower segments
        _segment(a, 32, 0 * lane + 31, every),
        np.where(lane % 2, a[:, 7:8], -1),
        _segment(a, 32, lane + 6, lane < 26),
        np.broadcast_to((lane < 26).astype(np.int32), a.shape),
    ]
    wide = [_segment(b, 32, lane + 4, lane < 28), _segment(b, 32, lane ^ 31, every)]
    return {"out": np.concatenate([r.ravel() for r in rows]), "wide": np.concatenate([w.ravel() for w in wide])}


def _mask(flags: np.ndarray) -> int:
    return sum(int(flag) << lane for lane, flag in enumerate(flags))


def _votes_of_warp(a: np.ndarray, first: int) -> np.ndarray:
    unsigned, every, i = a.view(np.uint32), 0xFFFFFFFF, np.arange(first, first + 32)
    same = every if (a == a[0]).all() else 0
    odd = [_mask((a & 1 == 1) & (a & 2 == 2)) if x & 1 else 0 for x in a]
    few = [int(i[:12].sum()) + _mask(i[:12] & 4 != 0) if lane < 12 else 0 for lane in range(32)]
    rows = [
        _mask(a > 0),
        (a == 3).any(),
        (a < 100).all(),
        (a > 1000).all() or not (a > 1000).any(),
        [_mask(a & 3 == x & 3) for x in a],
        every,
        1,
        same,
        same != 0,
        [_mask(a & 1 == x & 1) for x in a],
        int(unsigned.sum(dtype=np.uint32)),
        int(np.uint32(a.min().view(np.uint32))),
        unsigned.max(),
        reduce(np.bitwise_and, unsigned),
        reduce(np.bitwise_or, unsigned & 0xFF),
        reduce(np.bitwise_xor, unsigned),
        odd,
        few if first % 32 == 0 else 0,
        every,
    ]
    return np.array([np.broadcast_to(np.asarray(r, np.uint64), 32) for r in rows]).astype(np.uint32)


def _votes(v: dict) -> dict:
    warps = [_votes_of_warp(w, 32 * k) for k, w in enumerate(v["a"].reshape(-1, 32))]
    return {"out": np.concatenate(warps, 1).ravel()}


def _barriers(v: dict) -> dict:
    a = v["a"]
    rows = [(a & 1).sum(), int((a < 1000).all()), int((a == 77).any())]
    return {"out": np.repeat(rows, a.size).astype(np.int32)}


def _aggregated(v: dict) -> dict:
    kept = v["a"][v["a"] > 0]
    v["out"][: kept.size] = kept
    return {"count": v["count"] + np.int32(kept.size), "out": v["out"]}


def _initialised(v: dict) -> dict:
    a, i = v["a"], np.arange(v["a"].size)
    primes, weights = np.array([2, 3, 5, 7, 11, 13, 17, 19]), np.array([0.25, 0.5, 0.25])
    return {"out": primes[a & 7] * weights[a % 3] + np.array([-3, 9, 27, 1000])[i & 3] + 42}


def _constant(v: dict) -> dict:
    return {"out": ((v["a"] & 63).astype(np.float32) ** 2 + np.float32(25))}


def _dynamic_shared(v: dict) -> dict:
    a = v["a"]
    return {"out": a[::-1] + np.float32(2) * a[np.arange(a.size) ^ 1]}


def _views(v: dict) -> dict:
    a, n = v["a"], v["a"].size // 2
    return {"out": v["out"] + (a[n:] + a[1 : n + 1])}


ENTRIES: tuple[Entry, ...] = (
    *(_sum(name) for name in ("interleaved", "strided", "sequential", "shuffle")),
    Entry(
        "reduction/two_passes",
        REDUCTIONS,
        "two_passes",
        (read("a", "float32", 6 * THREADS), write("out", "float32", 1)),
        {"a": WHOLE},
        lambda v: {"out": v["a"].sum(keepdims=True)},
    ),
    Entry(
        "reduction/warp_synchronous",
        REDUCTIONS,
        "warp_synchronous",
        (read("a", "float32", 64), write("out", "float32", 1)),
        {"a": WHOLE},
        lambda v: {"out": v["a"].sum(keepdims=True)},
    ),
    Entry(
        "reduction/last_block",
        REDUCTIONS,
        "last_block",
        (read("a", "int32", 3 * THREADS), write("out", "int32", 1)),
        {},
        lambda v: {"out": v["a"].sum(dtype=np.int32, keepdims=True)},
    ),
    _scan("hillis_steele", False),
    _scan("blelloch", True),
    _scan("warp_scan", False),
    Entry(
        "atomics/shared",
        REDUCTIONS,
        "shared_atomics",
        (read("a", "int32", 2 * THREADS), write("sums", "int32", 2, 8)),
        {"a": draws.integers(-1000, 1000)},
        _shared_atomics,
    ),
    Entry(
        "atomics/shared_loops",
        REDUCTIONS,
        "shared_atomic_loops",
        (
            *(read("a", "int32", 2 * THREADS), write("floats", "float32", 2)),
            *(write("doubles", "float64", 2), write("wide", "uint64", 2)),
        ),
        {"a": draws.integers(-1000, 1000)},
        _shared_atomic_loops,
        uncounted="the assembler makes loops of these, which load as often as threads collide",
    ),
    Entry(
        "atomics/global",
        REDUCTIONS,
        "global_atomics",
        (
            *(read("a", "int32", 2 * THREADS), update("out", "int32", 12), update("floats", "float32", 2)),
            *(update("doubles", "float64", 1), update("wide", "uint64", 2)),
        ),
        {
            **{"a": draws.integers(-1000, 1000), "out": draws.integers(0, 1000), "floats": WHOLE, "doubles": WHOLE},
            "wide": draws.integers(0, 1000),
        },
        _global_atomics,
    ),
    Entry(
        "atomics/half_pairs",
        REDUCTIONS,
        "half_atomics",
        (read("a", "float32", 256), update("out", "float16", 8)),
        {"a": WHOLE, "out": WHOLE},
        _half_atomics,
    ),
    Entry(
        "atomics/cas_maximum",
        REDUCTIONS,
        "cas_maximum",
        (read("a", "float32", 128), update("out", "int32", 1)),
        {"a": draws.uniform(0, 9), "out": draws.fixed([0])},
        lambda v: {"out": v["a"].max(keepdims=True).view(np.int32)},
    ),
    Entry(
        "atomics/cas_double",
        REDUCTIONS,
        "cas_double",
        (read("a", "float64", 128), update("out", "uint64", 1)),
        {"a": WHOLE, "out": draws.fixed([0])},
        lambda v: {"out": (v["a"].sum(keepdims=True) + 0.0).view(np.uint64)},
    ),
    Entry(
        "atomics/exchange",
        REDUCTIONS,
        "exchange",
        (read("a", "int32", 32), update("slots", "int32", 32), write("out", "int32", 128)),
        {"a": draws.integers(-50, 50), "slots": draws.integers(-50, 50)},
        _exchange,
    ),
    _counted("spread_atomics"),
    _counted("histogram"),
    Entry(
        "atomics/numba",
        REDUCTIONS,
        "atomic_numba",
        (read("a", "float32", 256), update("sums", "float32", 5), update("extremes", "float32", 2)),
        {"a": WHOLE, "sums": WHOLE, "extremes": draws.fixed([-1, 1])},
        _numba_atomics,
        uncounted="extremes are loops, which go round as often as threads collide",
    ),
    Entry(
        "warps/shuffles",
        WARPS,
        "shuffles",
        (
            *(read("a", "int32", 64), read("b", "float64", 64)),
            *(write("out", "int32", 13 * 64), write("wide", "float64", 2 * 64)),
        ),
        {},
        _shuffles,
    ),
    Entry(
        "warps/votes",
        WARPS,
        "votes",
        (read("a", "int32", 64), write("out", "uint32", 19 * 64)),
        {"a": draws.integers(-5, 90)},
        _votes,
    ),
    Entry("warps/registers", WARPS, "registers", (write("out", "uint32", 8 * 96 * 7),)),
    Entry(
        "warps/barrier_reductions",
        WARPS,
        "barriers",
        (read("a", "int32", 96), write("out", "int32", 288)),
        {"a": draws.integers(0, 100)},
        _barriers,
    ),
    Entry(
        "warps/named_barriers",
        WARPS,
        "named_barriers",
        (read("a", "int32", 64), write("out", "int32", 64)),
        {"a": draws.integers(-99, 99)},
        lambda v: {"out": 3 * v["a"][::-1]},
    ),
    Entry(
        "warps/aggregated",
        WARPS,
        "aggregated",
        (read("a", "int32", 32), update("count", "int32", 1), write("out", "int32", 32)),
        {"count": draws.fixed([0])},
        _aggregated,
    ),
    Entry("warps/numba", WARPS, "numba", (read("a", "int32", 64), write("out", "int32", 8, 64))),
    Entry(
        "constant/numba",
        WARPS,
        "constant",
        (read("a", "int32", 64), write("out", "float32", 64)),
        {},
        _constant,
    ),
    Entry(
        "constant/initialised",
        WARPS,
        "initialised",
        (read("a", "int32", 64), write("out", "float32", 64)),
        {"a": draws.integers(0, 1000)},
        _initialised,
    ),
    Entry(
        "dynamic_shared/numba",
        WARPS,
        "dynamic_shared",
        (read("a", "float32", 64), write("out", "float32", 64)),
        {},
        _dynamic_shared,
    ),
    Entry(
        "dynamic_shared/64_kib",
        WARPS,
        "large_dynamic",
        (read("a", "int32", 16384), write("out", "int32", 16384)),
        {},
        lambda v: {"out": v["a"].reshape(-1, 4)[::-1].ravel()},
    ),
    Entry(
        "views_and_zeroed_scratch",
        WARPS,
        "views",
        (read("a", "float32", 200), update("out", "float32", 100)),
        {},
        _views,
    ),
)
