"""The operators that a checkpoint of a block runs again, on paper: what `operators` measures, without torch.

Per token of width h, with values of e bytes, an MLP of width f, a heads and s tokens a sequence: a result's bytes are
h e for each tensor as wide as the stream, 3 h e for queries, keys and values, f e in the MLP; a norm adds a mean and a
deviation, attention a logarithm a head. A product of (m, k) and (k, n) is 2 m k n FLOP, attention two products of s by
s, h / a deep, for each head. What moves is everything read, weights too, and written.
"""

from __future__ import annotations

from collections.abc import Sequence

from systems.training.planner import Operator
from systems.training.sizes import Sizes

_STATISTIC = 4  # bytes: float32 whatever the values are


def recomputed(blocks: Sequence[Sizes]) -> list[Operator]:
    """The operators of each block, in the order of the forward pass. Of the sizes, those of one block count.

    The last product of a block and the addition after it are not among them: a checkpoint stops before.
    """
    return [one for number, sizes in enumerate(blocks) for one in _block(number, sizes)]


def _block(number: int, sizes: Sizes) -> list[Operator]:
    tokens, width, ffn, item = sizes.tokens, sizes.width, sizes.ffn, sizes.value_bytes
    row, wide = tokens * width * item, tokens * ffn * item
    norm, gains = row + 2 * _STATISTIC * tokens, width * item
    mixed = row + _STATISTIC * tokens * sizes.heads
    square = width * width
    return [
        Operator(number, "norm_1", norm, 0, row + gains + norm),
        Operator(number, "qkv", 3 * row, 6 * tokens * square, row + 3 * square * item + 3 * row),
        Operator(number, "attention", mixed, 4 * tokens * sizes.sequence * width, 3 * row + mixed),
        Operator(number, "projection", row, 2 * tokens * square, row + square * item + row),
        Operator(number, "residual_1", row, 0, 3 * row),
        Operator(number, "norm_2", norm, 0, row + gains + norm),
        Operator(number, "up", wide, 2 * tokens * width * ffn, row + width * ffn * item + wide),
        Operator(number, "gelu", wide, 0, 2 * wide),
    ]
