"""Grades what waits in a class's record, several at a time, and keeps each grade as soon as it is there.

Dask's processes do the grading; this one alone writes to the record. A process that dies costs one try of the
submission that it had.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from distributed import Client, Future
from distributed.scheduler import KilledWorker

from autograder.classroom import clusters
from autograder.classroom.entries import ClassError
from autograder.classroom.ledger import Ledger, Waiting
from autograder.classroom.one import grade_one
from autograder.spec.seeds import grade_seed
from warplab.errors import DeviceError


@dataclass(frozen=True)
class Way:
    """How a class is graded: on how many processes, on what, and whether reduced isolation is accepted.

    With `jobs` the processes are Slurm's, as many as it says.
    """

    processes: int
    device: str
    allow_reduced: bool = False
    jobs: clusters.SlurmJobs | None = None


_LOOK_SECONDS = 10.0
OnGrade = Callable[[Waiting, str], None]  # a submission, and its status or what became of it


def run_class(ledger: Ledger, work: Sequence[Waiting], way: Way, on_grade: OnGrade) -> None:
    """Grade `work` and keep it in the record. Raises ClassError if this machine cannot grade at all.

    What was running when it is interrupted has no grade, and waits for the next run.
    """
    if not work:
        return
    seeds = {one.lab: ledger.seed_of(one.lab) for one in work}
    started = clusters.slurm(way.jobs, len(work)) if way.jobs else clusters.local(min(way.processes, len(work)))
    with started as processes:
        running = {_submit(processes.client, one, seeds[one.lab], way): one for one in work}
        while running:
            for future in _finished(list(running)):
                _finish(ledger, running.pop(future), future, on_grade)
                future.release()
            if running and (words := processes.gone()):
                raise ClassError(words)


def _finished(running: Sequence[Future]) -> list[Future]:
    """What has ended, as soon as something has; nothing after a while, so that whoever waits can look around."""
    deadline = time.monotonic() + _LOOK_SECONDS
    while not (done := [future for future in running if future.done()]) and time.monotonic() < deadline:
        time.sleep(0.1)
    return done


def _submit(client: Client, one: Waiting, class_seed: int, way: Way) -> Future:
    seed = grade_seed(class_seed, one.student, one.content)
    return client.submit(
        grade_one, one.file, one.content, one.lab, seed, way.device, way.allow_reduced, pure=False, retries=0
    )


def _finish(ledger: Ledger, one: Waiting, future: Future, on_grade: OnGrade) -> None:
    """Keep what became of a submission."""
    error = future.exception()
    if error is None:
        report = future.result()
        ledger.keep(one.number, report)
        on_grade(one, report["status"])
    elif isinstance(error, DeviceError):
        raise ClassError(str(error)) from error
    else:
        ledger.note_lost(one.number)
        words = "its process died" if isinstance(error, KilledWorker) else f"{type(error).__name__}: {error}"
        on_grade(one, f"not graded ({words})")
