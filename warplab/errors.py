"""The exceptions that a user can meet: each message is one sentence that says what, where and what to do."""

from __future__ import annotations


class WarplabError(Exception):
    """Base of every error that Warplab raises on purpose; its text is shown to the user as it stands."""


class PlanError(WarplabError):
    """A plan file is damaged, of another version, or does not fit together."""


class CompileError(WarplabError):
    """Device code that does not compile or assemble; carries the student's line, and what the assembler said of it."""

    def __init__(self, message: str, line: int | None = None, original: str = "") -> None:
        super().__init__(message)
        self.line = line
        self.original = original


class DeviceError(WarplabError):
    """No usable GPU, or the GPU refused: no driver, wrong architecture, out of memory."""
