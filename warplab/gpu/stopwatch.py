"""Times work on the GPU so that a moving clock, a warm cache and a slow host do not show.

Candidates take turns (A B C, C B A), each on fresh inputs and with a cold L2, and every timed output can be checked.
What is compared is the ratio of two candidates within two turns, one each way round: a clock that drifts moves both,
as does what it means to be the first or the last. Where a candidate's buffers lie in memory makes a difference too, so
it may be there several times.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import cupy
import numpy as np
from cuda.core import Device, EventOptions, Stream

from warplab.gpu import trusted
from warplab.gpu.statistics import Interval, mean_interval, median_interval

WARM_UP_SECONDS = 0.25  # least time under load before anything counts
SETTLED = 0.01  # the clock has settled when two successive turns of all that is compared agree to this
MINIMUM_TURNS = 12  # six pairs, the fewest that a median's interval can be had from
PLACED_TURNS = 6  # at least, in each place that a candidate has
SLOW_SHARE = 0.25  # of the budget: work that took so much of it when it is spent is slow, and may do with two turns
SLOW_PLACES = 4  # in each place, if it has so many: their spread gives the interval then
MAXIMUM_TURNS = 400
LEAST_SECONDS = 0.3  # of sampling: looking after every pair whether it is enough, one stops too early where many fit
TICK = 32e-6  # milliseconds: the step in which events count on the GPUs that were looked at
TICK_CYCLES = 128  # at least as long
HIDE_MICROSECONDS = 40.0  # host time to enqueue one launch, generously, and to begin with
MOST_HIDDEN = 20_000.0  # microseconds: a candidate that takes the host longer is timed with what it takes
REPEATED = 1 << 20  # from a turn's number to that of its repetition, in the same place
PLACES_OF_LAUNCHES = 4  # every so many launches one starts later, on the GPUs that were looked at


class Candidate(Protocol):
    """Something to time."""

    launches: int  # kernels that `launch` queues

    def prepare(self, turn: int) -> None:
        """Queue fresh inputs and poisoned outputs for this turn; not timed."""

    def launch(self) -> None:
        """Queue the work that is timed."""

    def check(self, turn: int) -> None:
        """Raise if what this turn computed is wrong; not timed."""


class Placed:
    """One candidate in several places: the same work on buffers that lie elsewhere, two turns in each place."""

    def __init__(self, places: Sequence[Candidate]) -> None:
        self.launches = places[0].launches
        self._places, self._here = places, places[0]

    def prepare(self, turn: int) -> None:
        """Go to the place of this turn and prepare there."""
        self._here = self._places[turn // 2 % len(self._places)]
        self._here.prepare(turn)

    def launch(self) -> None:
        """Queue the work of this place."""
        self._here.launch()

    def check(self, turn: int) -> None:
        """Check what was computed in this place."""
        self._here.check(turn)


@dataclass
class TurnTimes:
    """Milliseconds of every turn, by candidate; the turns of all candidates correspond.

    A sample is two turns, one in each order of the candidates. Samples come from `placements` places in rotation; an
    estimate is the mean of the places' medians, and its 95% interval has in it by how much they differ.
    """

    samples: dict[str, list[float]] = field(default_factory=dict)
    placements: int = 1

    def time(self, name: str) -> Interval:
        """One candidate's time in milliseconds."""
        return self._estimate(self._paired(name))

    def ratio(self, numerator: str, denominator: str) -> Interval:
        """The ratio of two candidates' times, taken over the same turns."""
        return self._estimate(self._ratios(numerator, denominator))

    def width(self, numerator: str, denominator: str) -> float:
        """Width of the 95% interval of the ratio's median over all places, relative to it."""
        return median_interval(self._ratios(numerator, denominator)).width

    def _ratios(self, numerator: str, denominator: str) -> list[float]:
        return [a / b for a, b in zip(self._paired(numerator), self._paired(denominator), strict=True)]

    def _estimate(self, values: Sequence[float]) -> Interval:
        return mean_interval([median_interval(values[place :: self.placements]) for place in range(self.placements)])

    def _paired(self, name: str) -> list[float]:
        times = self.samples[name]
        return [(a + b) / 2 for a, b in zip(times[::2], times[1::2], strict=False)]

    @property
    def turns(self) -> int:
        """How many turns were timed."""
        return len(next(iter(self.samples.values())))


class ColdCache:
    """Empties the L2 of what was used before: a read sweep over four times its size leaves only clean, foreign lines.

    Reading, unlike writing, leaves no dirty lines whose eviction the timed kernel would have to pay for.
    """

    def __init__(self, stream: Stream) -> None:
        size = max(4 * Device().properties.l2_cache_size, 64 << 20)
        self._stream = stream
        self._lines = cupy.zeros(size // 4, dtype=cupy.uint32)
        self._sink = cupy.zeros(1, dtype=cupy.uint32)

    def sweep(self) -> None:
        """Queue the sweep."""
        elements = np.uint64(self._lines.nbytes // 16)
        blocks = 4 * Device().properties.multiprocessor_count
        pointers = np.uint64(self._lines.data.ptr), np.uint64(self._sink.data.ptr)
        trusted.run(self._stream, "sweep", blocks, 512, *pointers, elements)


def time_in_turns(
    candidates: Mapping[str, Candidate],
    stream: Stream,
    *,
    budget_seconds: float,
    precision: float = 0.01,
    compare: tuple[str, str] | None = None,
    placements: int = 1,
    warm: bool = False,
    enough: Callable[[TurnTimes], bool] | None = None,
) -> TurnTimes:
    """Time `candidates` in turns until the answer is known well enough.

    Stops when at least MINIMUM_TURNS turns were timed in at least LEAST_SECONDS and the 95% interval of every
    candidate's median (or, if `compare` names two, of their ratio) is narrower than `precision`, or `enough` says that
    what was timed suffices, or when `budget_seconds` are spent. The budget does not cut below MINIMUM_TURNS, nor below
    PLACED_TURNS in each of the `placements` that the candidates rotate through; for work that is slow it does, down to
    two turns in each place. With `warm` a candidate is launched untimed right before it is timed, so that the L2 has
    what fits of its data, instead of the sweep. Whatever a candidate's methods raise passes through.
    """
    cold = ColdCache(stream)
    dither = random.Random()
    begin, end = (Device().create_event(EventOptions(timing_enabled=True)) for _ in range(2))
    hides: dict[int, float] = {}  # microseconds of host time that each candidate's launch may take

    def try_turn(number: int, candidate: Candidate, microseconds: float) -> bool:
        candidate.prepare(number)
        stream.sync()
        if warm:
            candidate.launch()
        else:
            cold.sweep()
        # With a cold L2 every fourth launch of a context takes 0.8 us longer if its arguments are long, as tensor maps
        # are (docs/measuring.md). Turns are a fixed number of launches, so it would always be the same candidate's.
        for _ in range(dither.randrange(PLACES_OF_LAUNCHES)):
            trusted.spin(stream, 0.0)
        trusted.spin(stream, microseconds, dither.randrange(TICK_CYCLES))
        stream.record(begin)
        candidate.launch()
        stream.record(end)
        hidden = not begin.is_done  # else the GPU has waited for the host, and the time is not the kernels' alone
        end.sync()
        return hidden

    def turn(number: int, candidate: Candidate) -> float:
        hide = hides.setdefault(id(candidate), HIDE_MICROSECONDS * (1 + candidate.launches))
        late = 0
        while not try_turn(number, candidate, hide) and hide < MOST_HIDDEN:
            number += REPEATED  # whoever launches slowly sees no input twice either
            late += 1
            if late % 2 == 0:  # twice running: the host is slower, not disturbed
                hide = hides[id(candidate)] = 2 * hide
        milliseconds = end - begin
        candidate.check(number)
        # Times of a few microseconds are a few hundred ticks, and a median of ticks jumps by whole ones. Beginning
        # anywhere within a tick and a uniform error of one tick make it continuous, as a dither does for a converter.
        return milliseconds + TICK * (dither.random() - 0.5)

    names = list(candidates)
    _warm_up(candidates, turn, compare or names)
    result, minimum = TurnTimes({name: [] for name in names}, placements), max(MINIMUM_TURNS, PLACED_TURNS * placements)
    least = 2 * placements if placements >= SLOW_PLACES else minimum
    start = time.monotonic()
    for number in range(MAXIMUM_TURNS):
        for name in names if number % 2 else reversed(names):  # whoever goes first has had the longer pause
            result.samples[name].append(turn(number, candidates[name]))
        if result.turns < least or result.turns % 2:
            continue
        elapsed = time.monotonic() - start
        slowest = max(sum(times) for times in result.samples.values()) / 1e3
        if result.turns < minimum and (elapsed < budget_seconds or slowest < SLOW_SHARE * budget_seconds):
            continue
        if elapsed > budget_seconds:
            break
        widths = [result.width(*compare)] if compare else [result.time(name).width for name in candidates]
        if elapsed > LEAST_SECONDS and (max(widths) < precision or (enough is not None and enough(result))):
            break
    return result


def _warm_up(
    candidates: Mapping[str, Candidate], turn: Callable[[int, Candidate], float], compared: Sequence[str]
) -> None:
    """Run untimed turns, numbered below zero, until successive ones agree in what is compared; give up after four times
    WARM_UP_SECONDS."""
    begin, number = time.monotonic(), -1
    previous: dict[str, float] = {}
    while True:
        current = {name: turn(number, candidate) for name, candidate in candidates.items()}
        settled = bool(previous) and all(abs(current[n] / previous[n] - 1) < SETTLED for n in compared)
        elapsed = time.monotonic() - begin
        if (settled and elapsed > WARM_UP_SECONDS) or elapsed > 4 * WARM_UP_SECONDS:
            return
        previous, number = current, number - 1
