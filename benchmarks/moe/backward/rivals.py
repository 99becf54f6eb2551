"""In the worker: a layer's backward pass by PyTorch: autograd through a loop over experts, and products of groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.moe.backward.data import Kept
from benchmarks.moe.backward.plans import LAUNCHES

LOOP, GROUPED = "torch loop, autograd", "torch grouped"


def loop(kept: Kept) -> Callable[[], dict[str, Any]]:
    """Autograd of a forward pass in bf16 that is made once and kept; weights of an expert are a tensor each."""
    import torch
    import torch.nn.functional as F

    tokens, share = kept.tokens.clone().requires_grad_(), kept.share.clone().requires_grad_()
    ups, downs = ([w.requires_grad_() for w in both.clone().unbind()] for both in (kept.up, kept.down))
    out = torch.zeros(kept.dout.shape, device=kept.dout.device)
    for e in range(kept.experts):
        token, choice = (kept.chosen == e).nonzero(as_tuple=True)
        if len(token):
            h = tokens[token] @ ups[e].t()
            y = (F.silu(h[:, : kept.f]) * h[:, kept.f :]) @ downs[e].t()
            out = out.index_add(0, token, share[token, choice, None] * y)

    def gradients() -> dict[str, Any]:
        wanted = (tokens, share, *ups, *downs)
        dx, dshare, *weights = torch.autograd.grad(out, wanted, kept.dout, retain_graph=True, materialize_grads=True)
        return {"dx": dx, "dshare": dshare, "dup": weights[: kept.experts], "ddown": weights[kept.experts :]}

    return gradients


def products(kept: Kept) -> dict[str, Callable[[Any, Any], Any]]:
    """torch's product of groups as each of the chain's, by the name of its launch."""
    import torch

    def over_rows(dy: Any, w: Any) -> Any:
        return torch._grouped_mm(dy, w, offs=kept.ends)

    def over_tokens(dy: Any, x: Any) -> Any:
        return torch._grouped_mm(dy.t(), x, offs=kept.ends)

    return {LAUNCHES[1]: over_rows, LAUNCHES[3]: over_tokens, LAUNCHES[4]: over_rows, LAUNCHES[5]: over_tokens}


def grouped(kept: Kept) -> Callable[[], dict[str, Any]]:
    """The chain's steps, with torch's products of groups and torch's element-wise operations, from what was kept."""
    import torch
    import torch.nn.functional as F

    multiply, f = products(kept), kept.f

    def gradients() -> dict[str, Any]:
        g = kept.dout[kept.token]
        dshare = (g * kept.y).sum(1)[kept.position]
        dy = (kept.share.reshape(-1)[kept.order, None] * g).bfloat16()
        da = multiply[LAUNCHES[1]](dy, kept.down)
        gate, value = kept.h[:, :f], kept.h[:, f:]
        s = torch.sigmoid(gate)
        a = F.silu(gate) * value
        dh = torch.cat((da * value * s * (1 + gate * (1 - s)), da * gate * s), 1)
        ddown = multiply[LAUNCHES[3]](dy, a)
        drows = multiply[LAUNCHES[4]](dh, kept.up)
        dup = multiply[LAUNCHES[5]](dh, kept.x)
        dx = torch.zeros(kept.dout.shape, device=g.device).index_add_(0, kept.token, drows.float())
        return {"dx": dx, "dup": dup, "ddown": ddown, "dshare": dshare}

    return gradients
