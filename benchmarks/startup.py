"""Measures how long a learner waits: `python -m benchmarks.startup` writes benchmarks/results/startup.json. No GPU.
With `--gpu`: how long `autograder grade` takes on this machine's, in startup_gpu.json.

Everything is measured in processes of its own with a cache folder of its own: first with nothing compiled, then warm;
and at last in a clone of what is committed, where nothing is installed. The machine should have nothing else to do.
`step` is what a person would call it; wall seconds. A loop of Python, timed first, says how fast the machine is.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from autograder.cli import FULL_MARKS, NOT_FULL_MARKS
from autograder.spec.lab import CHECKOUT, SUBMISSION_NAMES, kernel_labs, solutions_folder
from course import results
from course.results import Record
from warplab.emulator.compiled import Piece

COMMAND = "python -m benchmarks.startup"
LABS = tuple(name for name in kernel_labs() if name < "07")
FOLLOWED = ("01_axpy/submission_cuda", "05_softmax/submission")  # whose steps are timed one by one
PROCESSORS = f"{os.cpu_count()} processors"
REPEATS = 3
CLONE_STEPS = ("venv", "grade", "lint", "test")  # targets of make, in the order in which they are called
_COMPILE = "from warplab.emulator.compiled import compile_parts; compile_parts({parts})"
_CHANGED = {  # a file of the core for each part, of which a line is changed
    Piece.LOOP: "interpreter.py",
    Piece.ARITHMETIC: "alu/floats.py",
    Piece.BULK: "asynchronous/bulk_copies.py",
    Piece.WGMMA: "tensor/wgmma.py",
    Piece.TCGEN05: "tensor_memory/product.py",
}
_LOOP = "for i in range(20_000_000): pass"
# As a notebook's first cell with a timeline does: a kernel is captured, run on the emulator, one block recorded.
_TRACED = """
import sys
from pathlib import Path
import numpy as np
from autograder.own_work import capture_submission
from autograder.spec.inputs import generate
from autograder.spec.lab import find_lab
from warplab.emulator import profile
lab = find_lab("03_transpose")
case = lab.task.profile
plan = capture_submission(lab, Path(sys.argv[1]), [case], 1, "sm_90a").plans[case.name]
values = generate(np, lab.task, case, 1)
print(len(profile(plan, {name: values[name] for name in plan.buffers if name in values}).timeline().issues))
"""


def main() -> None:
    """Measure and write; if a step fails, what was measured before it is kept."""
    gpu = sys.argv[1:] == ["--gpu"]
    path = results.DIRECTORY / ("startup_gpu.json" if gpu else "startup.json")
    header = results.make_header(f"{COMMAND} --gpu" if gpu else COMMAND)
    records: list[Record] = []
    with tempfile.TemporaryDirectory(prefix="warplab-startup-") as folder:
        for record in (grades if gpu else measure)(Path(folder)):
            records.append(record)
            results.write(path, header, records)
    print(f"Written: {path}")


def measure(cache: Path) -> Iterator[Record]:
    """Every step in turn; the later ones find what the earlier ones have compiled."""
    conditions = f"{PROCESSORS}, nothing compiled"
    yield yardstick(cache)
    solution = str(solutions_folder() / "03_transpose" / "submission.py")
    fresh = cache / "fresh"
    yield _record("first check, nothing compiled ahead", [_check(solution, fresh)], conditions)
    ahead = cache / "ahead"
    yield _record("compile ahead, as set-up does", [_compile(ahead)], conditions)
    yield from _parts(cache)
    yield _record("first check after set-up", [_check(solution, ahead)], PROCESSORS)
    traced = _seconds([sys.executable, "-c", _TRACED, solution], ahead)
    yield _record("first traced cell after set-up, imports included", [traced], PROCESSORS)
    yield from _warm("check", ahead)
    yield from _warm("check", ahead, rungs=True)
    yield from _timelines("check", ahead)
    yield from _clone_steps(cache)


def yardstick(cache: Path) -> Record:
    """20 million rounds of nothing in Python, the start of the process included."""
    times = [_seconds([sys.executable, "-c", _LOOP], cache) for _ in range(REPEATS)]
    return _record("20 million rounds of an empty loop in Python", times, PROCESSORS)


def _parts(folder: Path) -> Iterator[Record]:
    """Each part compiled alone with nothing kept, and then with a changed line, in a copy of the package."""
    copy = folder / "copy"
    shutil.copytree(CHECKOUT / "warplab", copy / "warplab", ignore=shutil.ignore_patterns("__pycache__"))
    for part, name in _CHANGED.items():
        cache = folder / f"part_{part}"
        yield _record("compile a part", [_compile(cache, part, copy)], f"{PROCESSORS}, nothing compiled", part)
        file = copy / "warplab" / "emulator" / "core" / name
        file.write_text(file.read_text() + "\n_CHANGED = 1\n")
        yield _record("compile a part after a changed line", [_compile(cache, part, copy)], PROCESSORS, part)


def _compile(cache: Path, part: str = "", place: Path = CHECKOUT) -> float:
    """Seconds that compiling a part takes, or all of them."""
    return _seconds([sys.executable, "-c", _COMPILE.format(parts=f"[{str(part)!r}]" if part else "")], cache, place)


def grades(cache: Path) -> Iterator[Record]:
    """Grades of the first labs' references, the stopwatch and all, after one that compiles."""
    yield yardstick(cache)
    _compile(cache)
    yield from _warm("grade", cache)
    yield from _timelines("grade", cache)


def _warm(verb: str, cache: Path, rungs: bool = False) -> Iterator[Record]:
    """Of references, or of the rungs that lead to them, which are more like what learners write."""
    for lab in LABS:
        folder = solutions_folder() / lab
        for path in sorted(folder.glob("rung_*.py")) if rungs else [folder / name for name in SUBMISSION_NAMES]:
            if path.exists():
                command = [sys.executable, "-m", "autograder", verb, str(path)]
                codes = (FULL_MARKS, NOT_FULL_MARKS) if rungs else (FULL_MARKS,)
                times = [_seconds(command, cache, codes=codes) for _ in range(1 + REPEATS)][1:]
                yield _record(f"{verb}, warm", times, PROCESSORS, f"{lab}/{path.stem}")


def _timelines(verb: str, cache: Path) -> Iterator[Record]:
    """When each step of some warm runs is over, counted from their start."""
    for name in FOLLOWED:
        command = [sys.executable, "-m", "benchmarks.grade_timeline", verb, str(solutions_folder() / f"{name}.py")]
        runs = [json.loads(_output(command, cache).splitlines()[-1]) for _ in range(REPEATS)]
        for step in runs[0]:
            yield _record(f"{verb}, warm, until {step}", [run[step] for run in runs], PROCESSORS, name)


def _clone_steps(folder: Path) -> Iterator[Record]:
    """The first minutes of a fresh clone with empty caches, packages fetched anew, and what a contributor waits for."""
    clone = folder / "clone"
    conditions = f"{PROCESSORS}, a fresh clone, packages fetched"
    steps = [("git clone", ["git", "clone", "--quiet", str(CHECKOUT), str(clone)], CHECKOUT)]
    steps += [(f"make {step}", ["make", step], clone) for step in CLONE_STEPS]
    for step, command, place in steps:
        yield _record(step, [_seconds(command, folder / "of_clone", place)], conditions)


def _check(path: str, cache: Path) -> float:
    return _seconds([sys.executable, "-m", "autograder", "check", path], cache)


def _seconds(command: list[str], cache: Path, place: Path = CHECKOUT, codes: Sequence[int] = (FULL_MARKS,)) -> float:
    """Wall seconds of a command in a checkout with this cache folder. Ends the program if its exit code is another."""
    start = time.perf_counter()
    _output(command, cache, place, codes)
    return time.perf_counter() - start


def _output(command: list[str], cache: Path, place: Path = CHECKOUT, codes: Sequence[int] = (FULL_MARKS,)) -> str:
    """What a command prints; as for `_seconds`."""
    environment = {**os.environ, "WARPLAB_CACHE": str(cache), "PYTHONPATH": str(place), "PIP_NO_CACHE_DIR": "1"}
    run = subprocess.run(command, env=environment, cwd=place, capture_output=True, text=True)
    if run.returncode not in codes:
        sys.exit(f"{' '.join(command)} ended with {run.returncode}: {(run.stdout + run.stderr).strip()[-2000:]}")
    return run.stdout


def _record(step: str, times: list[float], conditions: str, variant: str = "") -> Record:
    print(f"{step} {variant}: {statistics.median(times):.2f} s", flush=True)
    interval = (min(times), max(times)) if len(times) > 1 else None
    return Record(
        step, "time", statistics.median(times), "s", variant=variant, interval=interval, conditions=conditions
    )


if __name__ == "__main__":
    main()
