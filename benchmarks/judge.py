"""Judges the judge: every submission of the corpus, one line each, on the emulator or a GPU: `make test-judge`.

On a GPU the verdicts are kept in benchmarks/results/judge.json. The exit code is 0 if all are right.
"""

from __future__ import annotations

import argparse
import os
import queue
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autograder.judge import capture_stage, runner
from autograder.judge.confined_worker import GPU_STAGE, WARM_UP, WARM_UP_SECONDS, ConfinedWorker
from autograder.judge.pipeline import grade
from autograder.judge.turns import Turns
from autograder.records.machine import Machine, choose_machine
from autograder.records.report import Report
from autograder.records.request import Request
from autograder.records.status import Executor, Status
from autograder.spec.lab import AnyLab, find_any, known_labs
from corpus.judge import on_gpu
from corpus.judge.entries import CORPORA, CorpusCase, cases
from course import results
from warplab.emulator import compiled
from warplab.sandbox.isolation import Isolation
from warplab.worker.process import Sandbox

# What never ends is a part of the corpus; nothing else of it takes long, beside the others of its kind.
CAPTURE_SECONDS = 30.0
CASE_SECONDS = 60.0
START_SECONDS = 60.0
MOST_WORKERS = 12
COMMAND = "make test-judge"
FILE = results.DIRECTORY / "judge.json"
_TAKE = f"{on_gpu.__name__}:{on_gpu.take.__name__}"


class BrieflyTimed(ConfinedWorker):
    """A worker that times shortly. With `timed` off nothing is measured: the submission must have failed before."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine, own=False)
        self.timed = True

    def kept_in(self, gpu: bool) -> Sandbox:
        """As ConfinedWorker.kept_in, with the module that prepares it."""
        usual, folder = super().kept_in(gpu), str(Path(on_gpu.__file__).parents[1])
        return replace(usual, packages=(*usual.packages, "corpus"), readable=(*usual.readable, folder))

    def call(self, target: str, *, timeout: float, **payload: Any) -> Any:
        """As ConfinedWorker.call."""
        if not target.startswith(GPU_STAGE):
            return super().call(target, timeout=timeout, **payload)
        if target.endswith(":efficiency") and not self.timed:
            return {"status": "fault", "message": "Not timed: what this case is about is judged without."}
        self.call_on_gpu(_TAKE, timeout=START_SECONDS)
        return super().call(target, timeout=timeout, **payload)


@dataclass(frozen=True)
class Verdict:
    """What the judge said of one case, and what is wrong with that, if anything is."""

    case: CorpusCase
    report: Report
    objections: tuple[str, ...]


def judge(corpus: Sequence[CorpusCase], machine: Machine, seed: int | None, workers: int) -> Iterator[Verdict]:
    """The verdicts on all cases, in their order, printing a line for each as it is there."""
    labs = {name: find_any(name) for name in known_labs()}
    idle: queue.Queue[BrieflyTimed] = queue.Queue()
    for number in range(workers):
        idle.put(worker := BrieflyTimed(machine))
        if number == 0:  # compiles the emulator if nothing has yet; side by side they would all do so
            parts = [part for part in compiled.Piece if part not in compiled.ALWAYS]
            worker.call(WARM_UP, timeout=WARM_UP_SECONDS, parts=parts)
    with tempfile.TemporaryDirectory(prefix="warplab-judge-") as folder, ThreadPoolExecutor(workers) as pool:
        try:
            place = Path(folder)
            turns = Turns(place / "turns")
            yield from pool.map(lambda case: _one(case, labs[case.lab], place, machine, seed, idle, turns), corpus)
        finally:
            while not idle.empty():
                idle.get().close()


def _one(
    case: CorpusCase,
    lab: AnyLab,
    folder: Path,
    machine: Machine,
    seed: int | None,
    idle: queue.Queue[BrieflyTimed],
    turns: Turns,
) -> Verdict:
    worker = idle.get()
    worker.timed = case.timed
    try:
        source = case.source(folder)
        drawn_by = seed if case.seed is None else case.seed
        if machine.device is Executor.EMULATOR:
            machine = choose_machine("emulator", lab.needs)
        report = grade(Request(lab, source, machine, drawn_by, case.quick), worker, turns=turns)
    finally:
        idle.put(worker)
    judged = report.status is not Status.JUDGE_ERROR
    objections = tuple(case.object(report)) if judged else (report.message,)
    print(_line(Verdict(case, report, objections)), flush=True)
    return Verdict(case, report, objections)


def _line(verdict: Verdict) -> str:
    case, report = verdict.case, verdict.report
    mark = "WRONG" if verdict.objections else "right"
    points = f"{report.score:g}/{report.max_score:g}"
    words = f"  {'; '.join(verdict.objections)}" if verdict.objections else ""
    name = f"{case.lab}/{case.name}"
    return f"{mark}  {case.corpus:9}  {name:45}  {report.status:22}  {points:>7}  {report.seconds:5.1f} s{words}"


def _hardware(machine: Machine, verdicts: Sequence[Verdict]) -> str:
    """The GPU, or each machine that the reports name: the emulator with one architecture or another."""
    if machine.device is Executor.GPU:
        return machine.hardware
    return " and ".join(dict.fromkeys(verdict.report.hardware for verdict in verdicts)) or machine.hardware


def records(verdicts: Sequence[Verdict]) -> list[results.Record]:
    """A record a case: 1 where the verdict is the one that it must be."""
    return [
        results.Record(
            name=verdict.case.lab,
            metric="verdict",
            value=0 if verdict.objections else 1,
            unit="1: right, 0: wrong",
            variant=f"{verdict.case.corpus}/{verdict.case.name}",
            conditions=f"{verdict.report.status}; isolation: {verdict.report.isolation}",
        )
        for verdict in verdicts
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge the corpus; 0 if every verdict is right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=("auto", "gpu", "emulator"), default="auto")
    parser.add_argument("--corpus", choices=CORPORA, action="append", help="only this one (may be given again)")
    parser.add_argument("--lab", choices=known_labs(), action="append", help="only this one (may be given again)")
    parser.add_argument("--seed", type=int, help="draw the inputs from this seed instead of a secret one")
    options = parser.parse_args(arguments)
    capture_stage.CAPTURE_SECONDS = CAPTURE_SECONDS
    runner.CASE_SECONDS[Executor.EMULATOR] = CASE_SECONDS

    machine = choose_machine(options.device)
    corpus = [case for case in cases() if not options.corpus or case.corpus in options.corpus]
    corpus = [case for case in corpus if not options.lab or case.lab in options.lab]
    if machine.isolation is Isolation.REDUCED:
        corpus = [case for case in corpus if not case.needs_isolation]
        print("Only reduced isolation here: what would then do damage is left out (`autograder doctor` says more).")
    workers = min(os.cpu_count() or 1, MOST_WORKERS)
    start = time.perf_counter()
    verdicts: list[Verdict] = []
    header = results.make_header(COMMAND)
    part = bool(options.corpus or options.lab)  # of the corpus: what is known of the rest is kept
    for verdict in judge(corpus, machine, options.seed, workers):
        verdicts.append(verdict)
        if machine.device is Executor.GPU:  # whoever ends it early keeps what there is
            results.write(FILE, header, records(verdicts), merge=part)
    wrong = [verdict for verdict in verdicts if verdict.objections]
    counts = Counter(verdict.case.corpus for verdict in verdicts)
    listed = ", ".join(f"{counts[name]} {name}" for name in CORPORA if counts[name])
    where, seconds = _hardware(machine, verdicts), time.perf_counter() - start
    print(f"\n{len(verdicts)} cases ({listed}) on {where} in {seconds:.0f} s: ", end="")
    print(f"{len(wrong)} wrong verdicts" if wrong else "every verdict is right")
    for verdict in wrong:
        print(_line(verdict))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
