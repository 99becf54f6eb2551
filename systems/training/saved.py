"""What autograd keeps for the backward pass, seen by hooks, by operator."""

from __future__ import annotations

import torch
from torch import Tensor

from systems.training.gpt import GPT
from systems.training.names import Names


def saved_bytes(model: GPT, tokens: Tensor, targets: Tensor) -> dict[str, int]:
    """Bytes that one forward pass keeps, by the operator that was the first to keep them, layers together.

    A storage counts once and whole, however many tensors look at it; parameters and buffers, which are there anyway,
    do not count. What a checkpoint keeps by itself is not seen by hooks: `systems.training.census` sees it.
    """
    known = {tensor.untyped_storage().data_ptr() for tensor in (*model.parameters(), *model.buffers())}
    found: dict[str, int] = {}
    alive = []  # so that no address is used twice
    names = Names(model)

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            known.add(storage.data_ptr())
            alive.append(storage)
            found[names.current] = found.get(names.current, 0) + storage.nbytes()
        return tensor

    with names, torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = model(tokens, targets)
    del loss
    return found
