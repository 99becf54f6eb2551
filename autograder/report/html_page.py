"""Reports as one self-contained HTML page: no scripts, no links to load, everything from a submission escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from autograder.records.report import BudgetResult, CaseResult, KernelFigures, PartResult, Report
from autograder.records.status import Status
from autograder.report.figures import roofline_figure
from autograder.report.words import budget_words, opinion_words
from warplab.plan.execution import Finding
from warplab.show.source import source_html

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --good: #1a7f37; --bad: #b3261e; --soft: #9a6700; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
h1, h2, h3 { line-height: 1.2; } section { border-top: 1px solid var(--line); margin-top: 2rem; }
table { border-collapse: collapse; margin: .5rem 0; } th { text-align: left; font-weight: 600; }
td, th { padding: .2rem .8rem .2rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td.n, th.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
td:first-child, td > span { white-space: nowrap; } .source td, .source th { border: 0; }
pre, code { font: 13px/1.5 ui-monospace, monospace; } pre { overflow-x: auto; white-space: pre-wrap; }
.passed { color: var(--good); } .failed { color: var(--bad); } .other { color: var(--soft); }
.score { font-size: 1.4rem; font-weight: 600; } 
figure { margin: 1rem 0; } figure img { max-width: 100%; background: #fff; }
.muted { opacity: .7; }
"""


# JupyterLab aligns every cell to the right, by a rule of two classes: this one, named twice, outweighs it.
_ALIGNMENT = (
    ".warplab-report.warplab-report :is(td, th) { text-align: left; }",
    ".warplab-report.warplab-report :is(td, th).n { text-align: right; }",
)


def page(reports: Sequence[Report]) -> str:
    """The whole page for one or more reports."""
    title = f"{reports[0].lab}: {reports[0].title}" if len(reports) == 1 else "Grades"
    body = "".join(_report(number, report) for number, report in enumerate(reports))
    overview = _overview(reports) if len(reports) > 1 else ""
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>'
        f"<body><h1>{escape(title)}</h1>{overview}{body}</body></html>\n"
    )


def fragment(report: Report) -> str:
    """One report for a notebook's output cell."""
    return f"<style>{_scoped_style()}</style><div class='warplab-report'>{_report(0, report)}</div>"


def _scoped_style() -> str:
    rules = [rule for rule in _STYLE.split("\n") if rule.startswith(".")]
    root = _STYLE.strip().split("\n")[0].replace(":root", ".warplab-report")
    return "\n".join([root, *_ALIGNMENT, *(_scoped(rule) for rule in rules)])


def _scoped(rules: str) -> str:
    parts = [part for part in rules.split("}") if part.strip()]
    return " ".join(f".warplab-report {part.strip()} }}" for part in parts)


def _overview(reports: Sequence[Report]) -> str:
    rows = "".join(
        f'<tr><td><a href="#report-{number}">{escape(r.lab)}</a></td><td>{escape(r.submission)}</td>'
        f"<td>{escape(r.language)}</td><td>{_status(r.status)}</td>"
        f'<td class="n">{r.score:g} of {r.max_score:g}</td>'
        f'<td class="n">{"not measured" if r.efficiency is None else f"{r.efficiency:.1%}"}</td></tr>'
        for number, r in enumerate(reports)
    )
    heads = (
        "<tr><th>lab</th><th>submission</th><th>language</th><th>status</th><th class=n>points</th>"
        "<th class=n>efficiency</th></tr>"
    )
    return f"<table>{heads}{rows}</table>"


def _report(number: int, report: Report) -> str:
    blocks = [
        f'<section id="report-{number}"><h2>{escape(report.lab)}: {escape(report.title)}</h2>',
        f'<p class="score">{_status(report.status)} · {report.score:g} of {report.max_score:g} points</p>',
        f"<p>{escape(report.message)}</p>",
        _excerpt(report),
        f'<p class="other">{escape(report.isolation_words)}</p>' if report.isolation_words else "",
        _left_out(report),
        _parts(report),
        f'<p class="next"><strong>Next:</strong> {escape(report.next_step)}</p>' if report.next_step else "",
    ]
    blocks += [_details(report, part) for part in report.parts]
    blocks.append(_second_opinions(report))
    blocks += [roofline_figure(report), _kernels(report.kernels), _source(report), _versions(report), "</section>"]
    return "".join(blocks)


def _left_out(report: Report) -> str:
    if report.max_score >= report.full_score:
        return ""
    rest = report.full_score - report.max_score
    return f'<p class="muted">The lab gives {report.full_score:g} points; this machine could not judge {rest:g}.</p>'


def _parts(report: Report) -> str:
    rows = "".join(
        f"<tr><td>{part.part.value}</td><td>{_status(part.status)}</td>"
        f'<td class="n">{f"{part.score:g}" if part.judged else "–"} of {part.max_score:g}</td>'
        f"<td>{escape(part.message)}</td></tr>"
        for part in report.parts
    )
    return f"<table><tr><th>part</th><th>status</th><th class=n>points</th><th></th></tr>{rows}</table>"


def _details(report: Report, part: PartResult) -> str:
    blocks = [_cases(part.cases), _findings(report, part.findings), _budgets(part.budgets)]
    if not any(blocks):
        return ""
    lost = part.judged and part.score < part.max_score and part.status is not Status.WITHHELD
    hint = f"<p>Read again: {escape(part.feedback)}</p>" if part.feedback and lost else ""
    return f"<h3>{part.part.value.capitalize()}</h3>{''.join(blocks)}{hint}"


def _cases(cases: Sequence[CaseResult]) -> str:
    if not cases:
        return ""
    rows = "".join(
        f"<tr><td>{escape(case.name)}</td><td>{_status(case.status)}</td>"
        f"<td>{escape(case.message)}{'<br><em>' + escape(case.cause) + '</em>' if case.cause else ''}</td>"
        f'<td class="n">{_ratio(case)}</td></tr>'
        for case in cases
    )
    return f"<table><tr><th>case</th><th>status</th><th></th><th class=n>error / allowed</th></tr>{rows}</table>"


def _ratio(case: CaseResult) -> str:
    return f"{case.worst_ratio:.3g}" if case.worst_ratio else ""


def _findings(report: Report, findings: Sequence[Finding]) -> str:
    if not findings:
        return ""
    lines = ["", *report.source.split("\n")]
    rows = "".join(
        f'<tr><td>{escape(f.kind)}</td><td class="n">{f.line or ""}</td>'
        f"<td>{escape(f.message)}<br><code>{escape(lines[f.line].strip()) if f.line < len(lines) else ''}</code></td>"
        f'<td class="n">{f.count:,}</td></tr>'
        for f in findings
    )
    return f"<table><tr><th>finding</th><th class=n>line</th><th></th><th class=n>times</th></tr>{rows}</table>"


def _budgets(budgets: Sequence[BudgetResult]) -> str:
    if not budgets:
        return ""
    rows = "".join(
        f"<tr><td>{escape(b.counter.replace('_', ' '))}<br><code>{escape(b.metric)}</code></td>"
        f'<td class="n">{b.value:,}</td><td class="n">{b.limit:,.0f}</td>'
        f"<td>{'kept' if b.passed else escape(budget_words(b))}</td></tr>"
        for b in budgets
    )
    return f"<table><tr><th>counter</th><th class=n>counted</th><th class=n>allowed</th><th></th></tr>{rows}</table>"


def _kernels(kernels: Sequence[KernelFigures]) -> str:
    if not kernels:
        return ""
    rows = "".join(
        f'<tr><td><code>{escape(k.name)}</code></td><td class="n">{k.line or ""}</td><td class="n">{k.registers}</td>'
        f'<td class="n">{k.spill_bytes:,}</td><td class="n">{k.shared:,}</td>'
        f'<td class="n">{k.occupancy:.0%}</td></tr>'
        for k in kernels
    )
    heads = (
        "<tr><th>kernel</th><th class=n>line</th><th class=n>registers a thread</th><th class=n>spilled bytes a thread"
        "</th><th class=n>shared bytes a block</th><th class=n>theoretical occupancy</th></tr>"
    )
    return f"<h3>Kernels, as assembled</h3><table>{heads}{rows}</table>"


def _excerpt(report: Report) -> str:
    """The lines around the one that a rejected submission was rejected for."""
    lines = report.source.split("\n")
    if not 1 <= report.line <= len(lines):
        return ""
    first = max(report.line - 3, 1)
    rows = "\n".join(
        f"{'>' if number == report.line else ' '}{number:4d}  {text}"
        for number, text in enumerate(lines[first - 1 : report.line + 2], start=first)
    )
    return f"<pre>{escape(rows)}</pre>"


def _source(report: Report) -> str:
    if report.profile is None or not report.source:
        return ""
    return (
        f"<h3>Where the traffic goes</h3><p class='muted'>Counted by the emulator on the case "
        f"{escape(report.profile.case)}; the redder a number, the more of it is waste.</p>"
        f"{_wasted(report)}<div class='source'>{source_html(report.source, report.profile.lines)}</div>"
    )


def _second_opinions(report: Report) -> str:
    if not report.second_opinions:
        return ""
    items = "".join(f"<li>{escape(opinion_words(opinion))}</li>" for opinion in report.second_opinions)
    return f"<h3>Second opinion of compute-sanitizer</h3><ul>{items}</ul>"


def _wasted(report: Report) -> str:
    items = "".join(f"<li>{escape(wasted.words)}</li>" for wasted in report.wasted)
    return f"<ul>{items}</ul>" if items else ""


def _versions(report: Report) -> str:
    items = ", ".join(f"{escape(name)} {escape(version)}" for name, version in report.versions.items())
    words = f"{escape(report.hardware)}; {items}; isolation: {escape(report.isolation)}"
    return f'<p class="muted">{words}; graded in {report.seconds:.1f} s.</p>'


def _status(status: Status) -> str:
    kind = "passed" if status is Status.PASSED else "other" if status in _NEUTRAL else "failed"
    return f'<span class="{kind}">{escape(status)}</span>'


_NEUTRAL = frozenset(
    {Status.PARTIAL, Status.NOT_MEASURED, Status.SKIPPED, Status.WITHHELD, Status.UNSUPPORTED, Status.JUDGE_ERROR}
)
