"""A small GPT whose every operator is a module with a name, so that memory can be counted by name.

The blocks normalise first and have no biases and no dropout. How a block is run is a function that the caller may
replace: that is where checkpointing, offloading and rounding come in, without a word of them here.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from systems.training.sizes import Sizes

# How to run a block: its number, the block, the residual stream (batch, sequence, width); gives the new stream.
Run = Callable[[int, nn.Module, Tensor], Tensor]

DTYPES = {2: torch.bfloat16, 4: torch.float32, 8: torch.float64}


class Attention(nn.Module):
    """Causal attention of (batch, sequence, 3 width), queries, keys and values side by side."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads

    def forward(self, qkv: Tensor) -> Tensor:
        batch, sequence, three = qkv.shape
        parts = qkv.view(batch, sequence, 3, self.heads, three // 3 // self.heads).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        return mixed.transpose(1, 2).reshape(batch, sequence, three // 3)


class Add(nn.Module):
    """The residual connection."""

    def forward(self, stream: Tensor, change: Tensor) -> Tensor:
        return stream + change


class Loss(nn.Module):
    """Mean cross entropy of logits (batch, sequence, vocabulary) against tokens, in float32 or better."""

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        wide = logits if logits.dtype == torch.float64 else logits.float()
        return functional.cross_entropy(wide.flatten(0, 1), targets.flatten())


class Block(nn.Module):
    """One layer."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.norm_1 = nn.LayerNorm(sizes.width, bias=False)
        self.qkv = nn.Linear(sizes.width, 3 * sizes.width, bias=False)
        self.attention = Attention(sizes.heads)
        self.projection = nn.Linear(sizes.width, sizes.width, bias=False)
        self.residual_1 = Add()
        self.norm_2 = nn.LayerNorm(sizes.width, bias=False)
        self.up = nn.Linear(sizes.width, sizes.ffn, bias=False)
        self.gelu = nn.GELU(approximate="tanh")
        self.down = nn.Linear(sizes.ffn, sizes.width, bias=False)
        self.residual_2 = Add()

    def forward(self, stream: Tensor) -> Tensor:
        stream = self.residual_1(stream, self.projection(self.attention(self.qkv(self.norm_1(stream)))))
        return self.residual_2(stream, self.down(self.gelu(self.up(self.norm_2(stream)))))


class GPT(nn.Module):
    """Takes tokens and targets, (batch, sequence) of int64, and gives the mean loss. `run` is how blocks are run."""

    positions: Tensor

    def __init__(self, sizes: Sizes, run: Run | None = None) -> None:
        super().__init__()
        self.sizes = sizes
        self.run = run
        self.embedding = nn.Embedding(sizes.vocabulary, sizes.width)
        self.place = nn.Embedding(sizes.sequence, sizes.width)
        self.register_buffer("positions", torch.arange(sizes.sequence), persistent=False)
        self.blocks = nn.ModuleList(Block(sizes) for _ in range(sizes.layers))
        self.norm = nn.LayerNorm(sizes.width, bias=False)
        self.head = nn.Linear(sizes.width, sizes.vocabulary, bias=False)
        self.loss = Loss()

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        stream = self.embedding(tokens) + self.place(self.positions)
        for number, block in enumerate(self.blocks):
            stream = block(stream) if self.run is None else self.run(number, block, stream)
        return self.loss(self.head(self.norm(stream)), targets)


def make(sizes: Sizes, seed: int = 0, device: str = "cpu") -> GPT:
    """A GPT with weights drawn from the seed, in the type that `value_bytes` names."""
    torch.manual_seed(seed)
    return GPT(sizes).to(device, DTYPES[sizes.value_bytes])


def draw(sizes: Sizes, seed: int = 0, device: str = "cpu") -> tuple[Tensor, Tensor]:
    """A batch of random tokens, and the tokens that should come next, each in a storage of its own."""
    drawn = torch.randint(
        sizes.vocabulary, (sizes.batch, sizes.sequence + 1), generator=torch.Generator().manual_seed(seed)
    )
    return drawn[:, :-1].clone().to(device), drawn[:, 1:].clone().to(device)
