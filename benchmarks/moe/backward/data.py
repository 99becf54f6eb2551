"""In the worker: what a layer's forward pass kept, in bf16, and its gradients by autograd in float32 or float64."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

GRADIENTS = ("dx", "dup", "ddown", "dshare")


class Kept:
    """Weights of N(0, 1 / k), tokens and gradients of N(0, 1), routing by scores of N(0, 1), on `device`."""

    def __init__(self, layer: Mapping[str, Any], tokens: int, device: str = "cuda") -> None:
        import torch
        import torch.nn.functional as F

        self.experts, self.k, self.d, self.f = (layer[name] for name in ("experts", "k", "hidden", "inside"))
        torch.manual_seed(0)

        def normal(*shape: int) -> Any:
            return torch.randn(shape, device=device)

        def weights(n: int, k: int) -> Any:
            found = torch.empty((self.experts, n, k), dtype=torch.bfloat16, device=device)
            for e in range(self.experts):
                found[e] = normal(n, k) * k**-0.5
            return found

        self.up, self.down = weights(2 * self.f, self.d), weights(self.d, self.f)
        self.tokens, self.dout = normal(tokens, self.d).bfloat16(), normal(tokens, self.d)
        best, self.chosen = torch.topk(normal(tokens, self.experts), self.k, dim=1)
        self.share = torch.softmax(best, dim=1)
        self.order = torch.sort(self.chosen.reshape(-1), stable=True)[1]  # the choice that each row is
        self.position = torch.empty_like(self.order)
        self.position[self.order] = torch.arange(len(self.order), device=device)
        self.position = self.position.view(tokens, self.k).to(torch.int32)
        self.count = torch.bincount(self.chosen.reshape(-1), minlength=self.experts).to(torch.int32)
        self.ends = self.count.cumsum(0).to(torch.int32)
        self.first = self.ends - self.count
        self.active, self.fullest = int((self.count > 0).sum()), int(self.count.max())
        self.token = self.order // self.k  # of each row
        self.x = self.tokens[self.token]
        rows = tokens * self.k
        self.h = torch.empty((rows, 2 * self.f), dtype=torch.bfloat16, device=device)
        self.y = torch.empty((rows, self.d), dtype=torch.bfloat16, device=device)
        for e, mine in self.groups():
            self.h[mine] = self.x[mine] @ self.up[e].t()
            a = F.silu(self.h[mine, : self.f].float()) * self.h[mine, self.f :].float()
            self.y[mine] = a.bfloat16() @ self.down[e].t()

    def groups(self) -> list[tuple[int, slice]]:
        """Each expert that has rows, and where they are."""
        ends = self.ends.tolist()
        spans = zip([0, *ends], ends, strict=False)
        return [(e, slice(start, end)) for e, (start, end) in enumerate(spans) if end > start]

    def arrays(self) -> dict[str, Any]:
        """Inputs of the chain as tensors: bf16 as int16."""
        import torch

        names = ("dout", "x", "h", "y", "up", "down", "share", "position", "first", "count")
        found = {name: getattr(self, name) for name in names}
        return {name: x.view(torch.int16) if x.dtype == torch.bfloat16 else x for name, x in found.items()}

    def expected(self, dtype: Any) -> dict[str, Any]:
        """The gradients by autograd, one expert at a time, from tokens and weights alone: nothing kept is used."""
        import torch
        import torch.nn.functional as F

        tokens, share = (x.to(dtype, copy=True).requires_grad_() for x in (self.tokens, self.share))
        dout = self.dout.to(dtype)
        dx, dshare = torch.zeros_like(tokens), torch.zeros_like(share)
        dup, ddown = torch.zeros(self.up.shape, device=dx.device), torch.zeros(self.down.shape, device=dx.device)
        for e in range(self.experts):
            token, choice = (self.chosen == e).nonzero(as_tuple=True)
            if len(token):
                up, down = (w[e].to(dtype, copy=True).requires_grad_() for w in (self.up, self.down))
                h = tokens[token] @ up.t()
                y = (F.silu(h[:, : self.f]) * h[:, self.f :]) @ down.t()
                out = torch.zeros_like(dout).index_add(0, token, share[token, choice, None] * y)
                of_tokens, of_share, of_up, of_down = torch.autograd.grad(out, (tokens, share, up, down), dout)
                dx, dshare, dup[e], ddown[e] = dx + of_tokens, dshare + of_share, of_up, of_down
        return {"dx": dx.detach(), "dup": dup, "ddown": ddown, "dshare": dshare.detach()}


def relative(found: Any, right: Any) -> float:
    """Root-mean-square difference relative to what is right, a matrix at a time."""
    off = sum(float((f.double() - r.double()).square().sum()) for f, r in zip(found, right, strict=True))
    return float((off / sum(float(r.double().square().sum()) for r in right)) ** 0.5)
