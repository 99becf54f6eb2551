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


@pytest.mark.parametrize(
    ("heads", "n", "width", "causal"),
    [(2, 130, 64, False), (1, 150, 64, True), (1, 70, 128, True), (2, 64, 128, False)],
)
def test_gradients_are_those_of_autograd(heads: int, n: int, width: int, causal: bool) -> None:
    draw = np.random.default_rng(n)
    q, k, v, dout = (draw.standard_normal((heads, n, width)).astype(np.float16) for _ in range(4))
    exact = [torch.tensor(each.astype(np.float64), requires_grad=True) for each in (q, k, v)]
    scores = exact[0] @ exact[1].transpose(1, 2) / math.sqrt(width)
    if causal:
        scores = scores.masked_fill(torch.ones(n, n).triu(1).bool(), -math.inf)
    out = scores.softmax(-1) @ exact[2]
    right = torch.autograd.grad(out, exact, torch.tensor(dout.astype(np.float64)))
    log_total = scores.logsumexp(-1).detach().numpy().astype(np.float32)
    result = warplab.run(backward.of_host, q, k, v, out.detach().numpy().astype(np.float16), dout, log_total, causal)
    assert not result.findings
    for found, one in zip(result.returned, right, strict=True):
        error = found.astype(np.float64) - one.numpy()
        # Weights, their gradients and `out` are rounded to float16: errors of independent signs, over sums of n terms
        spread = math.sqrt(float((one.numpy() ** 2).mean()))
        assert math.sqrt(float((error**2).mean())) < UNIT * spread
        assert float(np.abs(error).max()) < 16 * UNIT * spread
