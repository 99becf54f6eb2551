"""Labs that ask for schedules of collectives, which processes carry out and GPUs time beside NCCL's."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import ClassVar

from autograder.judge import on_processes
from autograder.judge.efficiency import earned_by, is_enough, status_of
from autograder.judge.kinds.lab_kind import Grading
from autograder.judge.kinds.records import RecordKind
from autograder.judge.on_gpus import TimedSchedule, TimedSchedules, time_on_gpus
from autograder.judge.record_parts import CheckedRecords, Models, modelled_part
from autograder.judge.ruling import Ruling
from autograder.records.report import CaseResult, PartResult
from autograder.records.status import Status
from autograder.spec.lab import LabOf
from autograder.spec.schedules import ScheduleTask


class Schedules(RecordKind[ScheduleTask]):
    """Functions that return the transfers of a schedule."""

    task = ScheduleTask
    all_gpus: ClassVar = True

    def carried_out(self, grading: Grading[ScheduleTask], to_run: Mapping[str, bytes]) -> Ruling:
        """Processes send numbers as the schedules say."""
        return on_processes.carried_out(on_processes.transfers, to_run, grading.seed)

    def efficiency(self, grading: Grading[ScheduleTask], evidence: CheckedRecords) -> PartResult:
        """The modelled time, and on GPUs the measured one."""
        times = TimedSchedules()
        if evidence.models:
            grading.progress("timing them, if there are GPUs", 0.8)
            right = [asked for asked in grading.lab.task.functions if asked.function in evidence.models]
            with grading.turns.measuring() if grading.turns else nullcontext():
                times = time_on_gpus(
                    replace(grading.lab.task, functions=tuple(right)), grading.request, evidence.checked
                )
        return schedule_efficiency(grading.lab, evidence.models, times)


def schedule_efficiency(lab: LabOf[ScheduleTask], models: Models, times: TimedSchedules) -> PartResult:
    """The lab's `measured_points` are for what was measured, an equal share for each function, and are left out of the
    maximum where nothing could be; the others are for what is modelled."""
    measured = lab.task.measured_points
    part = modelled_part(lab, models, lab.points.efficiency - measured)
    if not measured:
        return part
    if not times.found and times.left_out:
        why = times.why or "nothing was timed"
        words = f"{part.message} Not measured: {why}; {measured:g} points are left out of the maximum."
        return replace(part, message=words, left_out=measured)
    part = replace(part, max_score=part.max_score + measured)
    if part.status is Status.IMPOSSIBLE or not models:
        return part
    if not times.found:
        status = Status.PARTIAL if part.score else Status.NEEDS_TORCH
        return replace(part, status=status, message=f"{part.message} Not measured: {times.why}.")
    each = measured / len(lab.task.functions)
    shares = [one.share.value for one in times.found]
    earned = round(part.score + earned_by(lab, shares, each * len(shares)), 1)
    cases = (*part.cases, *(_case(lab, one, each) for one in times.found))
    said = "; ".join(f"{one.function} {_words(one)}" for one in times.found)
    message = f"{part.message} Measured beside NCCL: {said}."
    return replace(part, status=status_of(earned, part.max_score), score=earned, message=message, cases=cases)


def _words(one: TimedSchedule) -> str:
    return (
        f"{one.schedule.value * 1e6:,.0f} us on {one.ranks} GPUs, {one.share.value:.0%} of the speed of NCCL's "
        f"{one.library.value * 1e6:,.0f} us ({one.share.low:.0%} to {one.share.high:.0%}, {one.share.samples} turns)"
    )


def _case(lab: LabOf[ScheduleTask], one: TimedSchedule, points: float) -> CaseResult:
    status = Status.PASSED if is_enough(lab, one.share.value, points) else Status.SLOW
    return CaseResult(f"{one.function}, measured", status, _words(one))
