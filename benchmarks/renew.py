"""Lists which records are stale, and renews those that the machine at hand can: `python -m benchmarks.renew`.

A record is stale if the kernel's files have changed since it was measured, or are gone (course/sources.py). `--run`
renews stale records, the shortest benchmarks first, each command in a process of its own. What was renewed is current
the next time, so a run can be ended at any moment and goes on later; `--minutes` ends it in time.
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from benchmarks.table import BENCHMARKS, GPU, HOPPER, NOTHING, TWO_GPUS, Benchmark, table
from course import results
from course.results import Record, ResultsError, is_stale
from warplab.hardware import count, present

ROOT = results.DIRECTORY.parent.parent


@dataclass(frozen=True)
class State:
    """A benchmark's records on this kind of machine: those that are current, and those that are stale."""

    benchmark: Benchmark
    current: int
    stale: tuple[Record, ...]
    missing: bool  # one of its files is not there
    obstacle: str  # what the machine lacks; "" if it can run


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0; 1 if a command failed."""
    options = _parser().parse_args(arguments)
    if options.table:
        print(table())
        return 0
    states = [state_of(one) for one in BENCHMARKS]
    if not options.run:
        for line in listing(states):
            print(line)
        return 0
    return run(states, 60 * options.minutes)


def state_of(benchmark: Benchmark, obstacle: Callable[[Benchmark], str] | None = None) -> State:
    """Which of a benchmark's records are stale in the files of this machine's GPU."""
    current, stale, missing = 0, [], False
    gpu = present()
    for name in benchmark.writes:
        path = results.DIRECTORY / f"{name}.json"
        if gpu and benchmark.needs != NOTHING:
            path = results.of_gpu(path, gpu.name)
        try:
            records = results.read(path).records
        except ResultsError:
            missing = True
            continue
        old = [record for record in records if is_stale(path.stem, record)]
        stale += old
        current += len(records) - len(old)
    return State(benchmark, current, tuple(stale), missing, (obstacle or _obstacle)(benchmark))


def _obstacle(benchmark: Benchmark) -> str:
    gpu = present()
    if benchmark.needs in (GPU, HOPPER) and gpu is None:
        return "no GPU here"
    if benchmark.needs == HOPPER and gpu and gpu.compute_capability[0] != 9:
        return "no Hopper GPU here"
    if benchmark.needs == TWO_GPUS and count() < 2:
        return "needs two GPUs"
    absent = [name for name in benchmark.also if not (shutil.which(name) or importlib.util.find_spec(name.split()[-1]))]
    return f"needs {', '.join(absent)}" if absent else ""


def listing(states: Sequence[State]) -> Iterator[str]:
    """A line per benchmark."""
    for state in states:
        what = f"{len(state.stale)} stale, {state.current} current" + (", a file is missing" if state.missing else "")
        note = f"  ({state.obstacle})" if state.obstacle else f"  (about {state.benchmark.minutes:g} minutes)"
        yield f"{state.benchmark.command:34} {what}{note}"


def commands(state: State) -> list[str]:
    """What renews a benchmark's stale records: the whole command, or a part of it per record where it has parts."""
    benchmark = state.benchmark
    if benchmark.part is None or state.missing:
        return [benchmark.command]
    return [f"{benchmark.command} {part}" for part in dict.fromkeys(map(benchmark.part, state.stale))]


def run(states: Sequence[State], seconds: float, start: Callable[[str, float], int] | None = None) -> int:
    """Renew what is stale and can be, as long as there is time. Returns 1 if a command failed."""
    end, failed = time.monotonic() + seconds, 0
    due = [state for state in states if not state.obstacle and (state.stale or state.missing)]
    for state in sorted(due, key=lambda state: state.benchmark.minutes / max(1, len(commands(state)))):
        for command in commands(state):
            left = end - time.monotonic()
            if left <= 0:
                print("renew: the time is up; what is left is stale still.", flush=True)
                return failed
            print(f"renew: {command}", flush=True)
            if (start or _start)(command, left):
                print(f"renew: {command} did not finish; its records stay as they were.", flush=True)
                failed = 1
    return failed


def _start(command: str, seconds: float) -> int:
    """Run a command's module; results files are replaced whole, so it can be ended at any moment."""
    try:
        return subprocess.run([sys.executable, "-m", *command.split()], cwd=ROOT, timeout=seconds).returncode
    except subprocess.TimeoutExpired:
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.renew", description=__doc__)
    parser.add_argument("--run", action="store_true", help="renew what is stale (default: list it)")
    parser.add_argument("--minutes", type=float, default=20, help="when to end (default: 20)")
    parser.add_argument("--table", action="store_true", help="print the table of benchmarks/README.md")
    return parser


if __name__ == "__main__":
    sys.exit(main())
