"""The shape of a transformer, and what follows from it alone: parameters and floating-point operations.

A matrix of n parameters costs a token 2 n FLOP forward and 4 n backward (one product for the gradient of its input, one
for its own). Attention itself has no parameters: the scores and their product with the values cost a token
2 s a (d_qk + d_v) FLOP forward over s keys; a causal mask needs half of that. Norms and biases are left out of both.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from warplab.errors import WarplabError


class LayoutError(WarplabError):
    """A model, a job or a layout that cannot be: the text says what is wrong and what to do."""


@dataclass(frozen=True)
class Latent:
    """Multi-head latent attention (DeepSeek-V2): queries, keys and values through latents of low rank."""

    query_rank: int
    key_value_rank: int
    plain_width: int  # of a head's query and key, without position
    rotary_width: int  # of a head's query and of the key that all heads share
    value_width: int


@dataclass(frozen=True)
class Experts:
    """A mixture of experts: `count` routed ones, `active` for a token, `shared` by all, each `width` wide.

    The first `dense_layers` layers have no experts. `nodes` is how many nodes a token may be sent to; None: any.
    """

    count: int
    active: int
    width: int
    shared: int = 0
    dense_layers: int = 0
    nodes: int | None = None


@dataclass(frozen=True)
class Model:
    """A decoder: `layers` of attention and an MLP of width `ffn`; `gated` ones have three matrices (SwiGLU), not two.

    `kv_heads` below `heads` is grouped-query attention. `tied`: input and output share the embedding.
    """

    name: str
    layers: int
    hidden: int
    ffn: int
    heads: int
    kv_heads: int
    vocabulary: int
    head_width: int = 0  # 0: hidden / heads
    gated: bool = True
    tied: bool = False
    latent: Latent | None = None
    experts: Experts | None = None
    source: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        counts = (self.layers, self.hidden, self.ffn, self.heads, self.kv_heads, self.vocabulary)
        if min(counts) < 1 or self.head_width < 0:
            raise LayoutError(
                f"The shape of {self.name} has a size below 1: give layers, widths, heads and vocabulary."
            )
        if self.heads % self.kv_heads:
            raise LayoutError(f"{self.heads} heads of {self.name} cannot share {self.kv_heads} keys and values evenly.")
        if self.experts and not 0 < self.experts.active <= self.experts.count:
            raise LayoutError(
                f"A token of {self.name} cannot go to {self.experts.active} of {self.experts.count} experts."
            )

    @property
    def query_width(self) -> int:
        """Of all heads' queries (and, with as many heads, keys) together."""
        if self.latent:
            return self.heads * (self.latent.plain_width + self.latent.rotary_width)
        return self.heads * (self.head_width or self.hidden // self.heads)

    @property
    def value_width(self) -> int:
        """Of what attention gives to its output projection, all heads together."""
        return self.heads * self.latent.value_width if self.latent else self.query_width

    @property
    def matrices(self) -> int:
        """Of an MLP: three if it is gated (SwiGLU), else two."""
        return 3 if self.gated else 2

    @property
    def key_value_width(self) -> int:
        """Of one token's keys and values together as attention reads them."""
        if self.latent:
            return self.query_width + self.value_width
        return 2 * self.query_width * self.kv_heads // self.heads

    @property
    def attention_parameters(self) -> int:
        """Of one layer's attention."""
        if self.latent is None:
            return self.hidden * (self.query_width + self.key_value_width) + self.value_width * self.hidden
        low = self.latent
        queries = low.query_rank * (self.hidden + self.query_width)
        shared = self.hidden * (low.key_value_rank + low.rotary_width)
        spread = low.key_value_rank * self.heads * (low.plain_width + low.value_width)
        return queries + shared + spread + self.value_width * self.hidden

    def mlp_parameters(self, width: int) -> int:
        """Of an MLP of that width."""
        return self.matrices * self.hidden * width

    @property
    def dense_layers(self) -> int:
        """Layers with one MLP for all tokens."""
        return self.experts.dense_layers if self.experts else self.layers

    @property
    def moe_layers(self) -> int:
        return self.layers - self.dense_layers

    @property
    def routed_parameters(self) -> int:
        """Of all routed experts of one layer; 0 without experts."""
        return self.experts.count * self.mlp_parameters(self.experts.width) if self.experts else 0

    @property
    def common_parameters(self) -> int:
        """Of one layer of experts without the routed ones: attention, router, shared experts."""
        if self.experts is None:
            return self.attention_parameters + self.mlp_parameters(self.ffn)
        shared = self.experts.shared * self.mlp_parameters(self.experts.width)
        return self.attention_parameters + shared + self.hidden * self.experts.count

    @property
    def embedding_parameters(self) -> int:
        """Of one table, vocabulary x hidden."""
        return self.vocabulary * self.hidden

    @property
    def parameters(self) -> int:
        """All of them, norms and biases left out."""
        dense = self.dense_layers * (self.attention_parameters + self.mlp_parameters(self.ffn))
        sparse = self.moe_layers * (self.common_parameters + self.routed_parameters)
        return dense + sparse + (1 if self.tied else 2) * self.embedding_parameters

    @property
    def active_layer_parameters(self) -> tuple[int, int]:
        """What a token meets in a dense layer and in a layer of experts."""
        dense = self.attention_parameters + self.mlp_parameters(self.ffn)
        if self.experts is None:
            return dense, 0
        return dense, self.common_parameters + self.experts.active * self.mlp_parameters(self.experts.width)

    @property
    def active_parameters(self) -> int:
        """What a token is multiplied with: all layers and the output table, not the input's (a look-up)."""
        dense, sparse = self.active_layer_parameters
        return self.dense_layers * dense + self.moe_layers * sparse + self.embedding_parameters

    def attention_flops(self, sequence: int) -> float:
        """FLOP of a token's forward attention in one layer, without projections and without a mask's half."""
        return 2.0 * sequence * (self.query_width + self.value_width)

    def step_flops(self, tokens: float, sequence: int, *, causal: bool = False) -> float:
        """Model FLOP of a training step over `tokens`: three forward passes, nothing that is computed again.

        As in Narayanan et al. 2021 and Korthikanti et al. 2022, appendix A: for a GPT of width h that is
        72 B s L h^2 (1 + s / 6h + V / 12hL). They count attention without the mask's half; `causal` counts it.
        """
        attention = self.layers * self.attention_flops(sequence) * (0.5 if causal else 1.0)
        return 3 * tokens * (2 * self.active_parameters + attention)


def gpt(name: str, layers: int, hidden: int, heads: int, vocabulary: int, source: str = "") -> Model:
    """A GPT: as many keys as queries, an MLP four times as wide, one embedding for both ends."""
    return Model(name, layers, hidden, 4 * hidden, heads, heads, vocabulary, gated=False, tied=True, source=source)
