"""Submissions given as text, with a host function f(y) for 64 float32: captured, through a plan's file, and run."""

from __future__ import annotations

from pathlib import Path

from warplab.emulator import execute
from warplab.plan.archive import dumps, loads
from warplab.plan.capture.submission import capture
from warplab.plan.execution import Execution
from warplab.plan.model import ArrayArgument, HostCall, Plan, Role

N = 64
HEAD = """
import cupy as cp
import numpy as np
from numba import cuda
"""


def grab(text: str, folder: Path) -> Plan:
    """The plan of `f(y)`, y of N float32, as it comes back from its file."""
    path = folder / "submission.py"
    path.write_text(HEAD + text)
    (plan,) = capture(path, [HostCall("f", (ArrayArgument("y", "float32", (N,), Role.OUTPUT),))])
    return loads(dumps(plan))


def run(text: str, folder: Path) -> Execution:
    execution = execute(grab(text, folder), {})
    assert execution.findings == ()
    return execution
