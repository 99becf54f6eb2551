"""Attention of decoding, and the gradients of attention, on the GPU at hand beside float64."""

from __future__ import annotations

import numpy as np
import pytest

from systems.attention import backward, decoding
from tests.systems.attention.references import drawn, gradients, is_right, ratio

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("bfloat16", [False, True], ids=["float16", "bfloat16"])
@pytest.mark.parametrize(("heads", "key_heads", "width"), [(32, 8, 128), (16, 2, 128), (8, 8, 64)])
def test_decoding_is_attention_for_more_pages_than_blocks(
    heads: int, key_heads: int, width: int, bfloat16: bool
) -> None:
    given = drawn(7, heads, key_heads, width, [4096, 1, 700, 64, 2049], bfloat16)
    first, second = decoding.decode(*given.values(), times=2)
    assert ratio(given, first) <= 1
    assert np.array_equal(first, second)


@pytest.mark.parametrize(("n", "width", "causal"), [(1000, 64, True), (515, 128, False)])
def test_gradients_are_those_of_autograd(n: int, width: int, causal: bool) -> None:
    given, right = gradients(3, n, width, causal)
    is_right(backward.of_host(*given, causal), right)
