"""One attempt of a student at a lab, as a class's record has it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import msgspec

from autograder.classroom.entries import ClassError
from autograder.classroom.people import Identity
from autograder.records.report import Report
from autograder.records.stored import report_of


@dataclass(frozen=True)
class GradeLine:
    """A submission as it stands: `status` is empty until it is graded, `problem` says why it cannot be."""

    student: str
    lab: str
    file: str
    problem: str
    status: str
    score: float
    max_score: float
    full_score: float
    efficiency: float | None
    hardware: str
    seconds: float
    finished: str
    report: dict[str, Any]  # as it was stored; empty until it is graded
    content: bytes = b""
    called: str = ""
    members: tuple[Identity, ...] = ()
    attempt: int = 1  # from 1 on
    at: str = ""  # ISO 8601; empty where the download has no times
    note: str = ""
    counts: float | None = None  # points after policies and overrides; None where they are the score
    why: str = ""
    by_hand: bool = False  # an override
    device: str = ""
    gpu_seconds: float = 0.0  # for which its kernels had a GPU, or shared one

    @property
    def points(self) -> float:
        """The points that count."""
        return self.score if self.counts is None else self.counts

    def each(self) -> list[GradeLine]:
        """The line of each member of a group; itself for one student."""
        return [replace(self, student=one.id, called=one.name, members=()) for one in self.members] or [self]

    def graded(self) -> Report | None:
        """The report, with the submission as its source; None until it is graded. Raises ClassError."""
        if not self.report:
            return None
        try:
            return report_of(self.report, self.content.decode("utf-8", "replace"))
        except msgspec.ValidationError as error:
            raise ClassError(
                f"The class's record holds no whole report of {self.lab} for {self.student!r} ({error}): grade it "
                "again, with --regrade and --only of `autograder class`."
            ) from None
