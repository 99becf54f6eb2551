"""How many processors this process may use, and what they are called."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def usable_processors() -> int:
    """Those that the process is bound to, where the system says; else all."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processor() -> str:
    """The processor's name as the system gives it; its architecture where it gives none."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()
