"""Numba's compile errors, shortened to what a student can use: the compiler's own words and the line they are about."""

from __future__ import annotations

import re
from types import TracebackType
from typing import Any

from warplab.plan.capture.source import Source

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


def shorten(error: BaseException, source: Source) -> tuple[str, int | None]:
    """The useful part of a compile error and the line of the submission."""
    text = _ANSI.sub("", str(error))
    return _words(text, error).rstrip(". "), _line(text, error, source)


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


def _line(text: str, error: BaseException, source: Source) -> int | None:
    for m in _LOCATION.finditer(text):
        if line := source.line_in(m.group(1), int(m.group(2))):
            return line
    return _at(error, source) or _line_being_compiled(error.__traceback__, source)


def _at(located: Any, source: Source) -> int | None:
    """The line of what has a location of Numba's."""
    location: Any = getattr(located, "loc", None)
    file, line = getattr(location, "filename", None), getattr(location, "line", None)
    return source.line_in(file, int(line)) if file and line else None


def _line_being_compiled(traceback: TracebackType | None, source: Source) -> int | None:
    """The line that the compiler was at: its passes hold the constraint or instruction they work on, with its place.

    Some typing errors lose their location on the way up, so their text alone does not have it.
    """
    line = None
    while traceback is not None:
        for name in ("constraint", "inst", "stmt", "self"):
            line = _at(traceback.tb_frame.f_locals.get(name), source) or line
        traceback = traceback.tb_next
    return line
