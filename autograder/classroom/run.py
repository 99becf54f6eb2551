"""Grades what waits in a class's record, several at a time, and keeps each grade as soon as it is there.

Dask's processes do the grading; this one alone writes to the record. A process that dies costs one try of the
submission that it had.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from distributed import Client, Future
from distributed.scheduler import KilledWorker

from autograder.classroom import clusters
from autograder.classroom.cards import card, counts, refused
from autograder.classroom.entries import ClassError
from autograder.classroom.ledger import Ledger, Waiting
from autograder.classroom.one import grade_one
from autograder.classroom.policy import Quota
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
    mixed: bool = False  # whether a lab may have grades from several cards

    @property
    def at_once(self) -> int:
        """How many processes grade."""
        return self.jobs.jobs if self.jobs else self.processes


_LOOK_SECONDS = 10.0
NOT_GRADED = "not graded"  # begins what is said of a submission that got no grade
_AHEAD = 2  # submissions that are on their way, for each process
OnGrade = Callable[[Waiting, str], None]  # a submission, and its status or what became of it


def run_class(ledger: Ledger, work: Sequence[Waiting], way: Way, on_grade: OnGrade) -> None:
    """Grade `work` and keep it in the record. Raises ClassError if this machine cannot grade at all.

    What was running when it is interrupted has no grade, and waits for the next run.
    """
    if not work:
        return
    cards = None if way.mixed else ledger.cards({one.number for one in work})
    limited = ledger.policy().quota != Quota()
    seeds = {one.lab: ledger.seed_of(one.lab) for one in work}
    started = clusters.slurm(way.jobs, len(work)) if way.jobs else clusters.local(min(way.processes, len(work)))
    with started as processes:
        waiting, running = list(work), dict[Future, Waiting]()
        while waiting or running:
            # No more than keep the processes busy: a student's quota may be used up meanwhile
            while len(running) < _AHEAD * way.at_once and (one := _next(waiting, running.values(), limited)):
                waiting.remove(one)
                if words := ledger.over_quota(one):
                    on_grade(one, f"{NOT_GRADED} ({words})")
                else:
                    running[_submit(processes.client, one, seeds[one.lab], way)] = one
            for future in _finished(list(running)) if running else ():
                _finish(ledger, running.pop(future), future, cards, on_grade)
                future.release()
            if running and (words := processes.gone()):
                raise ClassError(words)


def _next(waiting: Sequence[Waiting], running: Iterable[Waiting], limited: bool) -> Waiting | None:
    """What is graded next: where students' time is `limited` no two of one student at once."""
    busy = {one.student for one in running} if limited else set()
    return next((one for one in waiting if one.student not in busy), None)


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


def _finish(ledger: Ledger, one: Waiting, future: Future, cards: dict[str, set[str]] | None, on_grade: OnGrade) -> None:
    """Keep what became of a submission, unless its lab's other grades are from another card than of `cards`."""
    error = future.exception()
    if error is None:
        report = future.result()
        here = card(report["device"], report["hardware"])
        if cards is not None and counts(report["status"]):
            if words := refused(cards, one.lab, here):
                return on_grade(one, f"{NOT_GRADED} ({words})")
            cards[one.lab] = {here}
        ledger.keep(one.number, report)
        on_grade(one, report["status"])
    elif isinstance(error, DeviceError):
        raise ClassError(str(error)) from error
    else:
        ledger.note_lost(one.number)
        words = "its process died" if isinstance(error, KilledWorker) else f"{type(error).__name__}: {error}"
        on_grade(one, f"{NOT_GRADED} ({words})")
