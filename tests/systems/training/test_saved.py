"""What hooks and the census see against the formula, and the model against a plain one in float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from systems.training import gpt  # noqa: E402
from systems.training.census import Census  # noqa: E402
from systems.training.formula import model_bytes  # noqa: E402
from systems.training.saved import saved_bytes  # noqa: E402
from systems.training.sizes import Sizes  # noqa: E402
from systems.training.step import step  # noqa: E402

SHAPES = {
    "small": Sizes(2, 64, 4, 100, 32, 2),
    "one head": Sizes(1, 48, 1, 50, 40, 1),
    "wide": Sizes(1, 128, 8, 64, 24, 3, expansion=2),
    "long": Sizes(2, 32, 2, 32, 160, 1),
    "half": Sizes(2, 128, 4, 128, 32, 2, value_bytes=2),
    "double": Sizes(1, 32, 4, 20, 16, 2, value_bytes=8),
}


@pytest.mark.parametrize("name", [name for name in SHAPES if name != "double"])
def test_formula_and_hooks_agree(name: str) -> None:
    """Within 2%: in sixteen bits torch keeps statistics in sixteen bits on a CPU, where the formula has float32."""
    sizes = SHAPES[name]
    model = gpt.make(sizes)
    seen, counted = saved_bytes(model, *gpt.draw(sizes)), model_bytes(sizes)
    assert sum(seen.values()) == pytest.approx(sum(counted.values()), rel=0.02)
    for operator, size in counted.items():
        assert seen.get(operator, 0) == pytest.approx(size, rel=0.07), operator
    assert set(seen) <= set(counted)


@pytest.mark.parametrize("name", ["small", "long", "half"])
def test_what_lives_between_the_passes_is_what_was_saved(name: str) -> None:
    """The census looks at storages, not at autograd. It does not count the batch, which the caller holds."""
    sizes = SHAPES[name]
    model, batch = gpt.make(sizes), gpt.draw(sizes)
    seen = sum(saved_bytes(model, *batch).values()) - 2 * 8 * sizes.tokens
    run = step(model, *batch)
    assert run.kept == pytest.approx(seen, abs=16)
    assert run.peak > run.kept


def test_the_model_has_the_weights_that_its_sizes_say() -> None:
    for sizes in SHAPES.values():
        assert sizes.parameters == sum(weight.numel() for weight in gpt.make(sizes).parameters())


def normed(x: np.ndarray, gain: np.ndarray) -> np.ndarray:
    return gain * (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def by_numpy(w: dict[str, Any], sizes: Sizes, tokens: np.ndarray, targets: np.ndarray) -> float:
    x = w["embedding.weight"][tokens] + w["place.weight"]
    later = np.triu(np.full((sizes.sequence,) * 2, -np.inf), 1)
    for n in range(sizes.layers):
        p = {name.split(f"blocks.{n}.")[1]: value for name, value in w.items() if name.startswith(f"blocks.{n}.")}
        qkv = normed(x, p["norm_1.weight"]) @ p["qkv.weight"].T
        heads = qkv.reshape(sizes.batch, sizes.sequence, 3, sizes.heads, -1).transpose(2, 0, 3, 1, 4)
        q, k, v = heads
        mixed = softmax(q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1]) + later) @ v
        x = x + mixed.swapaxes(1, 2).reshape(x.shape) @ p["projection.weight"].T
        wide = normed(x, p["norm_2.weight"]) @ p["up.weight"].T
        x = x + 0.5 * wide * (1 + np.tanh(math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3))) @ p["down.weight"].T
    logits = normed(x, w["norm.weight"]) @ w["head.weight"].T
    chosen = np.take_along_axis(softmax(logits), targets[..., None], -1)
    return float(-np.log(chosen).mean())


def test_the_model_is_a_gpt() -> None:
    sizes = SHAPES["double"]
    model, (tokens, targets) = gpt.make(sizes), gpt.draw(sizes)
    weights = {name: weight.detach().numpy() for name, weight in model.named_parameters()}
    loss = model(tokens, targets).item()
    assert loss == pytest.approx(by_numpy(weights, sizes, tokens.numpy(), targets.numpy()), rel=1e-12)


def test_a_census_by_hand() -> None:
    a, b = torch.ones(4, 8), torch.ones(8, 2)
    with Census([a, b]) as census:
        product = a @ b
        view = product.t()
        del product
        assert census.live == 4 * 8 and census.flops == 2 * 4 * 8 * 2
        doubled = view + view
        assert census.live == census.peak == 2 * 4 * 8
        del view
        assert census.live == 4 * 8 and census.peak == 2 * 4 * 8
        del doubled
        a.add_(1)
        assert census.live == 0
    first, second = census.calls
    assert (first.operator, first.made, first.moved) == ("aten.mm.default", 32, 4 * (32 + 16 + 8))
    assert (second.made, second.moved, second.flops) == (32, 4 * (8 + 8 + 8), 0)


def test_attention_is_counted_both_ways() -> None:
    """Two products of n x n x d a head forward, and five backward (scores again, and four gradients)."""
    q, k, v = (torch.randn(2, 3, 16, 8, requires_grad=True) for _ in range(3))
    with Census([]) as census:
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        forward = census.flops
        out.sum().backward()
    one = 2 * 2 * 3 * 16 * 16 * 8
    assert forward == 2 * one and census.flops == (2 + 5) * one
