"""A decoder layer of Llama's kind, its heads and its MLP's width shared by the ranks: Shoeybi et al. 2019, section 3.

Two all-reduces forward, two backward. Norms and residuals are done by every rank; there are no positions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch.nn import functional

from systems.parallel.shapes import Model
from systems.sharded.exchange import Exchange

EPSILON = 1e-5
Weights = Mapping[str, torch.Tensor]


def share(model: Model, ranks: int) -> Model:
    """What one rank has of a layer: one of fewer heads, as wide as before, and with a narrower MLP."""
    return replace(
        model,
        heads=model.heads // ranks,
        kv_heads=model.kv_heads // ranks,
        head_width=model.query_width // model.heads,
        ffn=model.ffn // ranks,
    )


def shapes(model: Model) -> dict[str, tuple[int, int]]:
    """Rows and columns of every matrix of a layer, or of a rank's share of it, for products x @ w."""
    width = model.query_width // model.heads
    return {
        "queries": (model.hidden, model.heads * width),
        "keys": (model.hidden, model.kv_heads * width),
        "values": (model.hidden, model.kv_heads * width),
        "out": (model.heads * width, model.hidden),
        "gate": (model.hidden, model.ffn),
        "up": (model.hidden, model.ffn),
        "down": (model.ffn, model.hidden),
    }


def shard(full: Weights, rank: int, ranks: int) -> dict[str, torch.Tensor]:
    """A rank's part of all matrices: qkv and gate_up are the products that share an input, side by side."""

    def columns(name: str) -> torch.Tensor:
        return full[name].chunk(ranks, 1)[rank]

    return {
        "qkv": torch.cat([columns(name) for name in ("queries", "keys", "values")], 1).contiguous(),
        "out": full["out"].chunk(ranks, 0)[rank].contiguous(),
        "gate_up": torch.cat([columns("gate"), columns("up")], 1).contiguous(),
        "down": full["down"].chunk(ranks, 0)[rank].contiguous(),
    }


def forward(model: Model, x: torch.Tensor, own: Weights, exchange: Exchange) -> torch.Tensor:
    """The layer on x [tokens, hidden] of one sequence, with a causal mask. `model` is this rank's `share`, `own` its
    `shard`."""
    tokens, width = x.shape[0], model.query_width // model.heads
    heads, kv_heads = model.heads, model.kv_heads
    qkv = exchange.copied(_norm(x)) @ own["qkv"]
    parts = qkv.view(tokens, heads + 2 * kv_heads, width).transpose(0, 1)[None]
    q, k, v = parts.split((heads, kv_heads, kv_heads), 1)
    attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    x = x + exchange.summed(attended[0].transpose(0, 1).reshape(tokens, heads * width) @ own["out"])
    gate, up = (exchange.copied(_norm(x)) @ own["gate_up"]).chunk(2, 1)
    return x + exchange.summed((functional.silu(gate) * up) @ own["down"])


def _norm(x: torch.Tensor) -> torch.Tensor:
    return functional.rms_norm(x, x.shape[-1:], eps=EPSILON)
