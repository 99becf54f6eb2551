"""Three that propose: by chance, by small changes of what was good, and by a guess that costs nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Generic, TypeVar

from systems.search.trials import Log

C = TypeVar("C")


class ByChance(Generic[C]):
    """Any choice that was not tried, each as likely as the others."""

    def __init__(self, choices: Sequence[C], seed: int) -> None:
        self._left = list(choices)
        Random(seed).shuffle(self._left)

    def propose(self, log: Log[C]) -> C | None:
        """The next of a shuffled list."""
        while self._left:
            choice = self._left.pop()
            if not log.tried(choice):
                return choice
        return None


class ByEvolution(Generic[C]):
    """A step away from one of the best so far; by chance to begin with, and where there is no step left.

    `first` choices come by chance. Parents are the `parents` best right ones.
    """

    def __init__(
        self, choices: Sequence[C], neighbours: Callable[[C], Sequence[C]], seed: int, first: int = 4, parents: int = 3
    ) -> None:
        self._chance = ByChance(choices, seed)
        self._random = Random(seed + 1)
        self._neighbours = neighbours
        self._first, self._parents = first, parents

    def propose(self, log: Log[C]) -> C | None:
        """A child of a parent that has any left."""
        if len(log.trials) >= self._first:
            right = sorted((t for t in log.trials if t.cost is not None), key=lambda trial: trial.cost or 0.0)
            parents = right[: self._parents]
            self._random.shuffle(parents)
            for parent in parents:
                children = [child for child in self._neighbours(parent.choice) if not log.tried(child)]
                if children:
                    return self._random.choice(children)
        return self._chance.propose(log)


class ByGuess(Generic[C]):
    """In the order of a guess of the cost, the smallest first. It learns nothing from the log."""

    def __init__(self, choices: Sequence[C], guess: Callable[[C], float]) -> None:
        self._order = sorted(choices, key=guess)

    def propose(self, log: Log[C]) -> C | None:
        """The best guess that was not tried."""
        return next((choice for choice in self._order if not log.tried(choice)), None)
