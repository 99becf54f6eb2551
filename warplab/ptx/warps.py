"""Lanes, warps, clusters and clocks: special registers and what a block's parts say to each other."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from warplab.ptx.inline import U32, U64, Register, instruction, kernel_properties


def _special(name: str, register: Register, meaning: str, steady: bool = True) -> Callable:
    return instruction(
        name,
        f"mov.u{register.type.bitwidth} {{d}}, %{name};",
        result=register,
        pure=steady,
        doc=f"{name}() -> uint{register.type.bitwidth}: {meaning} (PTX ISA, special register %{name}).",
    )


laneid = _special("laneid", U32, "this thread's place in its warp, 0 to 31")
warpid = _special("warpid", U32, "the slot of the warp on its SM; not threadIdx.x // 32 by promise", steady=False)
smid = _special("smid", U32, "the SM that this block runs on")
nsmid = _special("nsmid", U32, "one more than the largest smid can be")
clock = _special("clock", U32, "cycles of this SM, lower 32 bits", steady=False)
clock64 = _special("clock64", U64, "cycles of this SM", steady=False)
globaltimer = _special("globaltimer", U64, "nanoseconds of the device's clock, coarse", steady=False)
cluster_ctarank = _special("cluster_ctarank", U32, "this block's rank in its cluster (sm_90)")
cluster_nctarank = _special("cluster_nctarank", U32, "blocks in the cluster (sm_90)")

elect = instruction(
    "elect",
    "{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 {d}, 1, 0, p; }",
    result=U32,
    doc="elect() -> uint32: 1 in exactly one lane of a whole warp (sm_90; PTX ISA, elect.sync).",
)


def _redux(operation: str, meaning: str) -> Callable:
    return instruction(
        f"redux_{operation}",
        f"redux.sync.{operation}.u32 {{d}}, {{0}}, 0xffffffff;",
        [U32],
        U32,
        doc=f"redux_{operation}(value) -> uint32: {meaning} of a whole warp, in all lanes (sm_80; PTX, redux.sync).",
    )


redux_add = _redux("add", "the sum, modulo 2^32, of the values")
redux_max = _redux("max", "the largest of the values")
redux_min = _redux("min", "the smallest of the values")

cluster_arrive = instruction(
    "cluster_arrive",
    "barrier.cluster.arrive.release.aligned;",
    doc="cluster_arrive(): arrive at the cluster's barrier and go on; every thread of the cluster has to (sm_90).",
)

cluster_wait = instruction(
    "cluster_wait",
    "barrier.cluster.wait.acquire.aligned;",
    doc="cluster_wait(): wait until all threads of the cluster have arrived (sm_90).",
)


@cache
def cluster_size(blocks: int) -> Callable:
    """A function `clusters()` that makes the kernel calling it one for clusters of `blocks` blocks along x (sm_90).

    Call it first in the kernel, not in a device function. The kernel is launched as any other; its grid counts blocks
    and has to be a multiple of the cluster (PTX ISA, ".reqnctapercluster"). Raises ValueError for more than 8 blocks,
    which not every GPU of compute capability 9.0 and later has to take (CUDA C++ Programming Guide, "Thread Block
    Clusters").
    """
    if not 1 <= blocks <= 8:
        raise ValueError(f"A cluster has 1 to 8 blocks, not {blocks}.")
    return kernel_properties(
        f"cluster_size_{blocks}",
        {"cluster_dim_x": blocks, "cluster_dim_y": 1, "cluster_dim_z": 1},
        doc=f"Make this kernel one for clusters of {blocks} blocks.",
    )


mapa = instruction(
    "mapa",
    "mapa.shared::cluster.u32 {d}, {0}, {1};",
    [U32, U32],
    U32,
    pure=True,
    doc="""mapa(address, rank) -> uint32: the address of the same variable in the shared memory of block `rank`.

    `address`: uint32, a shared address of this block; the result is for instructions on shared::cluster (sm_90).
    """,
)

fence_proxy_async = instruction(
    "fence_proxy_async",
    "fence.proxy.async.shared::cta;",
    doc="""fence_proxy_async(): let later asynchronous operations (tensor copies, wgmma) see this thread's plain writes.

    Without it they may read what shared memory held before (sm_90; PTX ISA, "Async proxy").
    """,
)


@cache
def setmaxnreg(registers: int, *, more: bool) -> Callable:
    """A function `change()` that sets how many registers each thread of this warpgroup has (sm_90a).

    `registers`: 24 to 256, a multiple of 8. `more` takes them from the block's pool, waiting until others have given
    theirs back; otherwise they are given back. Every warp of the warpgroup has to call it. Raises ValueError for a
    number that PTX does not allow.
    """
    if registers % 8 or not 24 <= registers <= 256:
        raise ValueError(f"setmaxnreg takes a multiple of 8 from 24 to 256 registers, not {registers}.")
    action = "inc" if more else "dec"
    return instruction(
        f"setmaxnreg_{action}_{registers}",
        f"setmaxnreg.{action}.sync.aligned.u32 {registers};",
        doc=f"Set the registers of each thread of this warpgroup to {registers}.",
    )
