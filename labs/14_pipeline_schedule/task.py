"""Lab 14: the order of passes of 1F1B, of interleaved 1F1B and of a zero-bubble schedule, as data."""

from __future__ import annotations

from autograder.spec.pipelines import PassTimes, Pipeline, PipelineTask
from autograder.spec.records import RecordCase
from autograder.spec.sizes import every
from autograder.spec.task import Dimensions

# Given, not measured: three passes that take the same, as in figures of papers, and a transfer that takes 4% of one.
TIMES = PassTimes(forward=1e-3, input_part=1e-3, weights=1e-3, transfer=4e-5)


def _groups(size: Dimensions) -> bool:
    return size["micro_batches"] % size["ranks"] == 0


def _interleaved_held(size: Dimensions, rank: int) -> int:
    """What Narayanan et al. (2021) let run ahead: twice the ranks behind, a round of each chunk but one, and one."""
    ahead = 2 * (size["ranks"] - 1 - rank) + (size["chunks"] - 1) * size["ranks"] + 1
    return min(size["micro_batches"] * size["chunks"], ahead)


ONE_F_ONE_B = Pipeline(
    function="one_f_one_b",
    correctness=(
        RecordCase("1F1B: one rank", {"ranks": 1, "micro_batches": 2}),
        RecordCase("1F1B: three ranks", {"ranks": 3, "micro_batches": 5}, run=True),
        RecordCase(
            "1F1B: few micro-batches",
            {"ranks": 5, "micro_batches": 2},
            every(ranks=(5, 6, 7), micro_batches=(1, 2, 3)),
        ),
        RecordCase(
            "1F1B: hidden",
            {"ranks": 6, "micro_batches": 17},
            every(ranks=range(2, 10), micro_batches=range(3, 30)),
            hidden=True,
        ),
    ),
    modelled=RecordCase(
        "1F1B: modelled",
        {"ranks": 5, "micro_batches": 13},
        every(ranks=(4, 5, 6, 7), micro_batches=range(9, 21)),
    ),
    times=TIMES,
    held=lambda size, rank: min(size["micro_batches"], size["ranks"] - rank),
    reason="Begin with a backward pass as soon as there is one: a rank needs only as many micro-batches as ranks lie "
    "between it and the end, itself included.",
)

INTERLEAVED = Pipeline(
    function="interleaved",
    correctness=(
        RecordCase("interleaved: two ranks", {"ranks": 2, "micro_batches": 4, "chunks": 2}, run=True),
        RecordCase("interleaved: one chunk", {"ranks": 3, "micro_batches": 6, "chunks": 1}),
        RecordCase(
            "interleaved: one group",
            {"ranks": 4, "micro_batches": 4, "chunks": 3},
            every(
                lambda size: size["micro_batches"] == size["ranks"],
                ranks=(3, 4, 5),
                micro_batches=(3, 4, 5),
                chunks=(2, 3),
            ),
        ),
        RecordCase(
            "interleaved: hidden",
            {"ranks": 4, "micro_batches": 12, "chunks": 4},
            every(_groups, ranks=range(2, 8), micro_batches=range(4, 25), chunks=(2, 3, 4)),
            hidden=True,
        ),
    ),
    modelled=RecordCase(
        "interleaved: modelled",
        {"ranks": 4, "micro_batches": 12, "chunks": 2},
        every(
            lambda size: _groups(size) and size["micro_batches"] > size["ranks"],
            ranks=(4, 5, 6),
            micro_batches=range(8, 25),
            chunks=(2, 3),
        ),
    ),
    times=TIMES,
    held=_interleaved_held,
    reason="After the warm-up each forward pass should be followed by a backward pass: the warm-up is twice the ranks "
    "behind, and a round of every chunk but one.",
)

ZERO_BUBBLE = Pipeline(
    function="zero_bubble",
    correctness=(
        RecordCase("zero bubble: one rank", {"ranks": 1, "micro_batches": 3}),
        RecordCase("zero bubble: three ranks", {"ranks": 3, "micro_batches": 5}, run=True),
        RecordCase(
            "zero bubble: few micro-batches",
            {"ranks": 5, "micro_batches": 2},
            every(ranks=(5, 6, 7), micro_batches=(1, 2, 3)),
        ),
        RecordCase(
            "zero bubble: hidden",
            {"ranks": 6, "micro_batches": 17},
            every(ranks=range(2, 10), micro_batches=range(3, 30)),
            hidden=True,
        ),
    ),
    modelled=RecordCase(
        "zero bubble: modelled",
        {"ranks": 5, "micro_batches": 13},
        every(ranks=(4, 5, 6, 7), micro_batches=range(9, 21)),
    ),
    times=TIMES,
    held=lambda size, rank: min(size["micro_batches"], size["ranks"]),
    reason="A micro-batch is held until its W: put it off no further than the room that 1F1B's first rank has.",
    split=True,
)

TASK = PipelineTask((ONE_F_ONE_B, INTERLEAVED, ZERO_BUBBLE))
