"""Reports on the terminal, with a progress bar while grading."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from autograder import pipeline
from autograder.traffic import budget_words
from autograder.verdict import NOT_JUDGED, CaseResult, PartResult, Report, Status
from warplab.plan.execution import Finding

_SHOWN = 5  # findings and failed cases; the HTML report has them all


@contextmanager
def progress_bar(console: Console, title: str) -> Iterator[pipeline.Progress]:
    """A bar that is gone when grading is over; gives the callback for `pipeline.grade`."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[step]}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(title, total=1.0, step="")
        yield lambda step, fraction: progress.update(task, completed=fraction, step=step)


def show(report: Report, console: Console) -> None:
    """The whole report of one submission."""
    blocks: list[RenderableType] = [_headline(report), Text(report.message), _parts_table(report)]
    blocks += _excerpt(report, report.line)
    for part in report.parts:
        blocks += _details(report, part)
    console.print(Panel(Group(*blocks), title=Text(f"{report.lab} · {report.title}"), border_style=_colour(report)))


def show_briefly(report: Report, console: Console) -> None:
    """A line a part: what the learner's short loop needs."""
    line = Text.assemble((f"{report.status}", _colour(report)), f"  {report.lab}  {report.submission}  ")
    console.print(line.append(f"{report.score:g}/{report.max_score:g} points, {report.seconds:.1f} s"))
    if not report.full_marks:
        console.print(Text(report.message))
        for block in _excerpt(report, report.line):
            console.print(block)
    for part in report.parts:
        if part.status not in (Status.PASSED, Status.WITHHELD, Status.NOT_MEASURED):
            for block in _details(report, part):
                console.print(block)


def show_summary(reports: Sequence[Report], console: Console) -> None:
    """One row a report."""
    table = Table(box=None, title=f"Grades on {reports[0].hardware}", title_justify="left")
    for column in ("lab", "submission", "language", "status"):
        table.add_column(column)
    for column in ("points", "roofline", "seconds"):
        table.add_column(column, justify="right")
    for report in reports:
        efficiency = "-" if report.efficiency is None else f"{report.efficiency:.1%}"
        row = (report.lab, report.submission, report.language, report.status)
        numbers = (f"{report.score:g}/{report.max_score:g}", efficiency, f"{report.seconds:.1f}")
        table.add_row(*(Text(cell) for cell in (*row, *numbers)), style=_colour(report))
    console.print(table)


def _headline(report: Report) -> Text:
    where = f"{report.submission} ({report.language or 'no kernel'}) on {report.hardware}, {report.seconds:.1f} s"
    points = f"{report.score:g} of {report.max_score:g} points"
    text = Text.assemble((f"{report.status}: {points}", f"bold {_colour(report)}"), f"   {where}")
    if report.max_score < report.full_score:
        text.append(f"   (the lab gives {report.full_score:g}; this machine cannot judge the rest)", "dim")
    return text


def _colour(report: Report) -> str:
    if report.status in NOT_JUDGED:
        return "magenta"
    return "green" if report.full_marks else "yellow" if report.score else "red"


def _parts_table(report: Report) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("part")
    table.add_column("points", justify="right")
    table.add_column("status")
    table.add_column("")
    for part in report.parts:
        points = f"{part.score:g}/{part.max_score:g}" if part.judged else f"-/{part.max_score:g}"
        colour = "green" if part.status is Status.PASSED else "dim" if not part.judged else "yellow"
        table.add_row(part.part.value, points, Text(part.status, colour), Text(part.message))
    return table


def _details(report: Report, part: PartResult) -> list[RenderableType]:
    blocks: list[RenderableType] = []
    failed = [case for case in part.cases if case.status not in (Status.PASSED, Status.SKIPPED)]
    blocks += [_case_text(case) for case in failed[:_SHOWN]]
    for finding in part.findings[:_SHOWN]:
        blocks += [_finding_text(finding), *_excerpt(report, finding.line)]
    blocks += [Text(f"• {budget_words(budget)}") for budget in part.budgets if not budget.passed]
    left = max(len(failed) - _SHOWN, 0) + max(len(part.findings) - _SHOWN, 0)
    if left:
        blocks.append(Text(f"… and {left} more in the HTML and JSON reports", "dim"))
    if blocks and part.feedback:
        blocks.append(Text(f"→ {part.feedback}", "cyan"))
    if not blocks:
        return []
    return [Text(f"\n{part.part.value}", "bold"), *blocks]


def _case_text(case: CaseResult) -> Text:
    text = Text.assemble("• ", (case.name, "bold"), f": {case.message}")
    if case.cause:
        text.append(f"\n  {case.cause}", "italic")
    return text


def _finding_text(finding: Finding) -> Text:
    times = f" ({finding.count:,} times)" if finding.count > 1 else ""
    return Text.assemble("• ", (finding.kind.value, "bold"), f": {finding.message}{times}")


def _excerpt(report: Report, line: int) -> list[RenderableType]:
    """The line of the submission, if there is one, with its number."""
    lines = report.source.split("\n")
    if not 1 <= line <= len(lines):
        return []
    return [Text(f"  {line:4d} │ {lines[line - 1][:140]}", "dim")]
