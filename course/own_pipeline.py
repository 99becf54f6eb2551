"""A pipeline schedule of the reader's own, as lab 14 asks for it: what the check says of it, and a picture."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any

from matplotlib.figure import Figure

from autograder.spec.lab import find_any
from autograder.spec.pipelines import PassTimes
from course.figures.stages import stages
from course.loading import module_of
from systems.parallel.bubbles import least_bubble
from systems.parallel.order_check import check
from systems.parallel.shapes import LayoutError
from systems.parallel.timeline import from_records, held, idle, run

_TIMES = PassTimes(forward=1.0, input_part=1.0, weights=1.0, transfer=0.04)  # in forward passes, as in lab 14


def lab_functions(lab: str) -> ModuleType:
    """The functions of one's own file, `labs/<lab>/submission.py`, as it is now. Raises LabError."""
    path = find_any(lab).folder / "submission.py"
    return module_of(path)


def own_pipeline(
    records: Iterable[Sequence[Any]], ranks: int, micro_batches: int, chunks: int = 1, split: bool = False,
    title: str = "Your schedule",
) -> Figure | None:  # fmt: skip
    """Draw records (rank, pass, micro-batch, chunk), and say what each rank holds and waits; or say what is wrong."""
    try:
        orders = from_records(records, ranks, split)
        fault = check(orders, micro_batches, chunks, split)
    except (LayoutError, TypeError, ValueError) as error:
        print(f"These are no records (rank, pass, micro-batch, chunk): {error}")
        return None
    if fault:
        print(fault.sentence)
        return None
    times = (_TIMES.forward, _TIMES.input_part, _TIMES.weights)
    cells = run(orders, *times, chunks, _TIMES.transfer)
    bubble = max(idle(cells, rank) for rank in range(ranks))
    least = least_bubble(ranks, micro_batches, *times, chunks, _TIMES.transfer, split)
    print(f"held at once, by rank: {', '.join(str(held(cells, rank)) for rank in range(ranks))}")
    print(f"bubble: {bubble:.2f} forward passes, at least {least:.2f}")
    return stages(cells, title=title, chunks=chunks)
