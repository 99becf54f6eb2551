"""The compiled form of a submission, for comparing two: the operations of its kernels, without names and registers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

MOST_OPERATIONS = 20_000  # of a submission; a reference has some hundred


@dataclass(frozen=True)
class Shape:
    """The PTX operations of the profile case's kernels in their order, and the line of the submission of each.

    `all_operations` has every one, as the compiler wrote them. `work` has those that any language needs for the same
    algorithm: memory, floating point, barriers, exchanges, tensor cores, without what only says how to cache or round.
    Lines are 0 where they are unknown.
    """

    language: str
    all_operations: tuple[str, ...]
    all_lines: tuple[int, ...]
    work: tuple[str, ...]
    work_lines: tuple[int, ...]

    @staticmethod
    def from_wire(data: Mapping[str, Any]) -> Shape:
        """The shape that a worker gave. Raises msgspec.ValidationError: it may have been taken over."""
        found = msgspec.convert(data, Shape)
        pairs = ((found.all_operations, found.all_lines), (found.work, found.work_lines))
        if any(len(texts) != len(lines) or len(texts) > MOST_OPERATIONS for texts, lines in pairs):
            raise msgspec.ValidationError("operations and lines do not match")
        return found
