"""Races in global memory in words: who does what where, why nothing orders the two, and what would fix it."""

from __future__ import annotations

from math import prod

import numpy as np

from warplab.emulator.core.state.layout import (
    F_EXTRA,
    F_OTHER,
    F_OTHER_BLOCK,
    F_OTHER_THREAD,
    F_PC,
    F_WRITE,
    OTHER_BLOCK,
    SAME_WARP,
)
from warplab.emulator.core.state.races_layout import (
    BOTH_VOLATILE,
    REASON_MASK,
    REASON_READER_FENCE,
    REASON_SCOPE,
    REASON_SHIFT,
    REASON_WRITER_BARRIER,
    REASON_WRITER_FENCE,
    STRONG_BEFORE,
    STRONG_NOW,
    TOGETHER,
)
from warplab.emulator.report.spelling import Spelling
from warplab.plan.model import Launch


def race_sentence(
    record: np.ndarray,
    place: str,
    lines: np.ndarray,
    launch: Launch,
    words: Spelling,
    only_stores: bool,
    signals: bool,
) -> str:
    """What a FAULT_GLOBAL_RACE says. `place` is the element, `lines` the program's source lines;
    `only_stores`: the line reads no global memory; `signals`: blocks wait for words that others release."""
    extra = int(record[F_EXTRA])
    now, before = bool(extra & STRONG_NOW), bool(extra & STRONG_BEFORE)
    verb = _verb(bool(record[F_WRITE]), now)
    other = _verb(bool(extra & 1), before)
    order = "and volatile does not order" if extra & BOTH_VOLATILE else "and nothing orders"
    return (
        f"{verb} {place}, which {_who(record, lines)} {other} in {_thread(record, launch)}, {order} the two "
        f"({_kind(record)}): {_remedy(record, place, lines, launch, words, only_stores, signals)}."
    )


def same_value_note(record: np.ndarray, place: str, lines: np.ndarray, launch: Launch) -> str:
    """What a FAULT_SAME_VALUE says."""
    line = int(lines[int(record[F_PC])])
    where = f"Line {line}" if line else "The kernel"
    return (
        f"{where} writes {place}, which {_who(record, lines)} writes in {_thread(record, launch)} too, and nothing "
        "orders the two (write-write race of the same value): it changes nothing here, but let one thread write, or "
        "use an atomic, to be sure of it."
    )


def _verb(write: bool, strong: bool) -> str:
    return ("atomically " if strong else "") + ("writes" if write else "reads")


def _who(record: np.ndarray, lines: np.ndarray) -> str:
    line = int(lines[int(record[F_OTHER])])
    return f"line {line}" if line else "another instruction"


def _thread(record: np.ndarray, launch: Launch) -> str:
    if int(record[F_EXTRA]) & SAME_WARP:
        return "another thread of its warp"
    block, thread = int(record[F_OTHER_BLOCK]), int(record[F_OTHER_THREAD])
    return f"thread {_in(thread, launch.block)} of block {_in(block, launch.grid)}"


def _in(number: int, size: tuple[int, int, int]) -> tuple[int, int, int]:
    return number % size[0], number // size[0] % size[1], number // (size[0] * size[1])


def _reason(record: np.ndarray) -> int:
    return int(record[F_EXTRA]) >> REASON_SHIFT & REASON_MASK


def _kind(record: np.ndarray) -> str:
    """As the literature names it."""
    reason = _reason(record)
    if reason == REASON_SCOPE:
        return "insufficient scope"
    if reason in (REASON_WRITER_FENCE, REASON_READER_FENCE):
        return "missing fence"
    if reason == REASON_WRITER_BARRIER:
        return "missing barrier"
    return "write-write race" if record[F_WRITE] and int(record[F_EXTRA]) & 1 else "read-write race"


def is_initialisation(record: np.ndarray, launch: Launch) -> bool:
    """Whether a thread of a launch of several blocks stores to what others update atomically, as to a sum's zero."""
    extra = int(record[F_EXTRA])
    now, before = bool(extra & STRONG_NOW), bool(extra & STRONG_BEFORE)
    return now != before and bool(record[F_WRITE]) and bool(extra & 1) and prod(launch.grid) > 1


def _remedy(
    record: np.ndarray,
    place: str,
    lines: np.ndarray,
    launch: Launch,
    words: Spelling,
    only_stores: bool,
    signals: bool,
) -> str:
    extra, reason = int(record[F_EXTRA]), _reason(record)
    now, before = bool(extra & STRONG_NOW), bool(extra & STRONG_BEFORE)
    one_line = lines[int(record[F_PC])] == lines[int(record[F_OTHER])]
    if is_initialisation(record, launch) and not one_line:
        return f"blocks have no common barrier, so set {place} in a launch of its own before this one"
    if extra & SAME_WARP and not one_line:
        return f"threads of one warp need {words.warp_barrier} between the two"
    if now and before:
        return f"its scope has to be the whole GPU, not the block ({words.atomic})"
    if reason == REASON_SCOPE:
        return f"the fence and the flag between them have to reach the whole GPU ({words.fence}), not the block alone"
    if reason == REASON_WRITER_FENCE:
        return f"the thread that sets the flag needs {words.fence} between what it publishes and the flag"
    if reason == REASON_WRITER_BARRIER:
        return f"the block that sets the flag needs {words.block_barrier} before the thread that does so has its fence"
    if reason == REASON_READER_FENCE:
        return f"the thread that has seen the flag needs {words.fence} before it goes on"
    if now or before:
        # Of several blocks others may come to the element as well, which no block's barrier orders.
        both = "both have to be atomic"
        return f"{both}, or {words.block_barrier} between" if prod(launch.grid) == 1 else both
    both_write = bool(record[F_WRITE]) and bool(extra & 1)
    if one_line and both_write and only_stores and extra & OTHER_BLOCK:
        return f"blocks have no common barrier, so set {place} in a launch of its own, or let one thread alone store it"
    if one_line and (extra & OTHER_BLOCK or both_write):
        return f"the update has to be atomic ({words.atomic}), or every thread needs an element of its own"
    if one_line:
        group, barrier = ("warp", words.warp_barrier) if extra & SAME_WARP else ("block", words.block_barrier)
        return (
            f"the update has to be atomic ({words.atomic}), or every thread needs an element of its own, or, where all "
            f"threads are of one {group}, {barrier} between reading and writing"
        )
    if not extra & OTHER_BLOCK:
        return (
            f"the threads of the block need {words.block_barrier} between the two, or an atomic update if both change "
            "this element"
        )
    if extra & BOTH_VOLATILE:
        return (
            f"an update has to be atomic ({words.atomic}), and data for other blocks needs {words.fence} on both sides "
            "of its flag"
        )
    if both_write:
        return "one of the blocks alone should write it, or both atomically"
    if extra & TOGETHER and signals:
        return (
            "the block that reads has to wait for a signal of the one that writes, with "
            f"{words.block_barrier} before the signal and after the wait"
        )
    if extra & TOGETHER:
        return (
            f"the blocks need a barrier of the whole grid between the two ({words.grid_barrier}, or by hand with "
            f"{words.fence} before a block arrives and after it has waited)"
        )
    return "blocks run in any order, so one of the two belongs into a launch of its own"
