"""What each SM does when: from the kernel's own clock records, or from a model of who waits for whom."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from warplab.megakernel.schedule import Op, Schedule


@dataclass(frozen=True)
class Span:
    """One instruction of one SM. Nanoseconds: when the SM came to it, when its inputs and its first page were there (a
    page may come before the SM does), when it was done."""

    op: Op
    layer: int
    begun: float
    ready: float
    loaded: float
    done: float


def spans(lists: Schedule, times: np.ndarray) -> list[list[Span]]:
    """The instructions of each SM with their times, [SM][line][begun, ready, loaded, done]."""
    return [
        [Span(line.op, line.layer, *of_line) for line, of_line in zip(each, rows.tolist(), strict=False)]
        for each, rows in zip(lists, times, strict=True)
    ]


def written(of_sm: Iterable[Span]) -> str:
    """The spans of an SM as a line of text, whole nanoseconds."""
    return "; ".join(
        f"{span.op.name} {span.layer} {span.begun:.0f} {span.ready:.0f} {span.loaded:.0f} {span.done:.0f}"
        for span in of_sm
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

    The memory brings an SM a page every `page`, each `latency` after it was asked for; an SM multiplies a page in
    `compute`; from the last instruction that makes inputs to their arrival everywhere it takes `hand_over`. The ring
    has `slots` pages. With `ahead` pages are asked for as soon as there is a slot, without only when inputs are there.
    """

    page: float
    latency: float
    compute: float
    hand_over: float
    slots: int
    ahead: bool = True


def modelled(lists: Schedule, machine: Machine) -> np.ndarray:
    """Times as the kernel records them, float64 of [SM][line][begun, ready, loaded, done]; lines that are not there: 0.

    Every SM has its share of the memory's rate, whether others use theirs or not, and every page costs the same
    computation, whatever its instruction. Raises ValueError for lists in which instructions wait for each other.
    """
    times = np.zeros((len(lists), max(map(len, lists)), 4))
    reached: dict[int, int] = {}
    last: dict[int, float] = {}  # when a counter was added to for the last time
    rings = [_Ring(machine) for _ in lists]
    at = [0] * len(lists)
    while any(at[sm] < len(each) for sm, each in enumerate(lists)):
        before = sum(at)
        for sm, each in enumerate(lists):
            while at[sm] < len(each):
                line = each[at[sm]]
                if line.wait >= 0 and reached.get(line.wait, 0) < line.target:
                    break
                inputs = last[line.wait] + machine.hand_over if line.wait >= 0 else 0.0
                times[sm, at[sm]] = rings[sm].run(inputs, line.pages)
                if line.bump >= 0:
                    reached[line.bump] = reached.get(line.bump, 0) + 1
                    last[line.bump] = max(last.get(line.bump, 0.0), times[sm, at[sm], 3])
                at[sm] += 1
        if sum(at) == before:
            raise ValueError("The lists never end: some instruction waits for more than all others give.")
    return times


class _Ring:
    """An SM with its pages."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._asked = -machine.page  # when the last page was asked for
        self._freed: list[float] = []  # when each page was multiplied
        self._now = 0.0

    def run(self, inputs: float, pages: int) -> Sequence[float]:
        """An instruction whose inputs come at a time."""
        m, begun = self._machine, self._now
        ready = max(begun, inputs)
        loaded, now = begun, ready
        for page in range(pages):
            room = self._freed[-m.slots] if len(self._freed) >= m.slots else 0.0
            self._asked = max(self._asked + m.page, room, 0.0 if m.ahead else ready)
            come = self._asked + m.latency
            if page == 0:
                loaded = max(begun, come)
            now = max(now, come) + m.compute
            self._freed.append(now)
        self._now = max(now, ready)
        return begun, ready, loaded, self._now
