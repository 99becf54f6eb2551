"""Kills processes of a class's runs: `python -m benchmarks.class_faults` adds Dask's to benchmarks/results/
class_faults.json, and `sh scripts/slurm_node.sh python -m benchmarks.class_faults --slurm` Slurm's. No GPU is needed.

A hundred times, at drawn moments, SIGKILL ends one of

* `run`: `autograder class` itself, which has Dask's scheduler in it, and writes the record,
* `worker`: a process of Dask's that grades, or with Slurm what its job started,
* `sandbox`: a capture or the confined worker of a submission.

A run that has ended is started again by the same command until everything has a grade. The record counts what is
written into it by a trigger: `recorded more than once` are grades that were written again, `lost` submissions without
a grade, `different` those whose verdict is another than the submission gets alone, `left` processes that still run.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from autograder.classroom.intake import read_class
from autograder.classroom.ledger import RECORD, Ledger
from autograder.spec.lab import CHECKOUT
from benchmarks import known_class
from benchmarks.known_class import Kind
from course import results
from course.results import Record

COMMAND = {
    "dask": "python -m benchmarks.class_faults",
    "slurm": "sh scripts/slurm_node.sh python -m benchmarks.class_faults --slurm",
}
FILE = results.DIRECTORY / "class_faults.json"
LAB = "01_axpy"
SORTS = ("run", "worker", "sandbox")
FAULTS, SUBMISSIONS = 100, 50
# Of each sort until the next grade is there: what a capture, a worker's call and a submission bear is three.
MOST = {"run": 2, "worker": 2, "sandbox": 1}
_PAUSE = (0.0, 2.0)  # seconds between two faults
_END_SECONDS = 120.0  # until what a killed run has left notices it
_SANDBOX = ("warplab.worker.process", "warplab-capture-")
_TRIGGER = """
CREATE TABLE kept (submission INTEGER NOT NULL);
CREATE TRIGGER count_kept AFTER INSERT ON grade BEGIN INSERT INTO kept VALUES (NEW.submission); END;
"""
_TWICE = "SELECT student FROM kept JOIN submission ON id = submission GROUP BY id HAVING count(*) > 1"
_SLURM = """
[slurm]
folder = "{folder}/jobs"
jobs = 2
partition = "labs"
processors = 1
memory = "4GB"
time = "01:00:00"
"""


@dataclass
class Faults:
    """What was killed and what came of it."""

    killed: Counter[str] = field(default_factory=Counter)
    runs: int = 0
    lost: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    different: list[str] = field(default_factory=list)
    left: int = 0


def descendants(*ancestors: int) -> dict[int, str]:
    """The processes below some others, each with its command line (Linux)."""
    parents, commands = {}, {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError):
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            commands[int(entry.name)] = (entry / "cmdline").read_bytes().decode(errors="replace")
    below, found = set(ancestors), dict[int, str]()
    for _ in range(len(parents)):
        more = {one for one, parent in parents.items() if parent in below and one not in below}
        if not more:
            break
        below |= more
        found |= {one: commands[one] for one in more if one in commands}
    return found


def tasks() -> dict[str, Kind]:
    """Who hands in what: short submissions that fail in every way, and right ones."""
    reference = next(one for one in known_class.references(LAB) if one.name.endswith("_cuda.py"))
    wrong = {Path(one.name).stem: one for one in known_class.corpus("wrong", LAB)}
    function = known_class.function(LAB)
    texts = {"raises": f"def {function}(*arguments):\n    return 1 // 0\n", "is no Python": f"deff {function}()\n"}
    kinds = [reference, wrong["blocks_overlap"], *(Kind("wrong", LAB, name, text) for name, text in texts.items())]
    kinds += [wrong["constant_output"], *known_class.corpus("correct", LAB)[-1:]]
    return {f"student_{number:02}": kinds[number % len(kinds)] for number in range(SUBMISSIONS)}


class Class:
    """A class in a folder, whose runs are started and killed."""

    def __init__(self, folder: Path, students: dict[str, Kind], slurm: bool) -> None:
        self.folder, self.students, self.slurm = folder, students, slurm
        self.out = folder / "out"
        known_class.hand_in(folder / "class", students)
        with Ledger(self.out / RECORD) as ledger:
            ledger.take_in(read_class(folder / "class").handed_in)
        with closing(sqlite3.connect(self.out / RECORD)) as database:
            database.executescript(_TRIGGER)
        (folder / "slurm.toml").write_text(_SLURM.format(folder=folder))
        self._seen: set[tuple[int, str]] = set()

    def start(self) -> subprocess.Popen[bytes]:
        """Start a run."""
        way = ["--slurm", str(self.folder / "slurm.toml")] if self.slurm else ["--processes", "2"]
        command = known_class.command(self.folder / "class", self.out, *way)
        with (self.folder / "said").open("ab") as said:
            return subprocess.Popen(
                command, cwd=CHECKOUT, env=known_class.environment(), stdout=said, stderr=said, start_new_session=True
            )

    def victims(self, run: int, sort: str) -> list[int]:
        """The processes of a sort that could be killed now; a run in the middle of its work, not while it starts."""
        jobs = _with_words(f"{self.folder}/jobs", "dask_worker") if self.slurm else []
        below = descendants(run, *jobs)
        self._seen |= {(one, start) for one in (*below, *jobs) if (start := _start_of(one))}
        sandboxes = [one for one, words in below.items() if any(word in words for word in _SANDBOX)]
        if sort == "sandbox":
            return sandboxes
        if sort == "run":
            return [run] if sandboxes else []
        return [*jobs, *(one for one, words in below.items() if "spawn_main" in words)]

    def graded(self) -> int:
        """How many have a grade, read from a copy: a run keeps the record to itself."""
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            for suffix in ("", "-wal"):
                with suppress(FileNotFoundError):
                    shutil.copyfile(f"{self.out / RECORD}{suffix}", Path(name, RECORD + suffix))
            with closing(sqlite3.connect(Path(name, RECORD))) as database:
                return database.execute("SELECT count(*) FROM grade").fetchone()[0]

    def left(self) -> int:
        """How many processes of all runs are still there after a while."""
        deadline = time.monotonic() + _END_SECONDS
        while (alive := sum(_start_of(one) == start for one, start in self._seen)) and time.monotonic() < deadline:
            time.sleep(0.5)
        return alive


def run(folder: Path, faults: int, students: dict[str, Kind], slurm: bool = False, seed: int = 2025) -> Faults:
    """Grade a class in `folder` through `faults` killed processes, spread over its submissions."""
    draw, done, during = random.Random(seed), Faults(), Counter[tuple[str, int]]()
    made = Class(folder, students, slurm)
    process, due = made.start(), time.monotonic()
    done.runs = 1
    while (graded := made.graded()) < len(students) or process.poll() is None:
        if process.poll() is not None:
            process = made.start()
            done.runs += 1
        wanted = min(faults, faults * (graded + 1) / len(students))
        fewest = min(done.killed[sort] for sort in SORTS)
        sort = draw.choice([sort for sort in SORTS if done.killed[sort] == fewest])
        if done.killed.total() < wanted and time.monotonic() >= due and during[sort, graded] < MOST[sort]:
            victims = made.victims(process.pid, sort)
            if victims:
                with suppress(ProcessLookupError):
                    os.kill(draw.choice(sorted(victims)), signal.SIGKILL)
                    done.killed[sort] += 1
                    during[sort, graded] += 1
                due = time.monotonic() + draw.uniform(*_PAUSE)
        time.sleep(0.1)
    found = known_class.lines(made.out)
    done.lost = [student for student in students if student not in found or not found[student].status]
    with closing(sqlite3.connect(made.out / RECORD)) as database:
        done.twice = [str(row[0]) for row in database.execute(_TWICE)]
    done.different = known_class.differences(students, made.out)
    done.left = made.left()
    return done


def records(way: str, done: Faults, submissions: int) -> Iterator[Record]:
    """A record a number; all but the first should be zero."""
    extra = {"by_sort": dict(done.killed), "runs": done.runs, "submissions": submissions}
    yield Record("class", "killed processes", done.killed.total(), "processes", way, extra=extra)
    yield Record("class", "lost", len(done.lost), "submissions", way)
    yield Record("class", "recorded more than once", len(done.twice), "submissions", way)
    yield Record("class", "different", len(done.different), "submissions", way, extra={"who": done.different})
    yield Record("class", "left", done.left, "processes", way)


def _start_of(process: int) -> str:
    """When a process started, which tells it from a later one of its number; empty if it is gone (Linux)."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]


def _with_words(*words: str) -> list[int]:
    """The processes with all of these words in their command line (Linux)."""
    return [one for one, command in descendants(1).items() if all(word in command for word in words)]


def main() -> int:
    """Kill, say what came of it and write; 1 if anything was lost, recorded again, different or left."""
    parser = argparse.ArgumentParser(description="Kill processes of a class's runs.")
    parser.add_argument("--slurm", action="store_true", help="grade in jobs of Slurm")
    way = "slurm" if parser.parse_args().slurm else "dask"
    header = results.make_header(COMMAND[way])
    students = tasks()
    with tempfile.TemporaryDirectory(prefix="warplab-faults-") as name:
        found = list(records(way, run(Path(name), FAULTS, students, way == "slurm"), len(students)))
    for record in found:
        print(f"{record.variant}: {record.metric}: {record.value:g} {record.extra}")
    results.write(FILE, header, found, merge=True)
    print(f"Written: {FILE}")
    return int(any(record.value for record in found[1:]))


if __name__ == "__main__":
    sys.exit(main())
