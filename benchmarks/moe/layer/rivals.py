"""In the worker: the same layer by PyTorch: a loop over experts, and chains around its products of groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.moe.layer.data import Data

LOOP, GROUPED, SCALED = "torch loop, bf16", "torch grouped, bf16", "torch grouped, fp8"


class Torch:
    """A layer's chains of PyTorch. Weights in bf16 are copies, which take twice the room and the reading."""

    def __init__(self, data: Data) -> None:
        import torch

        self._data = data
        self._x = data.x.bfloat16()
        experts, d, f = data.experts, data.d, data.f
        self._up = torch.empty((experts, 2 * f, d), dtype=torch.bfloat16, device="cuda")
        self._down = torch.empty((experts, d, f), dtype=torch.bfloat16, device="cuda")
        for e in range(experts):
            self._up[e], self._down[e] = data.weights(e, torch.bfloat16)
        self._up8, self._of_up = by_rows(self._up)
        self._down8, self._of_down = by_rows(self._down)

    def chains(self) -> dict[str, tuple[Callable[[], Any], bool]]:
        """What can be run, by name: a function that gives tokens x d, and whether a CUDA graph can hold it."""
        return {LOOP: (self.loop, False), GROUPED: (self.grouped, True), SCALED: (self.scaled, True)}

    def _routed(self) -> tuple[Any, Any, Any]:
        import torch

        best, chosen = torch.topk(self._data.scores, self._data.k, dim=1)
        return torch.softmax(best, dim=1), chosen, chosen.reshape(-1)

    def loop(self) -> Any:
        """An expert at a time. Which rows it has, the host has to ask."""
        import torch
        import torch.nn.functional as F

        share, chosen, _ = self._routed()
        out = torch.zeros(self._x.shape, dtype=torch.float32, device="cuda")
        for e in range(self._data.experts):
            token, choice = (chosen == e).nonzero(as_tuple=True)
            if len(token):
                h = self._x[token] @ self._up[e].t()
                a = F.silu(h[:, : self._data.f]) * h[:, self._data.f :]
                y = a @ self._down[e].t()
                out.index_add_(0, token, share[token, choice, None] * y)
        return out

    def _by_groups(self, first: Callable[[Any, Any], Any], second: Callable[[Any, Any], Any]) -> Any:
        import torch
        import torch.nn.functional as F

        data = self._data
        share, _, flat = self._routed()
        order = torch.sort(flat.to(torch.int16), stable=True)[1]
        count = torch.zeros(data.experts, dtype=torch.int32, device="cuda")
        count.scatter_add_(0, flat, torch.ones_like(flat, dtype=torch.int32))
        ends = count.cumsum(0).to(torch.int32)
        token = order // data.k
        h = first(self._x[token], ends)
        y = second(F.silu(h[:, : data.f]) * h[:, data.f :], ends)
        out = torch.zeros(self._x.shape, dtype=torch.float32, device="cuda")
        return out.index_add_(0, token, share.reshape(-1)[order, None] * y)

    def grouped(self) -> Any:
        """Products of groups in bf16."""
        import torch

        def product(w: Any) -> Callable[[Any, Any], Any]:
            return lambda x, ends: torch._grouped_mm(x, w.transpose(-2, -1), offs=ends)

        return self._by_groups(product(self._up), product(self._down))

    def scaled(self) -> Any:
        """Products of groups in FP8 with one scale a row."""
        import torch
        import torch.nn.functional as F

        def product(codes: Any, of_w: Any) -> Callable[[Any, Any], Any]:
            w = codes.transpose(-2, -1)

            def multiply(x: Any, ends: Any) -> Any:
                of_x = x.abs().amax(1).float() / 448
                x8 = (x / of_x[:, None]).to(torch.float8_e4m3fn)
                if hasattr(torch, "_scaled_grouped_mm"):
                    return torch._scaled_grouped_mm(
                        x8, w, of_x, of_w, offs=ends, out_dtype=torch.bfloat16, use_fast_accum=True
                    )
                kind = F.ScalingType.RowWise
                return F.scaled_grouped_mm(
                    x8, w, of_x, kind, of_w, kind, offs=ends, output_dtype=torch.bfloat16, use_fast_accum=True
                )

            return multiply

        return self._by_groups(product(self._up8, self._of_up), product(self._down8, self._of_down))


def by_rows(w: Any) -> tuple[Any, Any]:
    """Codes of e4m3 of experts x n x k numbers, and a scale for each row."""
    import torch

    codes = torch.empty(w.shape, dtype=torch.float8_e4m3fn, device=w.device)
    scale = torch.empty(w.shape[:2], device=w.device)
    for e in range(len(w)):
        numbers = w[e].float()
        scale[e] = numbers.abs().amax(1) / 448
        codes[e] = (numbers / scale[e][:, None]).to(torch.float8_e4m3fn)
    return codes, scale
