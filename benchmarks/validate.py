"""Compares the emulator with this GPU: outputs bit for bit, and every memory counter with Nsight Compute's.

Writes benchmarks/results/counters.json: one record a kernel, launch and counter; `ratio` is 1 where both agree.
Run as `make validate` on a machine with a GPU and ncu.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from autograder.capture_stage import capture_submission
from autograder.inputs import generate
from autograder.lab import CHECKOUT, find_lab, known_labs
from autograder.machine import choose_machine
from benchmarks import nsight
from warplab import results, simt
from warplab.errors import WarplabError
from warplab.gpu import executor
from warplab.plan.execution import METRICS, Counters, Execution
from warplab.plan.model import Plan

SEED = 20
COUNTERS = tuple(METRICS)


@dataclass(frozen=True)
class Subject:
    """A submission on its lab's profile case."""

    name: str
    dimensions: tuple[int, ...]
    plan: Plan
    inputs: dict[str, np.ndarray]


def subjects(architecture: str) -> list[Subject]:
    """Every reference, rung and correct submission of every lab, captured and assembled."""
    found = []
    for name in known_labs():
        lab = find_lab(name)
        case = lab.task.profile
        values = generate(np, lab.task, case, SEED)
        paths = [*(CHECKOUT / "solutions" / name).glob("*.py")]
        paths += (CHECKOUT / "tests" / "submissions" / name / "correct").glob("*.py")
        for path in sorted(paths):
            plan = capture_submission(lab, path, (case,), SEED, architecture).plans[case.name]
            inputs = {key: values[key] for key in plan.buffers if key in values}
            label = path.relative_to(CHECKOUT).with_suffix("").as_posix()
            found.append(Subject(label, tuple(case.dimensions.values()), plan, inputs))
    return found


def main() -> int:
    """Exit code 0 if every output and counter agrees, 1 if some differ, 3 without a GPU or ncu."""
    try:
        return _validate()
    except WarplabError as error:
        print(error, file=sys.stderr)
        return 3


def _validate() -> int:
    machine = choose_machine("gpu")
    found = subjects(machine.architecture)
    emulated = [simt.execute(s.plan, s.inputs, architecture=machine.architecture) for s in found]
    with tempfile.TemporaryDirectory(prefix="warplab-") as folder:
        plans = [(s.plan, s.inputs) for s in found]
        measured = nsight.counters(plans, list(METRICS.values()), Path(folder))
    records: list[results.Record] = []
    table = Table("kernel", "counter", "emulator", "ncu", title="Where the emulator and Nsight Compute differ")
    for subject, execution, launches in zip(found, emulated, measured, strict=True):
        records.append(_output_record(subject, execution, machine.architecture))
        for number, (profile, values) in enumerate(zip(execution.launches, launches, strict=True)):
            for record in _counter_records(subject, number, profile.kernel, profile.total, values):
                records.append(record)
                if record.value != record.baseline_value:
                    values_shown = str(record.value), str(record.baseline_value)
                    table.add_row(f"{subject.name} #{number}", record.metric, *values_shown)
    counters = [r for r in records if r.baseline == "ncu"]
    agree = sum(r.value == r.baseline_value for r in counters)
    wrong = [r.name for r in records if r.metric == "elements that differ" and r.value]
    results.write(results.DIRECTORY / "counters.json", results.make_header("make validate"), records)
    console = Console(width=160)
    if table.row_count:
        console.print(table)
    console.print(f"{agree} of {len(counters)} (kernel, counter) pairs agree; {len(found)} kernels.")
    console.print(f"Outputs differ from the GPU's: {', '.join(wrong) or 'none'}.")
    return 0 if agree == len(counters) and not wrong else 1


def _output_record(subject: Subject, execution: Execution, architecture: str) -> results.Record:
    gpu = executor.execute(subject.plan, subject.inputs, architecture)[0].outputs
    differ = sum(
        int(np.count_nonzero(_bits(array) != _bits(gpu[name]))) for name, array in execution.outputs.items()
    )
    return results.Record(subject.name, "elements that differ", differ, "elements", shape=subject.dimensions)


def _counter_records(
    subject: Subject, number: int, kernel: str, total: Counters, values: dict[str, int]
) -> list[results.Record]:
    records = []
    for counter in COUNTERS:
        emulated, measured = getattr(total, counter), values[METRICS[counter]]
        records.append(
            results.Record(
                subject.name,
                METRICS[counter],
                emulated,
                "count",
                variant=f"launch {number}: {kernel}",
                shape=subject.dimensions,
                baseline="ncu",
                baseline_value=measured,
                ratio=emulated / measured if emulated and measured else None,
            )
        )
    return records


def _bits(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")


if __name__ == "__main__":
    sys.exit(main())
