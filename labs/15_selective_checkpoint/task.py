"""Lab 15: what a selective checkpoint keeps, as data: a policy, and planners for a budget of memory."""

from __future__ import annotations

from autograder.spec.checkpoints import Aim, Checkpoint, CheckpointTask
from autograder.spec.records import RecordCase
from autograder.spec.sizes import every
from autograder.spec.task import Dimensions
from systems.training.planner import Operator
from systems.training.sizes import Sizes
from systems.training.table import recomputed

_BATCH, _VOCABULARY = 2, 16
_SMALL = {"layers": 3, "width": 32, "sequence": 32}  # what PyTorch trains


def _blocks(size: Dimensions) -> list[Sizes]:
    """A block for each layer. With `stages`, as in models of images, the next stage's are twice as wide and have a
    quarter of the tokens."""
    layers, blocks = size["layers"], []
    for layer in range(layers):
        stage = layer * size.get("stages", 1) // layers
        width, sequence = size["width"] << stage, size["sequence"] >> 2 * stage
        blocks.append(Sizes(1, width, 2 << stage, _VOCABULARY, sequence, _BATCH))
    return blocks


def _table(size: Dimensions) -> list[Operator]:
    blocks = _blocks(size)
    table = recomputed(blocks)
    return [other for one in table for other in _gated(one, blocks[one.block])] if size.get("gated") else table


def _gated(one: Operator, sizes: Sizes) -> list[Operator]:
    """The same operator, or those that a gated MLP has in its place: down(silu(gate(x)) * up(x))."""
    if one.name == "up":
        return [Operator(one.block, "gate", one.bytes, one.flops, one.moved), one]
    if one.name == "gelu":
        return [
            Operator(one.block, "silu", one.bytes, 0, 2 * one.bytes),
            Operator(one.block, "times", one.bytes, 0, 3 * one.bytes),
        ]
    return [one]


def _model(size: Dimensions) -> Sizes:
    return Sizes(size["layers"], size["width"], 2, _VOCABULARY, size["sequence"], _BATCH)


POLICY = Checkpoint(
    function="policy",
    table=_table,
    aim=Aim.NOTHING_AGAIN,
    correctness=(
        RecordCase("policy: one block", {"layers": 1, "width": 32, "sequence": 16}),
        RecordCase("policy: three blocks, trained", _SMALL, run=True),
        RecordCase(
            "policy: hidden",
            {"layers": 3, "width": 64, "sequence": 64, "gated": 1, "stages": 1},
            every(layers=(2, 3, 4, 5), width=(32, 48, 64), sequence=(64, 128, 256), gated=(1,), stages=(1, 2)),
            hidden=True,
        ),
    ),
    modelled=RecordCase(
        "policy: modelled",
        {"layers": 4, "width": 64, "sequence": 64, "gated": 1},
        every(layers=(3, 4, 5, 6), width=(32, 48, 64, 96), sequence=(32, 64, 128), gated=(1,)),
    ),
)

_MOVES_MORE = (
    "Among plans with as few FLOP again, take the one that moves the fewest bytes again: what is left of the budget "
    "has room for some norm or addition."
)

PLAN = Checkpoint(
    function="plan",
    table=_table,
    aim=Aim.KEPT,
    reason=_MOVES_MORE,
    correctness=(
        RecordCase("plan: one block", {"layers": 1, "width": 32, "sequence": 16, "percent": 40}),
        RecordCase("plan: no room", {"layers": 2, "width": 32, "sequence": 16, "percent": 0}),
        RecordCase("plan: room for everything", {"layers": 2, "width": 32, "sequence": 16, "percent": 100}),
        RecordCase("plan: three blocks, trained", {**_SMALL, "percent": 47}, run=True),
        RecordCase(
            "plan: hidden",
            {"layers": 5, "width": 48, "sequence": 128, "stages": 2, "gated": 1, "percent": 39},
            every(
                layers=(3, 4, 5),
                width=(32, 48),
                sequence=(64, 128),
                stages=(1, 2),
                gated=(0, 1),
                percent=range(11, 80, 4),
            ),
            hidden=True,
        ),
    ),
    # Of sizes like these, those where most FLOP a byte is not best, by a seventh or more, and where what has no FLOP
    # matters, by a twentieth: tests count both.
    modelled=RecordCase(
        "plan: modelled",
        {"layers": 6, "width": 48, "sequence": 256, "stages": 2, "percent": 53},
        tuple(
            {"layers": layers, "width": width, "sequence": sequence, "stages": stages, "percent": percent}
            for layers, width, sequence, stages, percent in (
                (6, 32, 256, 2, 53),
                (6, 48, 256, 2, 53),
                (6, 64, 256, 2, 53),
                (4, 64, 256, 3, 44),
                (4, 32, 256, 3, 44),
                (4, 48, 256, 3, 44),
                (6, 32, 64, 2, 52),
                (5, 48, 256, 2, 53),
                (5, 64, 256, 2, 53),
                (5, 32, 64, 2, 52),
                (6, 32, 64, 3, 50),
                (5, 32, 64, 3, 50),
                (4, 32, 64, 2, 50),
            )
        ),
    ),
)

PLAN_FOR_PEAK = Checkpoint(
    function="plan_for_peak",
    table=_table,
    aim=Aim.PEAK,
    reason=_MOVES_MORE,
    correctness=(
        RecordCase("peak: one block", {"layers": 1, "width": 32, "sequence": 16, "percent": 0}),
        RecordCase("peak: no room", {"layers": 3, "width": 32, "sequence": 16, "percent": 0}),
        RecordCase("peak: three blocks, trained", {**_SMALL, "percent": 47}, run=True),
        RecordCase(
            "peak: hidden",
            {"layers": 5, "width": 48, "sequence": 64, "gated": 1, "percent": 39},
            every(layers=(3, 4, 5), width=(32, 48), sequence=(64, 128), gated=(0, 1), percent=range(11, 80, 4)),
            hidden=True,
        ),
    ),
    modelled=RecordCase(
        "peak: modelled",
        {"layers": 4, "width": 64, "sequence": 64, "percent": 50},
        every(layers=(4,), width=(32, 48, 64, 96), sequence=(64, 96), percent=(50, 51)),
    ),
)

TASK = CheckpointTask((POLICY, PLAN, PLAN_FOR_PEAK), model=_model)
