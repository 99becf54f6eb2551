"""How long a launch keeps each part of a chip busy if nothing waits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, prod

from warplab.emulator.clock.constants import LANES, SCHEDULERS, SECTOR, Constants
from warplab.emulator.clock.launch import Machine
from warplab.emulator.clock.steps import ALU, DOUBLE, FMA, PIPES, SHUFFLES, SPECIAL, cycles_of
from warplab.hardware.records import Chip
from warplab.plan.execution import CacheTraffic, Counters, LaunchProfile

_NAMES = {FMA: "float pipe", ALU: "integer pipe", DOUBLE: "fp64 pipe", SPECIAL: "special functions"}
_SEVERAL = 1.5  # sectors per request from which atomics are taken to have several each
_PTX_CYCLES = 4  # from one PTX instruction of a warp to the next that needs it


@dataclass(frozen=True)
class TimeTerm:
    """One part of the chip and how long it would be busy, in seconds."""

    name: str
    seconds: float
    amount: str


def busy_parts(
    profile: LaunchProfile, machine: Machine | None, caches: CacheTraffic, chip: Chip, constants: Constants
) -> list[TimeTerm]:
    """How long a launch keeps each part of the chip busy. Parts of an SM are those of the SM with most blocks."""
    total, blocks = profile.total, prod(profile.grid)
    share = ceil(blocks / chip.sms) / blocks
    issued, by_pipe, exchanged = _of_ptx(total, constants) if machine is None else _of_machine(machine, constants)
    cycle = share / constants.clock
    rate = constants.group_rate if total.warpgroup_read_requests else constants.product_rate
    wavefronts = _wavefronts(total) + exchanged
    found = [
        TimeTerm("blocks", blocks * constants.launched, f"{blocks:,} blocks"),
        TimeTerm("issue slots", cycle * issued / SCHEDULERS, f"{issued:,.0f} instructions"),
        *(TimeTerm(_NAMES[pipe], cycle * n, f"{n:,.0f} cycles of one SM") for pipe, n in by_pipe.items()),
        TimeTerm(
            "tensor cores",
            cycle * 2 * total.tensor_multiply_adds / rate,
            f"{total.tensor_multiply_adds:,} multiply-adds",
        ),
        TimeTerm("L1 and shared memory", cycle * wavefronts, f"{wavefronts:,.0f} wavefronts"),
        *_memory(total, caches, share, constants),
    ]
    return [term for term in found if term.seconds]


def warp_alone(profile: LaunchProfile, caches: CacheTraffic, constants: Constants) -> float:
    """Seconds that a warp takes by its PTX if each instruction waits for the one before."""
    c = profile.total
    warps = prod(profile.grid) * ceil(prod(profile.block) / LANES)
    hits = caches.l2_read_hits / caches.l2_read_sectors if caches.l2_read_sectors else 1.0
    memory = hits * constants.l2_latency + (1 - hits) * constants.dram_latency
    loads = c.global_load_requests + c.local_load_requests + c.global_atomic_requests
    shared = c.shared_load_requests + c.shared_atomic_requests
    cycles = loads * memory + shared * constants.shared_latency + _PTX_CYCLES * _issued(c)
    return cycles / warps / constants.clock


def _of_machine(machine: Machine, constants: Constants) -> tuple[float, dict[int, float], float]:
    """Warp instructions issued, cycles of one SM by pipe, and shuffles."""
    by_pipe: dict[int, float] = {}
    issued = exchanged = 0.0
    for instruction, times in zip(machine.code, machine.ran.total, strict=True):
        issued += times
        exchanged += times * (instruction.root in SHUFFLES)
        pipe = PIPES.get(instruction.root)
        if pipe in _NAMES:
            cycles = times * cycles_of(instruction, constants) / SCHEDULERS
            by_pipe[pipe] = by_pipe.get(pipe, 0.0) + cycles
    return issued, by_pipe, exchanged


def _issued(c: Counters) -> float:
    return float(c.warp_instructions - c.move_instructions + c.wide_integer_instructions)


def _of_ptx(c: Counters, constants: Constants) -> tuple[float, dict[int, float], float]:
    """The same from the PTX, as if each of its instructions were one machine instruction."""
    lanes: Mapping[int, tuple[int, float]] = {
        FMA: (c.fp32_instructions + c.fp16_instructions, constants.fp32),
        ALU: (c.integer_instructions + c.wide_integer_instructions, constants.integer),
        DOUBLE: (c.fp64_instructions, constants.fp64),
        SPECIAL: (c.special_instructions + c.conversion_instructions, constants.special),
    }
    by_pipe = {pipe: count * LANES / rate for pipe, (count, rate) in lanes.items()}
    return _issued(c), by_pipe, float(c.exchange_instructions)


def _wavefronts(c: Counters) -> float:
    """Wavefronts of 128 bytes between registers and shared memory or L1. An SM moves one per cycle."""
    shared = (
        c.shared_load_wavefronts + c.shared_store_wavefronts + c.shared_atomic_wavefronts + c.async_copy_wavefronts
        + c.warpgroup_read_wavefronts
    )  # fmt: skip
    # Sectors beyond those that neighbours would need are taken to lie in lines of their own.
    ideal = c.global_load_ideal_sectors + c.global_store_ideal_sectors
    scattered = max(c.global_load_sectors + c.global_store_sectors - ideal, 0)
    near = ceil((ideal + c.local_load_sectors + c.local_store_sectors) / 4) + scattered
    requests = c.global_load_requests + c.global_store_requests + c.local_load_requests + c.local_store_requests
    return float(shared + max(requests, near))


def _memory(c: Counters, caches: CacheTraffic, share: float, constants: Constants) -> list[TimeTerm]:
    atomics = c.global_atomic_sectors + c.global_reduction_sectors + c.bulk_reduction_sectors
    read, written = caches.dram_read_sectors * SECTOR, caches.l2_write_sectors * SECTOR
    slowest = max(
        caches.l2_read_sectors * SECTOR / constants.l2_read + written / constants.l2_write,
        share * caches.l2_sectors * SECTOR / constants.l2_port / constants.clock,
    )
    requests = c.global_atomic_requests + c.global_reduction_requests + c.bulk_reduction_requests
    each = constants.atomic if atomics < _SEVERAL * requests else constants.atomic_sector
    busiest = atomics * caches.busiest_atomic_share
    return [
        TimeTerm("L2", slowest, f"{caches.l2_sectors:,} sectors"),
        TimeTerm("atomics", busiest * each, f"{busiest:,.0f} of {atomics:,} sectors at one slice of L2"),
        TimeTerm("DRAM", read / constants.dram_read + written / constants.l2_write, f"{read + written:,} bytes"),
    ]
