"""In the worker: a layer's weights and tokens on the GPU, and what PyTorch makes of them in float32."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

GROUP = 128  # columns of a row of x that share a scale


def columns_by_one_scale(tokens: int) -> int:
    """Of SwiGLU's results in the one kernel, whose tiles come in pairs where an expert may have more than 64 rows."""
    return 64 if tokens <= 64 else 128


class Data:
    """Weights of N(0, 1 / k) in codes with a scale for each block of 128 x 128, tokens of N(0, 1), their routing."""

    def __init__(self, layer: Mapping[str, Any], tokens: int) -> None:
        import cupy
        import torch

        self.experts, self.k = layer["experts"], layer["k"]
        self.d, self.f = layer["hidden"], layer["inside"]
        torch.manual_seed(0)
        self.up8, self.up_scale = self._weights(2 * self.f, self.d)
        self.down8, self.down_scale = self._weights(self.d, self.f)
        self.x = torch.randn((tokens, self.d), device="cuda").half()
        self.scores = torch.randn((tokens, self.experts), device="cuda")
        best, self.chosen = torch.topk(self.scores, self.k, dim=1)
        self.share = torch.softmax(best, dim=1)
        self.active = int(self.chosen.unique().numel())  # experts that have a row
        self.fullest = int(torch.bincount(self.chosen.flatten()).max())  # rows of one
        torch.cuda.synchronize()
        names = ("x", "scores", "up8", "up_scale", "down8", "down_scale")
        self.arrays = {name: cupy.asarray(getattr(self, name)) for name in names}

    def _weights(self, n: int, k: int) -> tuple[Any, Any]:
        import torch

        codes = torch.empty((self.experts, n, k), dtype=torch.uint8, device="cuda")
        scale = torch.empty((self.experts, n // 128, k // 128), device="cuda")
        for e in range(self.experts):
            w = (torch.randn((n, k), device="cuda") * k**-0.5).view(n // 128, 128, k // 128, 128)
            scale[e] = w.abs().amax((1, 3)) / 448
            codes[e] = (w / scale[e][:, None, :, None]).view(n, k).to(torch.float8_e4m3fn).view(torch.uint8)
        return codes, scale

    def weights(self, e: int, dtype: Any) -> tuple[Any, Any]:
        """Both matrices of an expert as numbers of `dtype`."""
        import torch

        found = []
        for codes, scale in ((self.up8[e], self.up_scale[e]), (self.down8[e], self.down_scale[e])):
            numbers = codes.view(torch.float8_e4m3fn).float()
            found.append((numbers * scale.repeat_interleave(128, 0).repeat_interleave(128, 1)).to(dtype))
        return found[0], found[1]

    def expected(self, group: int) -> Any:
        """The layer in float32, tokens x d; `group` columns of SwiGLU's results share a scale of e4m3.

        Without a group (0) activations keep their bits.
        """
        import torch
        import torch.nn.functional as F

        out = torch.zeros(self.x.shape, device="cuda")
        x = rounded(self.x.float(), GROUP if group else 0)
        for e in range(self.experts):
            token, choice = (self.chosen == e).nonzero(as_tuple=True)
            if len(token):
                up, down = self.weights(e, torch.float32)
                h = x[token] @ up.t()
                a = rounded(F.silu(h[:, : self.f]) * h[:, self.f :], group)
                out.index_add_(0, token, self.share[token, choice, None] * (a @ down.t()))
        torch.cuda.synchronize()
        return out


def rounded(x: Any, group: int) -> Any:
    """x as its codes of e4m3 say, with a power of two as scale for each `group` columns of a row."""
    import torch

    if not group:
        return x
    parts = x.view(len(x), -1, group)
    largest = parts.abs().amax(2, keepdim=True)
    scale = torch.exp2(torch.ceil(torch.log2(largest / 448)))
    scale = torch.where(largest > 0, scale, torch.ones_like(scale))
    return ((parts / scale).to(torch.float8_e4m3fn).float() * scale).view(x.shape)
