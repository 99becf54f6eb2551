"""How long a plan would take on a chip: modelled, not measured.

A launch starts, and then takes what its parts take: a warp's own time, as often as blocks follow one another on an SM;
the cycles of the SM's pipes; what L2 and DRAM move. None is below the longest, and near a balance of two both show, as
they do where bandwidth is measured against the bytes in flight. What cannot hold in general: the clock is the boost
clock; the warps of a launch are alike; a block's phases overlap with those of other blocks.
benchmarks/results/clock.json has the error against measured times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, prod

from warplab.emulator.clock.chips import constants_of
from warplab.emulator.clock.constants import LANES, SCHEDULERS, SECTOR, SEEN, Constants
from warplab.emulator.clock.work import TENSOR, Work, work_of
from warplab.hardware.chips import H200
from warplab.hardware.records import Chip
from warplab.plan.execution import CacheTraffic, Counters, Execution, LaunchProfile


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
    seconds: float  # modelled time of the launch

    @property
    def bound(self) -> TimeTerm:
        """What limits the launch."""
        return self.terms[0]


@dataclass(frozen=True)
class Estimate:
    """Modelled times of all launches of an execution, one after the other, on `chip`."""

    chip: str
    launches: tuple[LaunchEstimate, ...]

    @property
    def seconds(self) -> float:
        """Modelled time of all launches."""
        return sum(launch.seconds for launch in self.launches)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Seconds between which eight of ten kernels lay that were modelled so and measured; None but for an H200."""
        if self.chip != H200.name:
            return None
        low, high = SEEN
        return self.seconds / high, self.seconds / low

    def __repr__(self) -> str:
        parts = "; ".join(
            f"{e.kernel}: {e.seconds * 1e6:.3g} us, bound by {e.bound.name} ({e.bound.amount})" for e in self.launches
        )
        between = f" ({' to '.join(f'{s * 1e6:.3g}' for s in self.interval)})" if self.interval else ""
        time = f"{self.seconds * 1e6:.3g} us{between} on {self.chip}"
        return f"<{time}, modelled, not measured: {parts or 'no launch'}>"


def check_chip(chip: Chip) -> None:
    """Raises PlanError for a chip without a boost clock or of a generation whose rates are not known here."""
    constants_of(chip)


def estimate(execution: Execution, chip: Chip) -> Estimate:
    """The time of an execution on a chip. Run it with `execute(..., caches=chip)`: without, L1 is taken to hit nothing.

    Raises PlanError as `check_chip` does.
    """
    constants = constants_of(chip)
    return Estimate(chip.name, tuple(_launch(profile, chip, constants) for profile in execution.launches))


def timed_total(execution: Execution) -> Counters:
    """The counters of an execution over all launches, with its time on an H200 among them."""
    return replace(execution.total, estimated_nanoseconds=round(estimate(execution, H200).seconds * 1e9))


def _launch(profile: LaunchProfile, chip: Chip, constants: Constants) -> LaunchEstimate:
    work = work_of(profile, constants)
    blocks = prod(profile.grid)
    busiest = ceil(blocks / chip.sms)  # blocks of the SM that has the most
    share = busiest / blocks  # of all work, on that SM
    first = TimeTerm("launch overhead", _start(profile, constants), "until the first block runs, and the last is seen")
    warps = _latency(profile, work, busiest, constants)
    memory = _memory(profile, share, constants)
    other = [
        TimeTerm("blocks", blocks * constants.launched, f"{blocks:,} blocks"),
        TimeTerm("issue slots", share * work.issued / SCHEDULERS / constants.clock, f"{work.issued:,.0f} instructions"),
        *(
            TimeTerm(pipe, share * cycles / constants.clock, f"{cycles:,.0f} cycles of one SM")
            for pipe, cycles in work.by_pipe.items()
        ),
        _tensor(profile.total, share, constants),
        _data_stage(profile.total, work, share, constants),
    ]
    # The memory has nothing to do until the first loads come, and a warp waits for its last one by itself.
    ramp = min(warps.seconds, constants.dram_latency / constants.clock)
    moving = ramp + _together([warps.seconds - ramp, *(term.seconds for term in memory)], constants.sharpness)
    computing = max(term.seconds for term in other) + _uncovered(profile, work, warps.seconds)
    seconds = first.seconds + _together([moving, computing], constants.sharper)
    ordered = sorted((t for t in (first, warps, *memory, *other) if t.seconds), key=lambda term: -term.seconds)
    return LaunchEstimate(profile.kernel, tuple(ordered), seconds)


def _together(parts: Sequence[float], sharpness: float) -> float:
    """Seconds of parts that work at the same time: near the longest, and more the nearer others come to it."""
    longest = max(parts)
    if not longest:
        return 0.0
    return longest * sum((part / longest) ** sharpness for part in parts) ** (1 / sharpness)


def _start(profile: LaunchProfile, constants: Constants) -> float:
    loads = profile.total.global_load_requests + profile.total.bulk_load_requests
    many = prod(profile.grid) > 1 and loads > 0
    return constants.start + many * constants.spread


def _latency(profile: LaunchProfile, work: Work, busiest: int, constants: Constants) -> TimeTerm:
    """A warp's own time, as often as blocks follow one another in one place of an SM."""
    resident = _resident(profile)
    waves = max(busiest / resident, 1.0)
    return TimeTerm("latency", waves * work.path / constants.clock, f"{waves:,.2g} waves of {resident} blocks per SM")


def _uncovered(profile: LaunchProfile, work: Work, seconds: float) -> float:
    """Seconds in which no other block, or without barriers no other warp, has work while one waits."""
    others = _resident(profile) * (1 if profile.total.barriers else ceil(prod(profile.block) / LANES))
    return seconds * work.waiting / work.path / others if work.path else 0.0


def _resident(profile: LaunchProfile) -> int:
    if profile.caches:
        return profile.caches.blocks_per_sm
    return max(2048 // (LANES * ceil(prod(profile.block) / LANES)), 1)


def _tensor(counters: Counters, share: float, constants: Constants) -> TimeTerm:
    amount = counters.tensor_multiply_adds
    rate = constants.group_rate if counters.warpgroup_read_requests else constants.product_rate
    return TimeTerm(TENSOR, share * 2 * amount / rate / constants.clock, f"{amount:,} multiply-adds")


def _data_stage(c: Counters, work: Work, share: float, constants: Constants) -> TimeTerm:
    """The path between an SM's registers, its shared memory and its L1: a wavefront of 128 bytes per cycle."""
    shared = (
        c.shared_load_wavefronts + c.shared_store_wavefronts + c.shared_atomic_wavefronts + c.async_copy_wavefronts
        + c.warpgroup_read_wavefronts
    )  # fmt: skip
    # Sectors beyond those that neighbours would need are taken to lie in lines of their own.
    ideal = c.global_load_ideal_sectors + c.global_store_ideal_sectors
    scattered = max(c.global_load_sectors + c.global_store_sectors - ideal, 0)
    near = ceil((ideal + c.local_load_sectors + c.local_store_sectors) / 4) + scattered
    requests = c.global_load_requests + c.global_store_requests + c.local_load_requests + c.local_store_requests
    wavefronts = shared + max(requests, near) + work.exchanged
    return TimeTerm("L1 and shared memory", share * wavefronts / constants.clock, f"{wavefronts:,.0f} wavefronts")


def _memory(profile: LaunchProfile, share: float, constants: Constants) -> list[TimeTerm]:
    c, caches = profile.total, profile.caches or _uncached(profile.total)
    atomics = c.global_atomic_sectors + c.global_reduction_sectors + c.bulk_reduction_sectors
    read, written = caches.dram_read_sectors * SECTOR, caches.l2_write_sectors * SECTOR
    moved = caches.l2_sectors * SECTOR
    slowest = max(
        caches.l2_read_sectors * SECTOR / constants.l2_read + written / constants.l2_write,
        share * moved / constants.l2_port / constants.clock,
    )
    busiest = atomics * caches.busiest_atomic_share
    return [
        TimeTerm("L2", slowest, f"{caches.l2_sectors:,} sectors"),
        TimeTerm("atomics", busiest * constants.atomic, f"{busiest:,.0f} of {atomics:,} sectors at one slice of L2"),
        TimeTerm("DRAM", read / constants.dram_read + written / constants.l2_write, f"{read + written:,} bytes"),
    ]


def _uncached(c: Counters) -> CacheTraffic:
    """The traffic of a launch whose caches were not modelled: as if they held nothing."""
    reads, writes = c.global_load_sectors + c.bulk_load_sectors, c.global_store_sectors + c.bulk_store_sectors
    atomics = c.global_atomic_sectors + c.global_reduction_sectors + c.bulk_reduction_sectors
    return CacheTraffic(c.global_load_sectors, 0, 0, reads, 0, writes, 0, atomics, 0, reads, writes, 1)
