"""When each step of one `autograder check` or `grade` is over: `python -m benchmarks.grade_timeline check FILE`.

The command runs in this process as it would in its own; functions at the ends of its steps are wrapped to note times.
The last line of standard output is a JSON object: seconds from the start of the process by step, in their order.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

CALLS = {  # of workers, and what is over when the last of them has returned
    "emulator_stage:warm_up": "the emulator is loaded",
    "gpu_stage:take": "the GPU has a context",
    "prepare_stage:prepare": "plans are decoded and assembled",
    "emulator_stage:run": "all cases are emulated",
    "gpu_stage:correctness": "all cases have run on the GPU",
    "gpu_stage:efficiency": "the stopwatch has stopped",
}


def _start_of_this_process() -> float:
    """On the clock of time.time (Linux)."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    up = float(Path("/proc/uptime").read_text().split()[0])
    return time.time() - (up - ticks / os.sysconf("SC_CLK_TCK"))


_OVER: dict[str, float] = {}


def _noting(owner: Any, name: str, step: Callable[..., str]) -> None:
    """Have a function note when it returns, as the end of what `step` says of its arguments, if of anything."""
    ordinary = getattr(owner, name)

    @functools.wraps(ordinary)
    def noting(*args: Any, **more: Any) -> Any:
        try:
            return ordinary(*args, **more)
        finally:
            if said := step(*args, **more):
                _OVER[said] = time.time()

    setattr(owner, name, noting)


def main() -> int:
    """Run the command, print the times, and return its exit code."""
    begin = _start_of_this_process()
    _OVER["Python runs"] = time.time()
    from autograder import __main__ as program
    from warplab.plan.capture import escape_probe

    _noting(escape_probe, "_tried_out", lambda: "the sandbox is tried out")
    _noting(program, "_command", lambda: "the command is over")
    imported = program._command

    def command() -> int:
        from autograder import cli
        from autograder.judge import pipeline
        from warplab.worker.process import Worker

        _OVER["the command is imported"] = time.time()
        _noting(cli, "choose_machine", lambda *args, **more: "the machine is chosen")
        _noting(pipeline, "capture_cases", lambda *args, **more: "all cases are captured")
        _noting(Worker, "call", lambda self, target, **more: CALLS.get(target.rpartition(".")[2], ""))
        return imported()

    program._command = command
    code = program.main()
    _OVER["processes are ended"] = time.time()
    print(json.dumps({step: at - begin for step, at in sorted(_OVER.items(), key=lambda item: item[1])}))
    return code


if __name__ == "__main__":
    sys.exit(main())
