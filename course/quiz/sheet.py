"""Questions as text: with the answers folded away, for readers without a live kernel; or as a sheet to hand out."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

from course.quiz.expression import number
from course.quiz.question import Chapter, Drawn, Kind

_LETTERS = "abcdefgh"


def answer_text(drawn: Drawn) -> str:
    """The answer in a few words: a number in its unit, a formula, or the letter of the right statement."""
    if drawn.question.kind is Kind.CHOICE:
        return f"({_LETTERS[int(drawn.answer)]})"
    if drawn.question.kind is Kind.FORMULA:
        return f"`{drawn.answer}`"
    unit = drawn.question.unit
    if drawn.answer == 1 and len(unit) > 3:  # a word, not a symbol
        unit = unit.removesuffix("s")
    return f"{number(float(drawn.answer))} {unit}".strip()


def asked_for(drawn: Drawn) -> str:
    """What form an answer takes: "a number, in GB/s, within 2%"."""
    question = drawn.question
    if question.kind is Kind.CHOICE:
        return "one of these statements"
    if question.kind is Kind.FORMULA:
        return f"a formula in {', '.join(question.variables or {})}"
    within = f", within {question.tolerance:.3g} of it" if 0 < question.tolerance < 0.01 else ""
    within = f", within {100 * question.tolerance:.3g}%" if question.tolerance >= 0.01 else within
    return f"a number{f', in {question.unit}' if question.unit else ''}{within or ', exactly'}"


def markdown(chapter: Chapter, drawn: Sequence[Drawn], *, answers: bool) -> str:
    """A chapter's questions as Markdown, for a sheet; `answers` adds the worked answers and the sources."""
    parts = [f"# Quiz: {chapter.title}"]
    for place, one in enumerate(drawn, 1):
        parts.append(f"**{place}. {_ended(one.question.title)}** {one.ask}")
        if one.options:
            parts.append("\n".join(f"* ({_LETTERS[n]}) {option.text}" for n, option in enumerate(one.options)))
        else:
            parts.append(f"*({asked_for(one)})*")
        if answers:
            sources = "; ".join(f"[{s.text}]({s.url})" if s.url else s.text for s in one.question.sources)
            parts.append(f"> **{answer_text(one)}** {one.worked}\n>\n> Source: {sources}".replace("\n\n", "\n>\n> "))
    return "\n\n".join(parts) + "\n"


def static_html(drawn: Sequence[Drawn]) -> str:
    """All questions with hint and answer folded: what a saved notebook shows."""
    parts = []
    for place, one in enumerate(drawn, 1):
        parts.append(question_html(place, one))
        if one.options:
            statements = "".join(f"<li>{inline(option.text)}</li>" for option in one.options)
            parts.append(f'<ol type="a">{statements}</ol>')
        else:
            parts.append(f"<p><i>{html.escape(asked_for(one))}</i></p>")
        parts.append(f"<details><summary>Hint</summary>{paragraphs(one.hint)}</details>")
        parts.append(f"<details><summary>Answer</summary>{worked_html(one)}</details>")
    return "\n".join(parts)


def question_html(place: int, drawn: Drawn) -> str:
    """The number, title and text of a question."""
    title = f"{place}. {inline(_ended(drawn.question.title))}"
    return f'<p style="margin-top:1.6em"><b>{title}</b></p>{paragraphs(drawn.ask)}'


def worked_html(drawn: Drawn) -> str:
    """The answer, how to come to it, and the sources."""
    sources = "; ".join(
        f'<a href="{html.escape(s.url)}">{html.escape(s.text)}</a>' if s.url else html.escape(s.text)
        for s in drawn.question.sources
    )
    return (
        f"<p><b>{inline(answer_text(drawn))}</b></p>{paragraphs(drawn.worked)}<p><small>Source: {sources}</small></p>"
    )


def _ended(title: str) -> str:
    return title if title.endswith(("?", "!")) else f"{title}."


def paragraphs(text: str) -> str:
    """Paragraphs of the bank's small Markdown as HTML."""
    return "".join(f"<p>{inline(part)}</p>" for part in re.split(r"\n\s*\n", text.strip()))


def inline(text: str) -> str:
    """The bank's small Markdown within a line, `code` and *stress*, as HTML; all else is escaped."""
    pieces = re.split(r"`([^`]*)`", text)
    for place, piece in enumerate(pieces):
        escaped = html.escape(" ".join(piece.split()) if place % 2 else re.sub(r"\s+", " ", piece), quote=False)
        pieces[place] = f"<code>{escaped}</code>" if place % 2 else re.sub(r"\*(\S[^*]*\S|\S)\*", r"<i>\1</i>", escaped)
    return "".join(pieces)
