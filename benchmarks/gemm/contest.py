"""In the worker: products against torch.matmul (cuBLAS) in the same turns, on N(0, 1) data and with a cold L2."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from warplab.errors import WarplabError
from warplab.hardware.device import architecture_of, present
from warplab.plan.archive import load
from warplab.plan.model import Plan

SLOWEST = 50.0  # milliseconds: what takes longer would use up the turns of the others
UNIT = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24}  # roundoff, to nearest


def timed(
    plans: Mapping[str, str], shape: tuple[int, int, int], dtype: str, seconds: float, precision: float
) -> dict[str, Any]:
    """Milliseconds and ratio to torch's time, by plan; `plans` are files. What is too slow is left out.

    Raises WarplabError if a result is not torch's, but for rounding.
    """
    import cupy
    import torch

    from warplab.gpu import executor
    from warplab.gpu.stopwatch import race

    device = present()
    assert device is not None
    m, n, k = shape
    kind = torch.float16 if dtype == "float16" else torch.bfloat16
    with executor.on_stream() as stream:
        torch.manual_seed(0)
        a, b = (torch.randn(size, device="cuda").to(kind) for size in ((m, k), (k, n)))
        inputs = {
            name: cupy.asarray(x if kind is torch.float16 else x.view(torch.uint16)) for name, x in (("a", a), ("b", b))
        }
        expected = torch.matmul(a, b).float()
        torch.cuda.synchronize()
        contestants: dict[str, Any] = {"torch": Library(stream, a, b)}
        for name, path in plans.items():
            product = Product(load(Path(path)), architecture_of(device), stream, inputs)
            if product.trial() > SLOWEST:
                continue
            check(name, product.output, expected, k, dtype)
            contestants[name] = product
        result = race(contestants, stream, budget_seconds=seconds, precision=precision)
        answer = {}
        for name in contestants:
            time, ratio = result.time(name), result.ratio("torch", name)
            answer[name] = {"ms": time.median, "low": time.low, "high": time.high, "ratio": ratio.median}
        return {"times": answer, "turns": result.turns}


def check(name: str, output: Any, expected: Any, k: int, dtype: str) -> None:
    """Compare with torch's product: another order of adding, then a rounding or none, lie between them."""
    import torch

    given = torch.as_tensor(output)
    if given.dtype == torch.uint16:
        given = given.view(torch.bfloat16)
    error = (given.float() - expected).abs()
    if not bool((error <= 4 * UNIT[dtype] * expected.abs() + 2.0**-18 * max(k, 64)).all()):
        raise WarplabError(f"{name} gave a wrong product for k = {k}: off by up to {float(error.max()):.3g}")


class Library:
    """torch.matmul as a contestant."""

    launches = 1

    def __init__(self, stream: Any, a: Any, b: Any) -> None:
        import torch

        self._torch, self._a, self._b = torch, a, b
        self._stream = torch.cuda.ExternalStream(int(stream.handle))
        with torch.cuda.stream(self._stream):
            self._c = torch.matmul(a, b)  # loads and chooses its kernel
            self._stream.synchronize()

    def prepare(self, turn: int) -> None:
        """Nothing to prepare: the work does not depend on the data."""

    def launch(self) -> None:
        """Queue the product."""
        with self._torch.cuda.stream(self._stream):
            self._torch.matmul(self._a, self._b, out=self._c)

    def check(self, turn: int) -> None:
        """Nothing to check."""


class Product:
    """A plan as a contestant."""

    def __init__(self, plan: Plan, architecture: str, stream: Any, inputs: Mapping[str, Any]) -> None:
        from warplab.gpu.executor import LoadedPlan

        self.launches = len(plan.launches)
        self._stream = stream
        self._loaded = LoadedPlan(plan, architecture, stream)
        self._loaded.reset(dict(inputs))
        self.output = self._loaded.buffers["c"].array

    def trial(self) -> float:
        """Milliseconds of a first launch."""
        from cuda.core import Device, EventOptions

        begin, end = (Device().create_event(EventOptions(timing_enabled=True)) for _ in range(2))
        self._stream.record(begin)
        self.launch()
        self._stream.record(end)
        end.sync()
        return float(end - begin)

    def prepare(self, turn: int) -> None:
        """Nothing to prepare: the work does not depend on the data."""

    def launch(self) -> None:
        """Queue the product."""
        self._loaded.launch()

    def check(self, turn: int) -> None:
        """Nothing to check: the first launch was compared."""
