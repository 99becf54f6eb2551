"""Tensor copies by pairs of blocks (.cta_group::2): which block's mbarrier hears of the bytes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.plans import buffer, plan_of
from warplab.emulator import execute
from warplab.plan import assembler
from warplab.plan.execution import Execution, FindingKind
from warplab.plan.model import Pointer, Role, TensorMap

# Each block of a cluster loads a tile of 8 x 32 words; whichever blocks `waits` names wait for what `bytes` says, then
# every block writes its tile out.
KERNEL = """.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 p1) .reqnctapercluster {blocks}, 1, 1 {{
    .reg .pred %p<9>; .reg .b16 %h<4>; .reg .b32 %r<40>; .reg .b64 %a<9>;
    .shared .align 1024 .b8 tile[1024]; .shared .align 8 .b64 bar;
    mov.b64 %a0, map; cvta.param.u64 %a0, %a0;
    ld.param.u64 %a1, [p1];
    mov.u32 %r0, %tid.x; mov.u32 %r1, %cluster_ctarank;
    mul.wide.u32 %a2, %r1, 1024; add.s64 %a1, %a1, %a2; mul.wide.u32 %a2, %r0, 16; add.s64 %a1, %a1, %a2;
    setp.eq.u32 %p0, %r0, 0;
    and.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r2, {parity};
    setp.eq.and.u32 %p2, %r2, {parity}, %p0;
    mov.u32 %r3, bar; mov.u32 %r4, tile; mov.u32 %r5, 0; shl.b32 %r6, %r1, 3;
    and.b32 %r7, %r3, -16777217; xor.b32 %r9, %r1, 1;
    mapa.shared::cluster.u32 %r8, %r3, %r9;
    mov.b16 %h0, {mask};
    @%p0 mbarrier.init.shared.b64 [%r3], 1;
    fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    @%p2 mbarrier.arrive.expect_tx.shared.b64 _, [%r3], {bytes};
    @{issues} {copy};
    @!%p1 bra DONE;
WAIT: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p3, [%r3], 0;
    @!%p3 bra WAIT;
DONE:
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    shl.b32 %r10, %r0, 4; add.u32 %r10, %r10, %r4;
    ld.shared.v4.b32 {{%r20, %r21, %r22, %r23}}, [%r10];
    st.global.v4.b32 [%a1], {{%r20, %r21, %r22, %r23}};
    ret;
}}"""
TILE = (
    "cp.async.bulk.tensor.2d.{}shared::cluster.global.mbarrier::complete_tx::bytes{} [%r4], [%a0, {{%r5, %r6}}], [{}]"
)
A = np.arange(4096, dtype=np.int32).reshape(128, 32)


def text(copy: str, blocks: int = 2, parity: int = 0, size: int = 2048, mask: int = 0, issues: str = "%p0") -> str:
    return KERNEL.format(blocks=blocks, parity=parity, bytes=size, mask=mask, copy=copy, issues=issues)


def run(kernel: str, blocks: int = 2, **options) -> Execution:
    out = np.zeros((blocks, 8, 32), np.int32)
    buffers = {"a": buffer("a", A, Role.INPUT), "out": buffer("out", out, Role.INOUT)}
    tiles = TensorMap("a", 0, "int32", shape=(32, 128), strides=(128,), box=(32, 8), element_strides=(1, 1), swizzle=0)
    plan = plan_of(kernel, "k", buffers, (tiles, Pointer("out")), (blocks,), (64,), 0, kernel)
    return execute(plan, {"a": A, "out": out}, architecture="sm_100a", **options)


PAIRED = TILE.format("cta_group::2.", "", "%r7")


@pytest.mark.parametrize("options", [{}, {"seed": 1}, {"seed": 2}, {"reverse": True}], ids=str)
@pytest.mark.parametrize("blocks", [2, 4])
def test_the_even_block_waits_for_both_tiles(blocks: int, options: dict) -> None:
    result = run(text(PAIRED, blocks), blocks, **options)
    assert result.findings == ()
    assert np.array_equal(result.outputs["out"], A.reshape(-1, 8, 32)[:blocks])


def test_without_the_mask_each_block_hears_of_its_own() -> None:
    own = TILE.format("cta_group::2.", "", "%r3")
    findings = run(text(own)).findings
    assert any(f.kind is FindingKind.DEADLOCK for f in findings)  # the even block lacks the odd one's bytes


def test_the_other_block_may_be_named_by_its_address() -> None:
    """Each block's bytes count at the other one's mbarrier."""
    crossed = TILE.format("cta_group::2.", "", "%r8")
    kernel = text(crossed, size=1024).replace("setp.eq.u32 %p1, %r2, 0", "setp.le.u32 %p1, %r2, 1")
    kernel = kernel.replace("@%p2 mbarrier", "@%p0 mbarrier")
    result = run(kernel)
    assert result.findings == () and np.array_equal(result.outputs["out"], A.reshape(-1, 8, 32)[:2])


@pytest.mark.parametrize(("pointer", "parity"), [("%r7", 0), ("%r3", 0), ("%r8", 1)])
def test_of_a_multicast_one_block_of_each_pair_hears(pointer: str, parity: int) -> None:
    """Rank 0 sends its tile to all four: in each pair the block hears whose rank is even or odd as the mbarrier's."""
    copy = TILE.format("", ".multicast::cluster.cta_group::2", pointer) + ", %h0"
    kernel = text(copy, 4, parity, 2048, 15, "%p4").replace("@%p4", "setp.eq.and.u32 %p4, %r1, 0, %p0;\n    @%p4")
    result = run(kernel, 4)
    assert result.findings == ()
    assert np.array_equal(result.outputs["out"], np.broadcast_to(A[:8], (4, 8, 32)))


@pytest.mark.processes
def test_ptxas_takes_what_these_tests_run() -> None:
    multicast = TILE.format("", ".multicast::cluster.cta_group::2", "%r7") + ", %h0"
    for copy in (PAIRED, multicast):
        done = assembler.run(text(copy), "sm_100a", 60)
        assert done.image, done.log


def test_the_address_of_a_parameter_in_32_bits() -> None:
    """Triton takes a tensor map's address among the parameters, and makes it a generic one."""
    short = "mov.b32 %r30, map; cvt.u64.u32 %a0, %r30;"
    result = run(text(PAIRED).replace("mov.b64 %a0, map;", short))
    assert result.findings == () and np.array_equal(result.outputs["out"], A.reshape(-1, 8, 32)[:2])
