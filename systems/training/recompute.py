"""Ways to run a block that keep less and compute again: whole blocks, or what a plan does not keep.

Both stand on torch.utils.checkpoint. A policy is asked for every operator of a block, once when it is first run and
once when it is run again, and says whether its result is kept. Ours knows operators by the modules that run them
(`systems.training.names`), so a plan is a set of names: {"qkv", "attention"}.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from systems.training.gpt import Run
from systems.training.names import Names

# The policy of a lecture in one line: keep what took many FLOP, make again what took few.
PRODUCTS = frozenset({"qkv", "attention", "projection", "up"})
# Results that no checkpoint need keep: they only show what is there in another shape.
_VIEWS = ("view", "_unsafe_view", "transpose", "permute", "t", "select", "split", "unbind", "expand", "alias")


def whole(number: int, block: nn.Module, stream: Tensor) -> Tensor:
    """Full checkpointing: keep a block's input and nothing else."""
    return checkpoint(block, stream, use_reentrant=False)


def selective(kept: Sequence[Collection[str]], names: Names) -> Run:
    """Keep the results of the operators in `kept[number]` of each block; everything else is computed again.

    `names` must be entered around forward and backward pass.
    """

    def run(number: int, block: nn.Module, stream: Tensor) -> Tensor:
        policy = partial(_policy, names, frozenset(kept[number]))
        contexts = partial(create_selective_checkpoint_contexts, policy)
        return checkpoint(block, stream, use_reentrant=False, context_fn=contexts)

    return run


def _policy(
    names: Names, kept: frozenset[str], context: Any, operator: Callable, *arguments: Any, **options: Any
) -> CheckpointPolicy:
    is_view = str(operator).split(".")[1] in _VIEWS
    return CheckpointPolicy.MUST_SAVE if names.current in kept and not is_view else CheckpointPolicy.PREFER_RECOMPUTE
