"""Reports on the terminal, with a progress bar while grading."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.style import Style
from rich.table import Table
from rich.text import Text

from autograder.records.report import CaseResult, PartResult, Report
from autograder.records.request import OnProgress
from autograder.records.status import NOT_JUDGED, Part, Status
from autograder.records.text import clean
from autograder.report.unrun import unrun_words
from autograder.report.words import budget_words, first_line, opinion_words
from warplab.plan.execution import Finding

_SILENCE = 10.0  # seconds
_SHOWN_LINES = 8  # of what was printed
_SHOWN = 5  # findings and failed cases; the HTML report has them all


@contextmanager
def progress_bar(console: Console, title: str) -> Iterator[OnProgress]:
    """A bar that is gone when grading is over; gives the callback for `pipeline.grade`.

    Where there is no terminal, a step that begins after a while of silence is a line."""
    if not console.is_terminal:
        yield _Log(console, title).step
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[step]}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(title, total=1.0, step="")
        yield lambda step, fraction: progress.update(task, completed=fraction, step=step)


class _Log:
    """Steps of a grade as lines, at least so many seconds apart."""

    def __init__(self, console: Console, title: str) -> None:
        self._console, self._title, self._last = console, title, time.monotonic()

    def step(self, what: str, fraction: float) -> None:
        """A step begins."""
        if fraction < 1 and time.monotonic() - self._last > _SILENCE:
            self._last = time.monotonic()
            self._console.print(f"{self._title}: {what}", markup=False, highlight=False)


def show_line(report: Report, console: Console) -> None:
    """A report in a line, as soon as it is there."""
    name, points = f"{report.lab}/{report.submission}", f"{report.score:g}/{report.max_score:g}"
    console.print(Text(f"{report.status}: {name}, {points} points, {report.seconds:.1f} s", _colour(report)))


def show(report: Report, console: Console, file: Path | None = None) -> None:
    """The whole report of one submission. `file` is the submission's path, for links that open it at a line."""
    blocks: list[RenderableType] = [*_headline(report), *_first(report, file)]
    details = {part.part: _details(report, part, _SHOWN, file) for part in report.parts}
    if not any(details.values()):
        blocks += [Text(report.message), *_excerpt(report, report.line, file)]
    blocks += ["", _parts_table(report, {part for part, found in details.items() if found})]
    for found in details.values():
        blocks += found
    blocks += _lessons(report, file) + _note(report)
    console.print(Panel(Group(*blocks), title=Text(f"{report.lab} · {report.title}"), border_style=_colour(report)))


def show_briefly(report: Report, console: Console, file: Path | None = None) -> None:
    """A line, what to do first, and the first fault of each part: what the learner's short loop needs."""
    line = Text.assemble((f"{report.status}", _colour(report)), f"  {report.lab}  {report.submission}  ")
    line.append(f"{report.score:g}/{report.max_score:g} points, {report.seconds:.1f} s, {report.isolation}")
    console.print(line)
    if why := report.hardware.partition(". ")[2]:  # of a machine that has a GPU, for another lab or another kernel
        console.print(Text(f"On the emulator, without a time: {why}.", "dim"))
    for block in _first(report, file):
        console.print(block)
    details = [block for part in report.parts for block in _details(report, part, 1, file)]
    if not report.full_marks and not details:
        details = [Text(report.message), *_excerpt(report, report.line, file)]
    for block in details:
        console.print(block)
    for block in _printed(report):
        console.print(block)
    if report.resemblance:
        console.print(Text(report.resemblance.words))
    for block in _note(report):
        console.print(block)


def show_summary(reports: Sequence[Report], console: Console) -> None:
    """One row a report."""
    table = Table(box=None, title=f"Grades on {reports[0].hardware}", title_justify="left")
    for column in ("lab", "submission", "language", "status"):
        table.add_column(column, overflow="fold")
    for column in ("points", "roofline", "seconds"):
        table.add_column(column, justify="right", no_wrap=True)
    for report in reports:
        efficiency = "-" if report.efficiency is None else f"{report.efficiency:.1%}"
        row = (report.lab, report.submission, report.language, report.status)
        numbers = (f"{report.score:g}/{report.max_score:g}", efficiency, f"{report.seconds:.1f}")
        table.add_row(*(Text(cell) for cell in (*row, *numbers)), style=_colour(report))
    console.print(table)


def _headline(report: Report) -> list[RenderableType]:
    points = f"{report.score:g} of {report.max_score:g} points"
    language = f" ({report.language})" if report.language else ""
    where = f"{report.submission}{language}, {report.seconds:.1f} s, isolation: {report.isolation},"
    lines: list[RenderableType] = [
        Text(f"{report.status}: {points}", f"bold {_colour(report)}"),
        Text(f"{where} on {report.hardware}", "dim"),
    ]
    if report.isolation_words:
        lines.append(Text(report.isolation_words, "yellow"))
    if report.max_score < report.full_score:
        lines.append(Text(f"The lab gives {report.full_score:g} points; this machine cannot judge the rest.", "dim"))
    return lines


def _colour(report: Report) -> str:
    if report.status in NOT_JUDGED:
        return "magenta"
    return "green" if report.full_marks else "yellow" if report.score else "red"


def _parts_table(report: Report, detailed: AbstractSet[Part]) -> Table:
    """A row a part; the parts in `detailed` say more below."""
    table = Table(box=None, pad_edge=False)
    table.add_column("part")
    table.add_column("points", justify="right")
    table.add_column("status")
    table.add_column("")
    for part in report.parts:
        points = f"{part.score:g}/{part.max_score:g}" if part.judged else f"-/{part.max_score:g}"
        colour = "green" if part.status is Status.PASSED else "dim" if not part.judged else "yellow"
        message = "see below" if part.part in detailed else part.message
        table.add_row(part.part.value, points, Text(part.status, colour), Text(message))
    return table


def _details(report: Report, part: PartResult, most: int, file: Path | None) -> list[RenderableType]:
    """What went wrong in a part: at most `most` cases and findings, the most telling first."""
    failed = [case for case in part.cases if case.status not in (Status.PASSED, Status.SKIPPED)]
    failed.sort(key=lambda case: -case.total)
    blocks: list[RenderableType] = [_case_text(case) for case in failed[:most]]
    for finding in part.findings[:most]:
        blocks += [_finding_text(finding), *_excerpt(report, finding.line, file)]
    blocks += [Text(f"• {budget_words(budget)}") for budget in part.budgets if not budget.passed]
    left = max(len(failed) - most, 0) + max(len(part.findings) - most, 0)
    if left:
        blocks.append(Text(f"… and {left} more in the HTML and JSON reports", "dim"))
    if blocks and part.feedback and part.feedback not in report.next_step:
        blocks.append(Text(f"→ {part.feedback}", "cyan"))
    return [Text(f"\n{part.part.value}", "bold"), *blocks] if blocks else []


def _lessons(report: Report, file: Path | None) -> list[RenderableType]:
    """The lines that waste most, if traffic or efficiency lost points, and what the submission resembles."""
    blocks: list[RenderableType] = []
    lost = [report.part(name) for name in (Part.TRAFFIC, Part.EFFICIENCY)]
    if report.wasted and any(part.judged and part.score < part.max_score for part in lost):
        blocks.append(Text("\nwhere traffic is wasted", "bold"))
        for wasted in report.wasted:
            blocks += [Text(f"• {wasted.words}"), *_excerpt(report, wasted.line, file)]
    if report.unrun:
        blocks += [Text(""), Text(unrun_words(report.unrun))]
    blocks += _printed(report)
    if report.original:
        blocks += [Text("\nin the compiler's or Python's own words", "bold"), Text(report.original, "dim")]
    if report.second_opinions:
        blocks.append(Text("\nsecond opinion of compute-sanitizer", "bold"))
        blocks += [Text(f"• {opinion_words(opinion)}") for opinion in report.second_opinions]
    if report.resemblance:
        blocks += [Text(""), Text(report.resemblance.words)]
    return blocks


def _printed(report: Report) -> list[RenderableType]:
    """What the kernels printed, or its beginning."""
    lines = report.printed.splitlines()
    if not lines:
        return []
    more = ["…"] if len(lines) > _SHOWN_LINES else []
    return [Text("\nprinted by the kernels", "bold"), Text("\n".join(lines[:_SHOWN_LINES] + more))]


def _note(report: Report) -> list[RenderableType]:
    """What to know of the counters, if anything."""
    return [Text(report.profile.note, "yellow")] if report.profile and report.profile.note else []


def _first(report: Report, file: Path | None) -> list[RenderableType]:
    """The one thing to do first, if there is any, above all that was found, and the place to open."""
    if not report.next_step:
        return []
    line = first_line(report)
    place = [Text(f"  {_shown(file)}:{line}", _link(file, line))] if file and line else []
    return [Text.assemble(("First: ", "bold cyan"), (report.next_step, "cyan")), *place]


def _shown(file: Path) -> str:
    """A path as a front end finds it that opens PATH:LINE: from the folder of the command."""
    return clean(os.path.relpath(file) if file.resolve().is_relative_to(Path.cwd()) else str(file))


def _link(file: Path | None, line: int) -> Style:
    """What terminals that know links (OSC 8) open: VS Code and kitty take the fragment for a line."""
    return Style(dim=True, link=f"{file.resolve().as_uri()}#{line}" if file else None)


def _case_text(case: CaseResult) -> Text:
    text = Text.assemble("• ", (case.name, "bold"), f": {case.message}")
    if case.cause:
        text.append(f"\n  {case.cause}", "italic")
    return text


def _finding_text(finding: Finding) -> Text:
    times = f" ({finding.count:,} times)" if finding.count > 1 else ""
    return Text.assemble("• ", (finding.kind.value, "bold"), f": {finding.message}{times}")


def _excerpt(report: Report, line: int, file: Path | None) -> list[RenderableType]:
    """The line of the submission, if there is one, with its number."""
    lines = report.source.split("\n")
    if not 1 <= line <= len(lines):
        return []
    return [Text.assemble((f"  {line:4d}", _link(file, line)), (f" │ {lines[line - 1][:140]}", "dim"))]
