"""Reads a submission's text: a stranger's file, which may be anything but a file."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from warplab.plan.capture.failure import CaptureFailure, CaptureStatus

MAX_SOURCE = 1 << 20  # bytes
_NO_WAITING = getattr(os, "O_NONBLOCK", 0)  # a FIFO without a writer is opened at once, and refused
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)


def read_source(path: Path) -> str:
    """The text of a regular file of at most MAX_SOURCE bytes, opened once; line ends become new lines.

    A symbolic link in its place, or in the place of the folder that holds it, is not followed: it could lead to the
    judge's own files. Raises CaptureFailure.
    """
    name = path.name
    linked = path if path.is_symlink() else path.parent if path.parent.is_symlink() else None
    if linked is not None:
        words = f"{linked} is a symbolic link, which is not followed: put the file itself in its place."
        raise CaptureFailure(CaptureStatus.NOT_PYTHON, words)
    try:
        descriptor = os.open(path, os.O_RDONLY | _NO_LINK | _NO_WAITING)
    except FileNotFoundError:
        raise CaptureFailure(CaptureStatus.NOT_FOUND, f"There is no file {path}.") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "its name is none"
        raise CaptureFailure(CaptureStatus.NOT_FOUND, f"{path} cannot be read: {reason}.") from None
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise CaptureFailure(CaptureStatus.NOT_PYTHON, f"{path} is {_sort(mode)}, not a Python file.")
    with open(descriptor, "rb") as file:
        try:
            data = file.read(MAX_SOURCE + 1)
        except OSError as error:
            raise CaptureFailure(CaptureStatus.NOT_FOUND, f"{path} cannot be read: {error.strerror}.") from None
    if len(data) > MAX_SOURCE:
        raise CaptureFailure(CaptureStatus.NOT_PYTHON, f"{name} is larger than {MAX_SOURCE >> 20} MiB.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise CaptureFailure(CaptureStatus.NOT_PYTHON, f"{name} is not a Python file: it is not UTF-8 text.") from None
    if "\0" in text:
        raise CaptureFailure(CaptureStatus.NOT_PYTHON, f"{name} is not a Python file: it contains null bytes.")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _sort(mode: int) -> str:
    for test, words in (
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISFIFO, "a named pipe"),
        (stat.S_ISCHR, "a device"),
        (stat.S_ISBLK, "a device"),
        (stat.S_ISSOCK, "a socket"),
    ):
        if test(mode):
            return words
    return "something else"
