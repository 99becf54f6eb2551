"""Slips of syntax: C's words in Python, and what Python's parser names a line too late."""

from __future__ import annotations

import re

_OF_C = (
    (re.compile(r"&&"), "write `and` for &&"),
    (re.compile(r"\|\|"), "write `or` for ||"),
    (re.compile(r"\belse\s+if\b"), "write `elif` for else if"),
    (
        re.compile(r"^\s*(?:const\s+)?(?:unsigned\s+)?(?:int|float|double|auto|size_t)\s+\w+\s*="),
        "Python declares no types: leave the type out",
    ),
    (re.compile(r"\+\+|--\s*[;)]|--$"), "write i += 1 for i++"),
    (
        re.compile(r"^\s*(?:for|if|while)\s*\(.*\)\s*\{"),
        "Python has no braces: end the line with a colon and indent what follows",
    ),
)


def syntax_slip(error: SyntaxError, text: str) -> tuple[int | None, str]:
    """The line to name, and what to write there, as a sentence; no words if Python's own are as good."""
    line = error.lineno
    lines = text.split("\n")
    if not line or line > len(lines):
        return line, ""
    if error.msg == "invalid syntax" or "Perhaps you forgot a comma" in error.msg:
        for pattern, words in _OF_C:
            if pattern.search(lines[line - 1].split("#")[0]):
                return line, f"{words}."
    return line, ""
