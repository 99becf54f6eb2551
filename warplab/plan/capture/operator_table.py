"""The table of operators that a planner of checkpoints is called with, on its way into the capture process."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple


class Operator(NamedTuple):
    """One operator of a block that a checkpoint runs again unless its result is kept.

    `bytes` are those of its result, `flops` what it takes to make it again, `moved` the bytes that this reads and
    writes.
    """

    block: int
    name: str
    bytes: int
    flops: int
    moved: int


def encode(operators: Iterable[Any]) -> str:
    """The table as JSON, of anything that has the fields of an Operator."""
    return json.dumps([[getattr(one, field) for field in Operator._fields] for one in operators])


def decode(content: str) -> list[Operator]:
    """The inverse of `encode`, in the capture process: it trusts who asks it."""
    return [Operator(*row) for row in json.loads(content)]
