"""PyTorch's own planner: the partitioner behind torch.compile, given a budget, without a compiler behind it.

AOTAutograd traces forward and backward pass into one graph; a min-cut decides which tensors cross from the one to the
other, and below a budget of 1 a knapsack, by FLOP, gives up more of them (torch._functorch.config). Both graphs are
then run operator by operator, as they stand: what is kept and computed is what the partitioner decided, and no kernels
are fused.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from systems.training.flops import register
from systems.training.gpt import GPT
from systems.training.step import MeasuredStep, step_of

if TYPE_CHECKING:
    from torch.fx import GraphModule


def _as_it_stands(graph: GraphModule, inputs: list[Any]) -> Any:
    return graph.forward


def partitioned(model: GPT, tokens: Tensor, targets: Tensor, budget: float | None) -> MeasuredStep:
    """A step whose graphs the partitioner cut, with a budget between 0 (keep inputs alone) and 1 (as fast as it was).

    None keeps whatever the backward graph mentions, as without a compiler. Raises ValueError for another budget.
    """
    from torch._functorch import config  # here, as it takes seconds
    from torch._functorch.aot_autograd import aot_module
    from torch._functorch.partitioners import default_partition, min_cut_rematerialization_partition

    if budget is not None and not 0 <= budget <= 1:
        raise ValueError(f"the memory budget is a share of what is kept by default: {budget} is not between 0 and 1")
    register()
    with config.patch(activation_memory_budget=1.0 if budget is None else budget), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of operators that the partitioner has no estimate for
        cut = default_partition if budget is None else min_cut_rematerialization_partition
        compiled: nn.Module = aot_module(model, _as_it_stands, _as_it_stands, partition_fn=cut)
        compiled(tokens, targets)  # compiles on the first call, outside of the census
        return step_of(model, compiled, tokens, targets)
