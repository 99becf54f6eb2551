"""What compute-sanitizer says of a submission beside the emulator, where a host has both a GPU and the tool.

It is asked about one case that is not hidden, recorded in the report, and never the cause of a grade: it sees machine
code on one run, the emulator every access of the program.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from autograder.records.machine import Machine
from autograder.records.outcome import CaseOutcome
from autograder.records.report import SecondOpinion
from autograder.records.status import Executor
from autograder.records.text import clean
from autograder.spec.inputs import generate
from autograder.spec.task import Case, Task
from warplab.errors import DeviceError
from warplab.gpu import sanitizer
from warplab.plan.archive import loads
from warplab.plan.execution import FindingKind
from warplab.plan.model import Role

_UNENDING = {FindingKind.DEADLOCK, FindingKind.ENDLESS}  # the tool would only run into its time limit


def program() -> str:
    """The path of compute-sanitizer. Raises DeviceError where it is not installed."""
    found = sanitizer.find()
    if found is None:
        raise DeviceError("A second opinion needs compute-sanitizer: add the bin folder of CUDA's toolkit to PATH.")
    return found


def require_second_opinion(machine: Machine) -> None:
    """Raises DeviceError where no second opinion can be had: before anything is graded."""
    if machine.device is not Executor.GPU:
        raise DeviceError("A second opinion needs a GPU, and kernels run on the emulator here.")
    program()


def second_opinions(
    task: Task, cases: Sequence[Case], outcomes: Sequence[CaseOutcome], plans: Mapping[str, bytes], seed: int
) -> tuple[SecondOpinion, ...]:
    """Each tool's opinion on one of the small `cases`: the first in which the emulator found something, else the last.

    Raises DeviceError without the tool. Empty if the kernels do not end.
    """
    path_of_tool = program()
    found = {outcome.case: outcome.findings for outcome in outcomes}
    if any(finding.kind in _UNENDING for findings in found.values() for finding in findings):
        return ()
    visible = [case for case in cases if not case.hidden and case.name in found]
    case = next((case for case in visible if found[case.name]), visible[-1])
    plan = loads(plans[case.name])  # of who runs the judge: others' submissions are not graded with this
    values = generate(np, task, case, seed)
    inputs = {spec.name: values[spec.name] for spec in task.arrays(Role.INPUT, Role.INOUT)}
    with tempfile.TemporaryDirectory(prefix="warplab-") as folder, ThreadPoolExecutor(2) as pool:
        path = Path(folder) / "case.plan"
        sanitizer.keep(plan, inputs, path)
        said = pool.map(lambda tool: sanitizer.ask(tool, path_of_tool, path, plan.source_name), sanitizer.TOOLS)
        return tuple(_judged(case, opinion, found[case.name]) for opinion in said)


def _judged(case: Case, opinion: sanitizer.Opinion, findings: Sequence) -> SecondOpinion:
    kinds = sanitizer.TOOLS[opinion.tool]
    ours = [finding for finding in findings if finding.kind in kinds]
    agrees = None if opinion.errors < 0 else (opinion.errors > 0) == bool(ours)
    return SecondOpinion(opinion.tool, case.name, opinion.errors, clean(opinion.words), opinion.lines, agrees)
