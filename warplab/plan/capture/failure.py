"""How a capture can fail: a status that says what kind of mistake it was and one sentence for the student."""

from __future__ import annotations

from enum import StrEnum

from warplab.errors import WarplabError


class CaptureStatus(StrEnum):
    """The ways in which a submission fails before any kernel has run."""

    NOT_FOUND = "not found"  # no such file
    NOT_PYTHON = "not python"  # not text, or not a Python file
    SYNTAX_ERROR = "syntax error"
    IMPORT_ERROR = "import error"  # an exception while the file was imported
    NO_FUNCTION = "no function"  # nothing callable of the expected name
    ARGUMENT_MISMATCH = "argument mismatch"  # the host function takes other arguments
    HOST_ERROR = "host error"  # an exception in the host function
    TIMEOUT = "timeout"
    CRASHED = "crashed"  # the capture process died
    COMPILE_ERROR = "compile error"  # device code does not compile
    LAUNCH_ERROR = "launch error"  # a launch that no GPU would accept
    NO_LAUNCH = "no launch"  # the host function launched nothing
    NO_RECORDS = "no records"  # where records are asked for: the function returned something else
    UNSUPPORTED = "unsupported"  # a host API that has no meaning in a plan
    RESOURCES = "resources"  # too much memory, output or too many launches


class CaptureFailure(WarplabError):
    """A submission that cannot be turned into plans.

    `message` is one sentence for the student, without a traceback; `line` is the line of the submission it is about,
    or None when no line is to blame. `original` is what a compiler or Python said, where `message` puts it otherwise.
    """

    def __init__(self, status: CaptureStatus, message: str, line: int | None = None, original: str = "") -> None:
        super().__init__(message)
        self.original = original
        self.status = status
        self.message = message
        self.line = line
