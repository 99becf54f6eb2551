"""What all-reduces and the layer must give: inputs that every rank can draw, float64 results, what is close enough."""

from __future__ import annotations

from collections.abc import Sequence

import torch

SINGLE = 2.0**-24  # the rounding of a float32 addition, which is how the kernels add, whatever they are given


def drawn(count: int, rank: int, number: int, dtype: torch.dtype, whole: bool) -> torch.Tensor:
    """A rank's input, on the processor: whole numbers from -8 to 8, whose sums are exact, or N(0, 1)."""
    generator = torch.Generator().manual_seed(1000 * number + rank)
    if whole:
        return torch.randint(-8, 9, (count,), generator=generator).to(dtype)
    return torch.randn(count, generator=generator).to(dtype)


def rounding(dtype: torch.dtype) -> float:
    """The largest relative error of rounding to a type."""
    return torch.finfo(dtype).eps / 2


def sums(parts: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """The sum over the first axis of float64 `parts`, and by how much a right one of `dtype` may differ from it.

    n - 1 additions in float32, in any order, are off by (n - 1) roundings of the sum of magnitudes at most (Higham,
    Accuracy and Stability of Numerical Algorithms, section 4.2, to first order); the result is rounded once more. Sums
    of few small whole numbers are then off by less than one half, which a test can tell from one.
    """
    total = parts.sum(0)
    added = (len(parts) - 1) * SINGLE * parts.abs().sum(0)
    return total, 1.01 * (added + rounding(dtype) * total.abs())


def normed(
    parts: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, epsilon: float, dtype: torch.dtype
) -> tuple[tuple[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]:
    """Residual and norm of the sum of float64 `parts` (ranks, rows, width), each with what it may be off by.

    The mean of w squares is off by less than w roundings, its root by half of that; 1e-5 is more than that for rows
    of 100 numbers and, as a block adds in a tree, for those of 8,192.
    """
    hidden, off = sums(torch.cat((parts, residual[None])), dtype)
    scale = (hidden.square().mean(1, keepdim=True) + epsilon).rsqrt()
    out = hidden * scale * weight
    added = len(parts) * SINGLE * (parts.abs().sum(0) + residual.abs())
    return (hidden, off), (out, 1.01 * (rounding(dtype) + 1e-5) * out.abs() + added * scale * weight.abs())


def sparse(rows: int, columns: int, seed: int) -> torch.Tensor:
    """A bfloat16 matrix, on the processor, of -1 and 1, an eighth of it each, and zeros.

    Sums of k products have a standard deviation of sqrt(k) / 4, so that bfloat16 has them up to k = 14,336: 256 is more
    than eight of these.
    """
    seen = torch.randint(0, 8, (rows, columns), generator=torch.Generator().manual_seed(seed), dtype=torch.int8)
    return (seen == 1).to(torch.bfloat16) - (seen == 0).to(torch.bfloat16)


def products(parts: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> tuple[torch.Tensor, torch.Tensor]:
    """The sum over ranks of A B in float64, and by how much the row-parallel layer may differ from it.

    One rank's part is rounded to bfloat16, and then the sum. What a part loses before that is at most k + 1 roundings
    of the sum of magnitudes; tensor cores cut off what float32 does not hold, so that one is 2^-23.
    """
    wide = [(a.double(), b.double()) for a, b in parts]
    each = [a @ b for a, b in wide]
    total = torch.stack(each).sum(0)
    magnitudes = sum(a.abs() @ b.abs() for a, b in wide)
    rounded = rounding(torch.bfloat16) * (total.abs() + torch.stack(each).abs().amax(0))
    return total, 1.01 * (rounded + 2 * SINGLE * (parts[0][0].shape[1] + 2) * magnitudes)


def first_wrong(found: torch.Tensor, truth: torch.Tensor, allowed: torch.Tensor) -> str:
    """Where a result is off by more than is allowed, or NaN; "" if nowhere."""
    bad = ~((found.double() - truth).abs() <= allowed)
    if not bad.any():
        return ""
    place = bad.nonzero()[0].tolist()
    at = tuple(place)
    return f"{float(found[at]):g} instead of {float(truth[at]):g} at {', '.join(map(str, place))}"
