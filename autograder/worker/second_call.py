"""Further calls of the same kernels, for another size and on other inputs, for kernels that can remember the first.

Variables of a module (`__device__` in CUDA C++) keep their values from launch to launch. A kernel that uses them to do
less, or something else, the next time is right only once; one that leaves in them what fits one size is right for that
size only. A plan with such variables is therefore run as three calls in a row, the second of which is another case's,
with fresh inputs and outputs for each, and the last two are judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from autograder.records.outcome import CaseOutcome
from autograder.records.status import Status
from autograder.spec.inputs import generate
from autograder.spec.task import Case, Task
from autograder.worker.judge_case import Execute, compare_outputs
from warplab.plan.archive import loads
from warplab.plan.model import Argument, Buffer, Kernel, Launch, Plan, Role, Structure, Value

_COUNTS = ("first", "second", "third", "fourth")


@dataclass(frozen=True)
class OtherSize:
    """Another case that is shown, whose plan is run between two calls of a case."""

    case: Case
    plan: Plan

    @classmethod
    def of(cls, task: Task, told: tuple[str, bytes] | None) -> OtherSize | None:
        """That of a case's name and the bytes of its plan's file, if there is one."""
        if told is None:
            return None
        name, plan = told
        return cls(next(case for case in task.every_case() if case.name == name), loads(plan))


def later_calls(
    task: Task, case: Case, seed: int, plan: Plan, execute: Execute, other: OtherSize | None = None
) -> CaseOutcome:
    """Judge the calls after the first, each on inputs that no other has seen: one more of the case itself, then one of
    `other` and again one of the case. Exceptions pass through."""
    calls = [(case, plan)] * 2 + ([(other.case, other.plan), (case, plan)] if other else [])
    values = [generate(np, task, called, seed, iteration=number) for number, (called, _) in enumerate(calls)]
    arrays = {
        _of_call(spec.name, number): values[number][spec.name]
        for number in range(len(calls))
        for spec in task.arrays(Role.INPUT, Role.INOUT)
    }
    outputs = execute(in_a_row([called for _, called in calls]), arrays)[0].execution.outputs
    outcome = CaseOutcome(case.name, Status.PASSED)
    for number, (called, _) in enumerate(calls[1:], start=1):
        found = {spec.name: outputs[_of_call(spec.name, number)] for spec in task.arrays(Role.OUTPUT, Role.INOUT)}
        outcome = replace(compare_outputs(task, called, values[number], found), case=case.name)
        if outcome.status is not Status.PASSED:
            return _told(outcome, number, number == 2, len(calls))
    return outcome


def in_a_row(plans: Sequence[Plan]) -> Plan:
    """One plan with the launches of all, each on buffers of its own. Variables of modules are the same."""
    kernels, buffers, launches = dict[str, Kernel](), dict[str, Buffer](), list[Launch]()
    for number, plan in enumerate(plans):
        kernels |= {_of_call(name, number): kernel for name, kernel in plan.kernels.items()}
        for name, buffer in plan.buffers.items():
            buffers[_of_call(name, number)] = replace(buffer, name=_of_call(name, number))
        for launch in plan.launches:
            arguments = tuple(_argument(argument, number) for argument in launch.arguments)
            launches.append(replace(launch, kernel=_of_call(launch.kernel, number), arguments=arguments))
    return replace(plans[0], kernels=kernels, buffers=buffers, launches=tuple(launches))


def _of_call(name: str, number: int) -> str:
    return name if number == 0 else f"{name}_of_the_{_COUNTS[number]}_call"


def _argument(argument: Argument, number: int) -> Argument:
    if isinstance(argument, Value | Structure):
        return argument
    return replace(argument, buffer=_of_call(argument.buffer, number))


def _told(outcome: CaseOutcome, number: int, other_size: bool, calls: int) -> CaseOutcome:
    later = f"the {_COUNTS[number]}{', for another size,' if other_size else ''}"
    words = f"The first of {'four' if calls == 4 else 'two'} calls is right and {later} is not: what the kernel keeps"
    return replace(
        outcome,
        status=Status.RUNS_DISAGREE,
        message=f"{words} in variables of its module changes what it does the next time. {outcome.message}",
        cause="Set such variables again before the kernel ends, or do without them.",
    )
