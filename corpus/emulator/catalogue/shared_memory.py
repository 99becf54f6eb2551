"""Entries of kernels/shared_access.py: every width with every pattern of banks."""

from __future__ import annotations

import numpy as np

from corpus.emulator import draws
from corpus.emulator.entry import Entry, read, scalar, write

FILE = "kernels/shared_access.py"
DTYPES = {1: ("int8", 1), 2: ("int16", 1), 4: ("float32", 1), 8: ("float64", 1), 16: ("float32", 4)}
MASKS = {
    "one_lane": 1 << 13,
    "odd_lanes": 0xAAAAAAAA,
    "first_half": 0xFFFF,
    "quarter": 0xFF000000,
    "every_fourth": 0x11111111,
    "scattered": 0x8421_9C07,
}
SLOTS = 1056
EVERY_LANE = 0xFFFFFFFF
_LANE = np.arange(32)

STRIDES = np.array([_LANE * stride for stride in range(1, 34)])  # a launch for each stride from 1 to 33

# Elements that the lanes of a warp ask for. Loads only where lanes share an element.
DISTINCT = {
    "reversed": _LANE[::-1],
    "rotated": (_LANE + 5) % 32,
    "offset_by_one": _LANE + 1,
    "neighbours_swapped": _LANE ^ 1,
    "xor_rows": _LANE ^ (_LANE >> 2),
    "two_words_per_bank": _LANE % 16 + 32 * (_LANE // 16),
    "four_words_per_bank": _LANE % 8 + 32 * (_LANE // 8),
    "halves_far_apart": _LANE % 16 + 512 * (_LANE // 16),
    "quarters_far_apart": _LANE % 8 + 256 * (_LANE // 8),
    "even_then_odd": _LANE * 2 % 32 + _LANE // 16,
    "one_conflict": np.where(_LANE == 31, 32, _LANE),
}
SHARED = {
    "broadcast": _LANE * 0 + 9,
    "pairs": _LANE // 2,
    "quads": _LANE // 4,
    "eights": _LANE // 8,
    "sixteens": _LANE // 16,
    "pairs_two_apart": (_LANE & 1) | (_LANE >> 2 << 1),
    "halves_equal": _LANE % 16,
    "quarters_equal": _LANE % 8,
    "eighths_equal": _LANE % 4,
    "alternating": _LANE % 2,
    "alternating_one_bank": _LANE % 2 * 32,
    "pairs_with_conflicts": _LANE // 2 * 32,
    "pairs_with_stride_2": _LANE // 2 * 2,
    "half_broadcast": np.where(_LANE < 16, 3, _LANE),
    "one_differs": np.where(_LANE == 17, 40, 8),
    "first_pair_differs": np.where(_LANE < 2, _LANE + 64, _LANE // 2),
}


def _random(rows: int, distinct: bool) -> draws.Draw:
    """Each row is drawn from a pool of its own size, so that some lanes meet in words and some in banks."""

    def draw(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        pools = [(64, 128, 256, SLOTS)[r % 4] if distinct else (4, 16, 40, 128, SLOTS)[r % 5] for r in range(rows)]
        chosen = [generator.choice(pool, 32, replace=not distinct) for pool in pools]
        return np.array(chosen, dtype)

    return draw


def _expected_load(v: dict) -> dict:
    parts = DTYPES[v["width"]][1]
    lanes = np.array([v["lanes"] >> lane & 1 for lane in range(32)], bool)
    out = v["out"].reshape(len(v["index"]), 32, parts)
    out[:, lanes] = v["a"].reshape(SLOTS, parts)[v["index"]][:, lanes]
    return {"out": v["out"]}


def _expected_store(v: dict) -> dict:
    parts = DTYPES[v["width"]][1]
    lanes = np.array([v["lanes"] >> lane & 1 for lane in range(32)], bool)
    out = v["out"].reshape(len(v["index"]), 32, parts)
    out[:, lanes] = v["a"].reshape(32, parts)[lanes]
    return {"out": v["out"]}


def _access(operation: str, width: int, name: str, index: draws.Draw, rows: int = 1, lanes: int = EVERY_LANE) -> Entry:
    dtype, parts = DTYPES[width]
    slots = SLOTS if operation == "load" else 32
    arguments = (
        *(read("a", dtype, slots * parts), read("index", "int32", rows, 32), write("out", dtype, rows, 32 * parts)),
        *(scalar("width", width), scalar("lanes", lanes)),
    )
    expected = _expected_load if operation == "load" else _expected_store
    label = f"shared_{operation}_{width}_bytes/{name}"
    return Entry(label, FILE, operation, arguments, {"a": draws.bits, "index": index}, expected)


def _of_width(width: int) -> list[Entry]:
    entries = []
    for operation in ("load", "store"):
        patterns = DISTINCT if operation == "store" else DISTINCT | SHARED
        entries.append(_access(operation, width, "strides_1_to_33", draws.fixed(STRIDES), len(STRIDES)))
        entries += [_access(operation, width, name, draws.fixed(index)) for name, index in patterns.items()]
        entries.append(_access(operation, width, "random", _random(20, operation == "store"), 20))
        for name, lanes in MASKS.items():
            rows = draws.fixed(np.array([_LANE, 2 * _LANE, 5 * _LANE, _LANE * 32]))
            entries.append(_access(operation, width, f"{name}_strides_1_2_5_32", rows, 4, lanes))
    return entries


ENTRIES: tuple[Entry, ...] = (
    *(entry for width in DTYPES for entry in _of_width(width)),
    Entry(
        "shared_load_half_of_8_bytes",
        FILE,
        "pairs",
        (read("a", "float32", 2 * SLOTS), read("index", "int32", 32), write("out", "float32", 32)),
        {"index": draws.fixed(_LANE)},
        lambda v: {"out": v["a"][::2][v["index"]]},
    ),
    Entry(
        "shared_load_several_warps",
        FILE,
        "several_warps",
        (read("a", "float32", SLOTS), read("index", "int32", 96), write("out", "float32", 192)),
        {"index": draws.integers(0, 500)},
        lambda v: {"out": np.concatenate([v["a"][v["index"]], v["a"][v["index"] + 1]])},
    ),
)
