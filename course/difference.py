"""What changed from one rung of a ladder to the next, line by line, as a notebook shows it."""

from __future__ import annotations

import html
from collections.abc import Iterator
from difflib import SequenceMatcher

from IPython.display import HTML

from course.lesson import CODE_STYLE, Step
from warplab.figures import style

_AWAY, _CAME = style.ORANGE, style.GREEN


def difference(before: Step, after: Step) -> HTML:
    """The lines that two rungs differ in, those of `before` with a minus and those of `after` with a plus and its line.

    A line that was only indented counts as the same.
    """
    rows = "".join(_row(*change) for change in changes(before.text, after.text))
    names = f"{before.rung.name} to {after.rung.name}"
    return HTML(f'<div style="{CODE_STYLE};overflow-x:auto"><b>{html.escape(names)}</b>{rows}</div>')


def changes(before: str, after: str) -> Iterator[tuple[str, int, str]]:
    """Of two texts: '-' or '+', the number of the line in its own text, and the line."""
    old, new = before.splitlines(), after.splitlines()
    stripped = [line.strip() for line in old], [line.strip() for line in new]
    for kind, i, j, k, m in SequenceMatcher(None, *stripped, autojunk=False).get_opcodes():
        if kind != "equal":
            yield from (("-", n + 1, old[n]) for n in range(i, j) if old[n].strip())
            yield from (("+", n + 1, new[n]) for n in range(k, m) if new[n].strip())


def _row(sign: str, number: int, line: str) -> str:
    colour = _CAME if sign == "+" else _AWAY
    return (
        f'<div style="border-left:4px solid {colour};padding-left:8px;white-space:pre">'
        f"{number:>4} {sign} {html.escape(line)}</div>"
    )
