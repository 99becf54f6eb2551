"""Numba's compile errors, shortened to what a student can use: the compiler's own words and the line they are about."""

from __future__ import annotations

import re
from types import TracebackType
from typing import Any

from warplab.plan.capture.of_numba.slips import slip_in, slip_of_words
from warplab.plan.capture.source import Source

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_SIGNATURE = re.compile(r">>>\s*(.+)")
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
_MOST = 300  # characters of a sentence
_MOST_OF_THE_ORIGINAL = 2000


def explained(error: BaseException, source: Source, kernel: str, definition: int) -> tuple[str, int, str]:
    """A compile error as one sentence, the line of the submission, and the compiler's own words.

    `definition` is the line of the kernel, for an error that has none.
    """
    text = _ANSI.sub("", str(error))
    line = _line(text, error, source) or definition
    original = _cut(text.strip(), _MOST_OF_THE_ORIGINAL)
    function = source.function_at(line)
    if function is not None and (slip := slip_in(function)):
        return f"{slip[0]}.", slip[1], original
    words = slip_of_words(text, function)
    if words:
        return f"{words.rstrip('?.')}{'?' if words.endswith('?') else '.'}", line, original
    return f"The kernel '{kernel}' does not compile: {_words(text, error).rstrip('. ')}.", line, original


def _words(text: str, error: BaseException) -> str:
    if "No implementation of function" in text and (m := _SIGNATURE.search(text)):
        found = f"Numba has no {m.group(1).strip()} on the GPU"
        specific = _SPECIFIC.search(text)
        return _cut(f"{found} ({specific.group(1).strip()})" if specific else found)
    for line in text.replace("The compiler failed to analyze the bytecode. ", "").splitlines():
        line = line.strip()
        if line and not line.startswith(_NOISE):
            return _cut(re.sub(r",? (?:defined at|Raised from) .*$", "", line))
    return type(error).__name__


def _cut(text: str, most: int = _MOST) -> str:
    return text if len(text) <= most else text[:most] + "..."


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
