"""A second call of the same plan on other inputs, for kernels that can remember the first.

Variables of a module (`__device__` in CUDA C++) keep their values from launch to launch. A kernel that uses them to do
less, or something else, the next time is right only once. A plan with such variables is therefore run as two calls in a
row, with fresh inputs and outputs for the second, and the second is judged.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from autograder.records.outcome import CaseOutcome
from autograder.records.status import Status
from autograder.spec.inputs import generate
from autograder.spec.task import Case, Task
from autograder.worker.judge_case import Execute, compare_outputs
from warplab.plan.model import Argument, Buffer, Launch, Plan, Role, Structure, Value

_SUFFIX = "_of_the_second_call"


def second_call(task: Task, case: Case, seed: int, plan: Plan, execute: Execute) -> CaseOutcome:
    """Judge the second of two calls of the plan, on inputs that the first has not seen. Exceptions pass through."""
    first, second = (generate(np, task, case, seed, iteration=number) for number in (0, 1))
    arrays = {spec.name: first[spec.name] for spec in task.arrays(Role.INPUT, Role.INOUT)}
    arrays |= {spec.name + _SUFFIX: second[spec.name] for spec in task.arrays(Role.INPUT, Role.INOUT)}
    outputs = execute(twice(plan), arrays)[0].execution.outputs
    outcome = compare_outputs(
        task, case, second, {spec.name: outputs[spec.name + _SUFFIX] for spec in task.arrays(Role.OUTPUT, Role.INOUT)}
    )
    if outcome.status is Status.PASSED:
        return outcome
    words = "The first of two calls is right and the second is not: what the kernel keeps in variables of its module"
    return replace(
        outcome,
        status=Status.RUNS_DISAGREE,
        message=f"{words} changes what it does the next time. {outcome.message}",
        cause="Set such variables again before the kernel ends, or do without them.",
    )


def twice(plan: Plan) -> Plan:
    """The plan's launches, then the same launches on buffers of their own. Variables of modules are the same."""

    def renamed(argument: Argument) -> Argument:
        if isinstance(argument, Value | Structure):
            return argument
        return replace(argument, buffer=argument.buffer + _SUFFIX)

    def again(launch: Launch) -> Launch:
        return replace(launch, arguments=tuple(renamed(argument) for argument in launch.arguments))

    copies = {name + _SUFFIX: _copy(buffer) for name, buffer in plan.buffers.items()}
    launches = (*plan.launches, *(again(launch) for launch in plan.launches))
    return replace(plan, buffers={**plan.buffers, **copies}, launches=launches)


def _copy(buffer: Buffer) -> Buffer:
    return replace(buffer, name=buffer.name + _SUFFIX)
