"""How long the stopwatch goes on, with a clock and a GPU that are made up: what is slow is timed less often."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from warplab.gpu import stopwatch
from warplab.gpu.stopwatch import TurnTimes, time_in_turns


class Clock:
    """Seconds that pass when something runs."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


class Candidate:
    """Takes so many seconds, give or take a part of them."""

    launches = 1

    def __init__(self, clock: Clock, seconds: float, spread: float = 0.0, checking: float = 0.0) -> None:
        self._clock, self._seconds, self._spread, self._random = clock, seconds, spread, Random(1)
        self._checking = checking

    def prepare(self, turn: int) -> None: ...

    def launch(self) -> None:
        self._clock.now += self._seconds * (1 + self._random.uniform(-self._spread, self._spread))

    def check(self, turn: int) -> None:
        self._clock.now += self._checking


class Event:
    """When the clock passed it, in milliseconds."""

    at = 0.0
    is_done = False  # when the host has queued what follows

    def sync(self) -> None: ...

    def __sub__(self, other: Event) -> float:
        return self.at - other.at


class Stream:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def sync(self) -> None: ...

    def record(self, event: Event) -> None:
        event.at = self._clock.now * 1e3


class Nothing:
    """In the place of what needs a GPU."""

    def __init__(self, *_: object, **__: object) -> None: ...

    def sweep(self) -> None: ...

    def create_event(self, _: object) -> Event:
        return Event()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(stopwatch, "time", made)
    monkeypatch.setattr(stopwatch, "ColdCache", Nothing)
    monkeypatch.setattr(stopwatch, "Device", Nothing)
    monkeypatch.setattr(stopwatch, "EventOptions", Nothing)
    monkeypatch.setattr(stopwatch.trusted, "spin", lambda *_: None)
    return made


def timed(
    clock: Clock,
    seconds: float,
    *,
    spread: float,
    placements: int,
    checking: float = 0.0,
    enough: Callable[[TurnTimes], bool] | None = None,
) -> TurnTimes:
    candidates = {"submission": Candidate(clock, seconds, spread, checking), "copy": Candidate(clock, 1e-4)}
    return time_in_turns(
        candidates, Stream(clock), budget_seconds=1.0, precision=0.004, compare=("submission", "copy"),
        placements=placements, enough=enough,
    )  # type: ignore[arg-type]  # fmt: skip


def test_what_is_steady_is_timed_until_enough_was_seen(clock: Clock) -> None:
    found = timed(clock, 0.005, spread=0.0, placements=4)
    assert stopwatch.LEAST_SECONDS < found.turns * 0.0051 < stopwatch.LEAST_SECONDS + 0.011


def test_what_is_noisy_has_its_budget(clock: Clock) -> None:
    assert timed(clock, 0.01, spread=0.2, placements=4).turns == pytest.approx(1 / 0.0101, abs=3)


def test_what_is_noisy_stops_where_less_is_enough(clock: Clock) -> None:
    found = timed(clock, 0.01, spread=0.2, placements=4, enough=lambda seen: seen.time("submission").high < 13)
    assert found.turns == pytest.approx(stopwatch.LEAST_SECONDS / 0.0101, abs=3)
    assert timed(clock, 0.01, spread=0.2, placements=4, enough=lambda seen: False).turns > 90


def test_what_takes_long_to_check_has_its_turns_in_every_place(clock: Clock) -> None:
    assert timed(clock, 0.002, spread=0.2, placements=4, checking=0.2).turns == 4 * stopwatch.PLACED_TURNS


@pytest.mark.parametrize(("seconds", "turns"), [(0.4, 8), (0.15, 8), (0.08, 14)])
def test_what_is_slow_has_two_turns_in_each_place_at_least(clock: Clock, seconds: float, turns: int) -> None:
    found = timed(clock, seconds, spread=0.01, placements=4)
    assert found.turns == turns
    assert found.time("submission").value == pytest.approx(seconds * 1e3, rel=0.01)


def test_fewer_places_give_no_interval_by_their_spread(clock: Clock) -> None:
    assert timed(clock, 0.4, spread=0.01, placements=1).turns == stopwatch.MINIMUM_TURNS


class Gpu:
    """Runs what is queued: `free` is when it is done with all of it. The host's clock is the other one."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.free, self.launches = clock, 0.0, 0
        self.events: dict[int, float] = {}

    def queue(self, seconds: float) -> None:
        self.free = max(self.free, self.clock.now) + seconds
        self.launches += 1

    def sync(self) -> None:
        self.clock.now = max(self.clock.now, self.free)

    def spin(self, _: object, microseconds: float, cycles: int = 0) -> None:
        self.queue(microseconds / 1e6)

    def record(self, event: PastEvent) -> None:
        event.at = max(self.free, self.clock.now)

    def create_event(self, _: object) -> PastEvent:
        return PastEvent(self)


class PastEvent:
    """When the GPU passes it, in seconds."""

    at = 0.0

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu

    @property
    def is_done(self) -> bool:
        return self.at <= self._gpu.clock.now

    def sync(self) -> None:
        self._gpu.clock.now = max(self._gpu.clock.now, self.at)

    def __sub__(self, other: PastEvent) -> float:
        return (self.at - other.at) * 1e3


class Queued:
    """A kernel that takes so many seconds, its launch some of the host's; every fourth launch takes a tenth more."""

    launches = 1

    def __init__(self, gpu: Gpu, seconds: float, of_host: float = 1e-6) -> None:
        self._gpu, self._seconds, self._of_host = gpu, seconds, of_host
        self.prepared: list[int] = []
        self.checked: list[int] = []

    def prepare(self, turn: int) -> None:
        self.prepared.append(turn)

    def launch(self) -> None:
        self._gpu.clock.now += self._of_host
        self._gpu.queue(self._seconds * (1.1 if self._gpu.launches % 4 == 0 else 1))

    def check(self, turn: int) -> None:
        assert turn == self.prepared[-1]
        self.checked.append(turn)


@pytest.fixture
def gpu(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Gpu:
    made = Gpu(clock)

    class Sweep(Nothing):
        def sweep(self) -> None:
            made.queue(1e-4)

    monkeypatch.setattr(stopwatch, "ColdCache", Sweep)
    monkeypatch.setattr(stopwatch, "Device", lambda: made)
    monkeypatch.setattr(stopwatch.trusted, "spin", made.spin)
    return made


@pytest.mark.parametrize("of_host", [1e-6, 3e-4, 3e-3])
def test_what_the_host_takes_for_a_launch_is_not_in_the_time(gpu: Gpu, of_host: float) -> None:
    it = Queued(gpu, 2e-5, of_host)
    times = time_in_turns({"it": it}, gpu, budget_seconds=1)  # type: ignore[arg-type]
    assert times.time("it").value == pytest.approx(0.02, rel=0.06)
    assert len(set(it.prepared)) == len(it.prepared)  # or a kernel could keep what it computed
    assert (len(it.prepared) > len(it.checked)) == (of_host > 1e-4)


def test_a_launch_that_waits_for_the_gpu_is_timed_with_its_wait(gpu: Gpu) -> None:
    times = time_in_turns({"it": Queued(gpu, 2e-5, 0.1)}, gpu, budget_seconds=0.1)  # type: ignore[arg-type]
    assert times.time("it").value == pytest.approx(100, rel=0.3)


def test_slow_launches_are_nobodys_in_particular(gpu: Gpu) -> None:
    """Turns are three launches each: without more, every fourth is always one candidate's."""
    ratios = []
    for _ in range(8):
        pair = {"one": Queued(gpu, 2e-5), "two": Queued(gpu, 2e-5)}
        ratios.append(time_in_turns(pair, gpu, budget_seconds=10).ratio("one", "two").value)  # type: ignore[arg-type]
        gpu.spin(None, 0.0)
    assert all(abs(ratio - 1) < 0.02 for ratio in ratios)
