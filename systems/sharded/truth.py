"""Whether the sharded layers and their gradients are right: small ones beside the same on one rank in float64."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch.nn import functional

from systems.sharded import expert_layer, tensor_layer
from systems.sharded.exchange import Exchange
from systems.sharded.planned import LLAMA
from warplab.errors import WarplabError

SMALL = replace(LLAMA, hidden=256, ffn=512, heads=16, kv_heads=8, head_width=16)
TOKENS, HIDDEN, WIDTH, COUNT, ACTIVE = 48, 128, 64, 16, 4  # of a layer of experts
MOST = 0.02  # of the norm of what is right: bfloat16 rounds by 2^-9, and a result has gone through a dozen roundings


class WrongLayer(WarplabError):
    """A sharded layer gave something else than it must."""


def check(rank: int, ranks: int, device: torch.device, exchange: Exchange) -> None:
    """Raises WrongLayer with the first result or gradient that is off by more than MOST."""
    for name, pairs in (("tensor-parallel", _tensor), ("expert-parallel", _expert)):
        for what, (found, truth) in pairs(rank, ranks, device, exchange).items():
            off = ((found.double() - truth).norm() / truth.norm()).item()
            if not off <= MOST:
                raise WrongLayer(f"The {name} layer: {what} is off by {off:.1%} on rank {rank}.")


Pairs = dict[str, tuple[torch.Tensor, torch.Tensor]]


def _draw(seed: int, device: torch.device, *shape: int, scale: float = 1.0) -> torch.Tensor:
    numbers = torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * scale
    return numbers.to(torch.bfloat16).to(device)


def _gradients(out: torch.Tensor, of: Sequence[torch.Tensor], by: torch.Tensor) -> list[torch.Tensor]:
    return [out.detach(), *torch.autograd.grad(out, list(of), by)]


def _tensor(rank: int, ranks: int, device: torch.device, exchange: Exchange) -> Pairs:
    full = {
        name: _draw(number, device, *shape, scale=shape[0] ** -0.5)
        for number, (name, shape) in enumerate(tensor_layer.shapes(SMALL).items())
    }
    x, by = (_draw(seed, device, TOKENS, SMALL.hidden) for seed in (100, 101))

    own = {name: w.requires_grad_() for name, w in tensor_layer.shard(full, rank, ranks).items()}
    mine = x.clone().requires_grad_()
    out = tensor_layer.forward(tensor_layer.share(SMALL, ranks), mine, own, exchange)
    found = _gradients(out, [mine, *own.values()], by)

    exact = {name: w.detach().double().requires_grad_() for name, w in tensor_layer.shard(full, 0, 1).items()}
    whole = x.double().requires_grad_()
    out = tensor_layer.forward(SMALL, whole, exact, Exchange(silent=True))
    right = _gradients(out, [whole, *exact.values()], by.double())
    of_full = dict(zip(exact, right[2:], strict=True))
    width = SMALL.query_width // SMALL.heads
    q, k, v = of_full["qkv"].split((SMALL.heads * width, *(2 * [SMALL.kv_heads * width])), 1)
    gate, up = of_full["gate_up"].chunk(2, 1)
    parts = {"queries": q, "keys": k, "values": v, "gate": gate, "up": up}
    shared = tensor_layer.shard({**parts, "out": of_full["out"], "down": of_full["down"]}, rank, ranks)
    names = ["the result", "the gradient of x", *(f"the gradient of {name}" for name in own)]
    return dict(zip(names, zip(found, [*right[:2], *shared.values()], strict=True), strict=True))


def _expert(rank: int, ranks: int, device: torch.device, exchange: Exchange) -> Pairs:
    full = {
        "gate_up": _draw(1, device, COUNT, HIDDEN, 2 * WIDTH, scale=HIDDEN**-0.5),
        "down": _draw(2, device, COUNT, WIDTH, HIDDEN, scale=WIDTH**-0.5),
    }
    xs, bys = ([_draw(seed + one, device, TOKENS, HIDDEN) for one in range(ranks)] for seed in (100, 200))
    chosen = [choices(one, TOKENS, COUNT, ACTIVE) for one in range(ranks)]
    shares = [_draw(300 + one, device, TOKENS, ACTIVE).abs() for one in range(ranks)]

    own = {name: w.requires_grad_() for name, w in expert_layer.shard(full, rank, ranks).items()}
    mine, routing = xs[rank].clone().requires_grad_(), expert_layer.route(chosen, rank, COUNT, device)
    out = expert_layer.forward(mine, shares[rank], own, routing, exchange)
    found = _gradients(out, [mine, *own.values()], bys[rank])

    exact = {name: w.detach().double().requires_grad_() for name, w in full.items()}
    everybody = [x.double().requires_grad_() for x in xs]
    outs = []
    for x, share, choice in zip(everybody, shares, chosen, strict=True):
        total = torch.zeros_like(x)
        for e in range(COUNT):
            token, which = (choice.to(device) == e).nonzero(as_tuple=True)
            gate, up = (x[token] @ exact["gate_up"][e]).chunk(2, 1)
            y = (functional.silu(gate) * up) @ exact["down"][e]
            total = total.index_add(0, token, share.double()[token, which, None] * y)
        outs.append(total)
    right = _gradients(torch.cat(outs), [everybody[rank], *exact.values()], torch.cat(bys).double())
    mine_of = expert_layer.shard(dict(zip(exact, right[2:], strict=True)), rank, ranks)
    result = right[0].chunk(ranks, 0)[rank]
    names = ["the result", "the gradient of x", *(f"the gradient of {name}" for name in own)]
    return dict(zip(names, zip(found, [result, right[1], *mine_of.values()], strict=True), strict=True))


def choices(seed: int, tokens: int, experts: int, active: int) -> torch.Tensor:
    """`active` different experts for each token, any of them as likely: int64 [tokens, active], on the CPU."""
    draw = torch.rand(tokens, experts, generator=torch.Generator().manual_seed(seed))
    return draw.topk(active, 1).indices
