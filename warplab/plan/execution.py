"""What running a plan gives, whichever executor ran it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
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
    ADVISORY = "advisory"  # what the rules ask for and working kernels leave out: no fault
    LAUNCH_FAILURE = "launch failure"
    INPUT_MODIFIED = "input modified"
    REDZONE = "write outside a buffer"


class Extent(StrEnum):
    """The threads among which an order is missing, first what others follow from."""

    LAUNCH = "launch"  # what comes first belongs in a launch of its own
    SHARED = "shared memory"  # warps of a block, on what others compute their indices and values from
    GRID = "grid"
    CLUSTER = "cluster"
    BLOCK = "block"
    NOWHERE = ""  # it is no matter of order between threads, or not known
    WARP = "warp"


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
    count: int = 1  # how often it was seen on this line; between blocks it varies a little with who runs which
    extent: Extent = Extent.NOWHERE  # of a race; the warp, where its lanes miss each other

    @property
    def is_fault(self) -> bool:
        """Advisories are none: they cost no points and fail no run."""
        return self.kind is not FindingKind.ADVISORY


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

    global_load_requests: int = 0  # the global ends of cp.async too
    global_load_sectors: int = 0
    global_store_requests: int = 0
    global_store_sectors: int = 0
    local_load_requests: int = 0
    local_load_sectors: int = 0
    local_store_requests: int = 0
    local_store_sectors: int = 0
    shared_load_requests: int = 0  # ldmatrix too
    shared_load_wavefronts: int = 0
    shared_load_bank_conflicts: int = 0
    shared_store_requests: int = 0  # stmatrix too
    shared_store_wavefronts: int = 0
    shared_store_bank_conflicts: int = 0
    global_atomic_requests: int = 0  # whose old value something reads
    global_atomic_sectors: int = 0
    shared_atomic_requests: int = 0
    barriers: int = 0  # warps that arrived
    divergent_branches: int = 0  # warp branches whose active lanes disagreed
    warp_instructions: int = 0  # PTX instructions issued, one a warp; not comparable with SASS counts
    thread_instructions: int = 0  # the same, one an active lane
    global_load_ideal_sectors: int = 0  # had each request's active lanes read the same bytes side by side
    global_store_ideal_sectors: int = 0  # the same for stores; 0 where an executor does not count it
    matrix_load_requests: int = 0  # ldmatrix; of those of shared loads
    matrix_load_wavefronts: int = 0
    matrix_load_bank_conflicts: int = 0
    matrix_store_requests: int = 0  # stmatrix; of those of shared stores
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
    tensor_instructions: int = 0  # mma.sync, wgmma.mma_async, parts of wmma, one a warp; tcgen05.mma, one each
    tensor_multiply_adds: int = 0  # m n k of each, of a sparse one half of that, of wgmma a warp's quarter
    global_reduction_requests: int = 0  # atomics whose old value nothing reads, and red
    global_reduction_sectors: int = 0
    shared_atomic_wavefronts: int = 0  # of both kinds
    shared_atomic_bank_conflicts: int = 0
    # Warp instructions by kind, of PTX: the assembler merges, drops and adds some.
    fp32_instructions: int = 0
    fp64_instructions: int = 0
    fp16_instructions: int = 0  # bf16 too
    integer_instructions: int = 0
    wide_integer_instructions: int = 0  # of those, on 64 bits: mostly two of the hardware's
    conversion_instructions: int = 0
    special_instructions: int = 0  # reciprocals, roots, exponentials, sines
    move_instructions: int = 0  # copies and parameters, which the assembler mostly drops
    memory_instructions: int = 0
    control_instructions: int = 0
    exchange_instructions: int = 0  # between lanes
    # Additions, products and fused ones of floats, one a lane; those on pairs count once.
    thread_fadd: int = 0
    thread_fmul: int = 0
    thread_ffma: int = 0
    thread_dadd: int = 0
    thread_dmul: int = 0
    thread_dfma: int = 0
    thread_hadd: int = 0
    thread_hmul: int = 0
    thread_hfma: int = 0
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

    cluster_load_wavefronts: int = 0  # 128 bytes each that warps read from a peer's shared memory
    cluster_store_wavefronts: int = 0  # the same for stores, atomics, st.async and red.async
    warpgroup_drains: int = 0  # wgmma.wait_group that leaves no product on its way, one a warp
    # Of all launches on an H200, modelled and not measured; filled where a budget is on them.
    estimated_nanoseconds: int = 0
    busiest_sm_sectors: int = 0  # of global memory, read by the SM that reads the most in a launch, each counted once
    # Of two ranks on one GPU (warplab.emulator.model.ranks), filled where a budget is on them.
    launches: int = 0
    link_read_sectors: int = 0  # of the other rank's memory, in each request
    link_written_sectors: int = 0  # to the other rank's memory, by stores, atomics and copies
    narrow_signals: int = 0  # fences, signals and atomics in the kernels' PTX whose scope ends at the GPU

    def parts(self, name: str) -> dict[str, int]:
        """What a total of TOTALS consists of here, by counter, none that is 0; a counter is its own only part."""
        amounts = {part: getattr(self, part) for part in TOTALS.get(name, (name,))}
        return {part: amount for part, amount in amounts.items() if amount}

    def amount(self, name: str) -> int:
        """The value of a counter or of a total of TOTALS."""
        return sum(self.parts(name).values())

    def __iadd__(self, other: Counters) -> Counters:
        for name, amount in vars(other).items():
            if amount:  # an instruction counts in a few fields of many
                setattr(self, name, getattr(self, name) + amount)
        return self


_ATOMIC_SECTORS = ("global_atomic_sectors", "global_reduction_sectors", "bulk_reduction_sectors")
_THREAD_READS = ("global_load_sectors", *_ATOMIC_SECTORS, "local_load_sectors")

# Totals over all the ways that bytes can take, for whoever sets a limit: an atomic reads and writes its sectors, and
# local memory lies off the chip as global memory does. The loads of cp.async are among the global ones, those of
# ldmatrix among the shared ones.
TOTALS: Mapping[str, tuple[str, ...]] = {
    "global_read_sectors": (*_THREAD_READS, "bulk_load_sectors"),
    "thread_read_sectors": _THREAD_READS,  # without bulk and tensor copies to shared memory
    "global_written_sectors": (
        "global_store_sectors",
        *_ATOMIC_SECTORS,
        "bulk_store_sectors",
        "local_store_sectors",
    ),
    "global_updates": ("global_atomic_requests", "global_reduction_requests", "bulk_reduction_requests"),
    "float_instructions": ("fp32_instructions", "fp64_instructions", "fp16_instructions"),
    "local_sectors": ("local_load_sectors", "local_store_sectors"),
    "shared_read_wavefronts": (
        "shared_load_wavefronts",
        "shared_atomic_wavefronts",
        "cluster_load_wavefronts",
        "warpgroup_read_wavefronts",
    ),
    "shared_written_wavefronts": ("shared_store_wavefronts", "shared_atomic_wavefronts", "cluster_store_wavefronts"),
    "shared_read_conflicts": ("shared_load_bank_conflicts", "shared_atomic_bank_conflicts", "cluster_load_wavefronts"),
    "shared_written_conflicts": (
        "shared_store_bank_conflicts",
        "shared_atomic_bank_conflicts",
        "async_copy_bank_conflicts",
        "cluster_store_wavefronts",
    ),
}

# The names of Nsight Compute for what the counters count; "a - b" is a difference of two.
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
    "global_atomic_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum",
    "global_atomic_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_atom.sum",
    "global_reduction_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_red.sum",
    "global_reduction_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_red.sum",
    "shared_atomic_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_atom.sum",
    "shared_atomic_bank_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_atom.sum",
    "matrix_load_requests": "smsp__inst_executed_op_ldsm.sum",
    "matrix_store_requests": "smsp__inst_executed_op_shared_stsm.sum",
    "async_copy_cached_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ldgsts_cache_access.sum",
    "async_copy_cached_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ldgsts_cache_access.sum",
    "matrix_load_wavefronts": "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldsm.sum",
    "matrix_load_bank_conflicts": "smsp__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ldsm.sum",
    "matrix_store_wavefronts": "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_stsm.sum",
    "matrix_store_bank_conflicts": "smsp__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_stsm.sum",
    # Products of pairs of halves, with which the assembler also makes constants, go through the same pipe.
    "tensor_instructions": "smsp__inst_executed_pipe_tensor.sum"
    " - smsp__inst_executed_pipe_tensor_op_hmma_type_hfma2.sum",
    "thread_fadd": "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum",
    "thread_fmul": "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum",
    "thread_ffma": "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
    "thread_dadd": "smsp__sass_thread_inst_executed_op_dadd_pred_on.sum",
    "thread_dmul": "smsp__sass_thread_inst_executed_op_dmul_pred_on.sum",
    "thread_dfma": "smsp__sass_thread_inst_executed_op_dfma_pred_on.sum",
}


@dataclass(frozen=True)
class CacheTraffic:
    """What a launch asks of the caches, in sectors of 32 bytes: a model's answer, not a count.

    CACHE_METRICS has Nsight Compute's names of what it stands for.
    """

    l1_load_sectors: int
    l1_load_hits: int
    merged_read_sectors: int  # that neighbouring SMs read at the same time, and L2 was asked for once
    l2_read_sectors: int
    l2_read_hits: int
    l2_write_sectors: int
    l2_write_hits: int
    l2_atomic_sectors: int
    l2_atomic_hits: int
    dram_read_sectors: int
    dram_write_sectors: int
    blocks_per_sm: int  # that were taken to run at once
    busiest_atomic_share: float = 0.0  # of the sectors of atomics, at the slice of L2 that gets the most of them
    l1_late_hits: int = 0  # of the hits: those of lines that were missing shortly before, and wait for them too
    l2_late_hits: int = 0
    dropped_requests: int = 0  # that the model did not see, because its log was full
    most_read_by_an_sm: int = 0  # each sector counted once; filled where only reads are modelled
    link_read_sectors: int = 0  # from the other of two ranks; filled where two ranks are modelled
    link_written_sectors: int = 0  # to the other rank, by stores, atomics and copies

    @property
    def l2_sectors(self) -> int:
        """All sectors that L1s ask of L2."""
        return self.l2_read_sectors + self.l2_write_sectors + self.l2_atomic_sectors


CACHE_METRICS: Mapping[str, str] = {
    "l1_load_hits": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum",
    "l2_read_sectors": "lts__t_sectors_srcunit_tex_op_read.sum",
    "l2_write_sectors": "lts__t_sectors_srcunit_tex_op_write.sum",
    "dram_read_sectors": "dram__sectors_read.sum",
    "dram_write_sectors": "dram__sectors_write.sum",
}


@dataclass
class LaunchProfile:
    """Counters of one launch: in total and per line of the submission (line 0: not attributed).

    `caches` is there if the execution was asked to model them.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    total: Counters
    lines: dict[int, Counters]
    caches: CacheTraffic | None = None

    @property
    def code_lines(self) -> frozenset[int]:
        """The lines of the submission that the kernel has instructions of; none where that is not known."""
        return frozenset()

    @property
    def ran_lines(self) -> frozenset[int]:
        """Those of `code_lines` of which a thread ran an instruction."""
        return frozenset()


COUNTERS_NOTE = "counters"


@dataclass
class Execution:
    """The outcome of one execution of a plan.

    `outputs` holds the OUTPUT and INOUT buffers after the last launch, shaped and typed as the plan's buffers.
    `launches` is empty on a GPU, which has no counters without a profiler. `stdout` is what device printf wrote.
    `notes` are sentences that a reader of the results should know, by what they are about; COUNTERS_NOTE says that
    counters do not follow the machine code.
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
