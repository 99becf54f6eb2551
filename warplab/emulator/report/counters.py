"""Per-instruction counts to the counters of a launch, in total and per line of the submission."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from functools import cached_property

import numpy as np

from warplab.emulator.core.state.bulk_layout import (
    FORM_DIRECTION,
    FORM_OPERATION_SHIFT,
    TO_GLOBAL,
    TO_SHARED,
    WITHIN_CLUSTER,
)
from warplab.emulator.core.state.layout import (
    ACQUIRE_BIT,
    ATOMIC_CAS,
    ATOMIC_EXCH,
    C_DIVERGED,
    C_IDEAL,
    C_IDEAL_SECTORS,
    C_LOCAL_REQUESTS,
    C_LOCAL_SECTORS,
    C_PRODUCTS,
    C_REMOTE,
    C_REQUESTS,
    C_SECTORS,
    C_SHARED_REQUESTS,
    C_THREADS,
    C_WARPS,
    C_WAVEFRONTS,
    CLUSTER_ARRIVE,
    IMM,
    OP,
    OP_ATOMIC,
    OP_BARRIER,
    OP_BULK,
    OP_CLUSTER_BARRIER,
    OP_COPY,
    OP_LDMATRIX,
    OP_LOAD,
    OP_MMA,
    OP_REMOTE,
    OP_STMATRIX,
    OP_STORE,
    OP_TENSOR_CORE,
    OP_WATCH,
    OP_WGMMA,
    OP_WGMMA_GROUP,
    WGMMA_WAIT,
    X0,
    X2,
    X4,
    X7,
)
from warplab.emulator.program import Program, Work, WorkKind, local_words
from warplab.plan.execution import CacheTraffic, Counters, LaunchProfile
from warplab.plan.model import Cubin, Launch

Amounts = dict[str, int]  # by the name of a counter


def _shared(name: str, counts: list[int]) -> Amounts:
    return {
        f"{name}_requests": counts[C_SHARED_REQUESTS],
        f"{name}_wavefronts": counts[C_WAVEFRONTS],
        f"{name}_bank_conflicts": counts[C_WAVEFRONTS] - counts[C_IDEAL],
    }


def _is_reduction(record: list[int]) -> bool:
    """Does the assembler make a reduction of an atomic? It does of those whose result nothing reads, but there is none
    that exchanges or acquires."""
    return not (record[X4] or record[X2] in (ATOMIC_EXCH, ATOMIC_CAS) or record[X7] & ACQUIRE_BIT)


def _of_instruction(record: list[int], counts: list[int]) -> Amounts:
    op = record[OP]
    result = {
        "warp_instructions": counts[C_WARPS],
        "thread_instructions": counts[C_THREADS],
        "divergent_branches": counts[C_DIVERGED],
    }
    if op in (OP_LOAD, OP_STORE):
        kind = "load" if op == OP_LOAD else "store"
        result |= {
            f"global_{kind}_requests": counts[C_REQUESTS],
            f"global_{kind}_sectors": counts[C_SECTORS],
            f"global_{kind}_ideal_sectors": counts[C_IDEAL_SECTORS],
            f"local_{kind}_requests": counts[C_LOCAL_REQUESTS],
            f"local_{kind}_sectors": counts[C_LOCAL_SECTORS],
            f"cluster_{kind}_wavefronts": counts[C_REMOTE],
            **_shared(f"shared_{kind}", counts),
        }
    elif op == OP_ATOMIC:
        kind = "reduction" if _is_reduction(record) else "atomic"
        result |= {
            f"global_{kind}_requests": counts[C_REQUESTS],
            f"global_{kind}_sectors": counts[C_SECTORS],
            "cluster_store_wavefronts": counts[C_REMOTE],
            **_shared("shared_atomic", counts),
        }
    elif op == OP_REMOTE:
        result["cluster_store_wavefronts"] = counts[C_REMOTE]
    elif op == OP_BARRIER or op == OP_CLUSTER_BARRIER and record[X0] == CLUSTER_ARRIVE:
        result["barriers"] = counts[C_WARPS]
    elif op in (OP_LDMATRIX, OP_STMATRIX):
        kind = "load" if op == OP_LDMATRIX else "store"
        result |= _shared(f"matrix_{kind}", counts) | _shared(f"shared_{kind}", counts)
    elif op == OP_COPY:
        route = "bypass" if record[X2] else "cached"
        result |= {
            f"async_copy_{route}_requests": counts[C_REQUESTS],
            f"async_copy_{route}_sectors": counts[C_SECTORS],
            # The hardware counts these among its global loads too, but for those of which no lane reads anything.
            "global_load_requests": counts[C_REQUESTS] - counts[C_LOCAL_REQUESTS],
            "global_load_sectors": counts[C_SECTORS],
            "global_load_ideal_sectors": counts[C_IDEAL_SECTORS],
            **_shared("async_copy", counts),
        }
    elif op == OP_BULK:
        form = record[X7]
        way = {TO_SHARED: "load", TO_GLOBAL: "store", WITHIN_CLUSTER: "cluster"}[form & FORM_DIRECTION]
        if way == "store" and form >> FORM_OPERATION_SHIFT & 255:
            way = "reduction"
        result |= {f"bulk_{way}_requests": counts[C_REQUESTS], f"bulk_{way}_bytes": counts[C_IDEAL]}
        if way != "cluster":
            result[f"bulk_{way}_sectors"] = counts[C_SECTORS]
    elif op == OP_TENSOR_CORE:
        result |= {"tensor_instructions": counts[C_REQUESTS], "tensor_multiply_adds": counts[C_PRODUCTS]}
    elif op == OP_WGMMA:
        result["warpgroup_read_requests"] = counts[C_SHARED_REQUESTS]
        result["warpgroup_read_wavefronts"] = counts[C_WAVEFRONTS]
    elif op == OP_WGMMA_GROUP and record[X0] == WGMMA_WAIT and record[IMM] == 0:
        result["warpgroup_drains"] = counts[C_WARPS]
    return result


def _work(kind: WorkKind, counts: list[int], assembled: bool) -> Amounts:
    result = {}
    if kind.work is not Work.TENSOR:
        result[f"{kind.work.value}_instructions"] = counts[C_WARPS]
    if kind.wide:
        result["wide_integer_instructions"] = counts[C_WARPS]
    if kind.operation and not (assembled and kind.operation[0] in "fd"):
        result[f"thread_{kind.operation}"] = kind.operations * counts[C_THREADS]
    return result


def _add(sums: Amounts, amounts: Amounts) -> None:
    """Add amounts to sums that start at 0. Most of an instruction's are 0."""
    for name, amount in amounts.items():
        if amount:
            sums[name] += amount


class CountedLaunch(LaunchProfile):
    """A launch with its counts, int64 [instructions, C_FIELDS], which are summed when somebody asks for counters.

    A case is run in several orders, and of most of them only outputs and findings are looked at.
    """

    def __init__(
        self, launch: Launch, program: Program, counts: np.ndarray, caches: CacheTraffic | None, cubin: Cubin | None
    ) -> None:
        self.kernel, self.grid, self.block, self.caches = launch.kernel, launch.grid, launch.block, caches
        self.launch, self.program, self.counts, self.cubin = launch, program, counts, cubin

    @cached_property
    def _folded(self) -> tuple[Counters, dict[int, Counters]]:
        return fold(self.program, self.counts)

    @property
    def total(self) -> Counters:  # type: ignore[override]
        """Counters of the whole launch."""
        return self._folded[0]

    @property
    def lines(self) -> dict[int, Counters]:  # type: ignore[override]
        """Counters per line of the submission."""
        return self._folded[1]

    @property
    def code_lines(self) -> frozenset[int]:
        """The lines of the kernel's instructions."""
        return self._lines_of(self.program.counted)

    @property
    def ran_lines(self) -> frozenset[int]:
        """Those of instructions that a thread ran: a guard may switch all lanes off."""
        return self._lines_of(self.program.counted & (self.counts[:, C_THREADS] > 0))

    def _lines_of(self, chosen: np.ndarray) -> frozenset[int]:
        return frozenset(np.unique(self.program.lines[chosen]).tolist()) - {0}


def fold(program: Program, counts: np.ndarray) -> tuple[Counters, dict[int, Counters]]:
    """Sum the counts (int64 [instructions, C_FIELDS]) over the kernel and over each source line."""
    lines: defaultdict[int, Amounts] = defaultdict(lambda: defaultdict(int))
    places = np.flatnonzero(counts.any(axis=1))
    used = (table[places].tolist() for table in (program.code, counts, program.lines))
    for pc, record, row, place in zip(places.tolist(), *used, strict=True):
        op = record[OP]
        if op == OP_WATCH or not (program.counted[pc] or program.texts[pc]):
            continue  # the emulator's own
        issued = row[C_WARPS]
        if not program.counted[pc]:
            # An extra step of an instruction: only what it does to memory counts.
            row[C_WARPS] = row[C_THREADS] = 0
        if op in (OP_LOAD, OP_STORE):
            row[C_LOCAL_REQUESTS] *= local_words(record)
        share = program.shares.get(pc)
        if share is not None:  # the assembler kept a part of the copies of an access
            row[:] = [n if i in (C_WARPS, C_THREADS) else round(n * share) for i, n in enumerate(row)]
        if pc in program.elected:
            row[C_SECTORS] = row[C_REQUESTS]
            row[C_WAVEFRONTS] = row[C_IDEAL] = row[C_SHARED_REQUESTS]
        line = lines[place]
        _add(line, _of_instruction(record, row))
        if op in (OP_MMA, OP_WGMMA):  # a wmma is several, of which each counts here
            line["tensor_instructions"] += issued if share is None else round(issued * share)
            line["tensor_multiply_adds"] += issued * record[IMM]
        _add(line, _work(program.kinds[pc], row, program.terms is not None))
    for place, counter, amount in _of_machine_code(program, counts):
        lines[place][counter] += amount
    total: Amounts = defaultdict(int)
    for line in lines.values():
        _add(total, line)
    return Counters(**total), {place: Counters(**line) for place, line in lines.items()}


def _of_machine_code(program: Program, counts: np.ndarray) -> list[tuple[int, str, int]]:
    """What the machine code does that counts by itself: line of the submission, counter, amount."""
    terms = program.terms or ()
    executed = {what: counts[:, what].tolist() for what in {term.what for term in terms}}
    places = program.lines.tolist()
    # Thousands of terms have a few denominators: whole numbers are added for each of these.
    sums: defaultdict[tuple[int, str, int], int] = defaultdict(int)
    for term in terms:
        column = executed[term.what]
        if passes := sum([column[pc] for pc in term.of]):
            sums[places[term.at], term.counter, term.share.denominator] += term.share.numerator * passes
    amounts: defaultdict[tuple[int, str], Fraction] = defaultdict(Fraction)
    for (line, counter, denominator), amount in sums.items():
        amounts[line, counter] += Fraction(amount, denominator)
    return [(line, counter, round(amount)) for (line, counter), amount in amounts.items() if amount]
