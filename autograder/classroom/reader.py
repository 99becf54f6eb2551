"""Opens hand-ins: in a sandboxed process, or in this one.

Files that end the process or exceed its limits cost their student alone: the next student gets a fresh process.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Self, TypeVar

import autograder
from autograder.classroom import unpacking
from warplab.worker.process import Sandbox, Worker, WorkerError, WorkerFault

SECONDS = 20.0  # for one student
MEMORY = 1 << 30
_MODULE = "autograder.classroom.unpacking"

_FORM = {"path": str, "content": bytes, "problem": str, "cell": str}  # of what `unpack` gives

T = TypeVar("T")


class Unreadable(Exception):
    """A student's files cannot be opened within what one student may take; the words say what happened."""


class Here:
    """Opens files in this process: for one's own, and inside of a platform's container."""

    def unpack(self, files: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return unpacking.unpack(files)

    def submitters(self, content: bytes) -> dict[str, dict[str, Any]]:
        try:
            return unpacking.submitters(content)
        except ValueError as error:
            raise Unreadable(str(error)) from None


class Confined(Here):
    """Opens archives, notebooks and YAML in a sandboxed process. Use as a context manager.

    The process is started when there is something to open.
    """

    def __init__(self) -> None:
        package = str(Path(autograder.__path__[0]))
        self._worker = Worker(
            Sandbox(packages=("autograder",), readable=(package,), memory=MEMORY, address_space=2 * MEMORY, file_size=0)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._worker.close()

    def unpack(self, files: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if all(file["path"].lower().endswith(".py") for file in files):
            return super().unpack(files)  # nothing is parsed
        found: list[dict[str, Any]] = self._call("unpack", list, files=files)
        if not all(isinstance(one, dict) and {key: type(one.get(key)) for key in _FORM} == _FORM for one in found):
            raise Unreadable("the answer is of no use")
        return found

    def submitters(self, content: bytes) -> dict[str, dict[str, Any]]:
        return self._call("submitters", dict, content=content)

    def _call(self, name: str, kind: Callable[..., T], **payload: Any) -> T:
        try:
            found = self._worker.call(f"{_MODULE}:{name}", timeout=SECONDS, **payload)
        except WorkerError as error:
            if error.status is WorkerFault.NOT_STARTED:
                raise
            words = {WorkerFault.TIMEOUT: f"they take more than {SECONDS:g} s", WorkerFault.ERROR: str(error)}
            raise Unreadable(words.get(error.status, f"they take more than {MEMORY >> 30} GiB")) from None
        if not isinstance(found, kind):  # type: ignore[arg-type]
            raise Unreadable("the answer is of no use")
        return found
