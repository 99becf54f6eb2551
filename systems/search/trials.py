"""A search: somebody proposes, somebody else judges, everything is written down.

What proposes is given the log and nothing else, so it may be anything: a random number, a model of the machine, or a
program that asks a language model. It never judges itself. What judges is a function from a choice to its cost, or None
for one that is wrong, and its word is final.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Generic, Protocol, TypeVar

NEAR = 1.02  # times the best cost: up to here a choice is as good as the best
C = TypeVar("C")  # a choice: a data class of numbers and words


@dataclass(frozen=True)
class Trial(Generic[C]):
    """One choice that was tried. `cost` is what is to be small, None of a wrong one; `paid` is what trying it took, in
    the unit of the search."""

    choice: C
    cost: float | None
    paid: float


@dataclass
class Log(Generic[C]):
    """Everything that a search has tried, in order."""

    trials: list[Trial[C]] = field(default_factory=list)
    # Of the trials that `tried` has seen
    _choices: set[C] = field(default_factory=set, init=False, repr=False, compare=False)

    @property
    def paid(self) -> float:
        """What the search has taken so far."""
        return sum(trial.paid for trial in self.trials)

    @property
    def best(self) -> Trial[C] | None:
        """The right one of the smallest cost, the first of equal ones; None while none is right."""
        right = [trial for trial in self.trials if trial.cost is not None]
        return min(right, key=_cost, default=None)

    def tried(self, choice: C) -> bool:
        """Whether the choice, which is hashable, is in the log."""
        self._choices.update(trial.choice for trial in self.trials[len(self._choices) :])
        return choice in self._choices

    def so_far(self) -> list[float]:
        """After each trial the smallest cost so far; infinite before the first right one."""
        best, course = float("inf"), []
        for trial in self.trials:
            best = min(best, _cost(trial))
            course.append(best)
        return course

    def to_json(self) -> str:
        """The log as data: one object a trial. The choices have to be data classes."""
        rows = [{"choice": asdict(t.choice), "cost": t.cost, "paid": t.paid} for t in self.trials]  # type: ignore[call-overload]
        return json.dumps(rows, indent=1)


class Proposer(Protocol[C]):
    """What names the next choice."""

    def propose(self, log: Log[C]) -> C | None:
        """A choice that is not in the log, or None if there is nothing left to try."""


def search(proposer: Proposer[C], judge: Callable[[C], float | None], most: int, price: float = 1.0) -> Log[C]:
    """Try what the proposer proposes, `most` times at most; a trial is paid with `price`.

    Raises ValueError for a proposer that proposes what has been tried: it would pay for nothing.
    """
    log: Log[C] = Log()
    while len(log.trials) < most:
        choice = proposer.propose(log)
        if choice is None:
            break
        if log.tried(choice):
            raise ValueError(f"{choice} has been tried before: a proposer must name something new")
        log.trials.append(Trial(choice, judge(choice), price))
    return log


def trials_needed(proposer: Proposer[C], costs: Mapping[C, float]) -> int:
    """Trials of a search until its best so far is within NEAR of the best of `costs`, the cost of every choice."""
    enough = NEAR * min(costs.values())
    course = search(proposer, costs.__getitem__, len(costs)).so_far()
    return 1 + next(trial for trial, cost in enumerate(course) if cost <= enough)


def _cost(trial: Trial[C]) -> float:
    return float("inf") if trial.cost is None else trial.cost
