"""clusterlaunchcontrol: blocks that take over the work of others, which then never start."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.plans import buffer, plan_of
from warplab.emulator import execute
from warplab.plan import assembler
from warplab.plan.execution import Execution, FindingKind
from warplab.plan.model import Pointer, Role

# Each block counts the tiles that it works on in `own`, at its own place, and marks each tile in `done`, at the tile's.
KERNEL = """.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 p0, .param .u64 p1) {cluster} {{
    .reg .pred %p<9>; .reg .b32 %r<40>; .reg .b64 %a<9>; .reg .b128 %q;
    .shared .align 16 .b8 answer[16]; .shared .align 8 .b64 bar;
    ld.param.u64 %a0, [p0]; ld.param.u64 %a1, [p1];
    mov.u32 %r0, %tid.x;
    setp.eq.u32 %p0, %r0, 0;
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.y; mov.u32 %r3, %ctaid.z;
    mov.u32 %r4, %nctaid.x; mov.u32 %r5, %nctaid.y;
    mov.u32 %r20, %cluster_ctaid.x; mov.u32 %r21, %cluster_ctaid.y;
    mov.u32 %r22, %cluster_ctarank; setp.eq.and.u32 %p4, %r22, 0, %p0;
    mad.lo.u32 %r6, %r3, %r5, %r2; mad.lo.u32 %r6, %r6, %r4, %r1;
    mul.wide.u32 %a2, %r6, 4; add.s64 %a2, %a0, %a2;
    mov.u32 %r7, bar; mov.u32 %r8, answer; mov.u32 %r9, 0;
    @%p0 mbarrier.init.shared.b64 [%r7], 1;
    fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
NEXT:
    @%p0 mbarrier.arrive.expect_tx.shared.b64 _, [%r7], 16;
{meet}
    @{asks} clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes{multicast}.b128 [%r8], [%r7];
    mad.lo.u32 %r10, %r3, %r5, %r2; mad.lo.u32 %r10, %r10, %r4, %r1;
    mul.wide.u32 %a3, %r10, 4; add.s64 %a3, %a1, %a3;
    @%p0 atom.global.add.u32 %r11, [%a3], 1;
    @%p0 atom.global.add.u32 %r11, [%a2], 1;
{wait}
    ld.shared.b128 %q, [%r8];
    clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p2, %q;
    {query}
    add.u32 %r1, %r1, %r20; add.u32 %r2, %r2, %r21;
    xor.b32 %r9, %r9, 1;
    fence.proxy.async.shared::cta;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    @%p2 bra NEXT;
    ret;
}}"""
WAIT = "WAIT: mbarrier.try_wait.parity.shared.b64 %p3, [%r7], %r9;\n    @!%p3 bra WAIT;\n"
VECTOR = "clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r1, %r2, %r3, _}, %q;"
SINGLE = " ".join(
    f"clusterlaunchcontrol.query_cancel.get_first_ctaid::{axis}.b32.b128 %r{i + 1}, %q;" for i, axis in enumerate("xyz")
)
CLUSTER_BARRIER = "    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n"


def kernel(cluster: tuple[int, int] = (1, 1), query: str = VECTOR, wait: str = WAIT) -> str:
    several = cluster != (1, 1)
    return KERNEL.format(
        cluster=f".reqnctapercluster {cluster[0]}, {cluster[1]}, 1" if several else "",
        multicast=".multicast::cluster::all" if several else "",
        asks="%p4" if several else "%p0",
        meet=CLUSTER_BARRIER if several else "",
        query=query,
        wait=wait,
    )


def run(text: str, grid: tuple[int, int, int], threads: int = 32, **options) -> Execution:
    arrays = {name: np.zeros(grid[::-1], np.uint32) for name in ("own", "done")}
    buffers = {name: buffer(name, array, Role.INOUT) for name, array in arrays.items()}
    plan = plan_of(text, "k", buffers, (Pointer("own"), Pointer("done")), grid, (threads,), 0, text)
    return execute(plan, arrays, architecture="sm_100a", **options)


@pytest.mark.parametrize("options", [{}, {"reverse": True}, {"seed": 1}, {"seed": 2}, {"sanitize": False}], ids=str)
@pytest.mark.parametrize("cluster", [(1, 1), (2, 1), (2, 2)], ids=str)
@pytest.mark.parametrize("query", [VECTOR, SINGLE], ids=["a vector", "single"])
def test_every_tile_is_done_once(query: str, cluster: tuple[int, int], options: dict) -> None:
    """Whoever does it: a block that was cancelled counts nothing at its own place."""
    grid = (6, 4, 3)
    result = run(kernel(cluster, query), grid, 64, **options)
    assert result.findings == ()
    assert np.array_equal(result.outputs["done"], np.ones(grid[::-1]))
    own = result.outputs["own"]
    assert own.sum() == own.size
    if "seed" in options:
        assert np.count_nonzero(own) > cluster[0] * cluster[1]  # some requests fail though clusters are left
    elif "reverse" not in options:
        assert own[0, 0, 0] == own.size // (cluster[0] * cluster[1])  # the first cluster takes all


def test_a_grid_of_one_block_has_nothing_to_take() -> None:
    result = run(kernel(), (1, 1, 1))
    assert result.findings == () and result.outputs["own"].item() == 1


def test_an_answer_that_is_not_waited_for() -> None:
    findings = run(kernel(wait=""), (4, 1, 1)).findings
    assert any(f.kind is FindingKind.RACE and "asynchronous" in f.message for f in findings), findings


@pytest.mark.processes
def test_ptxas_takes_what_these_tests_run() -> None:
    for text in (kernel(), kernel((2, 1), SINGLE)):
        for target in ("sm_100a", "sm_103a", "sm_110a", "sm_120a"):
            done = assembler.run(text.replace("sm_100a", target), target, 60)
            assert done.image, done.log
