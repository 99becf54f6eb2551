"""Races at bytes and half words that a warp touches one after the other, by an instruction each."""

from __future__ import annotations

import numpy as np
import pytest

import warplab
from warplab.plan.execution import FindingKind

pytestmark = pytest.mark.processes

PTX = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry kernel(.param .u64 out)
{
    .reg .pred %p<3>;
    .reg .b32 %r<9>;
    .reg .b64 %rd<9>;
    .shared .align 16 .b8 tile[256];
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, tile;
    shl.b32 %r5, %r1, 2;
    add.u32 %r5, %r2, %r5;
    st.shared.u32 [%r5], %r1;
    bar.sync 0;
    setp.eq.u32 %p1, %r1, ONE;
    setp.eq.u32 %p2, %r1, OTHER;
ACCESSES
    mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r6;
    ret;
}
"""
LOAD, STORE = "ld.shared.{0} %r6, [tile+{1}]", "st.shared.{0} [tile+{1}], %r1"
THREADS = [(0, 32), (32, 0)]  # whichever warp comes first
# Accesses of one thread, then one of another: (operation, type, byte)
RACES = [
    [(LOAD, "u8", 0), (LOAD, "u8", 1), (STORE, "u8", 0)],
    [(STORE, "u8", 0), (STORE, "u8", 1), (LOAD, "u8", 0)],
    [(STORE, "u8", 0), (STORE, "u8", 1), (STORE, "u8", 0)],
    [(STORE, "u16", 0), (STORE, "u16", 2), (LOAD, "u16", 0)],
    [(LOAD, "u32", 0), (LOAD, "u8", 3), (STORE, "u16", 0)],
    [(STORE, "u32", 0), (STORE, "u8", 3), (LOAD, "u16", 0)],
]
RIGHT = [
    [(LOAD, "u8", 0), (LOAD, "u8", 1), (STORE, "u8", 2)],
    [(STORE, "u8", 0), (STORE, "u8", 1), (LOAD, "u8", 2)],
    [(STORE, "u16", 0), (STORE, "u8", 2), (STORE, "u8", 3)],
    [(LOAD, "u32", 0), (LOAD, "u8", 1), (LOAD, "u16", 0)],
]


def kinds(threads: tuple[int, int], accesses: list[tuple[str, str, int]], between: str = "") -> set[FindingKind]:
    texts = [operation.format(kind, byte) for operation, kind, byte in accesses]
    lines = [f"    @%p1 {text};" for text in texts[:-1]] + [between, f"    @%p2 {texts[-1]};"]
    ptx = PTX.replace("ONE", str(threads[0])).replace("OTHER", str(threads[1])).replace("ACCESSES", "\n".join(lines))
    result = warplab.emulate(ptx, args=(np.zeros(64, np.uint32),), grid=1, block=64)
    return {finding.kind for finding in result.findings}


@pytest.mark.parametrize("threads", [*THREADS, (5, 0), (0, 5)])
@pytest.mark.parametrize("accesses", RACES)
def test_no_access_hides_an_earlier_one_to_other_bytes(
    threads: tuple[int, int], accesses: list[tuple[str, str, int]]
) -> None:
    assert kinds(threads, accesses) == {FindingKind.RACE}


@pytest.mark.parametrize("threads", [*THREADS, (5, 0)])
@pytest.mark.parametrize("accesses", RIGHT)
def test_other_bytes_do_not_race(threads: tuple[int, int], accesses: list[tuple[str, str, int]]) -> None:
    assert kinds(threads, accesses) == set()


@pytest.mark.parametrize("accesses", RACES)
def test_a_barrier_orders_all_of_them(accesses: list[tuple[str, str, int]]) -> None:
    assert kinds((0, 32), accesses, "    bar.sync 0;") == set()
