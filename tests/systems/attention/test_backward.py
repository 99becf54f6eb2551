"""Gradients of attention on the emulator beside PyTorch's autograd in float64."""

from __future__ import annotations

import pytest

import warplab
from systems.attention import backward
from tests.systems.attention.references import gradients, is_right

pytest.importorskip("torch")

pytestmark = pytest.mark.processes


@pytest.mark.parametrize(
    ("heads", "n", "width", "causal"),
    [(2, 130, 64, False), (1, 150, 64, True), (1, 70, 128, True), (2, 64, 128, False)],
)
def test_gradients_are_those_of_autograd(heads: int, n: int, width: int, causal: bool) -> None:
    given, right = gradients(heads, n, width, causal)
    result = warplab.run(backward.of_host, *given, causal)
    assert not result.findings
    is_right(result.returned, right)
