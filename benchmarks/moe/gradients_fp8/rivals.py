"""In the worker: gradients of all experts' weights by PyTorch, in bf16 and in FP8, for all at once and one by one.

All of them give bf16. A loop is one of launches for counts that the host knows; graphs hold either.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.moe.gradients_fp8.data import Tokens
from systems.moe.gradients_fp8.quantise import BLOCK

BF16, GROUPED, ROWS, BLOCKS = "torch grouped bf16", "torch grouped fp8", "torch loop fp8", "torch loop fp8, blocks"


def bf16(given: Tokens) -> Callable[[], Any]:
    """torch's product of groups over tokens as they lie, in bf16."""
    import torch

    return lambda: torch._grouped_mm(given.dy.t(), given.x, offs=given.ends)


def grouped(given: Tokens) -> Callable[[], Any]:
    """torch's FP8 product of groups, with one scale for each line and expert."""
    import torch
    import torch.nn.functional as F

    (dy8, of_dy), (x8, of_x) = given.by_rows(given.dy), given.by_rows(given.x)
    ends = torch.tensor([there.stop for there in given.padded()], dtype=torch.int32, device=dy8.device)
    scales = of_dy.reshape(-1), of_x.reshape(-1)

    def multiply() -> Any:
        if hasattr(torch, "_scaled_grouped_mm"):
            return torch._scaled_grouped_mm(
                dy8, x8.t(), *scales, offs=ends, out_dtype=torch.bfloat16, use_fast_accum=True
            )
        kind = F.ScalingType.RowWise
        return F.scaled_grouped_mm(
            dy8, x8.t(), scales[0], kind, scales[1], kind, offs=ends, output_dtype=torch.bfloat16, use_fast_accum=True
        )

    return multiply


def loop(given: Tokens) -> Callable[[], list[Any]]:
    """torch's FP8 product for each expert that has tokens, with one scale a line."""
    import torch

    (dy8, of_dy), (x8, of_x) = given.by_rows(given.dy), given.by_rows(given.x)

    def multiply(e: int, there: slice) -> Any:
        return torch._scaled_mm(
            dy8[:, there],
            x8[:, there].t(),
            scale_a=of_dy[e, :, None],
            scale_b=of_x[e, None, :],
            out_dtype=torch.bfloat16,
            use_fast_accum=True,
        )

    return one_by_one(given, multiply)


def loop_of_blocks(given: Tokens) -> Callable[[], list[Any]]:
    """torch's FP8 product for each expert that has tokens, with the codes and scales that ours takes."""
    import torch
    import torch.nn.functional as F

    dy8, x8 = (codes.view(torch.float8_e4m3fn) for codes in (given.dy8, given.x8))

    def multiply(e: int, there: slice) -> Any:
        blocks, kind = slice(there.start // BLOCK, there.stop // BLOCK), F.ScalingType.BlockWise1x128
        of_dy, of_x = given.dy_scale[blocks].t(), given.x_scale[blocks].t()
        return F.scaled_mm(dy8[:, there], x8[:, there].t(), of_dy, kind, of_x, kind, output_dtype=torch.bfloat16)

    return one_by_one(given, multiply)


def one_by_one(given: Tokens, multiply: Callable[[int, slice], Any]) -> Callable[[], list[Any]]:
    """What `multiply` gives for each expert and its slots; None for one without tokens."""
    there = given.padded()
    return lambda: [multiply(e, mine) if mine.stop > mine.start else None for e, mine in enumerate(there)]


ALL = {BF16: bf16, GROUPED: grouped, ROWS: loop, BLOCKS: loop_of_blocks}
