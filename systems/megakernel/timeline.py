"""What each SM does when: from the kernel's own clock records, or from a model of which block waits for which."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass

import numpy as np

from systems.megakernel.schedule import Op, Schedule


@dataclass(frozen=True)
class Span:
    """One instruction of one SM. Nanoseconds: when the SM came to it, when its inputs and its first page were there (a
    page may come before the SM does), when its results were stored, when others had been told so."""

    op: Op
    layer: int
    begun: float
    ready: float
    loaded: float
    done: float
    told: float


def spans(lists: Schedule, times: np.ndarray) -> list[list[Span]]:
    """The instructions of each SM with their times, [SM][line][begun, ready, loaded, done, told]."""
    return [
        [Span(line.op, line.layer, *of_line) for line, of_line in zip(each, rows.tolist(), strict=False)]
        for each, rows in zip(lists, times, strict=True)
    ]


def written(of_sm: Iterable[Span]) -> str:
    """The spans of an SM as a line of text, whole nanoseconds."""
    return "; ".join(
        " ".join([span.op.name, str(span.layer), *(f"{time:.0f}" for time in astuple(span)[2:])]) for span in of_sm
    )


def read(line: str) -> list[Span]:
    """The spans that `written` has written."""
    found = []
    for words in filter(None, line.split("; ")):
        op, layer, *times = words.split()
        found.append(Span(Op[op], int(layer), *map(float, times)))
    return found


@dataclass(frozen=True)
class Machine:
    """What the model knows of a GPU; nanoseconds.

    The memory brings an SM a page every `page`, none sooner than `latency` after it was asked for; an SM multiplies a
    page in `compute`; from the last instruction that makes inputs to their arrival everywhere it takes `hand_over`. The
    ring has `slots` pages. With `ahead` pages are asked for as soon as there is a slot, without only when inputs are
    there; in both cases no more than `in_flight` are on their way at once (None: as many as there are slots). If
    `release_waits`, an SM cannot tell that it is done before all pages are there that it has asked for.
    """

    page: float
    latency: float
    compute: float
    hand_over: float
    slots: int
    ahead: bool = True
    in_flight: int | None = None
    release_waits: bool = False


def modelled(lists: Schedule, machine: Machine) -> np.ndarray:
    """Times as the kernel records them, float64 of [SM][line][begun, ready, loaded, done, told]; lines that are not
    there: 0.

    Every SM has its share of the memory's rate, whether others use theirs or not, and every page costs the same
    computation, whatever its instruction. Raises ValueError for lists in which instructions wait for each other.
    """
    times = np.zeros((len(lists), max(map(len, lists)), 5))
    reached: dict[int, int] = {}
    last: dict[int, float] = {}  # when a counter was added to for the last time
    rings = [_Ring(machine, sum(line.pages for line in each)) for each in lists]
    at = [0] * len(lists)
    while any(at[sm] < len(each) for sm, each in enumerate(lists)):
        before = sum(at)
        for sm, each in enumerate(lists):
            while at[sm] < len(each):
                line = each[at[sm]]
                if line.wait >= 0 and reached.get(line.wait, 0) < line.target:
                    break
                inputs = last[line.wait] + machine.hand_over if line.wait >= 0 else 0.0
                times[sm, at[sm]] = rings[sm].run(inputs, line.pages, line.bump >= 0)
                if line.bump >= 0:
                    reached[line.bump] = reached.get(line.bump, 0) + 1
                    last[line.bump] = max(last.get(line.bump, 0.0), times[sm, at[sm], 4])
                at[sm] += 1
        if sum(at) == before:
            raise ValueError("The lists never end: some instruction waits for more than all others give.")
    return times


class _Ring:
    """An SM with its pages, of which it needs so many in all."""

    def __init__(self, machine: Machine, pages: int) -> None:
        self._machine, self._pages = machine, pages
        self._asked: list[float] = []  # when each page was asked for
        self._come: list[float] = []  # when it was there
        self._freed: list[float] = []  # when it was multiplied
        self._now = 0.0

    def run(self, inputs: float, pages: int, tells: bool) -> Sequence[float]:
        """An instruction whose inputs come at a time."""
        m, begun = self._machine, self._now
        ready = max(begun, inputs)
        loaded, now = begun, ready
        for page in range(pages):
            number = len(self._freed)
            if number == len(self._asked):
                self._ask(max(self._room(), 0.0 if m.ahead else ready))
            if page == 0:
                loaded = max(begun, self._come[number])
            now = max(now, self._come[number]) + m.compute
            self._freed.append(now)
        done = now
        if m.ahead:
            while len(self._asked) < self._pages and (room := self._room()) <= done:
                self._ask(room)
        self._now = max(done, self._come[-1]) if self._come and tells and m.release_waits else done
        return begun, ready, loaded, done, self._now

    def _room(self) -> float:
        """When the next page can be asked for: a slot is free, and not too many are on their way."""
        number, slots = len(self._asked), self._machine.slots
        if number - slots >= len(self._freed):
            return float("inf")  # who has the slot is not multiplied yet
        slot = self._freed[number - slots] if number >= slots else 0.0
        in_flight = min(slots, self._machine.in_flight or slots)
        return max(slot, self._come[number - in_flight] if number >= in_flight else 0.0)

    def _ask(self, time: float) -> None:
        before = self._come[-1] + self._machine.page if self._come else 0.0
        self._asked.append(time)
        self._come.append(max(time + self._machine.latency, before))
