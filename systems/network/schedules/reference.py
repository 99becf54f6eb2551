"""What every rank must end with: by carrying out the schedule here, and by what the collective means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from systems.network.schedules.check import check
from systems.network.schedules.interpret import carry_out
from systems.network.schedules.model import Columns, Schedule, ScheduleError, ends_with, expand, starts_with, validate


class _Arrays:
    """Each rank's chunks as rows of numbers; a row that nobody gave holds NaN or the type's least number."""

    def __init__(self, moves: Columns, held: list[dict[int, NDArray[Any]]]) -> None:
        self.moves, self.held = moves, held

    def read(self, rank: int, chunk: int, step: int, transfer: int) -> NDArray[Any]:
        return self.held[rank][chunk].copy()

    def take(self, rank: int, step: int, arrivals: Sequence[tuple[int, NDArray[Any]]]) -> None:
        for number, value in arrivals:
            chunk = int(self.moves.chunk[number])
            if self.moves.reduce[number]:
                self.held[rank][chunk] = self.held[rank][chunk] + value
            else:
                self.held[rank][chunk] = value


def split_input(schedule: Schedule, inputs: NDArray[Any]) -> list[dict[int, NDArray[Any]]]:
    """Each rank's chunks of its row of `inputs`: shape (ranks, elements that it starts with).

    Raises ScheduleError if the elements are not a multiple of the chunks.
    """
    return [split_own(schedule, rank, inputs[rank]) for rank in range(schedule.ranks)]


def split_own(schedule: Schedule, rank: int, data: NDArray[Any]) -> dict[int, NDArray[Any]]:
    """The chunks that a rank starts with, of its own data. Raises ScheduleError as `split_input` does."""
    mine = [chunk for chunk in range(schedule.chunks) if starts_with(schedule, rank, chunk)]
    if not mine:
        return {}
    if len(data) % len(mine):
        raise ScheduleError(f"{schedule.name} cuts each rank's data in {len(mine)} chunks: give a multiple of as many "
                            f"elements, not {len(data)}.")  # fmt: skip
    return {chunk: part.copy() for chunk, part in zip(mine, np.split(data, len(mine)), strict=True)}


def join_output(schedule: Schedule, rank: int, held: dict[int, NDArray[Any]]) -> NDArray[Any]:
    """What a rank has in the end of the chunks that matter, one after the other; nothing where none do."""
    parts = [held[c] for c in range(schedule.chunks) if ends_with(schedule, rank, c) is not None]
    return np.concatenate(parts) if parts else np.zeros(0)


def reference(schedule: Schedule, inputs: NDArray[Any]) -> list[NDArray[Any]]:
    """What each rank must end with, to the last bit: the schedule carried out here, additions in its order and type.

    `inputs` has shape (ranks, elements). Raises ScheduleError for a schedule that does not pass `check`.
    """
    if finding := check(schedule):
        raise ScheduleError(finding.sentence)
    moves = expand(schedule)
    held = split_input(schedule, inputs)
    carry_out(moves, schedule.ranks, _Arrays(moves, held))
    return [join_output(schedule, rank, held[rank]) for rank in range(schedule.ranks)]


def expected(schedule: Schedule, inputs: NDArray[Any]) -> list[NDArray[np.float64]]:
    """What each rank must end with by the collective's meaning, in float64, whatever the schedule's order."""
    validate(schedule)
    n = schedule.ranks
    held = split_input(schedule, inputs.astype(np.float64))
    outputs = []
    for rank in range(n):
        parts = []
        for chunk in range(schedule.chunks):
            whose = ends_with(schedule, rank, chunk)
            if whose is not None:
                parts.append(np.sum([held[owner][chunk] for owner in whose], axis=0))
        outputs.append(np.concatenate(parts) if parts else np.zeros(0))
    return outputs
