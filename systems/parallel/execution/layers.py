"""A small transformer's layer in float64: forward, and backward by hand in the two halves that pipelines tell apart.

A layer adds causal attention and then an MLP to what it gets, each after a root-mean-square norm without weights:
y = x + attention(norm(x)) out, z = y + silu(norm(y) up) down. `tests/systems/parallel/test_execution.py` compares its
gradients with differences.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

TOKENS, WIDTH, HEADS, HIDDEN = 6, 8, 2, 16
_SHAPES = {"qkv": (WIDTH, 3 * WIDTH), "out": (WIDTH, WIDTH), "up": (WIDTH, HIDDEN), "down": (HIDDEN, WIDTH)}
_SMALL = 1e-6  # keeps the norm of zeros from being divided by zero

Array = NDArray[np.float64]
Weights = Mapping[str, Array]
Later = dict[str, tuple[Array, Array]]  # of each weight, what it was multiplied with and the product's gradient
Gradients = dict[int, dict[str, Array]]  # by stage and weight


@dataclass(frozen=True)
class Saved:
    """What the backward pass needs of a forward pass: this is what a pipeline's rank holds of a micro-batch."""

    normed: Array  # (tokens, width), as are those without a shape
    scale: Array  # (tokens, 1): what the norm divided by
    heads: tuple[Array, Array, Array]  # queries, keys, values: (heads, tokens, width / heads)
    shares: Array  # (heads, tokens, tokens): the softmax
    attended: Array
    normed_again: Array
    scale_again: Array
    before: Array  # (tokens, hidden): what silu took


def weights(seed: int, stage: int) -> dict[str, Array]:
    """The weights of a stage's layer, the same in every process."""
    random = np.random.default_rng((seed, 0, stage))
    return {name: random.standard_normal(shape) / np.sqrt(shape[0]) for name, shape in _SHAPES.items()}


def sample(seed: int, micro_batch: int) -> tuple[Array, Array]:
    """The first stage's input and what the last stage should give, each of shape (tokens, width)."""
    random = np.random.default_rng((seed, 1, micro_batch))
    return random.standard_normal((TOKENS, WIDTH)), random.standard_normal((TOKENS, WIDTH))


def forward(layer: Weights, x: Array) -> tuple[Array, Saved]:
    """The layer's output for `x`, both (tokens, width), and what its backward pass needs."""
    normed, scale = _norm(x)
    queries, keys, values = (_apart(part) for part in np.split(normed @ layer["qkv"], 3, axis=1))
    scores = queries @ keys.swapaxes(1, 2) / np.sqrt(WIDTH // HEADS)
    scores = np.where(np.tri(TOKENS, dtype=bool), scores, -np.inf)
    shares = np.exp(scores - scores.max(axis=2, keepdims=True))
    shares /= shares.sum(axis=2, keepdims=True)
    attended = _together(shares @ values)
    y = x + attended @ layer["out"]
    normed_again, scale_again = _norm(y)
    before = normed_again @ layer["up"]
    z = y + _silu(before) @ layer["down"]
    return z, Saved(normed, scale, (queries, keys, values), shares, attended, normed_again, scale_again, before)


def input_gradient(layer: Weights, saved: Saved, dz: Array) -> tuple[Array, Later]:
    """The gradient of the input for that of the output, and what the weights' gradients will need."""
    sigmoid = 1 / (1 + np.exp(-saved.before))
    dbefore = dz @ layer["down"].T * (sigmoid + saved.before * sigmoid * (1 - sigmoid))
    dy = dz + _norm_gradient(saved.normed_again, saved.scale_again, dbefore @ layer["up"].T)
    queries, keys, values = saved.heads
    dattended = _apart(dy @ layer["out"].T)
    dvalues = saved.shares.swapaxes(1, 2) @ dattended
    dshares = dattended @ values.swapaxes(1, 2)
    dscores = saved.shares * (dshares - (dshares * saved.shares).sum(axis=2, keepdims=True)) / np.sqrt(WIDTH // HEADS)
    parts = (dscores @ keys, dscores.swapaxes(1, 2) @ queries, dvalues)
    dqkv = np.concatenate([_together(part) for part in parts], axis=1)
    dx = dy + _norm_gradient(saved.normed, saved.scale, dqkv @ layer["qkv"].T)
    return dx, {
        "qkv": (saved.normed, dqkv),
        "out": (saved.attended, dy),
        "up": (saved.normed_again, dbefore),
        "down": (_silu(saved.before), dz),
    }


def weight_gradients(later: Later) -> dict[str, Array]:
    """The gradient of each weight, of its shape: nothing but products, which nobody waits for."""
    return {name: taken.T @ given for name, (taken, given) in later.items()}


def loss_gradient(output: Array, wanted: Array, micro_batches: int) -> Array:
    """The gradient of half the mean squared error over all micro-batches."""
    return (output - wanted) / (output.size * micro_batches)


def flat(gradients: Gradients) -> Array:
    """All gradients in one row: stages in their order, each one's weights by name."""
    rows = [gradients[stage][name].ravel() for stage in sorted(gradients) for name in sorted(gradients[stage])]
    return np.concatenate(rows)


def _norm(x: Array) -> tuple[Array, Array]:
    scale = np.sqrt((x * x).mean(axis=1, keepdims=True) + _SMALL)
    return x / scale, scale


def _norm_gradient(normed: Array, scale: Array, dnormed: Array) -> Array:
    return (dnormed - normed * (normed * dnormed).mean(axis=1, keepdims=True)) / scale


def _silu(x: Array) -> Array:
    return x / (1 + np.exp(-x))


def _apart(x: Array) -> Array:
    """(tokens, width) -> (heads, tokens, width / heads)."""
    return x.reshape(TOKENS, HEADS, WIDTH // HEADS).swapaxes(0, 1)


def _together(x: Array) -> Array:
    return x.swapaxes(0, 1).reshape(TOKENS, WIDTH)
