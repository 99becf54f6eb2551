"""Grades what waits in a class's record, several at a time, and keeps each grade as soon as it is there.

Dask's processes do the grading; this one alone writes to the record. A process that dies costs one try of the
submission that it had.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from distributed import Client, Future, LocalCluster, as_completed
from distributed.scheduler import KilledWorker

from autograder.classroom.entries import ClassError
from autograder.classroom.ledger import Ledger, Waiting
from autograder.classroom.one import grade_one
from warplab.errors import DeviceError


@dataclass(frozen=True)
class Way:
    """How a class is graded: on how many processes, on what, and whether reduced isolation is accepted."""

    processes: int
    device: str
    allow_reduced: bool = False


OnGrade = Callable[[Waiting, str], None]  # a submission, and its status or what became of it


def run_class(ledger: Ledger, work: Sequence[Waiting], way: Way, on_grade: OnGrade) -> None:
    """Grade `work` and keep it in the record. Raises ClassError if this machine cannot grade at all.

    What was running when it is interrupted has no grade, and waits for the next run.
    """
    if not work:
        return
    seeds = {one.lab: ledger.seed_of(one.lab) for one in work}
    with (
        LocalCluster(
            n_workers=min(way.processes, len(work)), threads_per_worker=1, processes=True, memory_limit=0,
            dashboard_address=None, silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):  # fmt: skip
        running = {_submit(client, one, seeds[one.lab], way): one for one in work}
        for future in as_completed(list(running), loop=client.loop):
            _finish(ledger, running.pop(future), future, on_grade)
            future.release()


def _submit(client: Client, one: Waiting, seed: int, way: Way) -> Future:
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
