"""Reports as one self-contained HTML page: no scripts, no links to load, everything from a submission escaped.

The templates beside this file escape whatever they are given, so that no place can forget to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autograder.records.report import Report
from autograder.records.status import Status
from autograder.report.figures import bandwidth_words, roofline_picture
from autograder.report.unrun import unrun_words
from autograder.report.words import budget_words, opinion_words
from warplab.figures.source import source_html

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
# JupyterLab aligns every cell to the right, by a rule of two classes: this one, named twice, outweighs it.
_ALIGNMENT = (
    ".warplab-report.warplab-report :is(td, th) { text-align: left; }",
    ".warplab-report.warplab-report :is(td, th).n { text-align: right; }",
)


def page(reports: Sequence[Report], title: str = "", notes: Sequence[str] = ()) -> str:
    """The whole page for reports; `notes` are sentences about what has none."""
    title = title or (f"{reports[0].lab}: {reports[0].title}" if len(reports) == 1 else "Grades")
    return _environment().get_template("page.html").render(title=title, style=_style(), reports=reports, notes=notes)


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


def fragment(report: Report) -> str:
    """One report for a notebook's output cell."""
    return _environment().get_template("fragment.html").render(style=_scoped_style(), report=report)


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
        line_of=_line_of,
        excerpt_of=_excerpt_of,
        bandwidth_words=bandwidth_words,
        roofline_picture=roofline_picture,
        budget_words=budget_words,
        unrun_words=unrun_words,
        opinion_words=opinion_words,
        source_html=source_html,
    )
    return made


def _style() -> str:
    return (_TEMPLATES / "style.css").read_text(encoding="utf-8")


def _scoped_style() -> str:
    """The rules that a report needs, for nothing but the report: a notebook has a look of its own."""
    lines = _style().splitlines()
    root = lines[0].replace(":root", ".warplab-report")
    return "\n".join([root, *_ALIGNMENT, *(_scoped(line) for line in lines if line.startswith("."))])


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
    """The lines around the one that a rejected submission was rejected for; empty if there is none."""
    lines = report.source.split("\n")
    if not 1 <= report.line <= len(lines):
        return ""
    first = max(report.line - 3, 1)
    return "\n".join(
        f"{'>' if number == report.line else ' '}{number:4d}  {text}"
        for number, text in enumerate(lines[first - 1 : report.line + 2], start=first)
    )
