"""Whether luck decides anything: every right, wrong and mutated submission on many seeds, on the emulator.

For every seed a right submission must pass every small case and keep the budgets that it should, a wrong one must fail
for the reason that it names. Kept in benchmarks/results/seeds.json: a record a submission. What a whole grade does
besides, and what does not depend on the seed, is `make test-judge`'s. To be affordable:

* a call is captured once, however many seeds make the same one, and many calls in one process;
* a case is run in all of a grade's orders for the first seed of each block, for the others in one that the seed draws;
* a submission that is refused at its capture, or whose traffic is over budget, is judged for the first seed of each
  block, since the numbers hardly matter to either; its record counts those seeds only;
* a wrong submission's seed ends with the first case that gives its reason, and the case that gave the last seed's is
  tried first, then small ones;
* sanitizers search only where a finding is the reason.

The exit code is 0 if no seed gives another verdict.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from autograder.judge.kernel_parts import kernel_traffic
from autograder.records.outcome import CaseOutcome
from autograder.records.rejection import rejected
from autograder.records.status import Part, Status
from autograder.spec.inputs import generate, scalars
from autograder.spec.lab import Lab, find_lab, kernel_labs, solutions_folder
from autograder.spec.task import Case
from autograder.worker.emulator_stage import INSTRUCTION_BUDGET, counters_of
from autograder.worker.judge_case import Run, judge_case
from autograder.worker.module_variables import keeps_state
from autograder.worker.orders import in_orders
from autograder.worker.second_call import OtherSize, later_calls
from corpus.judge.submission_files import submissions
from corpus.judge.truth import mutants
from course import results
from warplab import emulator
from warplab.emulator.orders import Order, further_orders
from warplab.plan.capture.failure import CaptureFailure
from warplab.plan.capture.submission import capture
from warplab.plan.execution import Execution
from warplab.plan.model import HostCall, Plan

FILE = results.DIRECTORY / "seeds.json"
COMMAND = "python -m benchmarks.seeds"
SEEDS = 200
CALLS = 16  # that are captured in one process, which has some 40 s of a processor
CAPTURE_SECONDS = 120.0
BLOCK = 25  # seeds that one process judges before it takes the next submission
_EXPECTED = re.compile(r"# expect: (.+?): (.+?): ")
_PARTS = (Part.CORRECTNESS, Part.SAFETY, Part.TRAFFIC)


@dataclass(frozen=True)
class Contender:
    """A submission and what must be said of it: all parts up to `part` are passed, or `part` fails with `status`."""

    corpus: str
    lab: str
    name: str
    text: str
    part: Part
    status: str

    @property
    def right(self) -> bool:
        """Whether it must pass."""
        return self.status == Status.PASSED

    @property
    def identifier(self) -> str:
        """A name for lists: the lab, the corpus, the submission."""
        return f"{self.lab}/{self.corpus}/{self.name}"


def contenders() -> Iterator[Contender]:
    """References, right and wrong submissions, and mutants, of the labs that ask for kernels."""
    labs = set(kernel_labs())
    yield from (one for one in _all() if one.lab in labs)


def _all() -> Iterator[Contender]:
    for path in sorted(solutions_folder().glob("*/submission*.py")):
        lab, text = path.parent.name, path.read_text("utf-8")
        yield Contender("reference", lab, path.stem, text, Part.TRAFFIC, Status.PASSED)
    for corpus in ("correct", "wrong"):
        for path in submissions(corpus):
            text = path.read_text("utf-8")
            expected = _EXPECTED.match(text)
            assert expected is not None, f"{path} does not begin with its expectation"
            part, status = expected.groups()
            last = Part.TRAFFIC if part == "all" else Part(part)
            yield Contender(corpus, path.parts[-3], path.stem, text, last, status)
    for mutant in mutants():
        name = f"{Path(mutant.source).stem}/{mutant.name}"
        text = mutant.text(solutions_folder())
        yield Contender("mutant", mutant.lab, name, text, mutant.cause.part, mutant.cause.status)


class Plans:
    """The plans of one submission, captured when they are asked for: those of further seeds along with them."""

    def __init__(self, lab: Lab, path: Path, seeds: Sequence[int]) -> None:
        self._path = path
        self._architecture = lab.emulated
        self._plans: dict[HostCall, Plan] = {}
        self._calls = {}
        for seed in seeds:
            task = lab.drawn(seed).task
            for case in (*_small(task.correctness), task.profile):
                self._calls[seed, case.name] = task.host_call(case.dimensions, scalars(task, case, seed))

    def plan(self, seed: int, case: Case) -> Plan:
        """What the submission launches for a case. Raises CaptureFailure."""
        call = self._calls[seed, case.name]
        if call not in self._plans:
            later = [other for (_, name), other in self._calls.items() if name == case.name and other != call]
            wanted = [call, *(other for other in dict.fromkeys(later) if other not in self._plans)][:CALLS]
            plans = capture(self._path, wanted, (self._architecture,), timeout=CAPTURE_SECONDS)
            self._plans.update(zip(wanted, plans, strict=True))
        return self._plans[call]


def _small(cases: Sequence[Case]) -> list[Case]:
    return [case for case in cases if not case.needs_gpu]


@dataclass
class Tally:
    """What the seeds gave: how many were judged, and those whose verdict is wrong, with what was seen instead."""

    seeds: int
    wrong: dict[int, str]
    seconds: float


def judge(contender: Contender, seeds: Sequence[int]) -> Tally:
    """Judge one submission on the seeds of a block, or on the first where the others need not be judged."""
    start = time.perf_counter()
    lab, wrong, first, refused, tried = find_lab(contender.lab), {}, "", False, 0
    with tempfile.TemporaryDirectory(prefix="warplab-seeds-") as folder:
        path = Path(folder) / f"{contender.name.replace('/', '_')}.py"
        path.write_text(contender.text, encoding="utf-8")
        plans = Plans(lab, path, seeds)
        for seed in seeds:
            leads = seed == seeds[0]
            if not leads and (refused or (contender.part is Part.TRAFFIC and not contender.right)):
                continue
            tried += 1
            drawn = lab.drawn(seed)
            try:
                if contender.right:
                    objection = _objection(contender, drawn, plans, seed, leads)
                else:
                    first, objection = _reason(contender, drawn, plans, seed, first)
            except CaptureFailure as failure:
                rejection, refused = rejected(failure), True
                objection = "" if rejection.status == contender.status else f"{rejection.status}: {rejection}"
            if objection:
                wrong[seed] = objection
    return Tally(tried, wrong, time.perf_counter() - start)


def _objection(contender: Contender, lab: Lab, plans: Plans, seed: int, leads: bool) -> str:
    """What a right submission fails; empty if nothing. `leads`: the seed is the first of its block."""
    # Its counters hardly depend on the numbers, and it is the largest: once for every block of seeds
    profile = [lab.task.profile] if contender.part is Part.TRAFFIC and leads else []
    for case in (*_small(lab.task.correctness), *profile):
        outcome = _run(contender, lab, case, plans, seed, all_orders=leads)
        if outcome.status is not Status.PASSED:
            return f"{case.name}: {outcome.status}: {outcome.message}"
    return f"traffic: {over}" if profile and (over := _over_budget(lab, outcome)) else ""


def _reason(contender: Contender, lab: Lab, plans: Plans, seed: int, first: str) -> tuple[str, str]:
    """The case on which a wrong submission fails as it must, `first` being tried first; or what is wrong."""
    task = lab.task
    if contender.part is Part.TRAFFIC:
        outcome = _run(contender, lab, task.profile, plans, seed, all_orders=True)
        right = outcome.status is Status.PASSED and _over_budget(lab, outcome)
        return "", "" if right else f"{outcome.status}, within its budgets"
    cases = sorted(_small(task.correctness), key=lambda case: (case.name != first, task.bytes_moved(case.dimensions)))
    shown = [case for case in cases if not case.hidden]
    if contender.part is Part.SAFETY:
        shown.append(task.profile)
    seen = set()
    for case, all_orders in ((case, whole) for case in shown for whole in (False, True)):
        outcome = _run(contender, lab, case, plans, seed, all_orders)
        kinds = {outcome.status.value, *(finding.kind.value for finding in outcome.findings)}
        if Status.RUNS_DISAGREE in kinds:  # a grade would have found the race, and tried no other order
            kinds.add(Status.WRONG_ANSWER.value)
        if contender.status == Status.RUNS_DISAGREE and outcome.status is Status.PASSED:
            kinds.add(_called_again(lab, case, plans, seed).value)
        if contender.status in kinds:
            return case.name, ""
        seen |= kinds
    return first, f"{', '.join(sorted(seen))} instead of {contender.status}"


def _called_again(lab: Lab, case: Case, plans: Plans, seed: int) -> Status:
    """How further calls end, one of them for another size, as a grade makes them of kernels that keep state."""
    plan = plans.plan(seed, case)
    if not keeps_state(plan):
        return Status.PASSED

    def execute(called: Plan, arrays: dict[str, np.ndarray]) -> list[Run]:
        budget, architecture = INSTRUCTION_BUDGET, lab.emulated
        return [Run(emulator.execute(called, arrays, architecture=architecture, instruction_budget=budget, workers=1))]

    others = (one for one in _small(lab.task.correctness) if not one.hidden and one.dimensions != case.dimensions)
    sizes = [OtherSize(one, plans.plan(seed, one)) for one in others]
    return later_calls(lab.task, case, seed, plan, execute, sizes[0] if sizes else None).status


def _run(contender: Contender, lab: Lab, case: Case, plans: Plans, seed: int, all_orders: bool) -> CaseOutcome:
    """The outcome of a case, in all of a grade's orders or in one that the seed draws."""
    executions: list[Execution] = []
    architecture = lab.emulated
    searched = contender.part is Part.SAFETY and not contender.right

    def execute(plan: Plan, inputs: dict[str, np.ndarray]) -> list[Run]:
        def executed(order: Order) -> Execution:
            return emulator.execute(
                plan,
                inputs,
                architecture=architecture,
                instruction_budget=INSTRUCTION_BUDGET,
                sanitize=searched,
                workers=1,
                reverse=order.reverse,
                seed=order.seed,
            )

        if all_orders:  # as a grade: some faults show in other orders only
            runs = in_orders(executed, plan, architecture, seed)
        else:
            runs = [(order, executed(order)) for order in further_orders(seed, 1)[1:]]
        executions.extend(execution for _, execution in runs)
        return [Run(execution, str(order)) for order, execution in runs]

    values, plan = generate(np, lab.task, case, seed), plans.plan(seed, case)
    outcome = judge_case(lab.task, case, values, plan, execute)
    outcome.counters = counters_of(lab.task, executions[0], plan, lambda: values)
    return outcome


def _over_budget(lab: Lab, profile: CaseOutcome) -> str:
    part = kernel_traffic(lab, profile, answers_right=True)
    return part.message if part.status is Status.OVER_BUDGET else ""


def _judge(job: tuple[Contender, Sequence[int]]) -> tuple[Contender, Tally]:
    return job[0], judge(*job)


def judged(chosen: Sequence[Contender], seeds: Sequence[int], workers: int) -> Iterator[tuple[Contender, Tally]]:
    """The tallies of all contenders, each as soon as all of its seeds are judged."""
    # Right ones take longest, so they come first
    blocks = [seeds[start : start + BLOCK] for start in range(0, len(seeds), BLOCK)]
    jobs = [(one, block) for one in sorted(chosen, key=lambda one: not one.right) for block in blocks]
    whole: dict[Contender, Tally] = {}
    done: Counter[Contender] = Counter()
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        for one, tally in pool.imap_unordered(_judge, jobs):
            known = whole.setdefault(one, Tally(0, {}, 0.0))
            known.seeds += tally.seeds
            known.wrong |= tally.wrong
            known.seconds += tally.seconds
            done[one] += 1
            if done[one] == len(blocks):
                yield one, known


def record(contender: Contender, tally: Tally) -> results.Record:
    """How many seeds gave the verdict that the submission must get."""
    reason = "passes" if contender.right else f"{contender.part}: {contender.status}"
    return results.Record(
        name=contender.lab,
        metric="seeds that give the right verdict",
        value=tally.seeds - len(tally.wrong),
        unit="seeds",
        variant=f"{contender.corpus}/{contender.name}",
        conditions=reason,
        extra={"tried": tally.seeds, "others": sorted(tally.wrong), "seconds": round(tally.seconds, 1)},
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge on many seeds; 0 if every verdict is right."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labs", nargs="*", metavar="LAB", help=f"only these of {', '.join(kernel_labs())}")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="how many, from 0 on (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the first seed; one other than 0 writes no results")
    parser.add_argument("--only", default="", metavar="TEXT", help="only submissions with this in their name")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes (default: one a core)")
    options = parser.parse_args(arguments)
    if unknown := set(options.labs) - set(kernel_labs()):
        parser.error(f"There is no lab {', '.join(sorted(unknown))}: the labs are {', '.join(kernel_labs())}.")
    chosen = [one for one in contenders() if not options.labs or one.lab in options.labs]
    chosen = [one for one in chosen if options.only in one.identifier]
    header = results.make_header(COMMAND)
    wrong = 0
    for one, tally in judged(chosen, range(options.first, options.first + options.seeds), options.workers):
        mark = "WRONG" if tally.wrong else "right"
        print(f"{mark}  {tally.seeds - len(tally.wrong):3}/{tally.seeds}  {one.identifier:60}  {tally.seconds:6.1f} s")
        for seed, words in list(tally.wrong.items())[:3]:
            print(f"       seed {seed}: {words}")
        sys.stdout.flush()
        wrong += bool(tally.wrong)
        # A run that is ended early keeps what it has judged
        if options.first == 0:
            results.write(FILE, header, [record(one, tally)], merge=FILE.exists())
    print(f"{len(chosen)} submissions, {options.seeds} seeds: {wrong} with wrong verdicts")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
