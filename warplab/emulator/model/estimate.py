"""How long a plan would take on a chip, from counters and a datasheet. Modelled, not measured.

A launch takes as long as the busiest part of the chip is busy, and the time to start: each term is an amount of work
over the rate of one part. What cannot hold in general: the clock is the boost clock; work is spread evenly over SMs;
parts overlap perfectly; a warp waits for each of its global loads before the next, which unrolled and prefetching
kernels do not; and PTX is taken for SASS. benchmarks/results/estimate.json has the error against measured times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil, prod
from types import MappingProxyType

from warplab.errors import PlanError
from warplab.hardware.chips import H200
from warplab.hardware.records import Chip, Math
from warplab.plan.execution import CacheTraffic, Counters, Execution, LaunchProfile

SECTOR = 32  # bytes
LANES = 32


@dataclass(frozen=True)
class Rates:
    """Lanes that the pipes of one SM start a clock: CUDA C++ Programming Guide, "Arithmetic Instructions"."""

    integer: int
    special: int
    fp64: int
    fp16: int
    conversion: int
    exchange: int = 32


RATES: Mapping[tuple[int, int], Rates] = MappingProxyType(
    {
        (7, 0): Rates(64, 16, 32, 128, 16),
        (7, 5): Rates(64, 16, 2, 128, 16),
        (8, 0): Rates(64, 16, 32, 256, 64),
        (8, 9): Rates(64, 16, 2, 128, 64),
        (9, 0): Rates(64, 16, 64, 256, 64),
        (10, 0): Rates(64, 16, 64, 256, 64),
    }
)

# What no datasheet says: latencies in clocks and shares, fitted
# to the kernels of benchmarks/sized.py on an H200: the reason to publish the error.
SCHEDULERS = 4  # of an SM, one warp instruction a clock each
START = 3e-6  # seconds from one event to the next around a kernel that does next to nothing
BLOCK_START = 700  # clocks in which a block's place on an SM does no work, before it and after it
LATENCY_L1, LATENCY_L2, LATENCY_DRAM = 35, 300, 800
SHARED_WAITS = 0.5  # of a warp's loads from shared memory: the others are on their way at the same time
INSTRUCTION_LATENCY = 5  # clocks between dependent instructions of a warp
INDEPENDENT = 2  # instructions of a warp that are in flight on average
DRAM_SHARE = 0.9  # of the datasheet's bandwidth that streams reach
L2_BYTES = 18  # a clock and SM, between L1 and L2; sectors of scattered stores count twice
ATOMIC_SECONDS = 0.75e-9  # for which a sector of an atomic keeps a slice of L2 busy
INTEGER_SHARE = 1.5  # the assembler gives part of the integer work to the float pipe
TENSOR_SHARE = 0.62  # of the peak that mma.sync reaches; wgmma more


@dataclass(frozen=True)
class TimeTerm:
    """One part of the chip and how long it would be busy, in seconds."""

    name: str
    seconds: float
    amount: str


@dataclass(frozen=True)
class LaunchEstimate:
    """The terms of one launch, the longest first."""

    kernel: str
    terms: tuple[TimeTerm, ...]
    start: float  # seconds that any launch takes

    @property
    def bound(self) -> TimeTerm:
        """What limits the launch."""
        return self.terms[0]

    @property
    def seconds(self) -> float:
        """Modelled time of the launch."""
        return self.start + self.bound.seconds


@dataclass(frozen=True)
class Estimate:
    """Modelled times of all launches of an execution, one after the other, on `chip`."""

    chip: str
    launches: tuple[LaunchEstimate, ...]

    @property
    def seconds(self) -> float:
        """Modelled time of all launches."""
        return sum(launch.seconds for launch in self.launches)

    def __repr__(self) -> str:
        parts = "; ".join(
            f"{e.kernel}: {e.seconds * 1e6:.3g} us, bound by {e.bound.name} ({e.bound.amount})" for e in self.launches
        )
        return f"<{self.seconds * 1e6:.3g} us on {self.chip}, modelled, not measured: {parts or 'no launch'}>"


def check_chip(chip: Chip) -> None:
    """Raises PlanError for a chip without a boost clock or of a generation whose rates are not known here."""
    if chip.boost_clock is None or chip.compute_capability not in RATES:
        raise PlanError(f"The time on {chip.name} cannot be estimated: its clock or its instruction rates are unknown.")


def estimate(execution: Execution, chip: Chip) -> Estimate:
    """The time of an execution on a chip. Run it with `execute(..., caches=chip)`: without, L1 is taken to hit nothing.

    Raises PlanError as `check_chip` does.
    """
    check_chip(chip)
    return Estimate(chip.name, tuple(_launch(profile, chip) for profile in execution.launches))


def timed_total(execution: Execution) -> Counters:
    """The counters of an execution over all launches, with its time on an H200 among them."""
    return replace(execution.total, estimated_nanoseconds=round(estimate(execution, H200).seconds * 1e9))


def _launch(profile: LaunchProfile, chip: Chip) -> LaunchEstimate:
    counters, caches = profile.total, profile.caches
    blocks = prod(profile.grid)
    busy = min(blocks, chip.sms)  # SMs with anything to do
    # The last wave is as long as any other: an SM with one block more than the rest decides.
    spread = ceil(blocks / chip.sms) / (blocks / chip.sms) if blocks > chip.sms else 1.0
    clocks = (chip.boost_clock or 0.0) * busy / spread
    terms = [
        *_compute(counters, chip, clocks),
        _data_stage(counters, clocks),
        *_memory(counters, caches, chip, clocks),
        _latency(profile, chip),
    ]
    return LaunchEstimate(profile.kernel, tuple(sorted(terms, key=lambda t: -t.seconds)), START)


def _compute(counters: Counters, chip: Chip, clocks: float) -> list[TimeTerm]:
    """Issue slots and pipes; `clocks` are those of all busy SMs in a second."""
    rates = RATES[chip.compute_capability]
    issued = counters.warp_instructions - counters.move_instructions + counters.wide_integer_instructions
    lanes = {
        "fp32 pipe": (counters.fp32_instructions, chip.cuda_cores_per_sm),
        "integer pipe": (
            counters.integer_instructions + counters.wide_integer_instructions,
            INTEGER_SHARE * rates.integer,
        ),
        "fp64 pipe": (counters.fp64_instructions, rates.fp64),
        "fp16 pipe": (counters.fp16_instructions, rates.fp16),
        "special functions": (counters.special_instructions, rates.special),
        "conversions": (counters.conversion_instructions, rates.conversion),
        "shuffles": (counters.exchange_instructions, rates.exchange),
    }
    terms = [TimeTerm("issue slots", issued / (SCHEDULERS * clocks), f"{issued:,} warp instructions")]
    terms += [
        TimeTerm(name, count * LANES / (rate * clocks), f"{count:,} warp instructions")
        for name, (count, rate) in lanes.items()
    ]
    peak = chip.peak(Math.FP16_TENSOR)
    if counters.tensor_multiply_adds and peak:
        share = clocks / (chip.sms * (chip.boost_clock or 1.0))
        seconds = 2 * counters.tensor_multiply_adds / (TENSOR_SHARE * peak * share)
        terms.append(TimeTerm("tensor cores", seconds, f"{counters.tensor_multiply_adds:,} multiply-adds as fp16"))
    return terms


def _data_stage(counters: Counters, clocks: float) -> TimeTerm:
    """The path between an SM's registers, its shared memory and its L1: a wavefront of 128 bytes a clock."""
    c = counters
    shared = c.shared_load_wavefronts + c.shared_store_wavefronts + c.shared_atomic_wavefronts + c.async_copy_wavefronts
    # Sectors beyond those that neighbours would need are taken to lie in lines of their own.
    ideal = c.global_load_ideal_sectors + c.global_store_ideal_sectors
    scattered = max(c.global_load_sectors + c.global_store_sectors - ideal, 0)
    near = ceil((ideal + c.local_load_sectors + c.local_store_sectors) / 4) + scattered
    requests = c.global_load_requests + c.global_store_requests + c.local_load_requests + c.local_store_requests
    wavefronts = shared + max(requests, near)
    return TimeTerm("L1 and shared memory", wavefronts / clocks, f"{wavefronts:,} wavefronts")


def _memory(counters: Counters, caches: CacheTraffic | None, chip: Chip, clocks: float) -> list[TimeTerm]:
    c = counters
    atomics = c.global_atomic_sectors + c.global_reduction_sectors + c.bulk_reduction_sectors
    if caches is None:
        moved = c.global_load_sectors + c.bulk_load_sectors + c.global_store_sectors + c.bulk_store_sectors
        l2, dram = moved + atomics, moved
    else:
        l2 = caches.l2_sectors
        dram = caches.dram_read_sectors + caches.dram_write_sectors
    l2_clocks = chip.sms * (chip.boost_clock or 0.0)
    costly = l2 + max(c.global_store_sectors - c.global_store_ideal_sectors, 0)
    slowest = max(costly * SECTOR / (L2_BYTES * l2_clocks), l2 * SECTOR / (64 * clocks))
    busiest = atomics * (caches.busiest_atomic_share if caches else 0.0)
    return [
        TimeTerm("L2", slowest, f"{l2:,} sectors"),
        TimeTerm("atomics", busiest * ATOMIC_SECONDS, f"{busiest:,.0f} of {atomics:,} sectors at one slice of L2"),
        TimeTerm("DRAM", dram * SECTOR / (DRAM_SHARE * chip.bandwidth), f"{dram * SECTOR:,} bytes"),
    ]


def _latency(profile: LaunchProfile, chip: Chip) -> TimeTerm:
    """A warp's own time, as many times as warps follow one another on a scheduler's slot."""
    c, caches = profile.total, profile.caches
    blocks = prod(profile.grid)
    warps = blocks * ceil(prod(profile.block) / LANES)
    resident = caches.blocks_per_sm if caches else max(2048 // (LANES * ceil(prod(profile.block) / LANES)), 1)
    waves = ceil(blocks / (chip.sms * resident))
    loads = (c.global_load_requests + c.global_atomic_requests + c.local_load_requests) / warps
    far = float(LATENCY_DRAM)
    if caches and caches.l1_load_sectors:
        hit = caches.l1_load_hits / caches.l1_load_sectors
        l2_hit = caches.l2_read_hits / caches.l2_read_sectors if caches.l2_read_sectors else 1.0
        far = hit * LATENCY_L1 + (1 - hit) * (l2_hit * LATENCY_L2 + (1 - l2_hit) * LATENCY_DRAM)
    shared = (c.shared_load_requests + c.shared_atomic_requests) / warps
    waiting = BLOCK_START + loads * far + shared * SHARED_WAITS * LATENCY_L1
    working = (c.warp_instructions - c.move_instructions) / warps * INSTRUCTION_LATENCY / INDEPENDENT
    seconds = waves * (waiting + working) / (chip.boost_clock or 1.0)
    return TimeTerm("latency", seconds, f"{waves:,} waves of {resident} blocks an SM")
