"""The `autograder` command."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from autograder import handout, instructor_options, new_lab, own_history, starter, submissions, verifier
from autograder.judge import started_ahead
from autograder.judge.confined_worker import ConfinedWorker
from autograder.judge.pipeline import grade
from autograder.judge.second_opinion import require_second_opinion
from autograder.records.machine import choose_machine, require_isolation
from autograder.records.report import Report
from autograder.records.request import Request
from autograder.records.status import NOT_JUDGED
from autograder.records.text import clean
from autograder.report import json_file, terminal
from autograder.spec.lab import CHECKOUT, AnyLab, find_lab, labs_folder
from autograder.spec.seeds import secret_seed
from autograder.written import WrittenFile
from warplab.errors import DeviceError, WarplabError
from warplab.files import write_whole
from warplab.plan.capture.failure import CaptureFailure
from warplab.plan.capture.several_process import CaptureProcess, CaptureProcesses
from warplab.plan.capture.source_file import read_source
from warplab.sandbox.isolation import Isolation

FULL_MARKS, NOT_FULL_MARKS, USAGE_ERROR, CANNOT_GRADE, NOT_ALL_READ = 0, 1, 2, 3, 4
EXIT_CODES = """\
exit codes:
  0  full marks for everything that this machine can judge (doctor: this machine can grade; class: all is graded)
  1  graded with less than full marks (starters or handouts --check: a file is not up to date)
  2  wrong usage, or no such file or lab
  3  this machine cannot grade, or the judge itself failed
  4  class: all that was read has a grade, but some files were not read
"""
STOPPED = "stopped by you, nothing was graded."
BUILD = CHECKOUT / "build"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    options = _parser().parse_args(arguments)
    _log_to_file()
    console = Console(stderr=False)
    try:
        return options.run(options, console)
    except DeviceError as error:
        print(f"autograder: {error}", file=sys.stderr)
        return CANNOT_GRADE
    except WarplabError as error:
        print(f"autograder: {error}", file=sys.stderr)
        return USAGE_ERROR
    except OSError as error:
        print(f"autograder: cannot write {error.filename}: {error.strerror}.", file=sys.stderr)
        return USAGE_ERROR
    except KeyboardInterrupt as interrupt:
        print(f"autograder: {str(interrupt) or STOPPED}", file=sys.stderr)
        return CANNOT_GRADE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="autograder",
        description="Grades submissions of the course's labs.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run, summary: str) -> argparse.ArgumentParser:
        added = commands.add_parser(
            name,
            help=summary,
            description=summary,
            epilog=EXIT_CODES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        added.set_defaults(run=run)
        return added

    for name, run, summary in (
        ("grade", _grade, "Grade submissions: correctness, safety, traffic and, on a GPU, efficiency."),
        ("check", _check, "Grade one submission quickly and tersely, without the hidden cases."),
    ):
        sub = command(name, run, summary)
        sub.add_argument("paths", metavar="PATH", type=Path, nargs="+", help="a submission, or a folder that holds one")
        sub.add_argument("--lab", help="the lab (default: the folder of that name that the submission lies in)")
        _add_machine_options(sub)
        sub.add_argument(
            "--allow-reduced-isolation",
            action="store_true",
            help="grade other people's submissions even where they could read your files",
        )
        _add_report_options(sub)
        if name == "grade":
            sub.add_argument(
                "--second-opinion",
                action="store_true",
                help="ask compute-sanitizer too, for the record (needs a GPU and CUDA's toolkit)",
            )
    verify = command(
        "verify", _verify, "Put a verdict of a program of your own beside the judge's (docs/verifiers.md)."
    )
    verify.add_argument("paths", metavar="PATH", type=Path, nargs="+", help="a submission, or a folder that holds one")
    verify.add_argument(
        "--with",
        dest="verifier",
        metavar="COMMAND",
        required=True,
        help="reads a prompt, prints `right` or `wrong`; runs as you, outside the sandbox",
    )
    verify.add_argument("--lab", help="the lab (default: the folder of that name that the submission lies in)")
    verify.add_argument("--transcript", type=Path, metavar="FILE", help="write prompts, answers and verdicts as JSON")
    _add_machine_options(verify)
    whole = command("class", _class, "Grade a whole class: what it handed in, side by side, into one record.")
    _add_class_options(whole)
    instructor_options.add_commands(command)
    reference = command("reference", _reference, "Grade every reference solution into build/report.")
    _add_machine_options(reference)
    command("doctor", _doctor, "Say what this machine can do, and how to fix what it cannot.")
    for name, run, summary in (
        ("starters", _starters, "Write every lab's starter from its solution."),
        ("handouts", _handouts, "Write what every handout says of points and budgets, from lab.toml and task.py."),
    ):
        written = command(name, run, summary)
        written.add_argument("--check", action="store_true", help="write nothing; fail if one is not up to date")
    command("progress", _progress, "Say how far you are: your best grade of each lab, the questions solved.")
    again = command("reset", _reset, "Put a lab's starters back; what you had is kept beside them.")
    again.add_argument("lab", metavar="LAB", help="for example 03_transpose")
    lab = command("new-lab", _new_lab, "Write a new lab: a small example that grades, to be replaced.")
    lab.add_argument("name", metavar="NAME", help="two digits and words, for example 09_fp8_gemm")
    lab.add_argument("--title", help="the lab's title (default: made of its name)")
    return parser


def _add_machine_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--device", choices=("auto", "gpu", "emulator"), default="auto", help="where kernels run (default: auto)"
    )
    parser.add_argument("--seed", type=int, help="draw the inputs from this seed instead of a secret one")


def _add_report_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the reports as JSON")
    parser.add_argument(
        "--html",
        type=Path,
        metavar="FILE",
        help="also write the reports as one HTML page, and of your own work a microscope beside it",
    )


def _grade(options: argparse.Namespace, console: Console) -> int:
    return _grade_paths(options, console, quick=False)


def _check(options: argparse.Namespace, console: Console) -> int:
    return _grade_paths(options, console, quick=True)


def _grade_paths(options: argparse.Namespace, console: Console, quick: bool) -> int:
    work = [submissions.resolve(path, options.lab) for path in options.paths]
    second = getattr(options, "second_opinion", False)
    if second:
        require_second_opinion(choose_machine(options.device))
    show = terminal.show_briefly if quick else terminal.show
    reports = []
    if second and (others := [source for _, source in work if not submissions.is_own(source)]):
        raise submissions.NoSubmission(
            f"{others[0]} may be another person's, and compute-sanitizer runs outside the sandbox: copy it into the "
            "lab's folder if it is yours, or leave --second-opinion out."
        )
    for report, (_, source) in zip(_grades(work, options, quick, console, second), work, strict=True):
        show(report, console, source)
        reports.append(report)
        if not quick and submissions.is_learners(source):
            own_history.keep(report)
            if words := own_history.words_about(report.lab):
                console.print(f"{words} All of them: autograder progress", markup=False, highlight=False)
    if len(reports) > 1:
        terminal.show_summary(reports, console)
    if options.json:
        json_file.write_reports(reports, options.json)
    if options.html:
        write_whole(options.html, _page(reports, [source for _, source in work], options.html, options.seed))
    return exit_code(reports)


def _verify(options: argparse.Namespace, console: Console) -> int:
    work = [submissions.resolve(path, options.lab) for path in options.paths]
    command = verifier.command_of(options.verifier)
    records = []
    for (lab, source), report in zip(work, _grades(work, options, False, console), strict=True):
        prompt = verifier.prompt_of(lab, report.source)
        verdict, answer = verifier.ask(command, prompt)
        one = verifier.verified(report, command, prompt, verdict, answer)
        records.append(one)
        words = f"{clean(source.name)}: verifier {one.verifier}, judge {one.judge}, emulator {one.emulator}"
        console.print(words, markup=False, highlight=False)
        if options.transcript:
            verifier.write_transcript(records, options.transcript)
    return FULL_MARKS if all(one.judge in (one.verifier, verifier.UNDECIDED) for one in records) else NOT_FULL_MARKS


def _reference(options: argparse.Namespace, console: Console) -> int:
    work = submissions.references()
    reports = []
    for report, (_, source) in zip(_grades(work, options, False, console), work, strict=True):
        terminal.show_line(report, console)
        if not report.full_marks:
            terminal.show(report, console, source)
        reports.append(report)
    terminal.show_summary(reports, console)
    folder = BUILD / "report"
    json_file.write_grades(reports, folder / "grades.json")
    write_whole(folder / "index.html", _page(reports, [source for _, source in work], folder / "index.html"))
    console.print(f"Reports: {folder / 'grades.json'} and {folder / 'index.html'}", markup=False, highlight=False)
    return exit_code(reports)


def _grades(
    work: Sequence[tuple[AnyLab, Path]],
    options: argparse.Namespace,
    quick: bool,
    console: Console,
    second_opinion: bool = False,
) -> Iterator[Report]:
    """Grade in turn: one's own submissions in one worker, each of the others in a fresh one that nobody has used.

    The captures of several of one's own are forked from one process, because imports take longer than a capture.
    """
    allow_reduced = getattr(options, "allow_reduced_isolation", False)
    others = [source for _, source in work if not submissions.is_own(source)]
    machines = [
        choose_machine(options.device, lab.needs)
        if source in others
        else choose_machine(options.device, lab.oldest, own=True)
        for lab, source in work
    ]
    if len(others) == len(work):
        started_ahead.close_rest()  # they are for one's own
    with ExitStack() as kept:
        shared = {machine: kept.enter_context(ConfinedWorker(machine, own=True)) for machine in set(machines)}
        captures = kept.enter_context(CaptureProcesses())
        for done, ((lab, source), machine) in enumerate(zip(work, machines, strict=True)):
            with ExitStack() as stack:
                worker = shared[machine]
                captured_in: CaptureProcess | None = None
                if source in others:
                    require_isolation(machine.isolation, source, allow_reduced)
                    worker = stack.enter_context(ConfinedWorker(machine, own=False))
                    worker.start()
                    require_isolation(worker.isolation or Isolation.REDUCED, source, allow_reduced)
                elif len(work) > 1:
                    with suppress(CaptureFailure):  # `grade` reads it again and reports why it cannot be read
                        captured_in = captures.for_text(read_source(source))
                progress = stack.enter_context(terminal.progress_bar(console, f"{lab.name}/{clean(source.name)}"))
                request = Request(lab, source, machine, options.seed, quick, second_opinion, captured_in=captured_in)
                try:
                    report = grade(request, worker, progress)
                except KeyboardInterrupt:
                    raise KeyboardInterrupt(
                        f"stopped by you after {done} of {len(work)} grades." if done else STOPPED
                    ) from None
            yield report


def exit_code(reports: Sequence[Report]) -> int:
    """The exit code for the reports of one command."""
    if any(report.status in NOT_JUDGED for report in reports):
        return CANNOT_GRADE
    return FULL_MARKS if all(report.full_marks for report in reports) else NOT_FULL_MARKS


def _page(reports: Sequence[Report], sources: Sequence[Path], file: Path, seed: int | None = None) -> str:
    """The page of these reports, to be written to `file`, from where it links to the handouts and the submissions, and
    of one's own work to one's grades and, beside it, to a page of the microscope."""
    from autograder.report.html_page import page  # its figures take longer to import than a short answer takes
    from autograder.report.links import Links

    own = [submissions.is_learners(source) for source in sources]
    history = own_history.write_page() if any(own) else None
    links = []
    for number, (report, source, mine) in enumerate(zip(reports, sources, own, strict=True)):
        grades = own_history.words_about(report.lab) if mine else ""
        between = Links.between(file.parent, labs_folder().parent, source, history if mine else None, grades)
        beside = file.with_name(f"{file.stem}.microscope{number or ''}.html")
        if mine and report.profile and _save_microscope(report, source, seed, beside):
            between = replace(between, microscope=beside.name)
        links.append(between)
    return page(reports, links=links)


def _save_microscope(report: Report, source: Path, seed: int | None, page: Path) -> bool:
    from autograder.own_work import save_microscope  # the compilers' side takes longer to import than a short answer

    return save_microscope(find_lab(report.lab), source, secret_seed() if seed is None else seed, page)


def _add_class_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("submissions", metavar="SUBMISSIONS", type=Path, help="a folder or an archive of them")
    parser.add_argument(
        "--out",
        metavar="RESULTS",
        type=Path,
        required=True,
        help="folder for the record and the table; the same again goes on",
    )
    parser.add_argument("--lab", help="the lab of all that names none (default: the folder that is named like one)")
    parser.add_argument(
        "--roster", type=Path, metavar="CSV", help="the students of the class, as the platform exports them"
    )
    parser.add_argument("--times", type=Path, metavar="CSV", help="times of hand-ins: columns student, lab and time")
    parser.add_argument(
        "--device", choices=("auto", "gpu", "emulator"), default="auto", help="where kernels run (default: auto)"
    )
    parser.add_argument(
        "--processes",
        type=int,
        metavar="N",
        help="how many at a time (default: one a processor, 12 on a GPU)",
    )
    parser.add_argument(
        "--slurm",
        dest="cluster",
        type=Path,
        metavar="FILE",
        help="grade in jobs of Slurm, as the table [slurm] of this TOML file says",
    )
    parser.add_argument(
        "--mixed-cards", action="store_true", help="let a lab have grades from several kinds of GPU, and say so"
    )
    parser.add_argument(
        "--anonymous", action="store_true", help="hide names where grades are looked at, from now on (`policy` ends it)"
    )
    parser.add_argument("--only", metavar="NAME", action="append", default=[], help="only this student or lab")
    parser.add_argument("--regrade", action="store_true", help="grade again what has a grade")
    parser.add_argument(
        "--allow-reduced-isolation", action="store_true", help="grade even where submissions could read your files"
    )


def _class(options: argparse.Namespace, console: Console) -> int:
    from autograder.classroom import command  # Dask takes longer to import than a short answer takes

    codes = {command.Outcome.WHOLE: FULL_MARKS, command.Outcome.NOT_ALL_READ: NOT_ALL_READ}
    return codes.get(command.run(options, console), CANNOT_GRADE)


def _doctor(options: argparse.Namespace, console: Console) -> int:
    from autograder import doctor

    findings = doctor.examine()
    doctor.show(findings, console)
    return FULL_MARKS if doctor.can_grade(findings) else CANNOT_GRADE


def _progress(options: argparse.Namespace, console: Console) -> int:
    rows = own_history.progress()
    wide = max(len(name) for name, _ in rows)
    for name, words in rows:
        print(f"{name:{wide}}  {words}")
    return FULL_MARKS


def _reset(options: argparse.Namespace, console: Console) -> int:
    moved = starter.reset(options.lab)
    for path, kept in moved:
        print(f"{path} is the starter again; what you had is in {kept.name}.")
    if not moved:
        print(f"The files of lab {options.lab} are its starters already.")
    return FULL_MARKS


def _starters(options: argparse.Namespace, console: Console) -> int:
    return _write(starter.starters(), options)


def _handouts(options: argparse.Namespace, console: Console) -> int:
    return _write(handout.handouts(), options)


def _write(files: Sequence[WrittenFile], options: argparse.Namespace) -> int:
    stale = [file for file in files if not file.up_to_date]
    for file in stale:
        if not options.check:
            write_whole(file.path, file.text)
        print(f"{'not up to date' if options.check else 'written'}: {file.path}")
    return NOT_FULL_MARKS if stale and options.check else FULL_MARKS


def _new_lab(options: argparse.Namespace, console: Console) -> int:
    for path in new_lab.write_lab(options.name, options.title):
        print(f"written: {path}")
    print(new_lab.left_to_do(options.name))
    return FULL_MARKS


def _log_to_file() -> None:
    """Tracebacks of the judge's own faults go to a file for whoever runs it, never to the student's report."""
    log = logging.getLogger("autograder")
    if log.handlers:
        return
    try:
        BUILD.mkdir(parents=True, exist_ok=True)
        handler: logging.Handler = logging.FileHandler(BUILD / "autograder.log", delay=True, encoding="utf-8")
    except OSError:  # an installation that cannot be written to still grades
        handler = logging.NullHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.addHandler(handler)
    log.propagate = False
