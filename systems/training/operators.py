"""What the planner plans with, measured: the operators that a full checkpoint of a model runs again."""

from __future__ import annotations

from torch import Tensor

from systems.training import recompute
from systems.training.gpt import GPT
from systems.training.planner import Operator
from systems.training.step import MeasuredStep, step


def recomputed(run: MeasuredStep) -> list[Operator]:
    """The operators of a step's blocks that its backward pass ran again, in the order of the model, one a module."""
    found: dict[tuple[int, str], tuple[int, int, int]] = {}
    for call in run.calls[run.forward :]:
        if call.module.startswith("blocks."):
            _, block, name = call.module.split(".")
            so_far = found.get((int(block), name), (0, 0, 0))
            sizes = (call.made, call.flops, call.moved)
            found[int(block), name] = tuple(a + b for a, b in zip(so_far, sizes, strict=True))  # type: ignore[assignment]
    # The backward pass goes through blocks from the last to the first; within one the order is that of the model.
    return sorted((Operator(*key, *sizes) for key, sizes in found.items()), key=lambda one: one.block)


def operators(model: GPT, tokens: Tensor, targets: Tensor) -> list[Operator]:
    """Measured on one step with every block checkpointed.

    The last product of a block is not among them: nothing of a block's backward pass needs its result, and a
    checkpoint stops running a block again when the last saved tensor is back.
    """
    return recomputed(step(model, tokens, targets, lambda names: recompute.whole))
