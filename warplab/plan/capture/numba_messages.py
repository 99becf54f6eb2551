"""Numba's compile errors, shortened to what a student can use: the compiler's own words and the line they are about."""

from __future__ import annotations

import re
from types import TracebackType
from typing import Any

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_SIGNATURE = re.compile(r">>>\s*(.+)")
_ARRAY = re.compile(r"No implementation of function Function\(<function (shared|local)\.array")
_SPECIFIC = re.compile(r"^[ \t]*+(?:Numba)?\w*Error: (.+)$", re.MULTILINE)
_LOCATION = re.compile(r'File "([^"\n]+)", line (\d{1,9})')
_NOISE = (
    "Failed in ",
    "During: ",
    'File "',
    "There are ",
    "- Of which",
    "The compiler failed to analyze the bytecode.",
    "<source elided>",
)
_MOST = 300


def shorten(error: BaseException, submission: str) -> tuple[str, int | None]:
    """The useful part of a compile error and the line of the submission, a file at path `submission`."""
    text = _ANSI.sub("", str(error))
    return _words(text, error).rstrip(". "), _line(text, error, submission)


def _words(text: str, error: BaseException) -> str:
    if "No conversion from" in text and "to none for" in text:
        return "a kernel cannot return a value, so write the result to an array"
    if m := _ARRAY.search(text):
        return (
            f"the shape of cuda.{m.group(1)}.array must be a constant, a number or a global that is one, and cannot be "
            "computed in the kernel; its dtype must be a type"
        )
    if "No implementation of function" in text and (m := _SIGNATURE.search(text)):
        found = f"Numba has no {m.group(1).strip()} on the GPU"
        specific = _SPECIFIC.search(text)
        return _cut(f"{found} ({specific.group(1).strip()})" if specific else found)
    for line in text.replace("The compiler failed to analyze the bytecode. ", "").splitlines():
        line = line.strip()
        if line and not line.startswith(_NOISE):
            return _cut(re.sub(r",? (?:defined at|Raised from) .*$", "", line))
    return type(error).__name__


def _cut(text: str) -> str:
    return text if len(text) <= _MOST else text[:_MOST] + "..."


def _line(text: str, error: BaseException, submission: str) -> int | None:
    name = submission.rsplit("/", 1)[-1]
    for m in _LOCATION.finditer(text):
        if m.group(1).rsplit("/", 1)[-1] == name:
            return int(m.group(2))
    location: Any = getattr(error, "loc", None)
    if getattr(location, "filename", None) == submission:
        return int(location.line)
    return _line_being_compiled(error.__traceback__, submission)


def _line_being_compiled(traceback: TracebackType | None, submission: str) -> int | None:
    """The line that the compiler was at: its passes hold the constraint or instruction they work on, with its place.

    Some typing errors lose their location on the way up, so their text alone does not have it.
    """
    line = None
    while traceback is not None:
        for name in ("constraint", "inst", "stmt", "self"):
            location: Any = getattr(traceback.tb_frame.f_locals.get(name), "loc", None)
            if getattr(location, "filename", None) == submission and location.line:
                line = int(location.line)
        traceback = traceback.tb_next
    return line
