"""The decoder in float64 on the host, what tokens are checked against, and random weights for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from systems.megakernel.shapes import HEAD, Shape

EPSILON = 1e-5


def to_bfloat16(values: np.ndarray) -> np.ndarray:
    """The nearest bfloat16, of equally near ones the even one, as uint16."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def from_bfloat16(codes: np.ndarray) -> np.ndarray:
    """float64 of bfloat16 codes."""
    return (codes.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


@dataclass(frozen=True)
class Weights:
    """uint16 codes of bfloat16: `rows`, (rows of all matrices, width); `gains` of the norms, (2 layers + 1, width)."""

    rows: np.ndarray
    gains: np.ndarray


def allowed(shape: Shape) -> float:
    """How far logits may be off: root mean square, in standard deviations of the logits.

    Vectors are rounded to bfloat16, elements by 2**-9 of themselves at most: in each layer two norms, keys, values,
    what attention gives and the hidden layer, and the last norm. Independent errors add up by squares; twice that, for
    softmax and SwiGLU make errors larger.
    """
    return float(2 * (6 * shape.layers + 1) ** 0.5 * 2**-9)


def draw(shape: Shape, seed: int, deviation: float = 0.06) -> Weights:
    """Normally distributed weights, gains about 1."""
    rng = np.random.default_rng(seed)
    rows = to_bfloat16(rng.normal(0, deviation, (shape.all_rows, shape.width)))
    return Weights(rows, to_bfloat16(rng.normal(1, 0.1, (2 * shape.layers + 1, shape.width))))


def logits(shape: Shape, weights: Weights, table: np.ndarray, tokens: Sequence[int]) -> np.ndarray:
    """float64 of (tokens, vocabulary): what follows each of a sequence of tokens. `table` is `launch.turns`."""

    def matrix(name: str, layer: int = 0) -> np.ndarray:
        first = shape.first_row(name, layer)
        return from_bfloat16(weights.rows[first : first + shape.rows(name)])

    def normed(x: np.ndarray, number: int) -> np.ndarray:
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON) * from_bfloat16(weights.gains[number])

    count = len(tokens)
    turns = table[:count].astype(np.float64)[:, None, None]
    x = matrix("embedding")[list(tokens)]
    for layer in range(shape.layers):
        qkv = normed(x, 2 * layer) @ matrix("qkv", layer).T
        heads = qkv.reshape(count, shape.kv_heads, shape.group + 2, HEAD)
        pairs = heads[:, :, :-1].reshape(count, shape.kv_heads, shape.group + 1, HEAD // 2, 2)
        cosine, sine, a, b = turns[..., 0], turns[..., 1], pairs[..., 0], pairs[..., 1]
        turned = np.stack([a * cosine - b * sine, a * sine + b * cosine], -1).reshape(*pairs.shape[:3], HEAD)
        scores = np.einsum("phgd,shd->phgs", turned[:, :, :-1], turned[:, :, -1]) / HEAD**0.5
        scores[np.triu_indices(count, 1)[0], :, :, np.triu_indices(count, 1)[1]] = -np.inf
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        mixed = np.einsum("phgs,shd->phgd", shares, heads[:, :, -1])
        x = x + mixed.reshape(count, shape.width) @ matrix("out", layer).T
        gate, up = np.moveaxis((normed(x, 2 * layer + 1) @ matrix("gate_up", layer).T).reshape(count, -1, 2), -1, 0)
        down = matrix("down", layer).reshape(shape.width, shape.hidden)
        x = x + (gate / (1 + np.exp(-gate)) * up) @ down.T
    return normed(x, 2 * shape.layers) @ matrix("embedding").T
