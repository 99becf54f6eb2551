"""Which fault records are one finding, and in which order findings are reported."""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.state.layout import (
    F_BLOCK_X,
    F_BLOCK_Y,
    F_BLOCK_Z,
    F_COUNT,
    F_EXTRA,
    F_KIND,
    F_OTHER,
    F_PC,
    FAULT_DEADLOCK,
    FAULT_RACE,
    SAME_WARP,
)


def merge(records: list[np.ndarray]) -> list[np.ndarray]:
    """Fault records of several workers as one list: the same fault in the earliest block, with the counts added up.

    Where some threads wait for ever for an mbarrier, others wait for them at a barrier: those come last.
    """
    merged: dict[tuple[int, int], np.ndarray] = {}
    for record in records:
        key = (int(record[F_KIND]), int(record[F_PC]))
        known = merged.get(key)
        if known is None:
            merged[key] = record.copy()
            continue
        count = known[F_COUNT] + record[F_COUNT]
        order = (F_BLOCK_Z, F_BLOCK_Y, F_BLOCK_X)
        if [record[f] for f in order] < [known[f] for f in order]:
            known[:] = record
        known[F_COUNT] = count
    ends = [record for record in merged.values() if record[F_KIND] == FAULT_DEADLOCK]
    phases = any(record[F_EXTRA] < 0 for record in ends)

    def order_of(record: np.ndarray) -> list[int]:
        follows = phases and record[F_KIND] == FAULT_DEADLOCK and record[F_EXTRA] >= 0
        return [int(follows), *(int(record[f]) for f in (F_BLOCK_Z, F_BLOCK_Y, F_BLOCK_X))]

    return sorted(merged.values(), key=order_of)


def without_narrower(records: list[np.ndarray], lines: np.ndarray) -> list[np.ndarray]:
    """Fault records without races between lanes of a warp where other warps race on one of the same lines.

    The barrier of the block that those need orders the lanes, too; `__syncwarp()` alone would not be enough.
    """

    def of(record: np.ndarray) -> set[int]:
        return {int(lines[int(record[f])]) for f in (F_PC, F_OTHER)}

    races = [record for record in records if record[F_KIND] == FAULT_RACE]
    wide: set[int] = set().union(*(of(r) for r in races if not int(r[F_EXTRA]) & SAME_WARP))
    return [r for r in records if r[F_KIND] != FAULT_RACE or not int(r[F_EXTRA]) & SAME_WARP or not of(r) & wide]
