"""The vendor's library as a candidate, where PyTorch brings it: how fast those who do this for a living are.

For information only: a grade is made from the roofline. What does not fit or fails here is left out.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
from collections.abc import Callable, Mapping
from typing import Any

from cuda.core import Stream


class Matmul:
    """torch.matmul of two float16 matrices, m x k and k x n, into float16: cuBLAS on the tensor cores."""

    launches = 5  # one, which takes as long on the host as so many of ours: the stopwatch hides that much of it
    label = "torch.matmul, float16"

    def __init__(self, stream: Stream, dimensions: Mapping[str, int]) -> None:
        import torch

        self._torch = torch
        self._stream = torch.cuda.ExternalStream(int(stream.handle))
        m, n, k = dimensions["m"], dimensions["n"], dimensions["k"]
        with torch.cuda.stream(self._stream):
            self._a, self._b = (torch.randn(shape, dtype=torch.float16, device="cuda") for shape in ((m, k), (k, n)))
            self._c = torch.empty((m, n), dtype=torch.float16, device="cuda")
            torch.matmul(self._a, self._b, out=self._c)  # loads and chooses its kernel
            self._stream.synchronize()

    def prepare(self, turn: int) -> None:
        """Nothing to prepare: the work does not depend on the data."""

    def launch(self) -> None:
        """Queue the product."""
        with self._torch.cuda.stream(self._stream):
            self._torch.matmul(self._a, self._b, out=self._c)

    def check(self, turn: int) -> None:
        """Nothing to check."""


CANDIDATES: Mapping[str, Callable[[Stream, Mapping[str, int]], Any]] = {"matmul": Matmul}


def load(name: str) -> None:
    """Import what the candidate of this name needs, which takes seconds: ahead of measuring, where it is installed."""
    if name in CANDIDATES:
        with contextlib.suppress(ImportError):
            importlib.import_module("torch")


def candidate(name: str, stream: Stream, dimensions: Mapping[str, int]) -> Any | None:
    """The library's candidate for a task's `library`, or None where PyTorch is not installed or cannot do it."""
    if name not in CANDIDATES or importlib.util.find_spec("torch") is None:
        return None
    try:
        return CANDIDATES[name](stream, dimensions)
    except Exception:  # another CUDA, too little memory: what is only information must not cost a grade
        return None
