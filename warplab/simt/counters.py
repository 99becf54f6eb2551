"""Per-instruction counts to the counters of a launch, in total and per line of the submission."""

from __future__ import annotations

import numpy as np

from warplab.plan.execution import Counters
from warplab.simt.layout import (
    C_DIVERGED,
    C_IDEAL,
    C_IDEAL_SECTORS,
    C_LOCAL_REQUESTS,
    C_LOCAL_SECTORS,
    C_REQUESTS,
    C_SECTORS,
    C_SHARED_REQUESTS,
    C_THREADS,
    C_WARPS,
    C_WAVEFRONTS,
    OP,
    OP_ATOMIC,
    OP_BARRIER,
    OP_LOAD,
    OP_STORE,
)
from warplab.simt.program import Program


def _of_instruction(op: int, counts: list[int]) -> Counters:
    result = Counters(
        warp_instructions=counts[C_WARPS], thread_instructions=counts[C_THREADS], divergent_branches=counts[C_DIVERGED]
    )
    if op in (OP_LOAD, OP_STORE):
        kind = "load" if op == OP_LOAD else "store"
        values = {
            f"global_{kind}_requests": counts[C_REQUESTS],
            f"global_{kind}_sectors": counts[C_SECTORS],
            f"global_{kind}_ideal_sectors": counts[C_IDEAL_SECTORS],
            f"local_{kind}_requests": counts[C_LOCAL_REQUESTS],
            f"local_{kind}_sectors": counts[C_LOCAL_SECTORS],
            f"shared_{kind}_requests": counts[C_SHARED_REQUESTS],
            f"shared_{kind}_wavefronts": counts[C_WAVEFRONTS],
            f"shared_{kind}_bank_conflicts": counts[C_WAVEFRONTS] - counts[C_IDEAL],
        }
        for name, value in values.items():
            setattr(result, name, value)
    elif op == OP_ATOMIC:
        result.global_atomic_requests = counts[C_REQUESTS]
        result.global_atomic_sectors = counts[C_SECTORS]
        result.shared_atomic_requests = counts[C_SHARED_REQUESTS]
    elif op == OP_BARRIER:
        result.barriers = counts[C_WARPS]
    return result


def fold(program: Program, counts: np.ndarray) -> tuple[Counters, dict[int, Counters]]:
    """Sum the counts (int64 [instructions, C_FIELDS]) over the kernel and over each source line."""
    total = Counters()
    lines: dict[int, Counters] = {}
    for pc in np.flatnonzero(counts.any(axis=1)):
        row = [int(c) for c in counts[pc]]
        if not program.counted[pc]:
            # An extra step of an instruction: only what it does to memory counts.
            row[C_WARPS] = row[C_THREADS] = 0
        counters = _of_instruction(int(program.code[pc, OP]), row)
        total += counters
        line = lines.setdefault(int(program.lines[pc]), Counters())
        line += counters
    return total, lines
