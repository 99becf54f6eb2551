"""The sizes of a small GPT and of the batch that it is trained on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    """`width` is split over `heads`; the MLP is `expansion` times as wide. A batch has `batch` sequences of `sequence`
    tokens. `value_bytes` is what an activation or a weight takes: 4 (float32) or 2 (bfloat16).

    Raises ValueError where heads do not divide the width.
    """

    layers: int
    width: int
    heads: int
    vocabulary: int
    sequence: int
    batch: int
    expansion: int = 4
    value_bytes: int = 4

    def __post_init__(self) -> None:
        if self.width % self.heads:
            raise ValueError(f"a width of {self.width} cannot be split over {self.heads} heads: choose a multiple")

    @property
    def tokens(self) -> int:
        """Tokens of a batch."""
        return self.batch * self.sequence

    @property
    def ffn(self) -> int:
        """The width of the MLP."""
        return self.expansion * self.width

    @property
    def parameters(self) -> int:
        """Weights: four square matrices and the MLP's two a layer, gains of norms, both tables, no biases."""
        layer = 4 * self.width**2 + 2 * self.width * self.ffn + 2 * self.width
        return self.layers * layer + self.width * (2 * self.vocabulary + self.sequence + 1)
