"""Looks for hostile kernels, PTX and plan files that the emulator does not stand: a fuzzer.

Run as `python -m benchmarks.fuzz --minutes 60 --seed 1`; needs no GPU. Writes benchmarks/results/fuzz.json. A case
follows from the seed and its number: `--case NUMBER` runs one again. Crashes are kept in build/fuzz.

A crash is a process that dies, an error other than the project's own, memory or time beyond what a case may take, or a
byte written beside the emulator's memory, which lies between pages that nobody may touch.
"""

from __future__ import annotations

import argparse
import itertools
import os
import selectors
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from course import results

ROOT = Path(__file__).resolve().parent.parent
COMMAND = "python -m benchmarks.fuzz"
BATCH = 200  # cases of a process
SECONDS = 600.0  # that a case may take, and a process to start: some thousand times what either takes
VERDICTS = ("ran", "finding", "refused", "too large")


@dataclass(frozen=True)
class Crash:
    """A case that the emulator did not stand, and how it showed."""

    number: int
    kind: str
    what: str


@dataclass
class Tally:
    """What came of the cases."""

    verdicts: Counter[tuple[str, str]] = field(default_factory=Counter)  # by kind of case and verdict
    crashes: list[Crash] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def cases(self) -> int:
        """Cases that were run."""
        return self.verdicts.total() + len(self.crashes)


def _lines(process: subprocess.Popen[bytes]):
    """The lines of a process as they come; None when none has come for SECONDS."""
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        left = b""
        while True:
            if not selector.select(SECONDS):
                yield None
                return
            data = os.read(process.stdout.fileno(), 1 << 16)
            if not data:
                return
            *whole, left = (left + data).split(b"\n")
            yield from (line.decode("utf-8", "replace") for line in whole)


def _batch(seed: int, first: int, last: int, tally: Tally) -> int:
    """Run cases [first, last) in a process; returns the number of the first that is still to be run."""
    command = [sys.executable, "-m", "corpus.fuzzing.child", str(seed), str(first), str(last)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    running, what = -1, ""
    for line in _lines(process):
        if line is None:
            what = f"took more than {SECONDS:.0f} s"
            process.kill()
            break
        word, number, *rest = line.split(" ", 2)
        kind, _, said = "".join(rest).partition("|")
        running = int(number) if word == "start" else -1
        if word == "end":
            tally.verdicts[kind, said] += 1
        elif word == "crash":
            tally.crashes.append(Crash(int(number), kind, said))
    code = process.wait()
    if running < 0 and code == 0:
        return last
    if running < 0:
        raise RuntimeError(f"The process for cases {first} to {last - 1} ended with {code} between two cases.")
    tally.crashes.append(Crash(running, "", what or f"the process ended with {code}"))
    return running + 1


def fuzz(seed: int, cases: int | None = None, seconds: float = float("inf"), first: int = 0, workers: int = 1) -> Tally:
    """Run so many cases, or as many as the time is long enough for, by so many processes side by side."""
    tally, began = Tally(), time.monotonic()
    starts = itertools.count(first, BATCH)
    end = float("inf") if cases is None else first + cases

    def work(_: int) -> Tally:
        own = Tally()
        while (number := next(starts)) < end and time.monotonic() - began < seconds:
            last = int(min(number + BATCH, end))
            while number < last:
                number = _batch(seed, number, last, own)
        return own

    with ThreadPoolExecutor(workers) as pool:
        for own in pool.map(work, range(workers)):
            tally.verdicts += own.verdicts
            tally.crashes += own.crashes
    tally.seconds = time.monotonic() - began
    return tally


def keep(seed: int, crash: Crash, folder: Path) -> Path:
    """Write what a crash's case is made of, and how to run it again."""
    from corpus.fuzzing.cases import make

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{seed}-{crash.number}"
    path.with_suffix(".case").write_bytes(make(seed, crash.number).material)
    again = f"{COMMAND} --seed {seed} --case {crash.number}"
    path.with_suffix(".txt").write_text(f"{again}\n{crash.kind}: {crash.what}\n")
    return path.with_suffix(".txt")


def records(tally: Tally, seed: int) -> list[results.Record]:
    """The tally as records."""
    load = f"load {os.getloadavg()[2]:.0f} on {os.cpu_count()} processors"  # of the last quarter of an hour
    conditions = f"seed {seed}, guarded memory, sanitizers and counters on, processes of {BATCH} cases, {load}"
    found = [
        results.Record("fuzz", "time", tally.seconds, "s", conditions=conditions),
        results.Record("fuzz", "cases", tally.cases, "cases", conditions=conditions),
        results.Record("fuzz", "crashes", len(tally.crashes), "cases", conditions=conditions),
    ]
    for kind in sorted({kind for kind, _ in tally.verdicts}):
        for verdict in VERDICTS:
            found.append(results.Record(kind, verdict, tally.verdicts[kind, verdict], "cases", conditions=conditions))
    return found


def main(arguments: list[str] | None = None) -> int:
    """Fuzz, print, write the results file; 1 if there were crashes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1, help="processes side by side (default: %(default)s)")
    parser.add_argument("--case", type=int, help="run this case only, and write no results")
    given = parser.parse_args(arguments)
    if given.case is None:
        tally = fuzz(given.seed, seconds=60 * given.minutes, workers=given.workers)
        command = f"{COMMAND} --minutes {given.minutes:g} --seed {given.seed} --workers {given.workers}"
        results.write(results.DIRECTORY / "fuzz.json", results.make_header(command), records(tally, given.seed))
    else:
        tally = fuzz(given.seed, cases=1, first=given.case)
    print(f"{tally.cases} cases in {tally.seconds:.0f} s, {len(tally.crashes)} crashes")
    for (kind, verdict), count in sorted(tally.verdicts.items()):
        print(f"  {kind:15} {verdict:10} {count}")
    for crash in tally.crashes:
        print(f"  {crash.what} -> {keep(given.seed, crash, ROOT / 'build' / 'fuzz')}")
    return 1 if tally.crashes else 0


if __name__ == "__main__":
    sys.exit(main())
