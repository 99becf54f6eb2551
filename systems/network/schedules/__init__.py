"""Schedules of collectives: data that says which rank sends which chunk where in which step, its check, its meaning."""

from systems.network.schedules.check import Flaw, ScheduleFault, check
from systems.network.schedules.model import Op, Phase, Schedule, ScheduleError, Transfer, dumps, loads
from systems.network.schedules.reference import expected, reference

__all__ = [
    "ScheduleFault",
    "Flaw",
    "Op",
    "Phase",
    "Schedule",
    "ScheduleError",
    "Transfer",
    "check",
    "dumps",
    "expected",
    "loads",
    "reference",
]
