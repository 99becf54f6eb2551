"""Shapes of a Llama-like decoder, and where its weights lie for the interpreter: one row after another, in the order in
which a step needs them, so that four rows of the model's width fill a page."""

from __future__ import annotations

from dataclasses import dataclass

from warplab.errors import WarplabError

HEAD = 64  # elements of a head
ROWS = 4  # of `width` weights in a page
MATRICES = ("qkv", "out", "gate_up", "down")  # of a layer, in this order


class ShapeError(WarplabError):
    """A shape that the interpreter cannot take."""


@dataclass(frozen=True)
class Shape:
    """A decoder with tied embeddings; the hidden layer of its feed-forward part is four times as wide as the model.

    `blocks` is how many pages of keys the cache has room for, of each head: `positions` positions each.
    """

    layers: int
    width: int
    heads: int
    kv_heads: int
    vocabulary: int
    blocks: int

    def __post_init__(self) -> None:
        if self.heads * HEAD != self.width or self.width % 256 or not 256 <= self.width <= 2048:
            raise ShapeError(f"A width of {self.width} with {self.heads} heads: take 256 to 2,048, heads of {HEAD}.")
        if self.heads % self.kv_heads or 16 % self.group:
            raise ShapeError(f"{self.kv_heads} KV heads for {self.heads} heads: let 1, 2, 4, 8 or 16 heads share one.")
        if self.vocabulary % ROWS:
            raise ShapeError(f"A vocabulary of {self.vocabulary} tokens: take a multiple of {ROWS}.")

    @property
    def group(self) -> int:
        """Heads that share keys and values."""
        return self.heads // self.kv_heads

    @property
    def hidden(self) -> int:
        """Width of the hidden layer."""
        return 4 * self.width

    @property
    def page(self) -> int:
        """Bytes of a page."""
        return 2 * ROWS * self.width

    @property
    def positions(self) -> int:
        """Positions whose keys, or values, of one head fill a page."""
        return self.page // (2 * HEAD)

    @property
    def room(self) -> int:
        """Positions that the cache has room for."""
        return self.blocks * self.positions

    def rows(self, matrix: str) -> int:
        """Rows of `width` weights of one of MATRICES, or of the "embedding"; a row of "down" is four of them."""
        return {
            "qkv": (self.heads + 2 * self.kv_heads) * HEAD,
            "out": self.width,
            "gate_up": 2 * self.hidden,
            "down": 4 * self.width,
            "embedding": self.vocabulary,
        }[matrix]

    def first_row(self, matrix: str, layer: int = 0) -> int:
        """The first row of a matrix among all rows of the weights."""
        a_layer = sum(self.rows(each) for each in MATRICES)
        if matrix == "embedding":
            return self.layers * a_layer
        before = MATRICES[: MATRICES.index(matrix)]
        return layer * a_layer + sum(self.rows(each) for each in before)

    @property
    def all_rows(self) -> int:
        """Rows of all weights."""
        return self.first_row("embedding") + self.vocabulary

    @property
    def weight_bytes(self) -> int:
        """Bytes of weights that a step reads: every matrix once, the embedding as the last product."""
        return 2 * self.width * self.all_rows

    def cache_bytes(self, position: int) -> int:
        """Bytes of keys and values that the step at a position reads, in whole pages."""
        return 2 * self.page * (position // self.positions + 1) * self.kv_heads * self.layers


# Llama 3.2 1B has these sizes (its config.json: 16 layers, 2048, 32 and 8 heads, 8192, 128256, tied embeddings)
LLAMA_1B = Shape(layers=16, width=2048, heads=32, kv_heads=8, vocabulary=128256, blocks=8)
TOY = Shape(layers=2, width=256, heads=4, kv_heads=2, vocabulary=256, blocks=2)
