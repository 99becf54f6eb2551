"""How long a plan would take on a chip: modelled, not measured.

The time of a launch is its start and what sm.py simulates for the SM with most blocks. Three assumptions do not always
hold: the clock is the boost clock; all SMs do the same at the same time; warps with the same role are alike. Without
machine code a launch takes as long as its busiest part, or as a warp by itself if that is longer. The errors against
measured times are in benchmarks/results/clock.json.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, prod

from warplab.emulator.clock.busy import TimeTerm, busy_parts, warp_alone
from warplab.emulator.clock.chips import constants_of
from warplab.emulator.clock.constants import LANES, SEEN, Constants
from warplab.emulator.clock.launch import TimedLaunch, machine_of
from warplab.emulator.report.counters import CountedLaunch
from warplab.hardware.chips import H200
from warplab.hardware.records import Chip
from warplab.plan.execution import CacheTraffic, Counters, Execution, LaunchProfile

LATENCY = "latency"  # where no part of the chip is busy for most of the time
_MOSTLY = 0.5


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
        """From how many seconds to how many the measured time is for eight of ten kernels that the same part limits.

        None for another chip than an H200, and without launches.
        """
        if self.chip != H200.name or not self.launches:
            return None
        longest = max(self.launches, key=lambda launch: launch.seconds)
        low, high = SEEN.get(longest.bound.name, SEEN[""])
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
    launches = [
        _launch(profile, chip, constants, constants.next_start if number else constants.start)
        for number, profile in enumerate(execution.launches)
    ]
    return Estimate(chip.name, tuple(launches))


def timed_total(execution: Execution) -> Counters:
    """The counters of an execution over all launches, with its time on an H200 among them."""
    return replace(execution.total, estimated_nanoseconds=round(estimate(execution, H200).seconds * 1e9))


def _launch(profile: LaunchProfile, chip: Chip, constants: Constants, start: float) -> LaunchEstimate:
    caches = profile.caches or _uncached(profile)
    machine = machine_of(profile) if isinstance(profile, CountedLaunch) else None
    parts = busy_parts(profile, machine, caches, chip, constants)
    longest = max((term.seconds for term in parts), default=0.0)
    if machine is not None and isinstance(profile, CountedLaunch):
        seconds = max(TimedLaunch(profile, caches, machine, chip, constants).seconds(), longest)
    else:
        waves = max(prod(profile.grid) / chip.sms / caches.blocks_per_sm, 1.0)
        seconds = max(waves * warp_alone(profile, caches, constants), longest)
    if longest < _MOSTLY * seconds:
        amount = f"no part of the chip is busy for more than {longest / seconds:.0%} of the time"
        parts.append(TimeTerm(LATENCY, seconds, amount))
    parts.append(TimeTerm("launch overhead", start, "until the first block runs, and after the last has ended"))
    ordered = tuple(sorted(parts, key=lambda term: -term.seconds))
    return LaunchEstimate(profile.kernel, ordered, start + seconds)


def _uncached(profile: LaunchProfile) -> CacheTraffic:
    """The traffic of a launch whose caches were not modelled, as if they never hit."""
    c = profile.total
    reads, writes = c.global_load_sectors + c.bulk_load_sectors, c.global_store_sectors + c.bulk_store_sectors
    atomics = c.global_atomic_sectors + c.global_reduction_sectors + c.bulk_reduction_sectors
    resident = max(2048 // (LANES * ceil(prod(profile.block) / LANES)), 1)
    return CacheTraffic(c.global_load_sectors, 0, 0, reads, 0, writes, 0, atomics, 0, reads, writes, resident)
