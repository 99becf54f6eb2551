"""Clusters and large shared memory of Numba kernels: captured, emulated, and launched by Numba itself on a GPU."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from course.loading import module_of
from tests.emulator.plans import ARCHITECTURE
from warplab import ptx
from warplab.emulator import execute
from warplab.plan.capture.submission import capture
from warplab.plan.model import ArrayArgument, HostCall, Plan, Role

pytestmark = pytest.mark.stored

BLOCKS, CLUSTER, ROOM = 6, 2, 100_000
SOURCE = f"""
from numba import cuda
from numba.cuda import types

from warplab import ptx

pairs = ptx.cluster_size({CLUSTER})


@ptx.large_shared
@cuda.jit
def kernel(ranks, sums, others):
    pairs()
    base = ptx.shared_address(cuda.shared.array(0, types.uint32), 0)
    last = base + types.uint32({ROOM} - 4)
    told = ptx.shared_address(cuda.shared.array(1, types.uint64), 0)
    rank = ptx.cluster_ctarank()
    if cuda.threadIdx.x == 0:
        ptx.mbarrier_init(told, {CLUSTER})
        ptx.fence_mbarrier_init()
        ranks[cuda.blockIdx.x] = rank
        ptx.store_shared_4(last, types.uint32(cuda.blockIdx.x))
    ptx.cluster_arrive()
    ptx.cluster_wait()
    if cuda.threadIdx.x < {CLUSTER}:
        ptx.mbarrier_arrive_remote(ptx.mapa(told, types.uint32(cuda.threadIdx.x)))
    ptx.mbarrier_wait(told, 0)
    if cuda.threadIdx.x == 0:
        sums[cuda.blockIdx.x] = ptx.load_shared_4(last) + ptx.cluster_nctarank()
        others[cuda.blockIdx.x] = ptx.load_cluster_4(ptx.mapa(last, rank ^ types.uint32(1)))
    ptx.cluster_arrive()
    ptx.cluster_wait()


def ranks(ranks, sums, others):
    kernel[{BLOCKS}, 32, 0, {ROOM}](ranks, sums, others)
"""
EXPECTED = {
    "ranks": np.arange(BLOCKS) % CLUSTER,
    "sums": np.arange(BLOCKS) + CLUSTER,
    "others": np.arange(BLOCKS) ^ 1,
}


def source(folder: Path) -> Path:
    path = folder / "clusters.py"
    path.write_text(SOURCE)
    return path


def plan(folder: Path) -> Plan:
    arguments = tuple(ArrayArgument(name, "uint32", (BLOCKS,), Role.OUTPUT) for name in EXPECTED)
    return capture(source(folder), [HostCall("ranks", arguments)], (ARCHITECTURE,))[0]


def test_a_kernel_says_how_large_its_clusters_are(tmp_path: Path) -> None:
    captured = plan(tmp_path)
    (launch,) = captured.launches
    assert (launch.grid, launch.cluster, launch.shared_bytes) == ((BLOCKS, 1, 1), (CLUSTER, 1, 1), ROOM)
    execution = execute(captured, {}, architecture=ARCHITECTURE)
    assert execution.findings == ()
    for name, expected in EXPECTED.items():
        np.testing.assert_array_equal(execution.outputs[name], expected)


def test_a_cluster_has_one_to_eight_blocks() -> None:
    for blocks in (0, 9):
        with pytest.raises(ValueError, match=f"1 to 8 blocks, not {blocks}"):
            ptx.cluster_size(blocks)


@pytest.mark.gpu
def test_numba_launches_both_by_itself(tmp_path: Path) -> None:
    import cupy

    outputs = {name: cupy.zeros(BLOCKS, np.uint32) for name in EXPECTED}
    for _ in range(2):
        load(source(tmp_path)).ranks(**outputs)
    for name, expected in EXPECTED.items():
        np.testing.assert_array_equal(outputs[name].get(), expected)


def load(path: Path) -> ModuleType:
    return module_of(path)
