"""A stranger's text, made fit to be shown: without controls, cut to a length."""

from __future__ import annotations

import unicodedata

_LONGEST_TEXT = 4000
_UNSEEN = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")  # controls, directions, surrogates, private use, line separators


def clean(text: str) -> str:
    """`text` without control and formatting characters (new lines stay), cut at a length that a report can show."""
    kept = "".join(c if c == "\n" or unicodedata.category(c) not in _UNSEEN else " " for c in text)
    return kept if len(kept) <= _LONGEST_TEXT else kept[:_LONGEST_TEXT] + " …"


def clean_source(text: str) -> str:
    """A submission's text, line by line as Python counts them, fit to be shown: cleaned, tabs expanded."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "\n".join(clean(line.expandtabs(4)) for line in lines)
