"""What a lab asks for whose submissions are schedules of collectives.

A submission has a function for each exchange. It is called with sizes and returns the transfers of a schedule, as
records (step, source, destination, chunk, operation). A task says which sizes, on which network time is modelled, and
how many bytes a schedule may send where.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from autograder.spec.records import AskedFunction, Limit, RecordCase, RecordTask
from autograder.spec.task import Dimensions
from systems.network.collectives import Collective
from systems.network.topology import Topology
from warplab.plan.capture.records import RecordForm


@dataclass(frozen=True)
class SendBudget:
    """An upper limit on one counter of autograder.worker.schedule_stage in the modelled case, of size `size`."""

    counter: str
    limit: Callable[[Dimensions, float], float]
    reason: str  # what a schedule that exceeds it does wrong, and what to do


@dataclass(frozen=True)
class Exchange(AskedFunction):
    """One function of the submission: the collective that its schedules must do, and what they are judged by.

    `ranks` and `chunks` follow from the arguments. Time is modelled for `size` bytes (as systems.network.collectives
    counts them) on `network`, and held against the bound of systems.network.bounds.
    """

    collective: Collective
    ranks: Callable[[Dimensions], int]
    chunks: Callable[[Dimensions], int]
    network: Callable[[Dimensions], Topology]
    size: int
    budgets: tuple[SendBudget, ...] = ()

    def all_limits(self) -> tuple[Limit, ...]:
        """The budgets of the modelled case."""
        size = self.modelled.dimensions
        return tuple(  # bytes are whole
            Limit(budget.counter, math.ceil(budget.limit(size, self.size)), budget.reason) for budget in self.budgets
        )


@dataclass(frozen=True)
class ScheduleTask(RecordTask[Exchange]):
    """What `labs/<lab>/task.py` defines as TASK where lab.toml has `kind = "schedules"`."""

    kind: ClassVar = "schedules"
    form: ClassVar = RecordForm.TRANSFERS

    on_gpus: float = 0.0  # points of the efficiency that are for the measured time of the timed cases

    @property
    def measured_points(self) -> float:
        """Points of the efficiency that only a measurement on GPUs gives."""
        return self.on_gpus

    def timed(self, gpus: int) -> list[tuple[Exchange, RecordCase]]:
        """The timed cases of the most ranks that so many GPUs can be; none if they are too few."""
        able = [(asked, case) for asked, case in self.cases() if case.timed and asked.ranks(case.dimensions) <= gpus]
        most = max((asked.ranks(case.dimensions) for asked, case in able), default=0)
        return [(asked, case) for asked, case in able if asked.ranks(case.dimensions) == most]
