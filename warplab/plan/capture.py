"""Turns a submission into plans: runs its host code in a bounded child process without a GPU.

`isolation` says how far that process is kept from the machine, `confinement` what it may use, `child_process` starts
and ends it. Whatever the isolation, nothing that it answers is trusted.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from warplab.plan import breakout, child_process
from warplab.plan.failure import CaptureFailure, CaptureStatus
from warplab.plan.isolation import Isolation
from warplab.plan.limits import limits_of
from warplab.plan.model import HostCall, Plan
from warplab.plan.protocol import Request, decode_response

MAX_SOURCE = 1 << 20  # bytes


def capture(
    source: Path,
    calls: Sequence[HostCall],
    architectures: Sequence[str] = ("sm_90a",),
    *,
    timeout: float = 60.0,
    isolation: Isolation | None = None,
) -> list[Plan]:
    """Capture a submission: one plan for each call, with PTX for each architecture.

    The file is imported once in a child process and its host function called once for each of `calls`, with arrays
    that have a shape, a dtype and strides but no contents. No GPU is needed or visible. `timeout` is in seconds, for
    all of it; `isolation` is the strongest that this machine has, unless one is named. Raises CaptureFailure with what
    went wrong, CaptureFault if the process could not be started, and PlanError for an unknown architecture.
    """
    for architecture in architectures:
        limits_of(architecture)
    text = _read(Path(source))
    request = Request(text, Path(source).name, tuple(calls), tuple(architectures), int(timeout) + 5)
    answer = child_process.run(request, isolation or breakout.strongest(), timeout)
    return decode_response(answer, request)


def _read(path: Path) -> str:
    name = path.name
    try:
        with open(path, "rb") as f:
            data = f.read(MAX_SOURCE + 1)
    except FileNotFoundError:
        raise CaptureFailure(CaptureStatus.NOT_FOUND, f"There is no file {path}.") from None
    except IsADirectoryError:
        raise CaptureFailure(CaptureStatus.NOT_PYTHON, f"{path} is a folder, not a Python file.") from None
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
