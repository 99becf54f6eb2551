"""Schedules of collectives: data that says who sends which chunk to whom in which step, its check, its meaning."""

from warplab.network.schedules.check import Finding, Kind, check
from warplab.network.schedules.model import Op, Phase, Schedule, ScheduleError, Transfer, dumps, loads
from warplab.network.schedules.reference import expected, reference

__all__ = [
    "Finding",
    "Kind",
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
