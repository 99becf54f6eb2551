"""A layer of experts, as many on each rank: tokens travel to their experts and results back, two all-to-alls each way.

Every token is sent once for each of its experts, in bfloat16. The routing is given, and known to all ranks: no rank has
to ask how many rows will come, and the layer can be a CUDA graph. The router itself and its gradient are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

from systems.sharded.exchange import Exchange

Weights = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class Routing:
    """Of one rank. `token` is of each row it sends, in the order of experts, and `order` its choice; `place` is where
    each choice is among the rows. Rows that arrive are by sender; `by_expert` puts them in the order of experts,
    `by_sender` back. `ends` is where each own expert's rows end, int32. `sent` and `received` are rows by rank.
    """

    token: torch.Tensor
    order: torch.Tensor
    place: torch.Tensor
    by_expert: torch.Tensor
    by_sender: torch.Tensor
    ends: torch.Tensor
    sent: tuple[int, ...]
    received: tuple[int, ...]


def route(chosen: Sequence[torch.Tensor], rank: int, experts: int, device: torch.device) -> Routing:
    """From the choices [tokens, active] of every rank's tokens, on the CPU; experts lie on ranks in their order."""
    ranks, own = len(chosen), experts // len(chosen)
    order = chosen[rank].flatten().argsort(stable=True)
    counts = torch.stack([torch.bincount(one.flatten(), minlength=experts) for one in chosen])  # sender x expert
    mine = counts[:, rank * own : (rank + 1) * own]
    arriving = torch.arange(own).repeat(ranks).repeat_interleave(mine.flatten())
    by_expert = arriving.argsort(stable=True)
    return Routing(
        token=(order // chosen[rank].shape[1]).to(device),
        order=order.to(device),
        place=order.argsort().to(device),
        by_expert=by_expert.to(device),
        by_sender=by_expert.argsort().to(device),
        ends=mine.sum(0).cumsum(0).to(device, torch.int32),
        sent=tuple(counts[rank].view(ranks, own).sum(1).tolist()),
        received=tuple(mine.sum(1).tolist()),
    )


def shard(full: Weights, rank: int, ranks: int) -> dict[str, torch.Tensor]:
    """A rank's experts: gate_up [experts, hidden, 2 x width] and down [experts, width, hidden]."""
    return {name: weights.chunk(ranks, 0)[rank].contiguous() for name, weights in full.items()}


def forward(x: torch.Tensor, share: torch.Tensor, own: Weights, routing: Routing, exchange: Exchange) -> torch.Tensor:
    """The layer on this rank's tokens x [tokens, hidden]; `share` [tokens, active] is what each expert counts."""
    sent = _Spread.apply(x, routing.token, routing.place)
    arrived = exchange.swapped(sent, routing.sent, routing.received)
    rows = _Permuted.apply(arrived, routing.by_expert, routing.by_sender)
    gate, up = torch._grouped_mm(rows, own["gate_up"], offs=routing.ends).chunk(2, 1)
    results = torch._grouped_mm(functional.silu(gate) * up, own["down"], offs=routing.ends)
    back = _Permuted.apply(results, routing.by_sender, routing.by_expert)
    returned = exchange.swapped(back, routing.received, routing.sent)
    of_tokens = _Permuted.apply(returned, routing.place, routing.order)
    return torch.bmm(share[:, None, :], of_tokens.view(*share.shape, x.shape[1]))[:, 0]


class _Permuted(torch.autograd.Function):
    """Rows in another order: the backward pass of plain indexing would add them up one by one."""

    @staticmethod
    def forward(context: Any, rows: torch.Tensor, order: torch.Tensor, inverse: torch.Tensor) -> torch.Tensor:
        context.save_for_backward(inverse)
        return rows.index_select(0, order)

    @staticmethod
    def backward(context: Any, *gradients: Any) -> Any:
        (inverse,) = context.saved_tensors
        return gradients[0].index_select(0, inverse), None, None


class _Spread(torch.autograd.Function):
    """A row for each choice of each token."""

    @staticmethod
    def forward(context: Any, x: torch.Tensor, token: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        context.save_for_backward(place)
        context.tokens = x.shape[0]
        return x.index_select(0, token)

    @staticmethod
    def backward(context: Any, *gradients: Any) -> Any:
        (place,) = context.saved_tensors
        rows = gradients[0].index_select(0, place)
        return rows.view(context.tokens, -1, rows.shape[1]).sum(1), None, None
