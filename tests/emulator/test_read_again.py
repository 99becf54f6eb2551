"""A lane that reads a word of shared memory once more does not hide from a write that others have read it."""

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
    .reg .pred %p<2>;
    .reg .b32 %r<9>;
    .reg .b64 %rd<9>;
    .shared .align 16 .b8 tile[128];
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, tile;
    shl.b32 %r3, %r1, 2;
    add.u32 %r4, %r2, %r3;
    st.shared.u32 [%r4], %r1;
    bar.warp.sync -1;
READ
    setp.ne.u32 %p1, %r1, LEADER;
BARRIER
    @%p1 bra DONE;
AGAIN
    st.shared.u32 [%r2], %r1;
DONE:
    mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r5;
    ret;
}
"""
ALL = "    ld.shared.u32 %r5, [tile];"
HALF = "    setp.lt.u32 %p1, %r1, 16;\n    @%p1 ld.shared.u32 %r5, [tile];"
OWN = "    ld.shared.u32 %r5, [%r4];"
AGAIN = "    ld.shared.u32 %r6, [tile];"


def races(read: str, leader: int, again: str = AGAIN, barrier: str = "") -> bool:
    text = PTX.replace("READ", read).replace("LEADER", str(leader)).replace("AGAIN", again).replace("BARRIER", barrier)
    result = warplab.emulate(text, args=(np.zeros(32, np.uint32),), grid=1, block=32)
    kinds = {finding.kind for finding in result.findings}
    assert kinds <= {FindingKind.RACE}
    return bool(kinds)


@pytest.mark.parametrize("leader", [0, 5, 31])
@pytest.mark.parametrize("again", ["", AGAIN, AGAIN + "\n    ld.shared.u32 %r7, [tile];"])
@pytest.mark.parametrize("read", [ALL, HALF])
def test_a_write_after_reads_of_others_races(read: str, leader: int, again: str) -> None:
    assert races(read, leader, again)


@pytest.mark.parametrize("leader", [0, 5, 31])
def test_with_a_barrier_it_does_not(leader: int) -> None:
    assert not races(ALL, leader, barrier="    bar.warp.sync -1;")


def test_nor_where_no_other_lane_has_read() -> None:
    assert not races(OWN, 0)
