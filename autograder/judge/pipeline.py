"""The order of grading, written down once: draw sizes, run, judge each part, report."""

from __future__ import annotations

import logging
import time
from dataclasses import replace

from autograder.judge.capture_stage import Submission, read_submission
from autograder.judge.kinds import kind_of
from autograder.judge.kinds.lab_kind import Grading
from autograder.judge.runner import Caller, JudgeError, Runner
from autograder.judge.turns import Turns
from autograder.records.rejection import Rejected
from autograder.records.report import Report
from autograder.records.request import OnProgress, Request
from autograder.report import build as report
from autograder.spec.seeds import secret_seed
from warplab.sandbox.isolation import weakest

log = logging.getLogger("autograder")


def _silent(what: str, fraction: float) -> None:
    """Say nothing."""


def grade(request: Request, worker: Caller, progress: OnProgress = _silent, turns: Turns | None = None) -> Report:
    """Grade one submission, taking `turns` on the GPUs that others use too.

    Never raises for what a submission or the judge does: the report's status says it."""
    start = time.perf_counter()
    text = ""
    try:
        submission = read_submission(request.source, request.crowded, request.captured_in)
        text = submission.text
        graded = _grade(request, submission, worker, progress, turns)
    except Rejected as rejection:
        graded = report.rejected(request, text, rejection)
    except Exception as error:  # a fault of ours must not become the student's zero, nor end a batch
        if not isinstance(error, JudgeError):
            log.error("grading %s failed", request.source, exc_info=True)
        graded = report.not_judged(request, text, error)
    progress("done", 1.0)
    kept_in = getattr(worker, "isolation", None) or graded.isolation  # none if it came to no kernels
    return replace(graded, seconds=time.perf_counter() - start, isolation=weakest(graded.isolation, kept_in))


def _grade(
    request: Request, submission: Submission, worker: Caller, progress: OnProgress, turns: Turns | None
) -> Report:
    seed = secret_seed() if request.seed is None else request.seed
    lab = request.lab.drawn(seed)
    runner = Runner(worker, lab, seed, turns)
    grading = Grading(replace(request, lab=lab), lab, submission, runner, seed, progress, turns)
    kind = kind_of(lab)
    evidence = kind.run(grading)
    return kind.report(grading, evidence, kind.judge(grading, evidence))
