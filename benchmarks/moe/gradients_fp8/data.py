"""In the worker: tokens of a layer's experts in bf16 and quantised in two ways, and what their gradients must be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from systems.moe.gradients_fp8.quantise import BLOCK, LARGEST, firsts, quantised

SAMPLED = 16  # rows of each gradient that are compared


class Tokens:
    """Gradients dy (rows x m) and activations x (rows x n) of N(0, 1), routed by scores of N(0, 1), on `device`.

    `dy8`, `x8` (lines x slots) and `dy_scale`, `x_scale` (blocks x lines) are quantised in blocks of 128 tokens.
    """

    def __init__(self, layer: Mapping[str, Any], tokens: int, m: int, n: int, device: str = "cuda") -> None:
        import torch

        torch.manual_seed(0)
        self.experts, self.m, self.n = layer["experts"], m, n
        chosen = torch.topk(torch.randn((tokens, self.experts), device=device), layer["k"], dim=1)[1]
        self.count = torch.bincount(chosen.reshape(-1), minlength=self.experts).to(torch.int32)
        self.ends = self.count.cumsum(0).to(torch.int32)
        self.first = self.ends - self.count
        self.dy, self.x = (torch.randn((tokens * layer["k"], width), device=device).bfloat16() for width in (m, n))
        self._quantise(device)
        self.active, self.fullest = int((self.count > 0).sum()), int(self.count.max())
        self._sampled = torch.arange(0, m, max(1, m // SAMPLED), device=device)
        self._right = [self.dy[mine][:, self._sampled].double().t() @ self.x[mine].double() for mine in self.rows()]

    def _quantise(self, device: str) -> None:
        """By NumPy or CuPy, whose stream is not PyTorch's: each waits for the other."""
        import torch

        xp: Any = np
        if device != "cpu":
            import cupy

            xp = cupy
            torch.cuda.synchronize()
        count = xp.asarray(self.count)
        self.first8 = torch.as_tensor(firsts(xp, count))
        (self.dy8, self.dy_scale), (self.x8, self.x_scale) = (
            tuple(torch.as_tensor(part) for part in quantised(xp, xp.asarray(matrix.float()), count))
            for matrix in (self.dy, self.x)
        )
        if device != "cpu":
            torch.cuda.synchronize()
            xp.get_default_memory_pool().free_all_blocks()

    def rows(self) -> list[slice]:
        """Where each expert's rows are in dy and x."""
        return [slice(end - count, end) for end, count in zip(self.ends.tolist(), self.count.tolist(), strict=True)]

    def padded(self) -> list[slice]:
        """Where each expert's slots are in dy8 and x8, zeros behind its tokens included."""
        starts, counts = self.first8.tolist(), self.count.tolist()
        return [slice(start, start - (-count // BLOCK) * BLOCK) for start, count in zip(starts, counts, strict=True)]

    def by_rows(self, matrix: Any) -> tuple[Any, Any]:
        """Codes (e4m3, lines x slots) of dy or x with one scale for all of an expert's tokens, and these scales
        (float32, experts x lines): 1 where there is no token."""
        import torch

        codes = torch.zeros((matrix.shape[1], self.dy8.shape[1]), dtype=torch.float8_e4m3fn, device=matrix.device)
        scale = torch.ones((self.experts, matrix.shape[1]), device=matrix.device)
        for e, (mine, there) in enumerate(zip(self.rows(), self.padded(), strict=True)):
            if mine.stop > mine.start:
                lines = matrix[mine].float().t()
                scale[e] = lines.abs().amax(1) / float(LARGEST)
                codes[:, there.start : there.start + lines.shape[1]] = (lines / scale[e][:, None]).to(codes.dtype)
        return codes, scale

    def error(self, dw: Sequence[Any]) -> float:
        """Root-mean-square error of sampled rows relative to float64 gradients of dy and x in bf16; NaN if `dw` has
        one, infinity if an expert without tokens has anything but zeros. dw[e] is m x n, or None without tokens."""
        off = size = 0.0
        for found, right, mine in zip(dw, self._right, self.rows(), strict=True):
            if mine.stop == mine.start:
                if found is not None and bool((found != 0).any()):
                    return float("inf")
                continue
            off += float((found[self._sampled].double() - right).square().sum())
            size += float(right.square().sum())
        return float((off / size) ** 0.5)
