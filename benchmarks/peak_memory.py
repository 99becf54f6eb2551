"""The memory that the emulator needs for a plan: `python -m benchmarks.peak_memory PLAN WORKERS`, a process for each.

Prints one JSON object: `buffers`, the bytes of the plan's buffers, and `needed`: by how many bytes the largest resident
set of the process grew over that of one that has only imported NumPy. It holds inputs, emulator and outputs.
"""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np

ALLOWANCE = 200e6  # bytes beside three for each byte of the plan's buffers
FACTOR = 3


def _peak() -> int:
    """The largest resident set so far. Where Linux keeps it, not what getrusage says: that starts with the parent's."""
    status = Path("/proc/self/status")
    if status.exists():
        return 1024 * int(re.findall(r"VmHWM:\s+(\d+)", status.read_text())[0])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def measure(plan: Path, workers: int | None = None) -> dict[str, int]:
    """What a fresh process prints about a saved plan, run by so many workers of `execute`. Raises RuntimeError.

    The emulator is compiled before, if it was not: that happens once on a machine and takes more memory.
    """
    from warplab.emulator import compiled
    from warplab.hardware.processors import usable_processors

    compiled.vectors(), compiled.loop()
    command = [sys.executable, "-m", "benchmarks.peak_memory", str(plan), str(workers or usable_processors())]
    run = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).resolve().parent.parent)
    if run.returncode:
        raise RuntimeError(f"measuring the memory of {plan} failed: {run.stderr.strip().splitlines()[-1:]}")
    return json.loads(run.stdout)


def bound(buffers: int) -> float:
    """The most bytes that the emulator may need, inputs and outputs included."""
    return FACTOR * buffers + ALLOWANCE


def _main(path: str, workers: int) -> None:
    before = _peak()
    from warplab.emulator import execute
    from warplab.plan.archive import load
    from warplab.plan.model import Role

    plan = load(Path(path))
    inputs = {name: np.ones(b.shape, b.dtype) for name, b in plan.buffers.items() if b.role in (Role.INPUT, Role.INOUT)}
    execution = execute(plan, inputs, workers=workers)
    if execution.findings:
        raise SystemExit(execution.findings[0].message)
    buffers = sum(b.nbytes for b in plan.buffers.values())
    print(json.dumps({"buffers": buffers, "needed": _peak() - before}))


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]))
