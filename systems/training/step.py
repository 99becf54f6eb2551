"""One training step under a census: what it keeps, its peak, what it computes, and the gradients it ends with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from systems.training.census import Call, Census
from systems.training.gpt import GPT, Run
from systems.training.names import Names


@dataclass(frozen=True)
class MeasuredStep:
    """`kept`: bytes alive between forward and backward pass; `peak`: the most alive at any time; neither has weights
    or their gradients. `calls`: every operator, of which the first `forward` are the forward pass. `gradients`: by
    parameter."""

    loss: float
    kept: int
    peak: int
    forward: int
    calls: tuple[Call, ...]
    gradients: dict[str, Tensor]

    @property
    def flops(self) -> int:
        """FLOP of the whole step."""
        return sum(call.flops for call in self.calls)

    @property
    def moved(self) -> int:
        """Bytes that all operators of the step read and write."""
        return sum(call.moved for call in self.calls)

    def same_gradients(self, other: MeasuredStep) -> bool:
        """Whether every gradient has the same bits."""
        return all(torch.equal(self.gradients[name], other.gradients[name]) for name in self.gradients)


# What gives a way of running blocks, from the names that it may ask.
Way = Callable[[Names], Run | None]


def plain(names: Names) -> Run | None:
    """Keep everything that the backward pass needs."""
    return None


def step(model: GPT, tokens: Tensor, targets: Tensor, way: Way = plain) -> MeasuredStep:
    """One forward and one backward pass with the blocks run `way`. The gradients of the step stay in the model."""
    names = Names(model)
    model.run = way(names)
    try:
        with names:
            return step_of(model, model, tokens, targets, names)
    finally:
        model.run = None


def step_of(
    model: nn.Module, called: Callable[..., Tensor], tokens: Tensor, targets: Tensor, names: Names | None = None
) -> MeasuredStep:
    """The same of anything that computes the loss with the parameters of `model`."""
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)  # made ahead, so that they are no part of what is counted
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    with Census((*model.parameters(), *model.buffers(), *gradients, tokens, targets), names) as census:
        loss = called(tokens, targets)
        kept, forward = census.live - loss.nbytes, len(census.calls)
        loss.backward()
    found = {name: parameter.grad.clone() for name, parameter in model.named_parameters() if parameter.grad is not None}
    return MeasuredStep(loss.item(), kept, census.peak, forward, tuple(census.calls), found)
