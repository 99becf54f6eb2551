"""Which labs a name that is none may mean."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

_MOST = 3


def meant(name: str, known: Sequence[str]) -> tuple[str, ...]:
    """The labs of `known`, named like 01_axpy, whose number, or a part of whose title, `name` has; else the nearest."""
    asked = re.sub(r"\W+", "_", name.strip().lower())
    number, title = _split(asked)
    named = {lab: _split(lab) for lab in known}
    fitting = [lab for lab, (_, words) in named.items() if title and (title in words or words in title)]
    if number is not None and not title:
        fitting = [lab for lab, (own, _) in named.items() if own == number]
    if not fitting:
        spelt = {words: lab for lab, (_, words) in named.items()}
        fitting = [spelt[found] for found in difflib.get_close_matches(title, spelt, 1)]
    return tuple(fitting[:_MOST])


def _split(name: str) -> tuple[int | None, str]:
    """The number that a name begins with, if it does, and what follows it."""
    match = re.match(r"(?:lab_?)?(\d+)_?", name)
    return (int(match.group(1)), name[match.end() :]) if match else (None, name)
