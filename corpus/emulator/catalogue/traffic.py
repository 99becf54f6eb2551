"""Entries of kernels/traffic.py: matrix moves, asynchronous copies and atomics at patterns of banks and sectors."""

from __future__ import annotations

import numpy as np

from corpus.emulator import draws
from corpus.emulator.catalogue.shared_memory import DISTINCT, SHARED, SLOTS
from corpus.emulator.draws import Draw
from corpus.emulator.entry import Entry, read, scalar, update, write

FILE = "kernels/traffic.py"
EVERY_LANE = 0xFFFFFFFF
LANE = np.arange(32)

# Rows of 16 bytes in a tile of 256 of them, where the lanes of a matrix move find theirs.
DISTINCT_ROWS = {
    **{f"stride_{n}": LANE * n % 256 for n in (1, 2, 3, 4, 5, 7, 8)},
    "stride_8_padded": LANE * 9 % 256,
    "swizzled": (LANE * 8 + LANE % 8) % 256,
    "half_swizzled": (LANE * 8 + LANE % 4) % 256,
    "one_bank_a_matrix": LANE % 8 * 8 + LANE // 8,
    "matrices_in_other_banks": LANE % 8 * 8 + LANE // 8 * 2 + 64 * (LANE // 16),
    "reversed": LANE[::-1],
    "first_two_meet": np.where(LANE == 1, 64, LANE),
    "two_of_each_matrix_meet": np.where(LANE % 8 == 7, LANE - 7 + 64, LANE),
}
SHARED_ROWS = {
    "all_alike": LANE * 0 + 5,
    "pairs": LANE // 2,
    "pairs_in_one_bank": LANE // 2 * 8,
    "matrices_alike": LANE % 8,
    "matrices_alike_in_one_bank": LANE % 8 * 8,
    "halves_alike": LANE % 16,
    "first_half_of_warp_alike": np.where(LANE < 16, LANE % 8, LANE),
    "two_apart": LANE & ~2,
}

DTYPES = {4: ("int32", 1), 8: ("int32", 2), 16: ("int32", 4), 17: ("int32", 4)}
COPY_MASKS = {"odd_lanes": 0xAAAAAAAA, "first_half": 0xFFFF, "second_quarter": 0xFF00, "scattered": 0x8421_9C07}

# name, dtype, whether shared memory has the operation too, whether the old value can be left out
ATOMICS = (
    ("add_u32", "uint32", True, True),
    ("min_s32", "int32", True, True),
    ("exch_u32", "uint32", True, False),
    ("cas_u32", "uint32", True, False),
    ("inc_u32", "uint32", True, True),
    ("exch_u64", "uint64", True, False),
    ("cas_u64", "uint64", True, False),
    ("max_u64", "uint64", False, True),
    ("add_u64", "uint64", False, True),
    ("add_f32", "float32", False, True),
    ("add_f64", "float64", False, True),
    ("add_f16x2", "uint32", False, True),
)
ATOMIC_PATTERNS = {
    "own": LANE,
    "all_alike": LANE * 0 + 9,
    "pairs": LANE // 2,
    "quads": LANE // 4,
    "halves_alike": LANE % 16,
    "two_alike": np.where(LANE == 7, 3, LANE),
    "alternating": LANE % 2,
    **{f"stride_{n}": LANE * n for n in (2, 4, 16, 33)},
    "pairs_in_one_bank": LANE // 2 * 32,
}


def _loaded(v: dict) -> dict:
    matrices = v["a"].view(np.uint16).reshape(256, 8)[v["rows"]].reshape(-1, 4, 8, 8)[:, : v["count"]]
    if v["transposed"]:
        matrices = matrices.transpose(0, 1, 3, 2)
    return {"out": np.ascontiguousarray(matrices).view(np.uint32).reshape(v["out"].shape)}


def _stored(v: dict) -> dict:
    words = v["a"].reshape(v["count"], 32)
    matrices = np.ascontiguousarray(words).view(np.uint16).reshape(v["count"], 8, 8)
    if v["transposed"]:
        matrices = matrices.transpose(0, 2, 1)
    rows = np.ascontiguousarray(matrices).view(np.uint32).reshape(-1, 4)
    out = np.zeros((len(v["rows"]), 256, 4), np.uint32)
    for i, places in enumerate(v["rows"]):
        out[i, places[: len(rows)]] = rows
    return {"out": out.reshape(v["out"].shape)}


def _matrix_move(load: bool, count: int, transposed: bool) -> Entry:
    patterns = DISTINCT_ROWS | SHARED_ROWS if load else DISTINCT_ROWS
    rows = np.array(list(patterns.values()))
    words, result = (1024, 32 * count) if load else (32 * count, 1024)
    label = f"{'ldmatrix' if load else 'stmatrix'}_banks/x{count}{'_trans' if transposed else ''}"
    return Entry(
        label,
        FILE,
        "load_rows" if load else "store_rows",
        (
            *(read("a", "uint32", words), read("rows", "int32", *rows.shape)),
            *(write("out", "uint32", len(rows), result), scalar("count", count)),
            scalar("transposed", int(transposed)),
        ),
        {"rows": draws.fixed(rows)},
        _loaded if load else _stored,
    )


def _copied(v: dict) -> dict:
    parts = DTYPES[v["width"]][1]
    out = np.zeros((len(v["source"]), SLOTS, parts), np.int32)
    a = v["a"].reshape(-1, parts)
    lanes, kept = (np.array([v[n] >> lane & 1 for lane in range(32)], bool) for n in ("lanes", "kept"))
    for i, (source, target) in enumerate(zip(v["source"], v["target"], strict=True)):
        out[i, target[lanes]] = np.where(kept[:, None], a[source], 0)[lanes]
    return {"out": out.reshape(v["out"].shape)}


def _copy(name: str, width: int, pairs: list, lanes: int = EVERY_LANE, kept: int = EVERY_LANE) -> Entry:
    dtype, parts = DTYPES[width]
    source, target = (np.array(side) for side in zip(*pairs, strict=True))
    n = len(source)
    label = f"cp_async_{width if width < 17 else '16_past_l1'}_bytes/{name}".replace("_16_past_l1_bytes", "_past_l1")
    return Entry(
        label,
        FILE,
        "copy_elements",
        (
            *(read("a", dtype, SLOTS * parts), read("source", "int32", n, 32), read("target", "int32", n, 32)),
            *(write("out", dtype, n, SLOTS * parts), scalar("width", width), scalar("lanes", lanes)),
            scalar("kept", kept),
        ),
        {"source": draws.fixed(source), "target": draws.fixed(target)},
        _copied,
    )


def _copies(width: int) -> list[Entry]:
    strides = [LANE * stride for stride in (1, 2, 4, 5, 8, 32)]
    strided = [_copy("source_strides", width, [(s, LANE) for s in strides])]
    strided.append(_copy("target_strides", width, [(LANE, s) for s in strides]))
    strided.append(_copy("both_strides", width, [(s, s) for s in strides]))
    offsets = [(LANE + offset, LANE) for offset in (3, 6, 24, 30)]
    patterned = [(LANE, index) for index in DISTINCT.values()]
    shared = [(index, LANE) for index in SHARED.values()] if width == 8 else []
    random = np.random.default_rng(width)
    drawn = [(random.integers(0, SLOTS, 32), random.choice(SLOTS, 32, replace=False)) for _ in range(4)]
    return [
        *strided,
        _copy("source_offsets", width, offsets),
        _copy("target_patterns", width, patterned),
        *([_copy("source_patterns", width, shared)] if shared else []),
        _copy("random", width, drawn),
        *(_copy(name, width, [(LANE, LANE), (5 * LANE, 2 * LANE)], mask) for name, mask in COPY_MASKS.items()),
        *(_copy(f"zeros_{name}", width, [(LANE, LANE)], kept=mask) for name, mask in COPY_MASKS.items()),
        _copy("zeros_only", width, [(LANE, LANE)], kept=0),
    ]


def _atomic_inputs(dtype: str, name: str) -> dict[str, Draw]:
    if name == "add_f16x2":
        whole = lambda g, shape, d: g.integers(-8, 9, (*shape, 2)).astype(np.float16).view(d).reshape(shape)  # noqa: E731
        return {"a": whole, "out": whole}
    return {"a": draws.integers(0, 50), "out": draws.integers(0, 50)}


def _atomic(which: int, shared: bool, returns: bool, patterns: dict, label: str, lanes: int = EVERY_LANE) -> Entry:
    name, dtype, *_ = ATOMICS[which]
    index = np.array(list(patterns.values()))
    kind = f"{'atom' if returns else 'red'}_{'shared' if shared else 'global'}"
    return Entry(
        f"{kind}/{name}{label}",
        FILE,
        "combine",
        (
            *(read("a", dtype, 32), read("index", "int32", *index.shape), update("out", dtype, len(index), SLOTS)),
            *(write("old", dtype, *index.shape), scalar("which", which), scalar("space", int(shared))),
            *(scalar("returns", int(returns)), scalar("lanes", lanes)),
        ),
        {**_atomic_inputs(dtype, name), "index": draws.fixed(index)},
        # The order of lanes that meet is the hardware's; where the old values come back they would show it.
    )


def _atomics() -> list[Entry]:
    entries = []
    alone = {k: v for k, v in ATOMIC_PATTERNS.items() if len(set(v.tolist())) == 32}
    for which, (name, _, in_shared, plain) in enumerate(ATOMICS):
        for shared in (False, True) if in_shared else (False,):
            # Old values of lanes that meet depend on their order, so those launches return none.
            entries.append(_atomic(which, shared, True, alone, ""))
            if plain:
                entries.append(_atomic(which, shared, False, ATOMIC_PATTERNS, ""))
                if name == "add_u32":
                    some = {"own": LANE, "every_other": 2 * LANE, "alike": LANE * 0}
                    entries += [_atomic(which, shared, False, some, f"_{n}", m) for n, m in COPY_MASKS.items()]
    return entries


ENTRIES: tuple[Entry, ...] = (
    *(_matrix_move(True, *form) for form in ((1, False), (2, False), (4, False), (4, True))),
    *(_matrix_move(False, *form) for form in ((1, False), (4, False), (4, True))),
    *(entry for width in DTYPES for entry in _copies(width)),
    *_atomics(),
)
