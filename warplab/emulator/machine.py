"""One worker's machine: the blocks of memory that the compiled interpreter works on, and the call into it."""

from __future__ import annotations

from math import prod

import numpy as np

from warplab.emulator import compiled
from warplab.emulator.core.asynchronous.events import EVENTS_BYTES
from warplab.emulator.core.blocks import FULL_TURN
from warplab.emulator.core.memory.counting import SEEN_BYTES
from warplab.emulator.core.memory.older_writes import OLDER_BYTES
from warplab.emulator.core.memory.request_log import RequestLog
from warplab.emulator.core.memory.shadow_chunks import CHUNK_BYTES, CHUNK_SPAN, WORDS
from warplab.emulator.core.state import layout as L
from warplab.emulator.core.state import tensor_layout
from warplab.emulator.core.state.bulk_layout import Q_FIELDS, Q_FIRST, Q_ROOM
from warplab.emulator.core.state.races_layout import S_FIELDS
from warplab.emulator.core.tensor.warpgroups import WARPGROUP_BYTES
from warplab.emulator.core.tensor.wgmma_queue import state_bytes
from warplab.emulator.core.warp.cluster_barrier import cluster_barrier_bytes
from warplab.emulator.core.warp.collectives import COLLECTIVE_SCRATCH
from warplab.emulator.lowering.lowering import SCRATCH
from warplab.emulator.memory import AddressSpace, RegionTable, aligned_bytes
from warplab.emulator.order import Order
from warplab.emulator.program import Constant, Program
from warplab.emulator.races import RaceSearch
from warplab.emulator.recorder import Recorder
from warplab.emulator.undefined import Fill
from warplab.isa.syntax import Module
from warplab.plan.model import Launch

FINDING_LIMIT = 256
MAX_RESIDENT = 512 << 20  # bytes that the threads of a cluster may take
# Behind frames and constants: a row is at most 512 bytes, so an operand that is read or written as a wider one than it
# is, by whatever fault, stays in memory of the machine.
SLACK = 512
PRINT_BYTES = 1 << 20
SHORT_TURN = 32  # warp instructions before another warp's turn, where the order of requests matters

_TENSOR = (L.OP_TENSOR_MEMORY, L.OP_TENSOR_CORE)
_AXES = {"x": 0, "y": 1, "z": 2}
_SHORT = 32  # bits of an address in the space of parameters alone


def resolve_constants(
    program: Program,
    module: Module,
    launch: Launch,
    addresses: dict[str, int],
    space: AddressSpace,
    parameters: np.ndarray,
    bank: int,
    workspace: int,
) -> np.ndarray:
    """Fill the constant bank of a launch. `parameters` are the kernel's parameter bytes, at address `bank`.

    `workspace`: where the barrier of a cooperative grid is; 0: the launch is not cooperative.
    """
    data = aligned_bytes(max(program.constant_bytes, 64) + SLACK)
    end = data.size - SLACK
    places = _parameter_places(module, program.entry)
    explicit = launch.cluster != (1, 1, 1) or module.functions[program.entry].explicit_cluster

    def value(constant: Constant, width: int) -> int | np.ndarray:
        if isinstance(constant, int):
            return constant
        name = constant[0]
        if name == "param":
            _, variable, offset, size, signed = constant
            start = places[variable] + offset
            return int.from_bytes(parameters[start : start + size].tobytes(), "little", signed=signed)
        if name == "parameter":
            place = places[constant[1]] + constant[2]
            return place if width <= _SHORT else bank + place  # short: see convert_address
        if name == "parameters":
            return bank
        if name == "symbol":
            return addresses[constant[1]] + constant[2]
        if name == "shared":
            return program.shared_symbols.get(constant[1], program.dynamic_start) + constant[2]
        if name.startswith("ntid"):
            return launch.block[_AXES[name[-1]]]
        if name.startswith("nctaid"):
            return launch.grid[_AXES[name[-1]]]
        if name.startswith("cluster_nctaid"):
            return launch.cluster[_AXES[name[-1]]]
        if name.startswith("nclusterid"):
            return launch.grid[_AXES[name[-1]]] // launch.cluster[_AXES[name[-1]]]
        if name in _LANE_MASKS:
            return _LANE_MASKS[name]
        sizes = {
            "shared_window": space.shared_window, "local_window": space.local_window,
            "cluster_nctarank": prod(launch.cluster),
            "is_explicit_cluster": explicit * (L.FULL_MASK if width == 1 else 1),
            "nwarpid": 64, "nsmid": 132, "gridid": 0, "envreg1": workspace >> 32, "envreg2": workspace & 0xFFFFFFFF,
            "total_smem_size": program.static_shared + launch.shared_bytes,
            "aggr_smem_size": program.static_shared + launch.shared_bytes,
            "dynamic_smem_size": launch.shared_bytes,
        }  # fmt: skip
        return sizes[name]

    for (width, constant), offset in program.constants.items():
        start = end + offset
        number = value(constant, width)
        if width == 1:
            data[start : start + 4].view(np.uint32)[0] = number
        elif width == 128:
            halves = data[start : start + 512].view(np.uint64)
            halves[:32], halves[32:] = int(number) & (2**64 - 1), int(number) >> 64
        else:
            row = data[start : start + 4 * width].view(f"u{width // 8}")
            row[:] = number if isinstance(number, np.ndarray) else int(number) & ((1 << width) - 1)
    return data


_LANES = np.arange(32, dtype=np.uint64)
_LANE_MASKS = {
    "lanemask_eq": np.uint64(1) << _LANES,
    "lanemask_lt": (np.uint64(1) << _LANES) - np.uint64(1),
    "lanemask_le": (np.uint64(2) << _LANES) - np.uint64(1),
    "lanemask_gt": ~((np.uint64(2) << _LANES) - np.uint64(1)) & np.uint64(0xFFFFFFFF),
    "lanemask_ge": ~((np.uint64(1) << _LANES) - np.uint64(1)) & np.uint64(0xFFFFFFFF),
}


def _parameter_places(module: Module, entry: str) -> dict[str, int]:
    places, used = {}, 0
    for formal in module.functions[entry].parameters:
        used = -(-used // max(formal.align, 1)) * max(formal.align, 1)
        places[formal.name] = used
        used += formal.size
    return places


def _uses(program: Program, *ops: int) -> bool:
    return not program.opcodes.isdisjoint(ops)


def resident_bytes(program: Program, launch: Launch) -> int:
    """Bytes of the registers, local, shared and tensor memory of a cluster's blocks, and of what is kept of them."""
    warps = -(-prod(launch.block) // L.LANES)
    warp = program.frame_bytes + (program.local_bytes + program.local_bytes // 4) * L.LANES
    if _uses(program, L.OP_WGMMA, L.OP_WGMMA_GROUP, L.OP_WGMMA_REGISTER):
        warp += state_bytes(program.frame_bytes)
    shared = program.dynamic_start + launch.shared_bytes
    shared += sum(_shadow_bytes(shared))
    shared += tensor_layout.state_bytes(prod(launch.cluster) * warps) if _uses(program, *_TENSOR) else 0
    return prod(launch.cluster) * (warps * warp + shared) + program.constant_bytes


def _shadow_bytes(shared: int) -> tuple[int, int]:
    """Bytes of older writes and of the chunks behind them, for so many bytes of a block's shared memory."""
    chunks = -(-shared // CHUNK_SPAN)
    return chunks * WORDS * OLDER_BYTES, chunks * CHUNK_BYTES


class Machine:
    """The state of one cluster's blocks, side by side. Every address in it points into an array that it holds.

    What is counted, found and printed is that of the machine `beside` it, if one is given: they run in turns. Shuffles
    get `undefined` of lanes that take no part; without it what lies in their registers.
    """

    def __init__(
        self,
        program: Program,
        launch: Launch,
        constants: np.ndarray,
        space: AddressSpace,
        regions: RegionTable,
        budget: int,
        sanitize: bool,
        order: Order,
        races: RaceSearch | None = None,
        beside: Machine | None = None,
        undefined: Fill | None = None,
    ) -> None:
        blocks = prod(launch.cluster)
        warps = -(-prod(launch.block) // L.LANES)
        # Shared memory ends where it ends, so that the first byte behind it is a fault.
        shared = program.dynamic_start + launch.shared_bytes if launch.shared_bytes else program.static_shared
        columns = blocks * warps * (2 if _uses(program, *L.ASYNC_READERS) else 1)
        columns += 2 * blocks * warps if _uses(program, *_TENSOR) else 0
        columns += blocks * -(-warps // L.WARPGROUP_WARPS) if _uses(program, L.OP_WGMMA) else 0
        self.code = program.code
        if beside is None:
            self.counts = np.zeros((len(program.code), L.C_FIELDS), dtype=np.int64)
            self.findings = np.zeros((FINDING_LIMIT, L.F_FIELDS), dtype=np.int64)
            self.print_buffer = aligned_bytes(PRINT_BYTES if _uses(program, L.OP_PRINT) else 64)
        else:
            self.counts, self.findings, self.print_buffer = beside.counts, beside.findings, beside.print_buffer
        self.specials = np.array(program.specials or [(0, 0)], dtype=np.int64)
        self.states = np.zeros((blocks, L.M_FIELDS), dtype=np.int64)
        self.races = races
        self.kept = [constants, regions.entries, regions.windows]
        width, height, depth = launch.block
        grid_x, grid_y, grid_z = launch.grid
        cluster_x, cluster_y, cluster_z = launch.cluster
        common = {
            L.M_CODE: self.code.ctypes.data,
            L.M_CONSTANTS: constants.ctypes.data + constants.size - SLACK,
            L.M_COUNTS: self.counts.ctypes.data,
            L.M_WARP_COUNT: warps,
            L.M_THREADS: prod(launch.block),
            L.M_SHARED_BYTES: shared,
            L.M_LOCAL_BYTES: program.local_bytes,
            L.M_REGIONS: regions.windows.ctypes.data,
            L.M_SHARED_WINDOW: space.shared_window,
            L.M_LOCAL_WINDOW: space.local_window,
            L.M_CLOCK: space.clock,
            L.M_FINDINGS: self.findings.ctypes.data,
            L.M_FINDING_LIMIT: FINDING_LIMIT,
            L.M_BUDGET: budget,
            L.M_BLOCK_DIM_X: width,
            L.M_BLOCK_DIM_Y: height,
            L.M_BLOCK_DIM_Z: depth,
            L.M_GRID_X: grid_x,
            L.M_GRID_Y: grid_y,
            L.M_GRID_Z: grid_z,
            L.M_SPECIALS: self.specials.ctypes.data,
            L.M_SPECIAL_COUNT: len(program.specials),
            L.M_CLOCKS: self._memory(blocks * warps * columns * 4),
            L.M_PRINT: self.print_buffer.ctypes.data,
            L.M_PRINT_BYTES: self.print_buffer.size,
            L.M_VECTORS: compiled.vectors(),
            L.M_QUANTUM: FULL_TURN,
            L.M_PEERS: self.states.ctypes.data,
            L.M_CLUSTER: blocks,
            L.M_CLUSTER_X: cluster_x,
            L.M_CLUSTER_Y: cluster_y,
            L.M_CLUSTER_Z: cluster_z,
            L.M_CLUSTER_WARPS: blocks * warps,
            L.M_HANDOVERS: self._memory(blocks * warps * L.HANDOVER_BYTES),
            L.M_CLOCK_COLUMNS: columns,
            L.M_CLUSTER_BARRIER: self._memory(cluster_barrier_bytes(columns)),
            L.M_EVENTS: self._memory(EVENTS_BYTES) if _uses(program, *L.ASYNC_ISSUERS) else 0,
            L.M_SEED: order.seed,
            L.M_CLUSTERS: prod(launch.grid) // blocks,
            L.M_ORDER_WINDOW: order.window,
            L.M_ORDER_START: order.start,
            L.M_ORDER_STEP: order.step,
            L.M_BACKWARDS: order.backwards,
            L.M_RACES: races.address if races else 0,
            L.M_RACE_WARPS: self._memory(8 * S_FIELDS * blocks * warps, cleared=True) if races else 0,
            L.M_CLEARED: program.shared_symbols.get(SCRATCH, 0),
            L.M_MAY_WAIT: not program.parallel,
            L.M_RECORDED: -1,
            L.M_UNDEFINED: undefined.bits if undefined else 0,
            L.M_UNDEFINED_AT: undefined.at if undefined else -1,
        }
        frame_bytes = -(-program.frame_bytes // 256) * 256
        for rank, state in enumerate(self.states):
            own = {
                L.M_RANK: rank,
                L.M_FIRST_WARP: rank * warps,
                L.M_FRAMES: self._memory(frame_bytes * warps + SLACK, cleared=True),
                L.M_FRAME_BYTES: frame_bytes,
                L.M_WARPS: self._memory(warps * L.W_FIELDS * 8),
                L.M_SHARED: self._memory(shared),
                L.M_SHARED_SHADOW: self._shadow(shared) if sanitize else 0,
                L.M_LOCAL: self._memory(program.local_bytes * L.LANES * warps),
                L.M_LOCAL_SHADOW: self._memory(program.local_bytes // 4 * L.LANES * warps) if sanitize else 0,
                L.M_BARRIERS: self._memory(L.BARRIERS * L.B_FIELDS * 8),
                L.M_MBARRIER_CLOCKS: self._memory(columns * L.MBARRIER_CLOCKS * 4),
                L.M_REMOTE: self._memory(blocks * warps * L.REMOTE_FIELDS * 8),
                L.M_SEEN: self._memory(SEEN_BYTES, cleared=True),
                L.M_SCRATCH: self._memory(COLLECTIVE_SCRATCH),
                L.M_COPIES: self._memory(warps * L.QUEUE_BYTES) if _uses(program, L.OP_COPY, L.OP_COPY_GROUP) else 0,
            }
            own |= self._product_state(program, warps, frame_bytes) | self._bulk_state(program, shared)
            own |= self._tensor_state(program, blocks * warps)
            for key, number in (common | own).items():
                state[key] = number

    def _product_state(self, program: Program, warps: int, frame_bytes: int) -> dict[int, int]:
        """What a block needs if its kernel has wgmma instructions."""
        if not _uses(program, L.OP_WGMMA, L.OP_WGMMA_GROUP, L.OP_WGMMA_REGISTER):
            return {}
        return {
            L.M_PRODUCTS: compiled.address(compiled.Piece.WGMMA),
            L.M_WGMMA: self._memory(warps * state_bytes(frame_bytes)),
            L.M_WGMMA_BYTES: state_bytes(frame_bytes),
            L.M_WARPGROUPS: self._memory(-(-warps // L.WARPGROUP_WARPS) * WARPGROUP_BYTES),
        }

    def _memory(self, size: int, cleared: bool = False) -> int:
        """The address of a block of memory that lives as long as the machine."""
        array = aligned_bytes(max(size, 64))
        if cleared:
            array.fill(0)
        self.kept.append(array)
        return array.ctypes.data

    def _shadow(self, shared: int) -> int:
        """The address of the shadow of a block's shared memory."""
        older, chunks = _shadow_bytes(shared)
        return self._memory(older + chunks) + older

    def _bulk_state(self, program: Program, shared: int) -> dict[int, int]:
        """What a block needs if its kernel has bulk copies: a queue of stores with room for its shared memory."""
        if not _uses(program, L.OP_BULK, L.OP_BULK_GROUP):
            return {}
        address = self._memory(8 * Q_FIELDS + shared)
        self.kept[-1][: 8 * Q_FIRST].view(np.int64)[Q_ROOM] = shared
        return {L.M_BULK: address, L.M_BULK_CODE: compiled.address(compiled.Piece.BULK)}

    def _tensor_state(self, program: Program, cluster_warps: int) -> dict[int, int]:
        """What a block needs if its kernel has tcgen05 instructions."""
        if not _uses(program, *_TENSOR):
            return {}
        return {
            L.M_TENSOR: self._memory(tensor_layout.state_bytes(cluster_warps)),
            L.M_TENSOR_CODE: compiled.address(compiled.Piece.TCGEN05),
        }

    def record(self, recorder: Recorder) -> None:
        """Record the recorder's block when it runs."""
        home = self.states[0]
        home[L.M_RECORDED], home[L.M_RECORDED_RANK], home[L.M_RECORD] = (
            recorder.cluster,
            recorder.rank,
            recorder.address,
        )

    @property
    def address(self) -> int:
        """Where the state of its first block is."""
        return self.states.ctypes.data

    @property
    def waits(self) -> bool:
        """Was its cluster left because it may be waiting for others?"""
        return bool(self.states[0, L.M_WAITS])

    @property
    def running(self) -> bool:
        """Has a cluster begun that has not ended?"""
        return bool(self.states[0, L.M_RUNNING])

    def keep_log(self, log: RequestLog) -> None:
        """Log what goes to the caches from now on; warps take short turns, so that their requests mix as they would."""
        self.log = log
        self.states[:, L.M_LOG] = log.address
        self.states[:, L.M_QUANTUM] = SHORT_TURN

    @property
    def print_is_full(self) -> bool:
        """Was more printed than the buffer takes?"""
        used = int(self.states[0, L.M_PRINT_USED])
        return used > 0 and used + L.PRINT_RECORD_BYTES > self.print_buffer.size

    @property
    def stopped(self) -> bool:
        """Did a fault end the launch?"""
        return bool(self.states[0, L.M_STOP])

    def finding_records(self) -> list[np.ndarray]:
        """The faults met so far."""
        return list(self.findings[: self.states[0, L.M_FINDING_COUNT]])

    def printed(self) -> np.ndarray:
        """The print records written so far, as bytes."""
        return self.print_buffer[: self.states[0, L.M_PRINT_USED]]
