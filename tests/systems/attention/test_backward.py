"""Gradients of attention on the emulator beside PyTorch's autograd in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest

import warplab
from systems.attention import backward

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.processes

UNIT = 2.0**-11


def drawn(heads: int, n: int, width: int, causal: bool) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """q, k, v, out, dout and log_total of `backward.of_host`; and dq, dk and dv by autograd."""
    draw = np.random.default_rng(n)
    q, k, v, dout = (draw.standard_normal((heads, n, width)).astype(np.float16) for _ in range(4))
    exact = [torch.tensor(each.astype(np.float64), requires_grad=True) for each in (q, k, v)]
    scores = exact[0] @ exact[1].transpose(1, 2) / math.sqrt(width)
    if causal:
        scores = scores.masked_fill(torch.ones(n, n).triu(1).bool(), -math.inf)
    out = scores.softmax(-1) @ exact[2]
    right = torch.autograd.grad(out, exact, torch.tensor(dout.astype(np.float64)))
    log_total = scores.logsumexp(-1).detach().numpy().astype(np.float32)
    rounded = out.detach().numpy().astype(np.float16)
    return [q, k, v, rounded, dout, log_total], [each.numpy() for each in right]


def is_right(found: list[np.ndarray], right: list[np.ndarray]) -> None:
    """Raises AssertionError unless errors are those of rounding weights, their gradients and results to float16."""
    for each, exact in zip(found, right, strict=True):
        error, spread = each.astype(np.float64) - exact, math.sqrt(float((exact**2).mean()))
        assert math.sqrt(float((error**2).mean())) < UNIT * spread
        assert (np.abs(error) < UNIT * (2 * np.abs(exact) + 10 * spread)).all()


@pytest.mark.parametrize(
    ("heads", "n", "width", "causal"),
    [(2, 130, 64, False), (1, 150, 64, True), (1, 70, 128, True), (2, 64, 128, False)],
)
def test_gradients_are_those_of_autograd(heads: int, n: int, width: int, causal: bool) -> None:
    given, right = drawn(heads, n, width, causal)
    result = warplab.run(backward.of_host, *given, causal)
    assert not result.findings
    is_right(result.returned, right)
