"""What a lab asks for whose submissions are programs of ranks: Python that holds a part, and asks for collectives.

A submission's functions are generators, one run a rank. `sum = yield "all_reduce", part` asks for a collective of all
ranks, `dy = yield "output", y` gives the result of the forward pass and gets its gradient, and what is returned are
gradients. A task says which arrays there are, along which axis they are cut, and what is right.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from autograder.spec.records import AskedFunction, Limit, RecordCase, RecordTask
from autograder.spec.seeds import uniform
from autograder.spec.task import Dimensions
from systems.network.collectives import Collective
from warplab.plan.capture.records import RecordForm
from warplab.plan.model import ArrayArgument, HostCall, Role, ScalarArgument

Arrays = Mapping[str, NDArray[np.float64]]
Asking = tuple[Collective, int]  # a collective, and the elements of its whole array
SENT = "bytes_sent"
ITEM = 8  # bytes of a float64


@dataclass(frozen=True)
class Wires:
    """What a ring of ranks is modelled with: seconds of a step, bytes per second of a rank."""

    latency: float
    bandwidth: float

    def sent(self, asked: Asking, ranks: int) -> float:
        """Bytes that each rank sends."""
        collective, elements = asked
        rounds = 2 if collective is Collective.ALL_REDUCE else 1
        return rounds * elements * ITEM * (ranks - 1) / ranks

    def seconds(self, asked: Asking, ranks: int) -> float:
        """The time of one collective."""
        rounds = 2 if asked[0] is Collective.ALL_REDUCE else 1
        return rounds * (ranks - 1) * self.latency + self.sent(asked, ranks) / self.bandwidth


@dataclass(frozen=True)
class Program(AskedFunction):
    """One function of the submission: `arrays` are made for a size, the forward pass's inputs and then `dy`.

    `true` gives, of whole arrays, y and then the gradients that are returned, by name. `axes` says along which axis an
    array is cut, None where every rank has all of it. `least` are the collectives of a good program of that size, whose
    cost earns all points. It is no lower bound: a sum to nine digits needs fewer bytes than float64 has.
    """

    measured: ClassVar = "communication"

    arrays: Callable[[Dimensions, np.random.Generator], Arrays]
    true: Callable[[Arrays], Arrays]
    axes: Mapping[str, int | None]
    least: Callable[[Dimensions], tuple[Asking, ...]]
    wires: Wires
    reason: str

    def drawn_arrays(self, case: RecordCase, seed: int) -> Arrays:
        """Whole arrays of a case: of secret numbers, the same wherever they are drawn."""
        words = [int(uniform(seed, "program", self.function, case.name, number) * 2**52) for number in range(3)]
        return self.arrays(case.dimensions, np.random.default_rng(words))

    def part(self, name: str, whole: NDArray[np.float64], rank: int, ranks: int) -> NDArray[np.float64]:
        """What a rank has of an array."""
        axis = self.axes[name]
        return whole if axis is None else np.ascontiguousarray(np.split(whole, ranks, axis)[rank])

    def inputs(self, whole: Arrays, rank: int, ranks: int) -> Arrays:
        """What a rank begins with: its parts of all arrays but `dy`."""
        return {name: self.part(name, array, rank, ranks) for name, array in whole.items() if name != "dy"}

    def call(self, case: RecordCase, rank: int, whole: Arrays) -> HostCall:
        """The call of one rank: its number, how many there are, its inputs, which are not in it."""
        ranks = case.dimensions["ranks"]
        named: list[Any] = [ScalarArgument("rank", rank), ScalarArgument("ranks", ranks)]
        for name, array in self.inputs(whole, rank, ranks).items():
            named.append(ArrayArgument(name, "float64", array.shape, Role.INPUT))
        return HostCall(self.function, tuple(named))

    def all_limits(self) -> tuple[Limit, ...]:
        """The budget of the modelled case."""
        size = self.modelled.dimensions
        most = sum(self.wires.sent(asked, size["ranks"]) for asked in self.least(size))
        return (Limit(SENT, math.ceil(most), self.reason),)


@dataclass(frozen=True)
class ProgramTask(RecordTask[Program]):
    """What `labs/<lab>/task.py` defines as TASK where lab.toml has `kind = "programs"`."""

    kind: ClassVar = "programs"
    form: ClassVar = RecordForm.STEPS
