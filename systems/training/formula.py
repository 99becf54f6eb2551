"""Bytes that the backward pass of a GPT needs, counted on paper, operator by operator.

The way of counting is that of Korthikanti et al. 2022 (arXiv:2205.05198, section 4): each operator keeps what its
gradient's formula mentions, and a tensor that two operators mention is there once. Per token of width h, with values of
e bytes, an MLP of width f and a heads, one layer of our GPT (no dropout, attention without its scores) keeps

    norm_1      x                        h e + 8     (and a mean and a deviation, float32)
    qkv         the norm's output        h e
    attention   q, k, v and the output   4 h e + 4 a (and a logarithm a head, float32)
    projection  attention's output       0           (there already)
    norm_2      the residual stream      h e + 8
    up          the norm's output        h e
    gelu        what up gives            f e
    down        what gelu gives          f e

which is (8 h + 2 f) e and little else: 32 bytes a token and unit of width in 16 bits with f = 4 h. Korthikanti's 34 has
two bytes of dropout masks more, and 5 a s / h of scores, which flash attention makes again.
"""

from __future__ import annotations

from systems.training.sizes import Sizes

_STATISTIC = 4  # bytes of a mean, a deviation, a logarithm: float32 whatever the values are
_INDEX = 8  # bytes of a token's number


def layer_bytes(sizes: Sizes) -> dict[str, int]:
    """Bytes that each operator of one layer is the first to keep, in the order of the forward pass."""
    row = sizes.tokens * sizes.width * sizes.value_bytes
    wide = sizes.tokens * sizes.ffn * sizes.value_bytes
    statistics = 2 * _STATISTIC * sizes.tokens
    return {
        "norm_1": row + statistics,
        "qkv": row,
        "attention": 4 * row + _STATISTIC * sizes.tokens * sizes.heads,
        "projection": 0,
        "norm_2": row + statistics,
        "up": row,
        "gelu": wide,
        "down": wide,
    }


def outside_bytes(sizes: Sizes) -> dict[str, int]:
    """The same for what is there once: the embedding, the last norm, the logits and the loss (in float32)."""
    row = sizes.tokens * sizes.width * sizes.value_bytes
    return {
        "embedding": _INDEX * sizes.tokens,
        "norm": row + 2 * _STATISTIC * sizes.tokens,
        "head": row,
        "loss": 4 * sizes.tokens * sizes.vocabulary + _INDEX * sizes.tokens,
    }


def model_bytes(sizes: Sizes) -> dict[str, int]:
    """The whole model: operators of all layers together, and what is there once."""
    layers = {name: sizes.layers * size for name, size in layer_bytes(sizes).items()}
    return {**layers, **outside_bytes(sizes)}
