"""What stands of a part of a grade before its points are computed: a status, and the sentence that explains it."""

from __future__ import annotations

from dataclasses import dataclass

from autograder.records.status import Status


@dataclass(frozen=True)
class Ruling:
    """How one step of judging ended; where it is no pass, the part has no evidence to compute points from."""

    status: Status
    message: str
