"""Reports as one self-contained HTML page: no scripts, no links to load, everything from a submission escaped.

The templates beside this file escape whatever they are given, so that no place can forget to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autograder.records.report import CaseResult, PartResult, Report
from autograder.records.status import Status
from autograder.report.figures import bandwidth_words, roofline_picture
from autograder.report.lanes import lanes_picture
from autograder.report.links import Links
from autograder.report.unrun import unrun_words
from autograder.report.words import excess, first_line, opinion_words, plain_name, unsaid, without_marks, without_place
from warplab.figures.source import source_html
from warplab.plan.execution import Finding

if TYPE_CHECKING:
    from jinja2 import Environment

_TEMPLATES = Path(__file__).parent / "templates"
_NEUTRAL = frozenset(
    {
        Status.PARTIAL,
        Status.NOT_MEASURED,
        Status.NEEDS_TORCH,
        Status.SKIPPED,
        Status.WITHHELD,
        Status.UNSUPPORTED,
        Status.JUDGE_ERROR,
    }  # fmt: skip
)
# JupyterLab aligns every cell to the right, by a rule of two classes: these, named twice, outweigh it.
_OUTWEIGHING = (
    ".warplab-report.warplab-report :is(td, th) { text-align: left; }",
    ".warplab-report.warplab-report :is(td, th).n { text-align: right; }",
    ".warplab-report.warplab-report a { color: var(--link); }",
)
# A notebook's dark theme need not be the browser's: JupyterLab, VS Code and the course's site say which one it is.
_DARK = ':is([data-jp-theme-light="false"] *, .vscode-dark *, [data-theme="dark"] *)'


def page(
    reports: Sequence[Report], title: str = "", notes: Sequence[str] = (), links: Sequence[Links] | None = None
) -> str:
    """The whole page for reports; `notes` are sentences about what has none. `links`, one a report, are for a page that
    stays on the machine where it was graded."""
    title = title or (f"{reports[0].lab}: {reports[0].title}" if len(reports) == 1 else "Grades")
    links = links or [Links()] * len(reports)
    found = _environment().get_template("page.html")
    return found.render(title=title, style=_style(), reports=reports, notes=notes, links=links)


def table_page(title: str, text: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A page with a paragraph and one table."""
    found = _environment().get_template("table.html")
    return found.render(title=title, style=_style(), text=text, columns=columns, rows=rows)


def desk_page(
    title: str,
    labs: Sequence[Any],
    tables: Sequence[tuple[str, Sequence[Any]]],
    log: Sequence[Any],
    strays: Sequence[str],
    seconds: int,
    bins: int,
    quote: Callable[..., str],
) -> str:
    """The page of a class (`autograder.overview.desk`), which a browser asks for again every so many seconds."""
    found = _environment().get_template("desk.html")
    return found.render(
        title=title,
        style=_style(),
        labs=labs,
        tables=tables,
        log=log,
        strays=strays,
        seconds=seconds,
        bins=bins,
        quote=quote,
    )


def similar_page(
    title: str,
    usual: Mapping[str, float | None],
    shown: Sequence[tuple[Any, Sequence[Any]]],
    more: Sequence[Any],
    count: int,
) -> str:
    """A page of submissions that are alike (`autograder.overview.similar`): the entries with texts side by side, and
    `more` entries without."""
    found = _environment().get_template("similar.html")
    return found.render(
        title=title, style=_style(), usual=usual, shown=shown, more=more, count=count, likeness=_likeness
    )


def fragment(report: Report, links: Links | None = None) -> str:
    """One report for a notebook's output cell, with links that lead from the notebook's folder."""
    found = _environment().get_template("fragment.html")
    return found.render(style=_scoped_style(), report=report, links=links or Links())


@cache
def _environment() -> Environment:
    """The templates, with what they may call."""
    # here, since a report on the terminal, which most are, needs no templates
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.globals.update(
        kind_of=_kind_of,
        lanes_picture=lanes_picture,
        line_of=_line_of,
        excerpt_of=_excerpt_of,
        bandwidth_words=bandwidth_words,
        roofline_picture=roofline_picture,
        error_of=_error_of,
        excess=excess,
        finding_words=_finding_words,
        first_line=first_line,
        plain_name=plain_name,
        summary_of=_summary_of,
        unsaid=unsaid,
        unrun_words=unrun_words,
        opinion_words=opinion_words,
        source_html=source_html,
        without_marks=without_marks,
    )
    return made


def _style() -> str:
    return (_TEMPLATES / "style.css").read_text(encoding="utf-8")


def _scoped_style() -> str:
    """The rules that a report needs, for nothing but the report: a notebook has a look of its own."""
    lines = _style().splitlines()
    root = lines[0].replace(":root", ".warplab-report")
    dark = f".warplab-report{_DARK} {{ {lines[1].split('{', 2)[2].removesuffix(' }')}"
    return "\n".join([root, dark, *_OUTWEIGHING, *(_scoped(line) for line in lines if line.startswith("."))])


def _scoped(rules: str) -> str:
    parts = [part for part in rules.split("}") if part.strip()]
    return " ".join(f".warplab-report {part.strip()} }}" for part in parts)


def _likeness(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _kind_of(status: Status) -> str:
    """The class that gives a status its colour."""
    return "passed" if status is Status.PASSED else "other" if status in _NEUTRAL else "failed"


def _line_of(report: Report, number: int) -> str:
    """A line of the submission, counted from 1; empty for one that it does not have."""
    lines = report.source.split("\n")
    return lines[number - 1].strip() if 1 <= number <= len(lines) else ""


def _excerpt_of(report: Report) -> str:
    """The lines around the one to look at first; empty if there is none."""
    lines, line = report.source.split("\n"), first_line(report)
    if not 1 <= line <= len(lines):
        return ""
    first = max(line - 3, 1)
    return "\n".join(
        f"{'>' if number == line else ' '}{number:4d}  {text}"
        for number, text in enumerate(lines[first - 1 : line + 2], start=first)
    ).rstrip()


def _summary_of(part: PartResult) -> str:
    """What a part's tables come to."""
    if part.findings:
        return f"{len(part.findings)} finding{'s' * (len(part.findings) > 1)}"
    if part.budgets:
        kept = sum(budget.passed for budget in part.budgets)
        return f"{kept} of {len(part.budgets)} budgets kept"
    passed = sum(case.status is Status.PASSED for case in part.cases)
    return f"{passed} of {len(part.cases)} cases passed"


def _error_of(case: CaseResult) -> str:
    """The largest error as a share of the one that is allowed."""
    if not case.worst_ratio:
        return ""
    return f"{case.worst_ratio:.0%}" if case.worst_ratio < 10 else f"{case.worst_ratio:.3g} times"


def _finding_words(finding: Finding, said: str) -> str:
    """A finding's sentence, or only its place where the sentence stands above."""
    if without_place(finding.message) in said and finding.block is not None:
        return f"Seen in thread {finding.thread} of block {finding.block}."
    return finding.message
