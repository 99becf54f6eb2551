"""Faults in tensor memory, as sentences."""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.state.layout import (
    F_ADDRESS,
    F_BYTES,
    F_EXTRA,
    F_WARP,
    F_WRITE,
    FAULT_TENSOR_ORDER,
    FAULT_TENSOR_PLACE,
    FAULT_TENSOR_RULE,
    FAULT_TENSOR_UNWRITTEN,
)
from warplab.emulator.core.state.tensor_layout import (
    COLUMNS,
    ORDER_AFTER,
    ORDER_BEFORE,
    ORDER_COMMIT,
    ORDER_FREEING,
    ORDER_LEFT,
    ORDER_REGISTER,
    ORDER_RELAXED,
    ORDER_WAIT_LOAD,
    ORDER_WAIT_STORE,
    PLACE_ADDRESSES,
    PLACE_FREED,
    PLACE_LANES,
    RULE_ALIGNMENT,
    RULE_COLUMN_SHIFT,
    RULE_DESCRIPTOR,
    RULE_GROWS,
    RULE_LEFT,
    RULE_NO_PAIR,
    RULE_NOT_ALLOCATED,
    RULE_PAIR_STARVED,
    RULE_RELINQUISHED,
    RULE_SHAPE,
    RULE_SHIFT_LANE,
    RULE_SIZE,
    RULE_STARVED,
    WARP_LANES,
)

TENSOR_FAULTS = (FAULT_TENSOR_PLACE, FAULT_TENSOR_ORDER, FAULT_TENSOR_UNWRITTEN, FAULT_TENSOR_RULE)
_KINDS = ("f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4")
_FENCE = "tcgen05.fence::"


def tensor_sentence(fault: int, record: np.ndarray, other: str) -> str:
    """What a fault in tensor memory is; `other` is the line of the earlier access in words, "" if it is not known."""
    reason = int(record[F_EXTRA])
    if fault == FAULT_TENSOR_PLACE:
        return _place(reason, record)
    if fault == FAULT_TENSOR_ORDER:
        return _order(reason, record, other or "an earlier instruction")
    if fault == FAULT_TENSOR_UNWRITTEN:
        return f"reads column {int(record[F_BYTES])} of tensor memory in lane {reason}, which nothing has written yet."
    return _rule(reason, record, other)


def is_advisory(fault: int, record: np.ndarray) -> bool:
    """Is all that is missing what working kernels leave out: a fence of tcgen05 around a synchronisation that releases
    and acquires, or the wait for a load whose registers are used?"""
    return fault == FAULT_TENSOR_ORDER and int(record[F_EXTRA]) in (ORDER_AFTER, ORDER_BEFORE, ORDER_REGISTER)


def _place(reason: int, record: np.ndarray) -> str:
    address, count = int(record[F_ADDRESS]), int(record[F_BYTES])
    verb = "writes" if record[F_WRITE] else "reads"
    lane, column = address >> 16, address & 0xFFFF
    if reason == PLACE_ADDRESSES:
        return f"{verb} tensor memory at addresses that differ among the threads of a warp: let all give the same."
    if reason == PLACE_LANES:
        first = int(record[F_WARP]) % 4 * WARP_LANES
        return (
            f"{verb} tensor memory from lane {lane} on, but this warp reaches {first} to {first + WARP_LANES - 1} "
            f"alone: put {first} into the upper half of the address."
        )
    columns = f"columns {column} to {column + count - 1} of tensor memory"
    if reason == PLACE_FREED:
        return f"{verb} {columns}, which have been deallocated: put tcgen05.dealloc behind it."
    return f"{verb} {columns}, which are not all allocated: allocate as many as it uses, {COLUMNS} at most."


def _order(reason: int, record: np.ndarray, other: str) -> str:
    """An access that an earlier one is not ordered before; F_BYTES: the earlier one writes."""
    verb = "writes" if record[F_WRITE] else "reads"
    earlier = "writes" if record[F_BYTES] else "reads"
    reason &= ~ORDER_RELAXED
    if reason & ORDER_FREEING:
        verb, reason = "deallocates", reason - ORDER_FREEING
    if reason == ORDER_LEFT:
        return (
            "starts a product that may not be done when the block ends: put tcgen05.commit behind it and wait for its "
            "mbarrier."
        )
    if reason == ORDER_REGISTER:
        return (
            f"uses a register that {other} loads from tensor memory, which may not be there yet: put "
            "tcgen05.wait::ld before this line."
        )
    head = f"{verb} tensor memory that {other} {earlier}, "
    if reason == ORDER_COMMIT:
        return head + (
            "which may not be done: put tcgen05.commit behind that line and wait for its mbarrier before this one."
        )
    if reason == ORDER_AFTER:
        return head + f"without a fence behind the wait for that: put {_FENCE}after_thread_sync before this line."
    if reason == ORDER_BEFORE:
        return head + f"without a fence before the synchronisation: put {_FENCE}before_thread_sync behind that line."
    if reason in (ORDER_WAIT_LOAD, ORDER_WAIT_STORE):
        wait = "ld" if reason == ORDER_WAIT_LOAD else "st"
        return head + f"which may not be done: put tcgen05.wait::{wait} behind that line."
    return head + "and nothing orders the two: let one thread wait for the other, with fences of tcgen05 around."


def _rule(reason: int, record: np.ndarray, other: str) -> str:
    value, second = int(record[F_ADDRESS]), int(record[F_BYTES])
    if reason == RULE_SIZE:
        return f"asks for {value} columns of tensor memory: give it a power of two from 32 to {COLUMNS}."
    if reason == RULE_GROWS:
        return (
            f"allocates {value} columns of tensor memory after {second}: a block's allocations may not grow. Let the "
            "largest come first."
        )
    if reason == RULE_RELINQUISHED:
        where = f" on {other}" if other else ""
        return f"allocates tensor memory, though the block gave up the right to{where}: put this before."
    if reason == RULE_NOT_ALLOCATED:
        there = "an allocation of another size begins there" if record[F_WRITE] else "no allocation begins there"
        return (
            f"deallocates {second} columns of tensor memory from column {value & 0xFFFF} on, but {there}: give it the "
            "address and the size of an allocation."
        )
    if reason == RULE_LEFT:
        return (
            f"allocates {value} columns of tensor memory that the block still has when it ends: put tcgen05.dealloc "
            "before its end."
        )
    if reason == RULE_NO_PAIR:
        return (
            "is for a pair of blocks (cta_group::2), but the block's cluster has no other one for it: give the launch "
            "clusters of an even number of blocks."
        )
    if reason == RULE_PAIR_STARVED:
        return (
            f"waits for the other block of the pair to allocate {value} columns of tensor memory as well, which it "
            "never does."
        )
    if reason == RULE_STARVED:
        return f"waits for {value} columns of tensor memory that no warp deallocates."
    if reason == RULE_SHIFT_LANE:
        return f"shifts rows of tensor memory from lane {value >> 16} on: start in lane 0, 32, 64 or 96."
    kind = _KINDS[second]
    if reason == RULE_COLUMN_SHIFT:
        return (
            f"shifts the columns of B by more than its instruction descriptor 0x{value:08x} allows: set its bits 30 "
            "and 31 to 1, 2 or 3 for at most 8, 16 or 32 columns. With m = 32 the most is 16."
        )
    if reason == RULE_SHAPE:
        m, n = (value >> 24 & 0x1F) << 4, (value >> 17 & 0x3F) << 3
        return f"asks for a product of kind::{kind} with m = {m} and n = {n}, which the tensor core does not have."
    if reason == RULE_DESCRIPTOR:
        return (
            f"gives a product of kind::{kind} a matrix descriptor that is not well formed, or transposes what it may "
            "not: bits 46 to 48 are 1, the swizzle in bits 61 to 63 is 0, 1, 2, 4 or 6."
        )
    if reason == RULE_ALIGNMENT:
        return (
            "gives a product a matrix that starts in the wrong lane of tensor memory: start D, A and metadata in lane "
            "0, or in lane 16 with m = 64."
        )
    return f"asks for a product of kind::{kind} with types that it does not have: 0x{value:08x} is its descriptor."
