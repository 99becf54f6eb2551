"""Pipeline schedules as data: what each GPU does in which order, and when, once times are given.

A pass is done as soon as its GPU is free, in the GPU's order, and what it needs is there: a forward pass needs that of
the stage before; a backward pass that of the stage behind, and its own forward pass. What comes from another GPU is
there a given time after it was made; GPUs work while they send.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from systems.parallel.layout import Schedule
from systems.parallel.shapes import LayoutError


class Kind(StrEnum):
    """A pass: forward, backward whole, or its two parts, for the input's gradient and for the weights'."""

    FORWARD = "F"
    BACKWARD = "B"
    INPUT = "I"
    WEIGHTS = "W"


@dataclass(frozen=True)
class Pass:
    """One pass of a micro-batch at a stage of its pipeline; `beside` runs at the same time, if there is one."""

    kind: Kind
    micro_batch: int
    stage: int
    beside: Pass | None = None


@dataclass(frozen=True)
class Cell:
    """When a GPU does a pass."""

    gpu: int
    start: float
    end: float
    done: Pass


Orders = list[list[Pass]]
F, B, I, W = Kind.FORWARD, Kind.BACKWARD, Kind.INPUT, Kind.WEIGHTS  # noqa: E741


def gpipe(stages: int, many: int) -> Orders:
    """All forward passes, then all backward passes."""
    return [[Pass(kind, m, gpu) for kind in (F, B) for m in range(many)] for gpu in range(stages)]


def one_f_one_b(stages: int, many: int) -> Orders:
    """As many forward passes as there are stages behind, then backward and forward in turn."""
    orders = []
    for gpu in range(stages):
        ahead = min(many, stages - 1 - gpu)
        order = [Pass(F, m, gpu) for m in range(ahead)]
        for m in range(many - ahead):
            order += [Pass(F, ahead + m, gpu), Pass(B, m, gpu)]
        orders.append(order + [Pass(B, m, gpu) for m in range(many - ahead, many)])
    return orders


def interleaved(stages: int, many: int, chunks: int) -> Orders:
    """1F1B with `chunks` stages a GPU, micro-batches in groups of `stages`: GPU g has stages g, g + p, g + 2 p, ..."""
    if many % stages:
        raise LayoutError(f"Interleaving takes a multiple of {stages} micro-batches, not {many}.")

    def one(kind: Kind, number: int, gpu: int) -> Pass:
        chunk, group = number // stages % chunks, number // (stages * chunks)
        place = chunk if kind is F else chunks - 1 - chunk
        return Pass(kind, group * stages + number % stages, place * stages + gpu)

    orders, total = [], many * chunks
    for gpu in range(stages):
        ahead = min(total, 2 * (stages - 1 - gpu) + (chunks - 1) * stages)
        order = [one(F, n, gpu) for n in range(ahead)]
        for n in range(total - ahead):
            order += [one(F, ahead + n, gpu), one(B, n, gpu)]
        orders.append(order + [one(B, n, gpu) for n in range(total - ahead, total)])
    return orders


def zero_bubble(stages: int, many: int) -> Orders:
    """ZB-H1: 1F1B whose weights' gradients are put off, by as many micro-batches as there are stages before."""
    orders = []
    for gpu in range(stages):
        ahead = min(many, stages - 1 - gpu)
        order = [Pass(F, m, gpu) for m in range(ahead)]
        made = 0
        for m in range(many):
            if ahead + m < many:
                order.append(Pass(F, ahead + m, gpu))
            order.append(Pass(I, m, gpu))
            if m >= gpu:
                order.append(Pass(W, made, gpu))
                made += 1
        orders.append(order + [Pass(W, m, gpu) for m in range(made, many)])
    return orders


def dualpipe(stages: int, many: int) -> Orders:
    """DeepSeek's: half of the micro-batches enter at either end; a GPU has a stage of both pipelines.

    GPU g counts its two directions from its nearer end: `near` enters there, `far` at the other end. `far` is behind by
    as many forward passes as lie between.
    """
    if stages % 2 or many % 2 or many < 2 * stages:
        raise LayoutError(f"DualPipe takes an even number of stages and of micro-batches, twice as many: not {stages} "
                          f"and {many}.")  # fmt: skip
    half = stages // 2
    return [_from_both_ends(gpu, stages, many // 2, half) for gpu in range(stages)]


def _from_both_ends(gpu: int, stages: int, each: int, half: int) -> list[Pass]:
    depth = min(gpu, stages - 1 - gpu)  # from the nearer end
    outer = half - depth - 1
    first = 0 if gpu < half else each  # the near direction's micro-batches, numbered from here
    offset = {"near": first, "far": each - first}
    stage = {"near": depth, "far": stages - 1 - depth}
    next_f, next_b = {"near": 0, "far": 0}, {"near": 0, "far": 0}
    order: list[Pass] = []
    late: deque[Pass] = deque()

    def forward(side: str) -> Pass:
        next_f[side] += 1
        return Pass(F, offset[side] + next_f[side] - 1, stage[side])

    def backward(side: str, kind: Kind = B) -> Pass:
        next_b[side] += 1
        done = Pass(kind, offset[side] + next_b[side] - 1, stage[side])
        if kind is I:
            late.append(Pass(W, done.micro_batch, done.stage))
        return done

    def both(ahead: str, back: str) -> Pass:
        one = forward(ahead)
        return Pass(one.kind, one.micro_batch, one.stage, backward(back))

    order += [forward("near") for _ in range(2 * outer)]
    for _ in range(depth + 1):
        order += [forward("near"), forward("far")]
    for _ in range(outer):
        order += [backward("far", I), late.popleft(), forward("far")]
    for _ in range(each - stages + depth + 1):
        order += [both("near", "far"), both("far", "near")]
    for _ in range(outer):
        order += [backward("far"), both("far", "near")]
    for n in range(2 * (depth + 1)):  # the second half of these puts weights' gradients off
        order.append(backward(("far", "near")[n % 2], B if n <= depth else I))
    for _ in range(outer):
        order += [late.popleft(), backward("near", I)]
    return order + list(late)


_ORDERS: dict[Schedule, Callable[[int, int], Orders]] = {
    Schedule.GPIPE: gpipe,
    Schedule.ONE_F_ONE_B: one_f_one_b,
    Schedule.ZERO_BUBBLE: zero_bubble,
    Schedule.DUALPIPE: dualpipe,
}


def orders(schedule: Schedule, stages: int, micro_batches: int, chunks: int = 1) -> Orders:
    """What each GPU does, in order. Raises LayoutError for sizes that the schedule cannot have, and for ZB-V."""
    if min(stages, micro_batches, chunks) < 1:
        raise LayoutError("Stages, micro-batches and chunks are 1 or more.")
    if chunks > 1:
        return interleaved(stages, micro_batches, chunks)
    if schedule not in _ORDERS:
        raise LayoutError(f"The order of {schedule} is not known here, only its bubble.")
    return _ORDERS[schedule](stages, micro_batches)


def from_records(records: Iterable[Sequence[Any]], ranks: int, split: bool = False) -> Orders:
    """The orders of records (rank, "F", "B" or "W", micro-batch, chunk), a rank's as they come.

    Chunk c of rank r is stage c p + r of p ranks. With `split` B is the input's part of a backward pass. Raises
    LayoutError for a rank or a letter that there is not.
    """
    kinds = {"F": F, "B": I if split else B, "W": W}
    made: Orders = [[] for _ in range(ranks)]
    for number, (rank, letter, micro_batch, chunk) in enumerate(records):
        if not 0 <= rank < ranks:
            raise LayoutError(f"Record {number} is of rank {rank}: ranks are 0 to {ranks - 1}.")
        if letter not in kinds:
            raise LayoutError(f"Record {number} has the pass {letter!r}: it is 'F', 'B' or 'W'.")
        made[rank].append(Pass(kinds[letter], micro_batch, chunk * ranks + rank))
    return made


def run(
    orders: Orders, forward: float, input_part: float, weights: float, chunks: int = 1, transfer: float = 0.0
) -> list[Cell]:
    """When each pass happens, for the seconds of a micro-batch at one GPU; a chunk takes its share of them.

    `transfer`: the seconds from one GPU to another. Raises LayoutError if passes wait for each other.
    """
    takes = {F: forward, B: input_part + weights, I: input_part, W: weights}
    stages = len(orders) * chunks
    done: dict[tuple[bool, int, int], tuple[float, int]] = {}  # (backward, stage, micro-batch) -> end, GPU
    clock, place, cells = [0.0] * len(orders), [0] * len(orders), []
    moved = True
    while moved:
        moved = False
        for gpu, order in enumerate(orders):
            while place[gpu] < len(order):
                one = order[place[gpu]]
                parts = [one, one.beside] if one.beside else [one]
                wanted = [need for part in parts for need in needs(part, stages)]
                if any(need not in done for need in wanted):
                    break
                there = [end if by == gpu else end + transfer for end, by in (done[need] for need in wanted)]
                start = max([clock[gpu], *there])
                end = start + sum(takes[part.kind] for part in parts) / chunks
                for part in parts:
                    if part.kind is not W:
                        done[part.kind is not F, part.stage, part.micro_batch] = end, gpu
                cells.append(Cell(gpu, start, end, one))
                clock[gpu], place[gpu], moved = end, place[gpu] + 1, True
    if any(place[gpu] < len(order) for gpu, order in enumerate(orders)):
        raise LayoutError("These orders wait for each other: a pass comes before one that it needs.")
    return cells


def needs(one: Pass, stages: int) -> list[tuple[bool, int, int]]:
    """What must be done before a pass, as (backward, stage, micro-batch); its own forward pass comes first."""
    if one.kind is F:
        return [(False, one.stage - 1, one.micro_batch)] if one.stage else []
    if one.kind is W:
        return [(True, one.stage, one.micro_batch)]
    behind = [(True, one.stage + 1, one.micro_batch)] if one.stage + 1 < stages else []
    return [(False, one.stage, one.micro_batch), *behind]


def idle(cells: list[Cell], gpu: int) -> float:
    """Seconds that a GPU waits between the first pass anywhere and the last."""
    return max(cell.end for cell in cells) - sum(cell.end - cell.start for cell in cells if cell.gpu == gpu)


def held(cells: list[Cell], gpu: int) -> int:
    """The most passes whose activations a GPU holds at once: from the forward pass to the end of the weights' part."""
    events: list[tuple[float, int]] = []
    for cell in cells:
        if cell.gpu != gpu:
            continue
        parts = [cell.done, cell.done.beside] if cell.done.beside else [cell.done]
        for part in parts:
            if part.kind is F:
                events.append((cell.start, 1))
            elif part.kind in (B, W):
                events.append((cell.end, -1))
    most = now = 0
    for _, change in sorted(events):  # at one moment, what ends before what begins
        now += change
        most = max(most, now)
    return most
