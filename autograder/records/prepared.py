"""What a capture process answered, on its way to the worker, and what the worker makes of it, on its way back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import msgspec

from autograder.records.outcome import CaseOutcome
from autograder.records.rejection import Rejected
from autograder.records.report import KernelFigures
from autograder.records.schedule_model import ScheduleModel
from autograder.records.status import Status
from autograder.records.text import clean
from warplab.plan.model import Language


@dataclass(frozen=True)
class Answer:
    """What a capture process said of some cases, in their order: `warplab.plan.capture.protocol` reads it."""

    cases: tuple[str, ...]
    content: bytes
    hidden: bool


@dataclass(frozen=True)
class Prepared:
    """The same as the judge gets it from a worker: plans as the bytes of their files.

    `parts` are those of the emulator that the plans need beside what every plan needs.
    """

    plans: dict[str, bytes]
    language: str
    kernels: tuple[KernelFigures, ...]
    parts: tuple[str, ...]
    others: str

    @staticmethod
    def from_wire(data: Mapping[str, Any]) -> Prepared:
        """The inverse of what `prepare` gives. Raises Rejected for a submission that was refused, and
        msgspec.ValidationError for data of another form: the worker may have been taken over."""
        if "refused" in data:
            raise msgspec.convert(data["refused"], Refused).rejection()
        return _cleaned(msgspec.convert(data, Prepared, builtin_types=(bytes,)))


@dataclass(frozen=True)
class Refused:
    """Why a stage of the worker refuses a submission."""

    status: Status
    message: str
    line: int
    original: str = ""

    def rejection(self) -> Rejected:
        """What the judge raises for it."""
        return Rejected(self.status, self.message, self.line, self.original)


@dataclass(frozen=True)
class Checked:
    """What the worker says of schedules: an outcome a case, and those to be run, as JSON by case; or a refusal."""

    outcomes: list[CaseOutcome] = field(default_factory=list)
    run: dict[str, bytes] = field(default_factory=dict)
    refused: Refused | None = None


@dataclass(frozen=True)
class RankAnswer:
    """What a capture process said of one step of one rank's programs."""

    rank: int
    cases: tuple[str, ...]
    content: bytes
    hidden: bool


@dataclass(frozen=True)
class NextStep:
    """What a capture process is to be asked: the next step of one rank's programs, and what the rank has for each."""

    rank: int
    hidden: bool
    cases: tuple[str, ...]
    contents: tuple[str, ...]


@dataclass(frozen=True)
class Advanced:
    """What the worker says of programs after some steps: which to ask next, and how those that have ended went."""

    next: list[NextStep] = field(default_factory=list)
    outcomes: list[CaseOutcome] = field(default_factory=list)
    models: list[ScheduleModel] = field(default_factory=list)
    refused: Refused | None = None


def _cleaned(prepared: Prepared) -> Prepared:
    languages = {str(language) for language in Language}
    kernels = tuple(KernelFigures(**{**asdict(k), "name": clean(k.name)}) for k in prepared.kernels)
    language = " + ".join(word for word in prepared.language.split(" + ") if word in languages)
    return Prepared(prepared.plans, language, kernels, prepared.parts, clean(prepared.others))
