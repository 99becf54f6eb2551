"""Captures of a notebook: its kernel keeps the processes that make them, since imports take longer than a capture."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Sequence
from pathlib import Path

from warplab.plan.capture.several_process import CaptureProcess, CaptureProcesses
from warplab.plan.capture.submission import capture
from warplab.plan.model import HostCall, Plan

PROCESSES = CaptureProcesses()
_turn = threading.Lock()
atexit.register(PROCESSES.close)


def process_for(source: Path) -> CaptureProcess:
    """The process for captures of a file. A file that is missing has one too: its capture says so."""
    return PROCESSES.for_text(source.read_text(encoding="utf-8", errors="replace") if source.is_file() else "")


def captured(source: Path, calls: Sequence[HostCall], architecture: str) -> list[Plan]:
    """As `capture`, for one architecture."""
    with _turn:
        return capture(source, calls, (architecture,), process=process_for(source))
