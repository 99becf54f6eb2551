"""`autograder class`: from what a class handed in to a table of grades."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from autograder.classroom.clusters import read_jobs
from autograder.classroom.intake import read_class
from autograder.classroom.ledger import RECORD, GradeLine, Ledger, Waiting
from autograder.classroom.run import OnGrade, Way, run_class
from autograder.classroom.table import table
from autograder.records.status import NOT_JUDGED
from autograder.records.text import clean
from warplab.files import write_whole
from warplab.hardware.processors import usable_processors

TABLE = "results.csv"
MOST_ON_A_GPU = 12


def run(options: argparse.Namespace, console: Console) -> bool:
    """Grade the class; whether every submission that can be graded now has a grade. Raises ClassError, OSError."""
    handed_in = read_class(options.submissions, options.lab)
    jobs = read_jobs(options.cluster) if options.cluster else None
    processes = options.processes or (1 if jobs else _processes(options.device))
    way = Way(processes, options.device, options.allow_reduced_isolation, jobs)
    with Ledger(options.out / RECORD) as ledger:
        changed = ledger.take_in(handed_in)
        work = ledger.waiting(options.only, options.regrade)
        _say(console, f"{len(handed_in)} handed in, {changed} of them new or changed; {len(work)} to grade.")
        try:
            with _progress(console, len(work)) as on_grade:
                run_class(ledger, work, way, on_grade)
        finally:  # the table always shows what the record holds
            lines = list(ledger.lines())
            write_whole(options.out / TABLE, table(lines))
    _show(lines, console)
    _say(console, f"Written: {options.out / TABLE} (the record: {options.out / RECORD})")
    return all(line.problem or (line.status and line.status not in NOT_JUDGED) for line in lines)


def _processes(device: str) -> int:
    """One a processor; where they share GPUs no more than keep them busy, as each takes a part of its GPU's memory."""
    if device != "emulator":
        from warplab.hardware.device import alike

        if gpus := alike():
            return min(usable_processors(), MOST_ON_A_GPU * len(gpus))
    return usable_processors()


@contextmanager
def _progress(console: Console, count: int) -> Iterator[OnGrade]:
    bar = TextColumn("grading"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(
        *bar, TextColumn("{task.description}"), console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        task = progress.add_task("", total=count)

        def on_grade(one: Waiting, status: str) -> None:
            words = escape(clean(f"{one.student}, {one.lab}: {status}"))
            progress.update(task, advance=1, description=words)

        yield on_grade


def _show(lines: Sequence[GradeLine], console: Console) -> None:
    """What needs a look, and how the labs went."""
    for line in lines:
        if line.problem:
            _say(console, f"not graded: {clean(line.problem)}")
    for lab in sorted({line.lab for line in lines if line.status}):
        graded = [line for line in lines if line.lab == lab and line.status and line.status not in NOT_JUDGED]
        full = sum(line.score >= line.max_score > 0 for line in graded)
        mean = sum(line.score for line in graded) / len(graded) if graded else 0.0
        _say(console, f"{lab}: {len(graded)} graded, {full} with full marks, mean {mean:.1f} points")
        faults = sum(line.status in NOT_JUDGED for line in lines if line.lab == lab and line.status)
        if faults:
            _say(console, f"{lab}: {faults} could not be judged here; build/autograder.log has the reasons")


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False)
