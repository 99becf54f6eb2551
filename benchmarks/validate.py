"""Compares the emulator with this GPU: outputs bit for bit, and every memory counter with Nsight Compute's.

The subjects are the labs' kernels and the corpus. Writes benchmarks/results/counters.json: a record for each counter of
each launch, for the corpus of all launches of an entry together; `ratio` is 1 where both agree.
Run as `make validate` on a machine with a GPU and ncu; `python -m benchmarks.validate corpus/wmma solutions/08` renews
only the records of subjects whose names begin so.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from autograder.own_work import capture_submission
from autograder.records.machine import choose_machine, serves
from autograder.spec.inputs import generate
from autograder.spec.lab import CHECKOUT, find_lab, kernel_labs
from autograder.spec.task import Task, Values
from benchmarks import nsight
from corpus.emulator import random_programs, recorded
from corpus.emulator.catalogue import ENTRIES
from corpus.emulator.compare import elements_apart
from corpus.emulator.entry import Approximate
from corpus.emulator.plans import assemble_all
from corpus.judge.submission_files import submissions
from course import results
from warplab import emulator
from warplab.errors import DeviceError, WarplabError
from warplab.gpu import executor
from warplab.plan.assemble import assemble
from warplab.plan.disassembler import nvdisasm
from warplab.plan.execution import METRICS, Counters, Execution
from warplab.plan.model import EMULATED_ARCHITECTURE, Plan
from warplab.worker.process import DeviceFault

SEED = 20
PROFILED = 110  # entries of the corpus whose counters are read when all are validated: ncu is slow
EVERYTHING = ("",)  # how the name of every subject begins
AT_ONCE = 24  # subjects that are measured before they are written, unless all are: whoever ends it early keeps the rest
COUNTERS = tuple(METRICS)


@dataclass(frozen=True)
class Subject:
    """A submission on its lab's profile case, or an entry of the corpus."""

    name: str
    dimensions: tuple[int, ...]
    plan: Plan
    inputs: dict[str, np.ndarray]
    approximate: Approximate | None = None
    of_corpus: bool = False
    counted: bool = True


def subjects(architecture: str, beginnings: tuple[str, ...]) -> list[Subject]:
    """Every reference, rung and correct submission of every lab and the corpus, captured and assembled."""
    files: list[tuple[str, Path]] = []
    for name in kernel_labs():
        if not serves(architecture, find_lab(name).needs):
            continue
        paths = [*(CHECKOUT / "solutions" / name).glob("*.py")]
        paths += submissions("correct", name)
        files += [(name, path) for path in sorted(paths) if _label(path).startswith(beginnings)]
    with ThreadPoolExecutor() as pool:
        found = list(pool.map(lambda file: _submission(file[0], file[1], architecture), files))
    return found + corpus(architecture, beginnings)


def _label(path: Path) -> str:
    return path.relative_to(CHECKOUT).with_suffix("").as_posix()


def _submission(name: str, path: Path, architecture: str) -> Subject:
    lab = find_lab(name)
    case = lab.task.profile
    plan = capture_submission(lab, path, (case,), SEED, architecture).plans[case.name]
    values = generate(np, lab.task, case, SEED)
    inputs = {key: values[key] for key in plan.buffers if key in values}
    exact = lab.task.reproducible and lab.task.exact_on_integers
    approximate = None if exact else _within_the_bound(lab.task, values)
    return Subject(_label(path), tuple(case.dimensions.values()), plan, inputs, approximate)


def _within_the_bound(task: Task, values: Values) -> Approximate:
    """Both may be off by the lab's bound, which is given here in float32's units of the elements that are not zero."""
    bounds, most = task.bound(np, values), 0.0
    for name, expected in task.expected(np, values).items():
        size = np.abs(expected)
        units = 2 * bounds[name] / np.spacing(size.astype(np.float32))
        most = max(most, float(units[size > 0].max()))
    return Approximate(int(np.ceil(most)), "either may be off by the lab's bound")


def corpus(architecture: str, beginnings: tuple[str, ...]) -> list[Subject]:
    """Every entry of the corpus that the emulator can run, and for sm_90a the recorded kernels.

    PROFILED entries, evenly spread, have their counters read, or all that were asked for by name."""
    entries = [e for e in ENTRIES if not e.gap and f"corpus/{e.name}".startswith(beginnings)]
    plans = assemble_all(entries, architecture)
    countable = [e.name for e in entries if not e.uncounted]
    profiled = PROFILED if beginnings == EVERYTHING else len(countable)
    counted = {countable[n * len(countable) // profiled] for n in range(profiled)}
    found = [
        Subject(f"corpus/{e.name}", (), plans[e.name], e.draw(), e.approximate, True, e.name in counted)
        for e in entries
    ]
    names = recorded.names() if architecture == EMULATED_ARCHITECTURE else ()
    kernels = [recorded.load(name) for name in names if f"corpus/{name}".startswith(beginnings)]
    some = beginnings != EVERYTHING
    return found + [
        Subject(f"corpus/{k.name}", (), k.plan, dict(k.inputs), k.approximate, True, some and k.known.counted)
        for k in kernels
    ]


def main(arguments: list[str]) -> int:
    """Exit code 0 if every output and counter agrees, 1 if some differ, 3 without a GPU or ncu.

    The arguments, if given, are how the names of the subjects begin; all other records are kept.
    """
    try:
        return _validate(tuple(arguments) or EVERYTHING)
    except WarplabError as error:
        print(error, file=sys.stderr)
        return 3


def _validate(beginnings: tuple[str, ...]) -> int:
    machine = choose_machine("gpu")
    if nvdisasm() is None:
        raise DeviceError(
            "There is no nvdisasm, and the emulator counts by it: install the nvidia-cuda-nvdisasm package."
        )
    some = beginnings != EVERYTHING
    command = " ".join(["python -m benchmarks.validate", *beginnings]) if some else "make validate"
    header = results.make_header(command)
    found = subjects(machine.architecture, beginnings)
    records = _random_programs(machine.architecture) if "corpus/random_programs".startswith(beginnings) else []
    counters: list[results.Record] = []
    table = Table("kernel", "counter", "emulator", "ncu", title="Where the emulator and Nsight Compute differ")
    at_once = AT_ONCE if some else len(found)
    for start in range(0, len(found), at_once):
        records += _compared(found[start : start + at_once], machine.architecture, counters, table)
        results.write(results.DIRECTORY / "counters.json", header, records, merge=some)
    agree = sum(r.value == r.baseline_value for r in counters)
    wrong = [r.name for r in records if r.metric == "elements that differ" and r.value]
    console = Console(width=160)
    if table.row_count:
        console.print(table)
    kernels = sum(subject.counted for subject in found)
    console.print(f"{agree} of {len(counters)} (launch, counter) pairs agree, of {kernels} kernels.")
    console.print(f"Outputs of {len(found)} kernels were compared.")
    console.print(f"Outputs differ from the GPU's: {', '.join(wrong) or 'none'}.")
    return 0 if agree == len(counters) and not wrong else 1


def _compared(
    found: Sequence[Subject], architecture: str, counters: list[results.Record], table: Table
) -> list[results.Record]:
    """Records of some subjects; each launch's counters go to `counters`, and to the table where they differ."""
    plans = [(s.plan, s.inputs) for s in found if s.counted]
    with tempfile.TemporaryDirectory(prefix="warplab-") as folder, ThreadPoolExecutor() as pool:
        # Nsight Compute works in a process of its own meanwhile.
        running = pool.submit(nsight.counters, plans, list(METRICS.values()), Path(folder)) if plans else None
        emulated = [_emulated(found[0], architecture)]  # alone: it may have to compile the emulator
        emulated += pool.map(lambda s: _emulated(s, architecture), found[1:])
        measured = iter(running.result() if running else [])
    records: list[results.Record] = []
    for subject, execution in zip(found, emulated, strict=True):
        records.append(_output_record(subject, execution, architecture))
        if not subject.counted:
            continue
        compared: list[results.Record] = []
        for number, (profile, values) in enumerate(zip(execution.launches, next(measured), strict=True)):
            for record in _counter_records(subject, number, profile.kernel, profile.total, values):
                compared.append(record)
                if record.value != record.baseline_value:
                    values_shown = str(record.value), str(record.baseline_value)
                    table.add_row(f"{subject.name} #{number}", record.metric, *values_shown)
        counters += compared
        records += _summed(compared) if subject.of_corpus else compared
    return records


def _random_programs(architecture: str) -> list[results.Record]:
    """Straight-line programs on both, bit for bit: with every operation rounded, and with some that may be fused."""
    records = []
    for name, fused, seeds in (("rounded", False, range(300)), ("fused", True, range(300, 400))):
        programs = [random_programs.generate(seed, fused=fused) for seed in seeds]
        with ThreadPoolExecutor() as pool:
            plans = list(pool.map(lambda p: assemble(random_programs.plan_of(p), architecture), programs))
        differ = 0
        for program, plan in zip(programs, plans, strict=True):
            inputs = random_programs.draw(program)
            gpu = executor.execute(plan, inputs, architecture)[0].outputs["out"]
            emulated = emulator.execute(plan, inputs, architecture=architecture, workers=1).outputs["out"]
            differ += int(np.count_nonzero(gpu != emulated))
        conditions = f"{len(programs)} programs of 100 instructions, 64 threads, every register bit for bit"
        records.append(
            results.Record(
                f"corpus/random_programs_{name}", "elements that differ", differ, "elements", conditions=conditions
            )
        )
    return records


def _emulated(subject: Subject, architecture: str) -> Execution:
    return emulator.execute(subject.plan, subject.inputs, architecture=architecture, workers=1)


def _output_record(subject: Subject, execution: Execution, architecture: str) -> results.Record:
    bound = subject.approximate
    try:
        gpu = executor.execute(subject.plan, subject.inputs, architecture)[0].outputs
    except DeviceFault:
        raise  # the context is lost, so nothing after it can be run
    except WarplabError as error:
        return results.Record(
            subject.name,
            "elements that differ",
            sum(array.size for array in execution.outputs.values()),
            "elements",
            shape=subject.dimensions,
            conditions=f"not run on the GPU: {error}",
        )
    differ = sum(elements_apart(array, gpu[name], bound) for name, array in execution.outputs.items())
    conditions = f"within {bound.ulp} ulp or {bound.absolute:.3g}: {bound.why}" if bound else "bit for bit"
    return results.Record(
        subject.name, "elements that differ", differ, "elements", shape=subject.dimensions, conditions=conditions
    )


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


def _summed(compared: list[results.Record]) -> list[results.Record]:
    """One record a counter over all launches of an entry; counters that are zero on both sides are left out."""
    summed = []
    for metric in METRICS.values():
        same = [r for r in compared if r.metric == metric]
        value, measured = sum(r.value for r in same), sum(r.baseline_value or 0 for r in same)
        if value or measured:
            differ = sum(r.value != r.baseline_value for r in same)
            summed.append(
                replace(
                    same[0],
                    variant=f"{len(same)} launches",
                    value=value,
                    baseline_value=measured,
                    ratio=value / measured if value and measured else None,
                    extra={"launches_that_differ": differ},
                )
            )
    return summed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
