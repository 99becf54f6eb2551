"""Captures of a notebook: one process makes all of them, since what a kernel imports takes longer than its capture."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Sequence
from pathlib import Path

from warplab.plan.capture.several_process import CaptureProcess
from warplab.plan.capture.submission import capture
from warplab.plan.model import HostCall, Plan

_kept: dict[bool, CaptureProcess] = {}  # by whether they import CuPy, which takes a second
_turn = threading.Lock()


def captured(source: Path, calls: Sequence[HostCall], architecture: str) -> list[Plan]:
    """As `capture`, for one architecture."""
    with _turn:
        with_cupy = "cupy" in source.read_text(encoding="utf-8")
        if with_cupy not in _kept:
            _kept[with_cupy] = CaptureProcess()
            atexit.register(_kept[with_cupy].close)
        return capture(source, calls, (architecture,), process=_kept[with_cupy])
