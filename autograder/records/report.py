"""The nouns of a grade: Report, its parts and their evidence. Everything turns into plain JSON.

Texts that come from a submission (names, messages, source lines) are freed of control characters on their way in, so
that no report has to think of terminal escapes; HTML escaping stays with the HTML report.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from autograder.records.measurement import Measurement, Unmeasured
from autograder.records.outcome import FirstWrong, LaneRequest
from autograder.records.status import NOT_JUDGED, Executor, Part, Status
from autograder.spec.lab import SUBMISSION_NAMES
from warplab.plan.execution import Counters, Finding
from warplab.sandbox.isolation import Isolation

SCHEMA_VERSION = 4


@dataclass(frozen=True)
class CaseResult:
    """One correctness case. A hidden case carries neither its name nor its numbers."""

    name: str
    status: Status
    message: str = ""
    cause: str = ""
    wrong: int = 0  # elements
    total: int = 0
    worst_ratio: float = 0.0  # largest error over allowed error
    first_wrong: FirstWrong | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class BudgetResult:
    """One counter, or total of several, against its limit on the profile case."""

    counter: str
    metric: str  # Nsight Compute's name; empty for what it does not count
    value: int
    limit: float
    reason: str  # shown when the limit is exceeded
    parts: Mapping[str, int] = field(default_factory=dict)  # what a total is made of

    @property
    def passed(self) -> bool:
        """Whether the counter stays within its limit."""
        return self.value <= self.limit


@dataclass(frozen=True)
class PartResult:
    """One part of the grade. `score` of `max_score` points; neither counts if the status is one of NOT_JUDGED.

    `left_out` are points that the part has beside these and that this machine could not judge.
    """

    part: Part
    status: Status
    score: float
    max_score: float
    message: str = ""
    feedback: str = ""  # the section of the course that explains it
    cases: tuple[CaseResult, ...] = ()
    findings: tuple[Finding, ...] = ()
    budgets: tuple[BudgetResult, ...] = ()
    measurement: Measurement | Unmeasured | None = None
    left_out: float = 0.0

    @property
    def judged(self) -> bool:
        """Whether this part counts on this machine."""
        return self.status not in NOT_JUDGED

    @property
    def lost(self) -> bool:
        """Whether points were lost here, by something that this part has to say of the submission."""
        return self.judged and self.score < self.max_score and self.status is not Status.WITHHELD


@dataclass(frozen=True)
class KernelFigures:
    """What the assembler says about a kernel, per thread and per block."""

    name: str
    line: int
    registers: int
    spill_bytes: int
    shared: int  # static and dynamic
    occupancy: float  # theoretical: fraction of the warps that an SM can hold


@dataclass(frozen=True)
class WastedLine:
    """A line of the submission that wastes traffic; `share` is what of the kernels' traffic is wasted there."""

    line: int
    share: float
    words: str  # a sentence


@dataclass(frozen=True)
class SecondOpinion:
    """What one tool of compute-sanitizer says of one case; it gives and takes no points.

    `errors` is -1 and `agrees` (with the emulator, on whether there is a fault) None if it gave no report in time.
    """

    tool: str
    case: str
    errors: int
    words: str
    lines: tuple[int, ...]
    agrees: bool | None


@dataclass(frozen=True)
class SimilarRung:
    """A recorded rung of the lab beside a submission.

    `share` is how fast it was, as a fraction of what `Resemblance.of` names, None if nobody timed it; `distance` is 1
    where each counter is twice the submission's, or half of it (autograder.report.resemblance).
    """

    name: str
    what: str  # it does, in a line; empty for a reference
    share: float | None
    distance: float

    @property
    def is_reference(self) -> bool:
        """Whether it is no rung, but what the lab's rungs lead to."""
        return f"{self.name}.py" in SUBMISSION_NAMES


@dataclass(frozen=True)
class Resemblance:
    """What a submission that nobody timed resembles, by its counters; it gives and takes no points."""

    words: str  # all of it, in sentences
    alike: tuple[SimilarRung, ...]  # those that counters do not tell apart, the nearest first; none if it is like none
    further: SimilarRung | None  # the rung to look at next
    of: str  # what shares are fractions of
    gpu: str  # that rungs were timed on


@dataclass(frozen=True)
class Profile:
    """Emulated counters of the profile case: in total and per source line."""

    case: str
    total: Counters
    lines: Mapping[int, Counters]
    note: str = ""  # that they do not follow the machine code, where that was not known


@dataclass(frozen=True)
class Report:
    """The grade of one submission.

    `max_score` leaves out what this machine could not judge (efficiency without a GPU); `full_score` does not.
    """

    lab: str
    title: str
    submission: str  # file name
    status: Status
    message: str
    parts: tuple[PartResult, ...]
    full_score: float
    device: Executor
    hardware: str
    versions: Mapping[str, str]
    isolation: Isolation = Isolation.REDUCED  # what kept host code and kernels from the machine: the weaker of the two
    notebook: str = ""
    language: str = ""  # empty when the submission did not get as far as a kernel
    line: int = 0  # of the submission, when the status has one
    original: str = ""  # what a compiler or Python said, where `message` puts it otherwise
    printed: str = ""  # by the kernels, on one case that is shown
    kernels: tuple[KernelFigures, ...] = ()
    profile: Profile | None = None
    wasted: tuple[WastedLine, ...] = ()  # the worst first
    worst_request: LaneRequest | None = None  # one of the worst line
    unrun: tuple[tuple[int, int], ...] = ()  # of right kernels, lines from first to last that no case ran
    second_opinions: tuple[SecondOpinion, ...] = ()
    resemblance: Resemblance | None = None  # for right answers where efficiency was not measured
    predictions: tuple[str, ...] = ()  # answered, once nothing is left to earn on this machine
    next_step: str = ""  # the one thing to try, and the section that explains it
    source: str = field(default="", repr=False)
    seconds: float = 0.0
    schema_version: int = SCHEMA_VERSION

    @property
    def score(self) -> float:
        """Points earned."""
        return round(sum(part.score for part in self.parts if part.judged), 1)

    @property
    def max_score(self) -> float:
        """Points that could be earned on this machine."""
        return round(sum(part.max_score for part in self.parts if part.judged), 1)

    @property
    def opening(self) -> str:
        """What a reader is to see first: what to do, or why there is nothing to judge."""
        return self.next_step or self.message

    @property
    def full_marks(self) -> bool:
        """Whether everything that was judged earned all its points, and something was."""
        return self.max_score > 0 and self.score >= self.max_score

    @property
    def efficiency(self) -> float | None:
        """Fraction of the roofline, if it was measured and counts."""
        part = self.part(Part.EFFICIENCY)
        return part.measurement.efficiency if isinstance(part.measurement, Measurement) and part.judged else None

    @property
    def isolation_words(self) -> str:
        """A sentence for whoever relies on this grade, empty where nothing is amiss."""
        if self.isolation is not Isolation.REDUCED:
            return ""
        return "Reduced isolation: the submission could read this machine's files, with all that solves labs."

    def part(self, name: Part) -> PartResult:
        """The part of that name."""
        return next(part for part in self.parts if part.part is name)

    def to_json(self) -> dict[str, Any]:
        """Plain data for json.dumps(allow_nan=False); numbers that JSON lacks become strings. No source text."""
        data = plain(self)
        del data["source"]
        data.update(score=self.score, max_score=self.max_score, full_marks=self.full_marks, efficiency=self.efficiency)
        return data


def plain(value: Any) -> Any:
    """Data classes, mappings, sequences and numbers as JSON-serialisable data."""
    if isinstance(value, (Measurement, Unmeasured)):
        return plain(value.to_wire())
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
