"""Measures the search for races in global memory: `python -m benchmarks.races` writes benchmarks/results/races.json.

No GPU. What is planted in the corpus and found, and what the search costs: each kernel with it and without it, in
turns, on one core, with all other sanitizers on.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from unittest import mock

import numpy as np

from autograder.spec.lab import SUBMISSION_NAMES, kernel_labs, solutions_folder
from benchmarks import bench_emulator
from corpus.emulator.global_races import PAIRS
from corpus.emulator.plans import assemble_file
from course import results
from course.results import Record
from warplab import emulator
from warplab.emulator.races import CellMap
from warplab.plan.model import Plan

COMMAND = "python -m benchmarks.races"
ARCHITECTURE = "sm_90a"
BUDGET = 200_000  # warp instructions of a planted kernel
TURNS = 7


def main() -> None:
    """Measure, print a line each, write the results file."""
    records = [*planted(), *costs()]
    path = results.DIRECTORY / "races.json"
    results.write(path, results.make_header(COMMAND), records)
    print(f"Written: {path}")


def planted() -> Iterator[Record]:
    """Of the corpus' pairs: in how many the race is found and rightly named, and how many mended twins are accused."""
    named = accused = 0
    for file in sorted({pair.file for pair in PAIRS}):
        pairs = [pair for pair in PAIRS if pair.file == file]
        plans = assemble_file([*pairs, *(pair.mended for pair in pairs)], ARCHITECTURE)
        for pair in pairs:
            faulty, mended = (
                emulator.execute(plans[p.name], p.draw(), architecture=ARCHITECTURE, instruction_budget=BUDGET).findings
                for p in (pair, pair.mended)
            )
            named += any(f.kind is pair.kind and f"({sort})" in f.message for f in faulty for sort in pair.sorts)
            accused += bool(mended)
    conditions = f"{len(PAIRS)} pairs of the corpus"
    print(f"{named} of {len(PAIRS)} found and named, {accused} twins accused", flush=True)
    yield Record("planted races, found and rightly named", "count", named, "1", conditions=conditions)
    yield Record("mended twins that are accused", "count", accused, "1", conditions=conditions)


def costs() -> Iterator[Record]:
    """How many times as long a kernel takes with the search as without."""
    for name, plan, inputs in _kernels():
        with_it, without = _seconds(plan, inputs)
        print(f"{name:40} {with_it / without:.2f}", flush=True)
        yield Record(
            name, "time with the search over time without", with_it / without, "1",
            conditions=f"one core, the median of {TURNS} turns each",
        )  # fmt: skip


def _kernels() -> Iterator[tuple[str, Plan, dict[str, np.ndarray]]]:
    yield from bench_emulator.plans()
    yield from bench_emulator.scattered_plans()
    for lab in kernel_labs():
        for file in SUBMISSION_NAMES:
            if (solutions_folder() / lab / file).exists():
                yield (f"{lab}/{file.removesuffix('.py')}", *bench_emulator.reference(lab, file))


def _seconds(plan: Plan, inputs: dict[str, np.ndarray]) -> tuple[float, float]:
    """Seconds with the search and without it, in turns."""
    times: dict[bool, list[float]] = {True: [], False: []}
    architecture = next(iter(next(iter(plan.kernels.values())).ptx))
    for turn in range(2 * TURNS + 2):
        searched = turn % 2 == 0
        with mock.patch.object(CellMap, "__bool__", lambda self, on=searched: on, create=True):
            start = time.perf_counter()
            emulator.execute(plan, inputs, architecture=architecture, workers=1)
            times[searched].append(time.perf_counter() - start)
    return float(np.median(times[True][1:])), float(np.median(times[False][1:]))


if __name__ == "__main__":
    main()
