"""Blocks that change at their strong accesses: what takes two of them in place of one gives another result.

Truth is arithmetic: eight blocks add one each. What is right gives eight in every order, and what is not loses some.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.plans import buffer, plan_of
from warplab.emulator import execute
from warplab.plan.model import Pointer, Role

BLOCKS = 8
HEAD = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out)
{
    .reg .pred %p<4>;
    .reg .b32 %r<9>;
    .reg .b64 %rd<9>;
    ld.param.u64 %rd1, [out];
    cvta.to.global.u64 %rd1, %rd1;
    mov.u32 %r1, %tid.x;
    mov.u32 %r8, %ctaid.x;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra END;
"""
ADD = "add.u32 %r3, %r2, 1;"
LOCK = "LOCK: atom.global.cas.b32 %r4, [%rd1+4], 0, 1; setp.ne.u32 %p2, %r4, 0; @%p2 bra LOCK;"
SWAP = "atom.global.cas.b32 %r4, [%rd1], %r2, %r3;"
BROKEN = {
    "a volatile update": f"ld.volatile.global.u32 %r2, [%rd1]; {ADD} st.volatile.global.u32 [%rd1], %r3;",
    "a relaxed update": f"ld.relaxed.gpu.global.u32 %r2, [%rd1]; {ADD} st.relaxed.gpu.global.u32 [%rd1], %r3;",
    "two atomics": f"atom.global.add.u32 %r2, [%rd1], 0; {ADD} atom.global.exch.b32 %r4, [%rd1], %r3;",
    "a swap that is tried once": f"ld.volatile.global.u32 %r2, [%rd1]; {ADD} {SWAP}",
    "the same after a plain read": f"ld.global.u32 %r2, [%rd1]; {ADD} {SWAP}",
    "a volatile lock": f"""
        LOCK: ld.volatile.global.u32 %r4, [%rd1+4]; setp.ne.u32 %p2, %r4, 0; @%p2 bra LOCK;
        st.volatile.global.u32 [%rd1+4], 1; membar.gl;
        atom.global.add.u32 %r2, [%rd1], 0; {ADD} atom.global.exch.b32 %r4, [%rd1], %r3;
        membar.gl; st.volatile.global.u32 [%rd1+4], 0;""",
    "a lock in two steps": f"""
        LOCK: atom.global.add.u32 %r4, [%rd1+4], 0; setp.ne.u32 %p2, %r4, 0; @%p2 bra LOCK;
        atom.global.exch.b32 %r4, [%rd1+4], 1; membar.gl;
        atom.global.add.u32 %r2, [%rd1], 0; {ADD} atom.global.exch.b32 %r4, [%rd1], %r3;
        membar.gl; atom.global.exch.b32 %r4, [%rd1+4], 0;""",
}
WHOLE = {
    "an atomic": "atom.global.add.u32 %r2, [%rd1], 1;",
    "a swap that is tried again": f"""
        ld.global.u32 %r2, [%rd1];
        LOOP: {ADD} mov.u32 %r5, %r2; atom.global.cas.b32 %r2, [%rd1], %r5, %r3;
        setp.ne.u32 %p2, %r2, %r5; @%p2 bra LOOP;""",
    "a lock": f"""
        {LOCK} membar.gl; ld.volatile.global.u32 %r2, [%rd1]; {ADD} st.volatile.global.u32 [%rd1], %r3;
        membar.gl; st.volatile.global.u32 [%rd1+4], 0;""",
    "turns": f"""
        LOOP: ld.volatile.global.u32 %r4, [%rd1+4]; setp.ne.u32 %p2, %r4, %r8; @%p2 bra LOOP; membar.gl;
        ld.global.u32 %r2, [%rd1]; {ADD} st.global.u32 [%rd1], %r3;
        membar.gl; add.u32 %r5, %r8, 1; st.volatile.global.u32 [%rd1+4], %r5;""",
    "turns from the last block on": f"""
        mov.u32 %r6, %nctaid.x; sub.u32 %r6, %r6, 1; sub.u32 %r6, %r6, %r8;
        LOOP: ld.volatile.global.u32 %r4, [%rd1+4]; setp.ne.u32 %p2, %r4, %r6; @%p2 bra LOOP; membar.gl;
        ld.global.u32 %r2, [%rd1]; {ADD} st.global.u32 [%rd1], %r3;
        membar.gl; add.u32 %r5, %r6, 1; st.volatile.global.u32 [%rd1+4], %r5;""",
}


def total(body: str, threads: int, seed: int | None) -> tuple[int, tuple[str, ...]]:
    """What is in the first element after the launch, and the findings."""
    text, out = f"{HEAD}{body}\nEND:\n    ret;\n}}\n", np.zeros(2, np.uint32)
    plan = plan_of(text, "k", {"out": buffer("out", out, Role.INOUT)}, (Pointer("out"),), (BLOCKS,), (threads,))
    execution = execute(plan, {"out": out}, seed=seed)
    return int(execution.outputs["out"][0]), tuple(f.message for f in execution.findings)


@pytest.mark.parametrize("threads", [32, 256])
@pytest.mark.parametrize("body", BROKEN.values(), ids=BROKEN)
def test_what_is_done_in_parts_loses_updates_in_each_drawn_order(body: str, threads: int) -> None:
    assert total(body, threads, None)[0] == BLOCKS  # one block after the other
    assert all(total(body, threads, seed)[0] < BLOCKS for seed in range(6))


@pytest.mark.parametrize("body", WHOLE.values(), ids=WHOLE)
def test_what_is_whole_is_right_and_without_a_finding_in_every_order(body: str) -> None:
    for seed in (None, *range(6)):
        assert total(body, 64, seed) == (BLOCKS, ())
