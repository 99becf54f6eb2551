"""Tensor copies of four rows (.tile::gather4 and .tile::scatter4, sm_100a), against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.emulator.plans import buffer, plan_of
from warplab.emulator import execute
from warplab.plan import assembler
from warplab.plan.execution import Execution, FindingKind
from warplab.plan.model import Pointer, Role, TensorMap

# One thread loads four rows of 32 words of `a` and, where it `stores`, writes them to four rows of `out`.
KERNEL = """.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .align 64 .b8 from[128], .param .align 64 .b8 to[128], .param .u64 p2) {{
    .reg .pred %p<9>; .reg .b32 %r<40>; .reg .b64 %a<9>;
    .shared .align 1024 .b8 tile[1024]; .shared .align 8 .b64 bar;
    mov.b64 %a0, from; cvta.param.u64 %a0, %a0; mov.b64 %a1, to; cvta.param.u64 %a1, %a1;
    ld.param.u64 %a2, [p2];
    mov.u32 %r0, %tid.x; setp.eq.u32 %p0, %r0, 0;
    mul.wide.u32 %a3, %r0, 16; add.s64 %a2, %a2, %a3;
    @%p0 mbarrier.init.shared.b64 [bar], 1;
    bar.sync 0;
    mov.u32 %r1, {x};
    mov.u32 %r2, {rows[0]}; mov.u32 %r3, {rows[1]}; mov.u32 %r4, {rows[2]}; mov.u32 %r5, {rows[3]};
    mov.u32 %r9, tile; mov.u32 %r8, bar;
    @%p0 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 512;
    @%p0 {load};
WAIT: mbarrier.try_wait.parity.shared.b64 %p3, [bar], 0;
    @!%p3 bra WAIT;
    {then}
    ret;
}}"""
LOAD = (
    "cp.async.bulk.tensor.2d.shared::{}.global.tile::gather4.mbarrier::complete_tx::bytes "
    "[%r9], [%a0, {{%r1, %r2, %r3, %r4, %r5}}], [%r8]"
)
STORE = "cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%a1, {%r1, %r2, %r3, %r4, %r5}], [%r9]"
SHOW = (
    "shl.b32 %r10, %r0, 4; add.u32 %r10, %r10, tile; ld.shared.v4.b32 {%r20, %r21, %r22, %r23}, [%r10]; "
    "st.global.v4.b32 [%a2], {%r20, %r21, %r22, %r23};"
)
A = np.arange(1000, 1000 + 16 * 64, dtype=np.int32).reshape(16, 64)


def run(rows: tuple[int, ...], x: int = 0, space: str = "cta", then: str = SHOW, **changes) -> Execution:
    fields: dict[str, Any] = {
        "shape": (64, 16),
        "strides": (256,),
        "box": (32, 1),
        "element_strides": (1, 1),
        "swizzle": 0,
    } | changes
    maps = tuple(TensorMap(name, 0, "int32", **fields) for name in ("a", "out"))
    out = np.full((16, 64), -1, np.int32)
    buffers = {"a": buffer("a", A, Role.INPUT), "out": buffer("out", out, Role.INOUT)}
    text = KERNEL.format(rows=rows, x=x, load=LOAD.format(space), then=then)
    plan = plan_of(text, "k", buffers, (*maps, Pointer("out")), (1,), (32,))
    return execute(plan, {"a": A, "out": out}, architecture="sm_100a")


@pytest.mark.parametrize("space", ["cta", "cluster"])
@pytest.mark.parametrize(("rows", "x"), [((3, 0, 9, 3), 0), ((15, 14, 1, 2), 32), ((-1, 16, 5, 2), 48)])
def test_four_rows_are_gathered(rows: tuple[int, ...], x: int, space: str) -> None:
    result = run(rows, x, space)
    assert result.findings == ()
    padded = np.zeros((18, 96), np.int32)
    padded[1:17, :64] = A
    wanted = padded[np.array(rows) + 1, x : x + 32]
    assert np.array_equal(result.outputs["out"].reshape(-1)[:128].reshape(4, 32), wanted)


def test_a_swizzle_counts_the_four_rows() -> None:
    result = run((7, 1, 12, 4), swizzle=128)
    assert result.findings == ()
    got = result.outputs["out"].reshape(-1)[:128].reshape(4, 8, 4)
    pieces = A[[7, 1, 12, 4], :32].reshape(4, 8, 4)
    for row in range(4):
        assert np.array_equal(got[row], pieces[row, np.arange(8) ^ row])


def test_four_rows_are_scattered() -> None:
    then = f"@%p0 {STORE}; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
    result = run((9, 2, 0, 15), 32, then=f"mov.u32 %r2, 4; {then}")
    assert result.findings == ()
    wanted = np.full((16, 64), -1, np.int32)
    wanted[[4, 2, 0, 15], 32:] = A[[9, 2, 0, 15], 32:]
    assert np.array_equal(result.outputs["out"], wanted)


def test_a_box_of_several_rows_is_refused() -> None:
    (found,) = run((3, 0, 9, 3), box=(32, 2)).findings
    assert found.kind is FindingKind.TRAP and "two dimensions with a box of one row" in found.message


@pytest.mark.processes
def test_ptxas_takes_what_these_tests_run() -> None:
    for space in ("cta", "cluster"):
        text = KERNEL.format(rows=(0, 1, 2, 3), x=0, load=LOAD.format(space), then=f"@%p0 {STORE};")
        done = assembler.run(text, "sm_100a", 60)
        assert done.image, done.log
