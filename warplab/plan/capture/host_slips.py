"""Slips in host code that beginners make: what an exception of Python means, and the usual way to write it."""

from __future__ import annotations

import difflib
import re
from types import TracebackType

_SUBSCRIPTED = re.compile(r"'(function|CPUDispatcher)' object is not subscriptable")
_LAUNCH = re.compile(r"(\w+)\s*\[")
_UNDEFINED = re.compile(r"name '(\w+)' is not defined")


def host_slip(error: BaseException, line: str) -> str:
    """What an exception that `line` of a submission raised means, without a full stop; empty if it says it itself."""
    text = str(error)
    if isinstance(error, TypeError) and (m := _SUBSCRIPTED.search(text)):
        kernel = launched[1] if (launched := _LAUNCH.search(line)) else "the kernel"
        if m[1] == "CPUDispatcher":
            return f"'{kernel}' is compiled for the CPU: use @cuda.jit in place of @jit or @njit"
        return f"put @cuda.jit above '{kernel}', which makes a kernel of a function"
    if "matplotlib" in text.lower() and "matplotlib" in line:
        return "remove matplotlib: a submission runs where nothing can be drawn or written"
    if isinstance(error, NameError) and (m := _UNDEFINED.search(text)):
        near = difflib.get_close_matches(m[1], _names(error.__traceback__), 1)
        return f"'{m[1]}' is not defined" + (f": did you mean '{near[0]}'" if near else "")
    return ""


def _names(traceback: TracebackType | None) -> list[str]:
    """The names that the innermost frame knows."""
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    frame = traceback.tb_frame if traceback else None
    return [*frame.f_locals, *frame.f_globals] if frame else []
