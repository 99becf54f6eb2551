"""FLOP of an operator, by torch's own formulas, and by ours for the one that torch has none for.

A product of (m, k) and (k, n) is 2 m k n. Attention is counted whole, as if nothing were masked. All else counts as
nothing: what norms and sums cost is not arithmetic but the bytes they move.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils.flop_counter import (
    flop_registry,
    register_flop_formula,
    sdpa_backward_flop_count,
    sdpa_flop_count,
)

_FORWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_BACKWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


def register() -> None:
    """Give torch the formulas of attention on a CPU, which its counter and its partitioner lack. Twice is harmless."""
    if _FORWARD not in flop_registry:
        register_flop_formula(_FORWARD)(_attention)
        register_flop_formula(_BACKWARD)(_attention_backward)


def flops_of(operator: OpOverload, arguments: tuple[Any, ...], options: dict[str, Any], result: Any) -> int:
    """FLOP of one call. Call `register` before."""
    formula = flop_registry.get(operator._overloadpacket)
    return int(formula(*arguments, **options, out_val=result)) if formula else 0


def _attention(query: Any, key: Any, value: Any, *rest: Any, out_shape: Any = None, **options: Any) -> int:
    return int(sdpa_flop_count(query, key, value))


def _attention_backward(
    gradient: Any, query: Any, key: Any, value: Any, *rest: Any, out_shape: Any = None, **options: Any
) -> int:
    return int(sdpa_backward_flop_count(gradient, query, key, value))
