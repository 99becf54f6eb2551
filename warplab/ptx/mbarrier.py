"""mbarriers: arrivals and bytes counted in eight bytes of shared memory (PTX ISA, "mbarrier"; sm_80, some sm_90).

Every address is a uint32 of shared memory, 8-byte aligned. A phase ends when all expected arrivals and all expected
bytes have come; waiting names the parity (0 for the first phase, then 1, 0, ...) of the phase that is to end.
"""

from __future__ import annotations

from warplab.ptx.inline import U32, instruction

mbarrier_init = instruction(
    "mbarrier_init",
    "mbarrier.init.shared::cta.b64 [{0}], {1};",
    [U32, U32],
    doc="""mbarrier_init(barrier, arrivals): start phase 0, which `arrivals` arrivals (1 to 2**20 - 1) end.

    One thread does it; the others need a barrier before they use it, asynchronous copies fence_mbarrier_init as well.
    """,
)

mbarrier_inval = instruction(
    "mbarrier_inval",
    "mbarrier.inval.shared::cta.b64 [{0}];",
    [U32],
    doc="mbarrier_inval(barrier): end the object's life, so that its memory can be used for something else.",
)

mbarrier_arrive = instruction(
    "mbarrier_arrive",
    "mbarrier.arrive.shared::cta.b64 _, [{0}];",
    [U32],
    doc="mbarrier_arrive(barrier): one arrival; what this thread wrote before is seen by those who wait (sm_90).",
)

mbarrier_arrive_expect_tx = instruction(
    "mbarrier_arrive_expect_tx",
    "mbarrier.arrive.expect_tx.shared::cta.b64 _, [{0}], {1};",
    [U32, U32],
    doc="mbarrier_arrive_expect_tx(barrier, bytes): one arrival, and the phase waits for `bytes` more bytes (sm_90).",
)

mbarrier_expect_tx = instruction(
    "mbarrier_expect_tx",
    "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [{0}], {1};",
    [U32, U32],
    doc="mbarrier_expect_tx(barrier, bytes): the phase waits for `bytes` more bytes (sm_90).",
)

mbarrier_arrive_cluster = instruction(
    "mbarrier_arrive_cluster",
    "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [{0}];",
    [U32],
    doc="""mbarrier_arrive_cluster(barrier): one arrival at an mbarrier in another block's shared memory (sm_90).

    `barrier`: what `mapa` gives. What this thread wrote before, in any shared memory of the cluster, is seen by those
    who wait. That takes its time: mbarrier_arrive_remote is for saying that something has been read.
    """,
)

mbarrier_arrive_remote = instruction(
    "mbarrier_arrive_remote",
    "mbarrier.arrive.shared::cluster.b64 _, [{0}];",
    [U32],
    doc="""mbarrier_arrive_remote(barrier): one arrival at an mbarrier in another block's shared memory (sm_90).

    `barrier`: what `mapa` gives. It orders this thread's reads and writes for its own block only.
    """,
)

mbarrier_test = instruction(
    "mbarrier_test",
    "{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [{0}], {1}; selp.u32 {d}, 1, 0, p; }",
    [U32, U32],
    U32,
    doc="mbarrier_test(barrier, parity) -> uint32: 1 if the phase of that parity has ended, without waiting (sm_80).",
)

mbarrier_wait = instruction(
    "mbarrier_wait",
    "{ .reg .pred p; AGAIN_${:uid}: mbarrier.try_wait.parity.shared::cta.b64 p, [{0}], {1}; @!p bra AGAIN_${:uid}; }",
    [U32, U32],
    doc="mbarrier_wait(barrier, parity): wait until the phase of that parity has ended (sm_90).",
)

fence_mbarrier_init = instruction(
    "fence_mbarrier_init",
    "fence.mbarrier_init.release.cluster;",
    doc="fence_mbarrier_init(): make initialised mbarriers known to the cluster and to asynchronous copies (sm_90).",
)
