"""What findings tell people to write, in the language of their kernel."""

from __future__ import annotations

from dataclasses import dataclass

from warplab.plan.model import Language


@dataclass(frozen=True)
class Spelling:
    """Names of what orders accesses and of what waits for copies and products."""

    block_barrier: str
    warp_barrier: str
    grid_barrier: str
    cluster_barrier: str
    fence: str
    atomic: str
    copy_wait: str
    copy_commit: str
    bulk_wait: str
    proxy_fence: str
    mbarrier_init: str
    mbarrier_expect: str
    product_fence: str
    product_wait: str
    product_commit: str


_CUDA_CPP = Spelling(
    "__syncthreads()",
    "__syncwarp()",
    "cooperative_groups::this_grid().sync()",
    "barrier.cluster",
    "__threadfence()",
    "atomicAdd",
    "cp.async.wait_group",
    "cp.async.commit_group",
    "cp.async.bulk.wait_group.read",
    "fence.proxy.async",
    "mbarrier.init",
    "mbarrier.arrive.expect_tx",
    "wgmma.fence",
    "wgmma.wait_group",
    "wgmma.commit_group",
)
_NUMBA = Spelling(
    "cuda.syncthreads()",
    "cuda.syncwarp()",
    "cuda.cg.this_grid().sync()",
    "ptx.cluster_arrive() and ptx.cluster_wait()",
    "cuda.threadfence()",
    "cuda.atomic.add",
    "ptx.cp_async_wait_group",
    "ptx.cp_async_commit()",
    "ptx.bulk_wait(..., read=True)",
    "ptx.fence_proxy_async()",
    "ptx.mbarrier_init",
    "ptx.mbarrier_arrive_expect_tx",
    "ptx.wgmma_fence()",
    "ptx.wgmma_wait",
    "ptx.wgmma_commit()",
)


def spelling(language: Language) -> Spelling:
    """The names that a language has."""
    return _NUMBA if language is Language.NUMBA else _CUDA_CPP
