"""Entries of kernels/headers.py."""

from __future__ import annotations

import numpy as np

from corpus.emulator import draws
from corpus.emulator.entry import Entry, read, update, write

FILE = "kernels/headers.py"


def _tile_reduce(v: dict) -> dict:
    tiles = v["a"].reshape(-1, 8)
    pairs = np.stack([tiles.sum(1), tiles.max(1)], 1).ravel()
    running = np.cumsum(tiles, 1) + (np.arange(32) % 16)[:, None]
    return {"out": np.concatenate([pairs, running.ravel()]).astype(np.int32)}


def _labels(v: dict) -> dict:
    a = v["a"]
    sizes = np.array([(a == x).sum() for x in a])
    ranks = np.array([(a[:i] == x).sum() for i, x in enumerate(a)])
    return {"out": (sizes * 100 + ranks).astype(np.int32)}


def _tile_votes(v: dict) -> dict:
    out = []
    for tile in v["a"].reshape(-1, 16):
        bits = 1 << np.arange(16)
        ballot, any_, all_ = int(bits[(tile & 1) == 1].sum()), bool((tile > 90).any()), bool((tile < 50).all())
        for i, x in enumerate(tile):
            same = int(bits[(tile & 3) == (x & 3)].sum())
            out.append(ballot * 3 + same + any_ * 7 + all_ * 11 + int(tile[i ^ 5]) * 65536)
    return {"out": (np.array(out) & 0xFFFFFFFF).astype(np.uint32)}


def _block_reduce(v: dict) -> dict:
    blocks = v["a"].reshape(-1, 128)
    return {"out": np.stack([blocks.sum(1, dtype=np.int32), blocks.min(1)], 1).ravel()}


def _block_scan(v: dict) -> dict:
    blocks = v["a"].reshape(-1, 256)
    return {"out": (np.cumsum(blocks, 1, dtype=np.int32) - blocks).ravel()}


def _radix_sort(v: dict) -> dict:
    order = np.argsort(v["keys"], kind="stable")
    return {"sorted_keys": v["keys"][order], "order": v["values"][order]}


def _warp_algorithms(v: dict) -> dict:
    return {
        "sums": v["a"].reshape(2, 32).sum(1),
        "scans": np.cumsum(v["b"].reshape(2, 32), 1, dtype=np.int32).ravel(),
    }


def _barrier_phases(v: dict) -> dict:
    total = np.zeros(64, np.int64)
    for row in v["a"]:
        total = total * 3 + np.roll(row, -17)
    return {"out": total.astype(np.int32)}


def _atomic_refs(v: dict) -> dict:
    sums = v["a"].reshape(3, 64).sum(1)
    wide = int(v["wide"][0])
    for _ in range(3):
        wide = wide * 3 + 1 & 2**64 - 1
    out = np.array([v["out"][0] + sums.sum(), max(v["out"][1], sums.max())], np.int32)
    return {"out": out, "wide": np.array([wide], np.uint64)}


def _standard(v: dict) -> dict:
    z = v["a"][::2].astype(np.complex128) + 1j * v["a"][1::2]
    w = (-1 + 1j) * z * z + 2j * z + 1
    words = v["words"]
    first = [(int(x) & -int(x)).bit_length() - 1 if x else -7 for x in words]
    places = np.array([f + 100 * int(x).bit_count() for f, x in zip(first, words, strict=True)], np.int32)
    return {"out": np.stack([w.real, w.imag], 1).ravel(), "places": places}


def _entry(name: str, expected, *arguments, **inputs) -> Entry:
    return Entry(f"headers/{name}", FILE, name, arguments, inputs, expected)


def _filter(v: dict) -> dict:
    kept = v["a"][v["a"] > 0]  # all alike: their order is the warps'
    return {"count": v["count"] + np.int32(kept.size), "out": np.r_[kept, np.full(256 - kept.size, -1, np.int32)]}


ENTRIES: tuple[Entry, ...] = (
    _entry("tile_reduce", _tile_reduce, read("a", "int32", 256), write("out", "int32", 320),
           a=draws.integers(-100, 100)),
    _entry("filter_positive", _filter, read("a", "int32", 256), update("count", "int32", 1), write("out", "int32", 256),
           a=draws.integers(-1, 2), count=draws.fixed([0])),
    _entry("labels", _labels, read("a", "int32", 32), write("out", "int32", 32), a=draws.integers(0, 5)),
    _entry("staged", lambda v: {"out": v["a"].reshape(2, 128)[:, ::-1].ravel()}, read("a", "float32", 256),
           write("out", "float32", 256)),
    _entry("tile_votes", _tile_votes, read("a", "int32", 64), write("out", "uint32", 64), a=draws.integers(0, 97)),
    _entry("block_reduce", _block_reduce, read("a", "int32", 384), write("out", "int32", 6)),
    _entry("block_scan", _block_scan, read("a", "int32", 512), write("out", "int32", 512)),
    _entry("radix_sort", _radix_sort, read("keys", "int32", 256), read("values", "int32", 256),
           write("sorted_keys", "int32", 256), write("order", "int32", 256), values=draws.identity),
    _entry("block_histogram", lambda v: {"out": np.bincount(v["a"], minlength=256).astype(np.int32)},
           read("a", "uint8", 256), write("out", "int32", 256), a=draws.integers(0, 40)),
    _entry("run_heads", lambda v: {"out": np.cumsum(np.r_[1, np.diff(v["a"]) != 0]).astype(np.int32)},
           read("a", "int32", 128), write("out", "int32", 128), a=draws.integers(0, 2)),
    _entry("warp_algorithms", _warp_algorithms, read("a", "float32", 64), read("b", "int32", 64),
           write("sums", "float32", 2), write("scans", "int32", 64),
           a=draws.integers(-4, 5)),
    _entry("barrier_phases", _barrier_phases, read("a", "int32", 3, 64), write("out", "int32", 64)),
    _entry("pipelined", lambda v: {"out": v["a"].astype(np.float64)[:, ::-1].sum(0)}, read("a", "float32", 5, 64),
           write("out", "float32", 64)),
    _entry("atomic_refs", _atomic_refs, read("a", "int32", 192), update("out", "int32", 2), update("wide", "uint64", 1),
           a=draws.integers(-50, 50)),
    _entry("standard", _standard, read("a", "float32", 128), read("words", "uint32", 64), write("out", "float32", 128),
           write("places", "int32", 64), words=draws.integers(0, 16)),
)  # fmt: skip
