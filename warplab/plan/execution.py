"""What running a plan gives, whichever executor ran it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum

import numpy as np


class FindingKind(StrEnum):
    """A fault of the device code, as a sanitizer names it."""

    OUT_OF_BOUNDS = "out of bounds"
    MISALIGNED = "misaligned address"
    NULL_POINTER = "null pointer"
    UNINITIALISED = "uninitialised read"
    RACE = "race"
    DIVERGENT_BARRIER = "divergent barrier"
    DEADLOCK = "deadlock"
    ENDLESS = "endless kernel"
    TRAP = "trap"
    UNSUPPORTED = "unsupported instruction"
    LAUNCH_FAILURE = "launch failure"
    INPUT_MODIFIED = "input modified"
    REDZONE = "write outside a buffer"


@dataclass(frozen=True)
class Finding:
    """One fault, at its first occurrence. `index` is the element index (per dimension) that was meant, if known."""

    kind: FindingKind
    message: str  # one sentence for the student
    kernel: str = ""
    line: int = 0  # of the submission; 0 when unknown
    block: tuple[int, int, int] | None = None
    thread: tuple[int, int, int] | None = None
    array: str = ""  # the host function's or kernel's name for the array
    index: tuple[int, ...] | None = None
    count: int = 1  # how often it happened on this line


@dataclass(frozen=True)
class Writer:
    """The thread that stored an element last. `line` is of the submission; 0 when unknown."""

    kernel: str
    line: int
    block: tuple[int, int, int]
    thread: tuple[int, int, int]


@dataclass
class Counters:
    """Memory counters of a kernel or of one source line; METRICS gives Nsight Compute's name of each."""

    global_load_requests: int = 0
    global_load_sectors: int = 0
    global_store_requests: int = 0
    global_store_sectors: int = 0
    local_load_requests: int = 0
    local_load_sectors: int = 0
    local_store_requests: int = 0
    local_store_sectors: int = 0
    shared_load_requests: int = 0
    shared_load_wavefronts: int = 0
    shared_load_bank_conflicts: int = 0
    shared_store_requests: int = 0
    shared_store_wavefronts: int = 0
    shared_store_bank_conflicts: int = 0
    global_atomic_requests: int = 0
    global_atomic_sectors: int = 0
    shared_atomic_requests: int = 0
    barriers: int = 0  # warps that arrived
    divergent_branches: int = 0  # warp branches whose active lanes disagreed
    warp_instructions: int = 0  # PTX instructions issued, one a warp; not comparable with SASS counts
    thread_instructions: int = 0  # the same, one an active lane
    global_load_ideal_sectors: int = 0  # had each request's active lanes read the same bytes side by side
    global_store_ideal_sectors: int = 0  # the same for stores; 0 where an executor does not count it
    matrix_load_requests: int = 0  # ldmatrix
    matrix_load_wavefronts: int = 0
    matrix_load_bank_conflicts: int = 0
    matrix_store_requests: int = 0  # stmatrix
    matrix_store_wavefronts: int = 0
    matrix_store_bank_conflicts: int = 0
    async_copy_requests: int = 0  # cp.async, at its shared end
    async_copy_wavefronts: int = 0
    async_copy_bank_conflicts: int = 0
    async_copy_cached_requests: int = 0  # cp.async.ca, at its global end
    async_copy_cached_sectors: int = 0
    async_copy_bypass_requests: int = 0  # cp.async.cg, which goes past L1
    async_copy_bypass_sectors: int = 0
    warpgroup_read_requests: int = 0  # of shared memory by wgmma, one a warp
    warpgroup_read_wavefronts: int = 0
    tensor_instructions: int = 0  # mma.sync and wgmma.mma_async, one a warp
    tensor_multiply_adds: int = 0  # m n k of each, of wgmma a warp's quarter
    bulk_load_requests: int = 0  # cp.async.bulk and its tensor form to shared memory, one a thread
    bulk_load_sectors: int = 0
    bulk_load_bytes: int = 0  # what arrives in one block, filled elements included
    bulk_store_requests: int = 0  # to global memory
    bulk_store_sectors: int = 0
    bulk_store_bytes: int = 0
    bulk_reduction_requests: int = 0  # cp.reduce.async.bulk to global memory
    bulk_reduction_sectors: int = 0
    bulk_reduction_bytes: int = 0
    bulk_cluster_requests: int = 0  # within the shared memory of a cluster
    bulk_cluster_bytes: int = 0

    def __iadd__(self, other: Counters) -> Counters:
        for f in fields(self):
            setattr(self, f.name, getattr(self, f.name) + getattr(other, f.name))
        return self


METRICS: Mapping[str, str] = {
    "global_load_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "global_load_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "global_store_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "global_store_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "local_load_requests": "l1tex__t_requests_pipe_lsu_mem_local_op_ld.sum",
    "local_load_sectors": "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum",
    "local_store_requests": "l1tex__t_requests_pipe_lsu_mem_local_op_st.sum",
    "local_store_sectors": "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum",
    "shared_load_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared_load_bank_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "warpgroup_read_requests": "l1tex__lsuin_requests_op_gmma.sum",
    "warpgroup_read_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_gmma.sum",
    "shared_store_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "shared_store_bank_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
}


@dataclass
class LaunchProfile:
    """Counters of one launch: in total and per line of the submission (line 0: not attributed)."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    total: Counters
    lines: dict[int, Counters]


@dataclass
class Execution:
    """The outcome of one execution of a plan.

    `outputs` holds the OUTPUT and INOUT buffers after the last launch, shaped and typed as the plan's buffers.
    `launches` is empty on a GPU, which has no counters without a profiler. `stdout` is what device printf wrote.
    """

    outputs: dict[str, np.ndarray]
    findings: tuple[Finding, ...] = ()
    launches: tuple[LaunchProfile, ...] = ()
    stdout: str = ""
    milliseconds: float | None = None  # device time of the whole plan, on a GPU
    notes: dict[str, str] = field(default_factory=dict)
    writer: Writer | None = None  # of the element that the emulator was asked to watch

    @property
    def total(self) -> Counters:
        """Counters summed over all launches."""
        result = Counters()
        for launch in self.launches:
            result += launch.total
        return result

    @property
    def lines(self) -> dict[int, Counters]:
        """Counters summed over all launches, per source line."""
        result: dict[int, Counters] = {}
        for launch in self.launches:
            for line, counters in launch.lines.items():
                result.setdefault(line, Counters())
                result[line] += counters
        return result
