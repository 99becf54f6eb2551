"""How long the stopwatch goes on, with a clock and a GPU that are made up: what is slow is timed less often."""

from __future__ import annotations

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


def timed(clock: Clock, seconds: float, *, spread: float, placements: int, checking: float = 0.0) -> TurnTimes:
    candidates = {"submission": Candidate(clock, seconds, spread, checking), "copy": Candidate(clock, 1e-4)}
    return time_in_turns(
        candidates, Stream(clock), budget_seconds=1.0, precision=0.004, compare=("submission", "copy"),
        placements=placements,
    )  # type: ignore[arg-type]  # fmt: skip


def test_what_is_steady_is_timed_until_enough_was_seen(clock: Clock) -> None:
    found = timed(clock, 0.005, spread=0.0, placements=4)
    assert stopwatch.LEAST_SECONDS < found.turns * 0.0051 < stopwatch.LEAST_SECONDS + 0.011


def test_what_is_noisy_has_its_budget(clock: Clock) -> None:
    assert timed(clock, 0.01, spread=0.2, placements=4).turns == pytest.approx(1 / 0.0101, abs=3)


def test_what_takes_long_to_check_has_its_turns_in_every_place(clock: Clock) -> None:
    assert timed(clock, 0.002, spread=0.2, placements=4, checking=0.2).turns == 4 * stopwatch.PLACED_TURNS


@pytest.mark.parametrize(("seconds", "turns"), [(0.4, 8), (0.15, 8), (0.08, 14)])
def test_what_is_slow_has_two_turns_in_each_place_at_least(clock: Clock, seconds: float, turns: int) -> None:
    found = timed(clock, seconds, spread=0.01, placements=4)
    assert found.turns == turns
    assert found.time("submission").value == pytest.approx(seconds * 1e3, rel=0.01)


def test_fewer_places_give_no_interval_by_their_spread(clock: Clock) -> None:
    assert timed(clock, 0.4, spread=0.01, placements=1).turns == stopwatch.MINIMUM_TURNS
