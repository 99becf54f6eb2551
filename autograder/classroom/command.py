"""`autograder class`: from what a class handed in to a table of grades."""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from enum import Enum
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from autograder.classroom.anonymity import Shown
from autograder.classroom.cards import card, refused
from autograder.classroom.clusters import read_jobs
from autograder.classroom.entries import ClassError
from autograder.classroom.grade_line import GradeLine
from autograder.classroom.hand_in import Fate, HandedIn
from autograder.classroom.intake import Intake, read_class
from autograder.classroom.ledger import RECORD, Ledger, Waiting
from autograder.classroom.policy import read_times
from autograder.classroom.reader import Confined
from autograder.classroom.roster import read_roster
from autograder.classroom.run import NOT_GRADED, OnGrade, Way, run_class
from autograder.classroom.table import TABLE, fates_table, table
from autograder.records.machine import choose_machine
from autograder.records.status import NOT_JUDGED
from autograder.records.text import clean
from autograder.spec.lab import find_any, known_labs
from warplab.files import write_whole
from warplab.hardware.processors import usable_processors

FILES = "files.csv"
MOST_SHOWN = 10  # files of one student in the terminal; FILES has all
MOST_ON_A_GPU = 12
STOPPED = "stopped by you; what has a grade keeps it, and the same command goes on."


class Outcome(Enum):
    """How far a class came."""

    WHOLE = 0
    NOT_ALL_GRADED = 1  # this machine could not grade something
    NOT_ALL_READ = 2  # all that was read has a grade, and something was not


def run(options: argparse.Namespace, console: Console) -> Outcome:
    """Grade the class. Raises ClassError, OSError."""
    with Confined() as reader:
        intake = read_class(options.submissions, options.lab, reader)
    people = read_roster(options.roster) if options.roster else []
    jobs = read_jobs(options.cluster) if options.cluster else None
    processes = options.processes or (1 if jobs else _processes(options.device))
    way = Way(processes, options.device, options.allow_reduced_isolation, jobs, options.mixed_cards)
    with Ledger(options.out / RECORD) as ledger:
        ledger.enrol(people)
        if options.anonymous:
            ledger.hide_names(True)
        handed_in, names = ledger.by_roster(intake.handed_in), ledger.names()
        if options.times:
            handed_in = _timed(handed_in, read_times(options.times, ledger.policy()), options.times)
        changed = ledger.take_in(handed_in)
        fates = [replace(one, student=names.get(one.student.casefold(), one.student)) for one in intake.fates]
        intake = replace(intake, handed_in=handed_in, fates=fates)
        _show_intake(intake, ledger, console)
        write_whole(options.out / FILES, fates_table(intake.fates))
        begun = ledger.last_log()
        shown = ledger.shown()
        work = ledger.waiting([_real(shown, name) for name in options.only], options.regrade)
        if not (jobs or way.mixed):
            _require_one_card(ledger, work, options.device)
        _say(console, f"{len(handed_in)} handed in, {changed} of them new or changed; {len(work)} to grade.")
        try:
            with _progress(console, len(work), shown) as on_grade:
                run_class(ledger, work, way, on_grade)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(STOPPED) from None
        finally:  # the table always shows what the record holds
            lines = shown.lines(ledger.lines())
            write_whole(options.out / TABLE, table(lines, shown.people(ledger.people())))
        changes = [line for line in ledger.log(begun) if " -> " in line.words]
    _show(lines, console)
    for change in changes:
        _say(console, clean(f"changed: {shown.of(change.student)}, {change.lab}: {change.words}"))
    _say(console, f"Written: {options.out / TABLE}, {options.out / FILES} (the record: {options.out / RECORD})")
    if not all(line.problem or line.by_hand or (line.status and line.status not in NOT_JUDGED) for line in lines):
        return Outcome.NOT_ALL_GRADED
    return Outcome.WHOLE if intake.all_read else Outcome.NOT_ALL_READ


def _real(shown: Shown, name: str) -> str:
    """A lab, or the student behind a shown name. Raises ClassError."""
    return name if name in known_labs() else shown.real(name)


def _require_one_card(ledger: Ledger, work: Sequence[Waiting], device: str) -> None:
    """Refuse to grade a lab here whose other grades are from another card. Raises ClassError."""
    before = ledger.cards({one.number for one in work})
    for name in sorted({one.lab for one in work} & before.keys()):
        machine = choose_machine(device, find_any(name).needs)
        if words := refused(before, name, card(machine.device, find_any(name).task.judged_on or machine.hardware)):
            raise ClassError(
                f"{words}: grade there, or all of the lab here with --only {name} --regrade, or accept both with "
                "--mixed-cards."
            )


def _processes(device: str) -> int:
    """One a processor; where they share GPUs no more than keep them busy, as each takes a part of its GPU's memory."""
    if device != "emulator":
        from warplab.hardware.device import alike

        if gpus := alike():
            return min(usable_processors(), MOST_ON_A_GPU * len(gpus))
    return usable_processors()


@contextmanager
def _progress(console: Console, count: int, shown: Shown) -> Iterator[OnGrade]:
    bar = TextColumn("grading"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(
        *bar, TextColumn("{task.description}"), console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        task = progress.add_task("", total=count)

        def on_grade(one: Waiting, status: str) -> None:
            words = clean(f"{shown.of(one.student)}, {one.lab}: {status}")
            progress.update(task, advance=1, description=escape(words))
            if status.startswith(NOT_GRADED):
                _say(console, words)

        yield on_grade


def _timed(handed_in: Sequence[HandedIn], times: Mapping[tuple[str, str], str], path: Path) -> list[HandedIn]:
    """The hand-ins with the times of a table. Raises ClassError for a time of what nobody handed in."""
    if unknown := times.keys() - {(one.student, one.lab) for one in handed_in}:
        student, lab = min(unknown)
        raise ClassError(f"{path}: {student} has handed in nothing for {lab}: write the ID as in results.csv.")
    return [replace(one, at=times.get((one.student, one.lab), one.at)) for one in handed_in]


def _show_intake(intake: Intake, ledger: Ledger, console: Console) -> None:
    """Name the files that were not read, and the students without a hand-in."""
    for words in intake.warnings:
        _say(console, clean(f"note: {words}"))
    unread: dict[str, list[Fate]] = defaultdict(list)
    for fate in intake.fates:
        if not fate.read:
            unread[fate.student].append(fate)
    for student, fates in unread.items():
        for fate in fates[:MOST_SHOWN]:
            _say(console, clean(f"not read: {', '.join(text for text in (student, fate.path) if text)}: {fate.words}"))
        if len(fates) > MOST_SHOWN:
            _say(console, clean(f"not read: {student}, {len(fates) - MOST_SHOWN} more files: see {FILES}"))
    for one in intake.handed_in:
        if one.note:
            _say(console, clean(f"note: {one.student}: {one.note}"))
    lines, people = list(ledger.lines()), ledger.people()
    there = {one.student for line in lines for one in line.each()}
    for person in people:
        if person.id not in there:
            _say(console, clean(f"nothing handed in: {person.id} {person.name}".rstrip()))
    for student in sorted(there - {person.id for person in people}) if people else ():
        _say(console, clean(f"note: {student} is not on the roster"))
    now = {(one.student, one.lab) for one in intake.handed_in}
    labs = {one.lab for one in intake.handed_in}
    timeless = sum(line.lab in ledger.policy().deadlines and not line.at for line in lines)
    if timeless:
        _say(console, f"note: {timeless} hand-ins have no time and count as on time; --times gives times")
    kept = sum(line.lab in labs and (line.student, line.lab) not in now for line in lines)
    if kept:
        _say(console, f"note: {kept} hand-ins of earlier downloads are not in this one and keep their grades")


def _show(lines: Sequence[GradeLine], console: Console) -> None:
    """What needs a look, and how the labs went."""
    for line in lines:
        if line.problem and not line.status:
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
    console.print(text, markup=False, highlight=False, soft_wrap=True)
