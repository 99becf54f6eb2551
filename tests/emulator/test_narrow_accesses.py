"""Races at bytes and half words that threads touch one after the other, by an instruction each."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.plans import buffer, plan_of
from warplab.emulator import execute
from warplab.plan.execution import FindingKind
from warplab.plan.model import Pointer, Role

PTX = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry kernel(.param .u64 data, .param .u64 out)
{
    .reg .pred %p<5>;
    .reg .b32 %r<9>;
    .reg .b64 %rd<9>;
    .shared .align 16 .b8 tile[384];
    ld.param.u64 %rd1, [data];
    ld.param.u64 %rd2, [out];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mad.lo.u32 %r4, %r2, %r3, %r1;
    mov.u32 %r5, tile;
    mad.lo.u32 %r5, %r1, 4, %r5;
    st.shared.u32 [%r5], %r1;
    bar.sync 0;
    add.u32 %r7, %r4, 0x01010101;
ACCESSES
    mul.wide.u32 %rd3, %r4, 4;
    add.u64 %rd3, %rd2, %rd3;
    st.global.u32 [%rd3], %r6;
    ret;
}
"""
LOAD, STORE = "ld.{space}.{kind} %r6, [{base}+{byte}]", "st.{space}.{kind} [{base}+{byte}], %r7"
VOLATILE = "st.volatile.{space}.{kind} [{base}+{byte}], %r7"
ATOMIC = "red.{space}.add.{kind} [{base}+{byte}], %r7"
ATOMICS = (
    "    setp.eq.u32 %p3, %r1, 999;\n    @%p3 red.global.add.u32 [%rd2], 1;\n"  # never, but blocks are compared live
)
# Space, blocks, what comes first
PLACES = {
    "shared memory": ("shared", 1, ""),
    "a block": ("global", 1, ""),
    "blocks": ("global", 2, ""),
    "blocks with atomics": ("global", 2, ATOMICS),  # that never run, but blocks are compared as they run
}
# Accesses in their order: (thread, operation, type, byte). Threads A and B are of two warps, or of two blocks.
Accesses = list[tuple[str, str, str, int]]
RACES: list[Accesses] = [
    [("A", LOAD, "u8", 0), ("A", LOAD, "u8", 1), ("B", STORE, "u8", 0)],
    [("A", STORE, "u8", 0), ("A", STORE, "u8", 1), ("B", LOAD, "u8", 0)],
    [("A", STORE, "u8", 0), ("A", STORE, "u8", 1), ("B", STORE, "u8", 0)],
    [("A", STORE, "u16", 0), ("A", STORE, "u16", 2), ("B", LOAD, "u16", 0)],
    [("A", LOAD, "u32", 0), ("A", LOAD, "u8", 3), ("B", STORE, "u16", 0)],
    [("A", STORE, "u32", 0), ("A", STORE, "u8", 3), ("B", LOAD, "u16", 0)],
    [("A", STORE, "u32", 0), ("B", LOAD, "u8", 2)],
    [("A", LOAD, "u8", 3), ("B", STORE, "u32", 0)],
    [("A", STORE, "u8", 0), ("A", VOLATILE, "u8", 1), ("B", LOAD, "u8", 0)],
    [("A", VOLATILE, "u8", 0), ("A", STORE, "u8", 1), ("B", LOAD, "u8", 0)],
    [("A", STORE, "u8", 0), ("B", STORE, "u8", 1), ("B", LOAD, "u8", 0)],
    [("A", STORE, "u16", 0), ("B", STORE, "u8", 3), ("B", STORE, "u8", 1)],
    [("A", STORE, "u8", 0), ("B", STORE, "u8", 1), ("C", STORE, "u8", 2), ("C", LOAD, "u8", 0)],
    [("A", LOAD, "u8", 0), ("B", LOAD, "u8", 1), ("C", LOAD, "u8", 2), ("C", STORE, "u8", 0)],
]
RIGHT: list[Accesses] = [
    [("A", LOAD, "u8", 0), ("A", LOAD, "u8", 1), ("B", STORE, "u8", 2)],
    [("A", STORE, "u8", 0), ("A", STORE, "u8", 1), ("B", LOAD, "u8", 2)],
    [("A", STORE, "u16", 0), ("A", STORE, "u8", 2), ("B", STORE, "u8", 3)],
    [("A", LOAD, "u32", 0), ("A", LOAD, "u8", 1), ("B", LOAD, "u16", 0)],
    [("A", STORE, "u8", 0), ("A", STORE, "u8", 1), ("A", LOAD, "u8", 0), ("B", STORE, "u16", 2)],
    [("A", LOAD, "u32", 0), ("B", STORE, "u8", 5), ("C", LOAD, "u8", 4)],
    [("A", STORE, "u8", 0), ("A", VOLATILE, "u8", 1), ("B", LOAD, "u8", 2)],
    [("A", STORE, "u8", 4), ("A", VOLATILE, "u32", 0), ("B", ATOMIC, "u32", 0)],
]


def kinds(place: str, threads: dict[str, int], accesses: Accesses, dtype: str, between: str = "") -> set[FindingKind]:
    space, blocks, first = PLACES[place]
    base = "tile" if space == "shared" else "%rd1"
    lines = []
    for number, (thread, operation, kind, byte) in enumerate(accesses):
        if number + 1 == len(accesses):
            lines.append(between)
        lines.append(f"    setp.eq.u32 %p1, %r4, {threads[thread]};")
        lines.append(f"    @%p1 {operation.format(space=space, base=base, kind=kind, byte=byte)};")
    return found(first + "\n".join(lines), dtype, blocks)


def found(accesses: str, dtype: str, blocks: int) -> set[FindingKind]:
    ptx = PTX.replace("ACCESSES", accesses)
    data, out = np.zeros(256 // np.dtype(dtype).itemsize, dtype), np.zeros(256, np.uint32)
    buffers = {name: buffer(name, array, Role.INOUT) for name, array in (("data", data), ("out", out))}
    plan = plan_of(ptx, "kernel", buffers, (Pointer("data"), Pointer("out")), (blocks,), (96 // blocks,))
    result = execute(plan, {"data": data, "out": out})
    return {finding.kind for finding in result.findings}


THREADS = [{"A": 0, "B": 48, "C": 90}, {"A": 90, "B": 48, "C": 0}, {"A": 50, "B": 0, "C": 70}]


@pytest.mark.parametrize("dtype", ["uint8", "float32", "complex64"])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("accesses", RACES)
def test_no_access_hides_an_earlier_one_to_other_bytes(accesses: Accesses, place: str, dtype: str) -> None:
    for threads in THREADS[: 3 if dtype == "float32" else 1]:
        assert kinds(place, threads, accesses, dtype) == {FindingKind.RACE}, threads


@pytest.mark.parametrize("dtype", ["uint8", "float32", "complex64"])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("accesses", RIGHT)
def test_other_bytes_do_not_race(accesses: Accesses, place: str, dtype: str) -> None:
    for threads in THREADS[: 3 if dtype == "float32" else 1]:
        assert kinds(place, threads, accesses, dtype) == set(), threads


@pytest.mark.parametrize("accesses", RACES)
def test_lanes_of_a_warp_race_at_bytes_as_warps_do(accesses: Accesses) -> None:
    assert kinds("shared memory", {"A": 5, "B": 0, "C": 31}, accesses, "uint8") == {FindingKind.RACE}


@pytest.mark.parametrize("place", ["shared memory", "a block"])
@pytest.mark.parametrize("accesses", [pair for pair in RACES if len({thread for thread, *_ in pair[:-1]}) == 1])
def test_a_barrier_orders_all_of_them(accesses: Accesses, place: str) -> None:
    assert kinds(place, THREADS[0], accesses, "float32", "    bar.sync 0;") == set()


WIDE, PAIR = "st.global.b64 [%rd1], %rd4", "st.global.v2.b32 [%rd1], {%r5, %r7}"


@pytest.mark.parametrize(("store", "low", "high"), [(WIDE, "%r7", "%r7"), (WIDE, "%r5", "%r7"), (PAIR, "0", "%r7")])
@pytest.mark.parametrize("dtype", ["uint8", "float32", "complex64", "int64"])
@pytest.mark.parametrize("first", ["", ATOMICS])
def test_values_that_differ_in_a_part_are_different(store: str, low: str, high: str, dtype: str, first: str) -> None:
    """Blocks may write one value to an element, but not values with equal halves, or with one equal half."""
    made = f"mov.u32 %r5, 7; sub.u32 %r7, 0, %r2; mov.b64 %rd4, {{{low}, {high}}};\n"
    accesses = f"{first}    {made}    setp.eq.u32 %p1, %r1, 0;\n    @%p1 {store};"
    assert found(accesses, dtype, 2) == {FindingKind.RACE}
    assert found(accesses.replace("%r2;", "5;"), dtype, 2) == set()
