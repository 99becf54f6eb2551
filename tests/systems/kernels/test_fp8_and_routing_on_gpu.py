"""FP8 products and the shuffle on a GPU, against torch in float64 and torch's stable sort."""

from __future__ import annotations

import random
from typing import Any

import pytest

from systems.kernels import KernelError, fp8_matmul, grouped_matmul, shuffle

pytestmark = pytest.mark.gpu

SHAPES = 12


def operands(m: int, n: int, k: int, experts: int = 0) -> tuple[Any, Any, Any, Any]:
    """Codes of N(0, 1), and scales."""
    import torch

    few, blocks, panels = (experts,) if experts else (), -(-k // 128), -(-n // 128)
    x, w = (torch.randn(*size, device="cuda").to(torch.float8_e4m3fn) for size in ((m, k), (*few, n, k)))
    x_scale, w_scale = (torch.rand(*size, device="cuda") + 0.5 for size in ((blocks, m), (*few, panels, blocks)))
    return x, w, x_scale, w_scale


def true(x: Any, w: Any, x_scale: Any, w_scale: Any) -> Any:
    (_, k), n = x.shape, w.shape[0]
    by_rows = x_scale.t().repeat_interleave(128, 1)[:, :k].double()
    by_tiles = w_scale.repeat_interleave(128, 0)[:n].repeat_interleave(128, 1)[:, :k].double()
    return (x.double() * by_rows) @ (w.double() * by_tiles).t()


def close(given: Any, expected: Any) -> bool:
    """To 0.2% in the root mean square: cuts of the short accumulator, and float16's rounding."""
    error = (given.double() - expected).square().mean().sqrt()
    return bool(error <= 2e-3 * expected.square().mean().sqrt())


def test_fp8_products_of_drawn_shapes() -> None:
    draw = random.Random(9)
    for _ in range(SHAPES):
        x, w, x_scale, w_scale = operands(
            draw.randrange(1, 700), 8 * draw.randrange(1, 300), 16 * draw.randrange(1, 200)
        )
        assert close(fp8_matmul(x, w, x_scale, w_scale), true(x, w, x_scale, w_scale)), (x.shape, w.shape)


def test_products_of_groups() -> None:
    import torch

    for rows, most in ((30, 40), (700, None)):
        x, w, x_scale, w_scale = operands(4 * rows + 5, 264, 400, experts=4)
        count = torch.tensor([rows, 0, rows - 7, rows], dtype=torch.int32, device="cuda")
        first = torch.tensor([5, 0, 5 + rows, 5 + 3 * rows], dtype=torch.int32, device="cuda")
        out = torch.full((len(x), 264), 7.0, dtype=torch.float16, device="cuda")
        assert grouped_matmul(x, w, x_scale, w_scale, first, count, out, most) is out
        for e in (0, 2, 3):
            part = slice(int(first[e]), int(first[e] + count[e]))
            assert close(out[part], true(x[part], w[e], x_scale[:, part], w_scale[e]))
        assert bool((out[:5] == 7).all())


def test_shuffles_of_few_and_many_tokens() -> None:
    import torch

    for tokens, experts, k in ((1, 16, 1), (200, 128, 4), (3000, 320, 8), (20000, 64, 2)):
        scores = torch.randn(tokens, experts, device="cuda")
        made = shuffle(scores, k)
        chosen = scores.sort(dim=1, descending=True, stable=True).indices[:, :k]
        order = chosen.flatten().sort(stable=True).indices
        count = torch.bincount(chosen.flatten(), minlength=experts)
        for given, expected in zip(made, (chosen, count, count.cumsum(0) - count, order), strict=False):
            assert torch.equal(given.long(), expected)
        assert torch.equal(made.position.flatten()[order].long(), torch.arange(tokens * k, device="cuda"))


def test_errors_name_the_argument() -> None:
    x, w, x_scale, w_scale = operands(16, 24, 160)
    with pytest.raises(KernelError, match="x_scale has the shape"):
        fp8_matmul(x, w, x_scale.t().contiguous(), w_scale)
    with pytest.raises(KernelError, match="k is 3"):
        shuffle(x_scale, 3)
