"""The same decoder in PyTorch: the whole sequence at once, to check with, and one step with a cache, to race with."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from systems.megakernel.shapes import HEAD, Shape

EPSILON = 1e-5


class Llama:
    """Weights in the order that PyTorch's products like: queries, keys and values above each other, gates above ups.

    `packed` has the interpreter's rows, (rows, width), `gains` (2 layers + 1, width), both bfloat16; `turns` is float32
    of (positions, HEAD / 2, 2).
    """

    def __init__(self, shape: Shape, packed: Any, gains: Any, turns: Any) -> None:
        self.shape, self.gains, self.turns = shape, gains, turns
        width, kv = shape.width, shape.kv_heads

        def rows(matrix: str, layer: int = 0) -> Any:
            first = shape.first_row(matrix, layer)
            return packed[first : first + shape.rows(matrix)]

        self.qkv, self.out, self.gate_up, self.down = [], [], [], []
        for layer in range(shape.layers):
            groups = rows("qkv", layer).view(kv, shape.group + 2, HEAD, width)
            parts = (groups[:, : shape.group], groups[:, shape.group], groups[:, shape.group + 1])
            self.qkv.append(torch.cat([part.reshape(-1, width) for part in parts]))
            self.out.append(rows("out", layer).clone())
            pairs = rows("gate_up", layer).view(-1, 2, width)
            self.gate_up.append(torch.cat([pairs[:, 0], pairs[:, 1]]))
            self.down.append(rows("down", layer).reshape(width, shape.hidden).clone())
        self.embedding = rows("embedding")
        cache = (shape.layers, kv, shape.room, HEAD)
        self.keys = torch.zeros(cache, dtype=packed.dtype, device=packed.device)
        self.values = torch.zeros_like(self.keys)

    def whole(self, tokens: Any, dtype: Any) -> Any:
        """Logits (sequence, vocabulary) of a sequence of tokens (int64), computed in `dtype` without a cache."""
        shape = self.shape
        turns = self.turns[: len(tokens), None]
        x = self.embedding[tokens].to(dtype)
        for layer in range(shape.layers):
            qkv = self._normed(x, 2 * layer) @ self.qkv[layer].to(dtype).t()
            heads = qkv.view(len(tokens), -1, HEAD)
            turned = rotated(heads[:, : shape.heads + shape.kv_heads], turns)
            q, k = turned[:, : shape.heads], turned[:, shape.heads :]
            v = heads[:, shape.heads + shape.kv_heads :]
            k, v = (each.repeat_interleave(shape.group, 1) for each in (k, v))
            scores = torch.einsum("qhd,khd->hqk", q, k) / HEAD**0.5
            later = torch.ones(scores.shape[1:], dtype=torch.bool, device=scores.device).triu(1)
            shares = scores.masked_fill(later, float("-inf")).softmax(-1)
            x = x + torch.einsum("hqk,khd->qhd", shares, v).reshape(x.shape) @ self.out[layer].to(dtype).t()
            gate, up = (self._normed(x, 2 * layer + 1) @ self.gate_up[layer].to(dtype).t()).chunk(2, -1)
            x = x + (F.silu(gate) * up) @ self.down[layer].to(dtype).t()
        return self._normed(x, 2 * shape.layers) @ self.embedding.to(dtype).t()

    def step(self, token: Any, position: int, *, complex_numbers: bool) -> Any:
        """The token (int64 of 1) after `token` at a position; keys and values of the positions before are in the cache.

        Eager code turns queries and keys as complex numbers, which is three kernels; torch.compile cannot fuse those,
        and makes one of the real arithmetic.
        """
        shape, width = self.shape, self.shape.width
        heads, kv = shape.heads, shape.kv_heads
        turn = turned_as_complex if complex_numbers else rotated
        x = self.embedding[token]
        for layer in range(shape.layers):
            qkv = F.linear(F.rms_norm(x, (width,), self.gains[2 * layer], EPSILON), self.qkv[layer]).view(-1, HEAD)
            turned = turn(qkv[: heads + kv], self.turns[position])
            keys, values = self.keys[layer], self.values[layer]
            keys[:, position] = turned[heads:]
            values[:, position] = qkv[heads + kv :]
            # The heads of a group share keys: to them they are as several queries of one head
            mixed = F.scaled_dot_product_attention(
                turned[:heads].view(1, kv, shape.group, HEAD), keys[None, :, : position + 1],
                values[None, :, : position + 1],
            )  # fmt: skip
            x = x + F.linear(mixed.reshape(1, width), self.out[layer])
            normed = F.rms_norm(x, (width,), self.gains[2 * layer + 1], EPSILON)
            gate, up = F.linear(normed, self.gate_up[layer]).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, self.down[layer])
        return F.linear(F.rms_norm(x, (width,), self.gains[-1], EPSILON), self.embedding).argmax(-1)

    def _normed(self, x: Any, norm: int) -> Any:
        exact = x.float() if x.dtype == torch.bfloat16 else x
        scaled = exact * (exact.square().mean(-1, keepdim=True) + EPSILON).rsqrt() * self.gains[norm].to(exact.dtype)
        return scaled.to(x.dtype)


def rotated(heads: Any, turns: Any) -> Any:
    """Pairs of each head's elements turned by cosine and sine, (..., HEAD / 2, 2)."""
    a, b = heads.unflatten(-1, (-1, 2)).unbind(-1)
    cosine, sine = turns.unbind(-1)
    return torch.stack((a * cosine - b * sine, a * sine + b * cosine), -1).flatten(-2).to(heads.dtype)


def turned_as_complex(heads: Any, turns: Any) -> Any:
    """The same, as products of complex numbers."""
    pairs = torch.view_as_complex(heads.float().unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * torch.view_as_complex(turns)).flatten(-2).to(heads.dtype)


def drawn(shape: Shape, device: str, seed: int = 0, deviation: float = 0.02) -> tuple[Any, Any]:
    """Random weights and gains in bfloat16."""
    generator = torch.Generator(device).manual_seed(seed)
    weights = torch.empty((shape.all_rows, shape.width), dtype=torch.bfloat16, device=device)
    weights.normal_(0, deviation, generator=generator)
    gains = torch.empty((2 * shape.layers + 1, shape.width), dtype=torch.bfloat16, device=device)
    gains.normal_(1, 0.1, generator=generator)
    return weights, gains
