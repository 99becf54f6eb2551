"""Runs cases of a seed, one after the other: `python -m corpus.fuzzing.child SEED FIRST LAST`.

Prints a line before and a line after each: "start NUMBER" and "end NUMBER KIND VERDICT". Whatever is no verdict of the
project's own is a line "crash NUMBER WHAT"; a process that dies has printed no "end".
"""

from __future__ import annotations

import gc
import resource
import sys
import traceback

from corpus.fuzzing import cases
from corpus.fuzzing.guard import guarded
from warplab.emulator import execute
from warplab.errors import WarplabError
from warplab.plan.model import Plan

MEMORY = 8 << 30  # bytes of address space
BUDGET = 20_000  # warp instructions of a launch
LARGEST_BUFFERS = 64 << 20  # bytes; a damaged file may ask for more than this process has


def run(case: cases.Case) -> str:
    """The verdict on a case: "refused", "finding" or "ran". Lets everything escape that is no error of the project."""
    try:
        plan = case.plan()
        if sum(buffer.nbytes for buffer in plan.buffers.values()) > LARGEST_BUFFERS or _is_large(plan):
            return "too large"
        with guarded():
            execution = execute(
                plan, cases.inputs(plan), instruction_budget=BUDGET, seed=case.seed, workers=case.workers
            )
    except WarplabError:
        return "refused"
    return "finding" if execution.findings else "ran"


def _is_large(plan: Plan) -> bool:
    """Would the blocks alone take minutes? A damaged file may ask for two thousand million of them."""
    return any(x * y * z > 10_000 for x, y, z in (launch.grid for launch in plan.launches)) or len(plan.launches) > 100


def main(seed: int, first: int, last: int) -> None:
    """Run cases [first, last) of a seed."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in range(first, last):
        print("start", number, flush=True)
        case = cases.make(seed, number)
        try:
            print("end", number, f"{case.kind}|{run(case)}", flush=True)
        except BaseException:
            text = " / ".join(line.strip() for line in traceback.format_exc().splitlines()[-7:])
            print("crash", number, f"{case.kind}|{text}", flush=True)
        gc.collect()


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:4]))
