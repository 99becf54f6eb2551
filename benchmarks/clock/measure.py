"""Times the subjects as the judge does: in turns, on fresh inputs, with a cold L2."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import cupy
from cuda.core import Stream

from benchmarks.clock.subjects import Subject
from corpus.emulator.compare import compare
from course import results
from warplab.gpu.executor import LoadedPlan, on_stream
from warplab.gpu.stopwatch import Candidate, time_in_turns

TOGETHER = 8  # subjects that take turns; as many as warm up and settle in one go
BUDGET_SECONDS = 0.6
LONGEST = 2.0  # seconds of one launch, else it hangs


class Wrong(Exception):
    """A textbook kernel computed something else than NumPy."""


class Timed:
    """A subject on the device, as a candidate of the stopwatch."""

    def __init__(self, subject: Subject, architecture: str, stream: Stream) -> None:
        self.launches = len(subject.plan.launches)
        self._loaded = LoadedPlan(subject.plan, architecture, stream)
        self._inputs = {name: cupy.asarray(value) for name, value in subject.inputs.items()}
        self._try(subject)

    def _try(self, subject: Subject) -> None:
        self._loaded.reset(self._inputs)
        self._loaded.synchronize()
        self._loaded.launch()
        self._loaded.finish(LONGEST)
        if subject.textbook:
            objection = compare(subject.textbook, subject.inputs, self._loaded.outputs())
            if objection:
                raise Wrong(f"{subject.name}: {objection}")

    def prepare(self, turn: int) -> None:
        """Queue the inputs, once more."""
        self._loaded.reset(self._inputs)

    def launch(self) -> None:
        """Queue the plan."""
        self._loaded.launch()

    def check(self, turn: int) -> None:
        """Nothing: it was looked at before."""

    def erase(self) -> None:
        """Give its memory back."""
        self._loaded.erase()


def times(subjects: Sequence[Subject], architecture: str) -> Iterator[results.Record]:
    """A record per subject. Raises Wrong, and what a launch raises."""
    with on_stream() as stream:
        for first in range(0, len(subjects), TOGETHER):
            group = subjects[first : first + TOGETHER]
            timed = {subject.name: Timed(subject, architecture, stream) for subject in group}
            candidates: dict[str, Candidate] = {**timed}
            turns = time_in_turns(candidates, stream, budget_seconds=BUDGET_SECONDS)
            for name, candidate in timed.items():
                time = turns.time(name)
                yield results.Record(
                    name, "time", time.value, "ms", interval=(time.low, time.high),
                    conditions=f"cold L2, in turns, median of {turns.turns // 2} pairs",
                )  # fmt: skip
                candidate.erase()
