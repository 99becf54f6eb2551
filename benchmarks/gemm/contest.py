"""In the worker: products against torch.matmul (cuBLAS) in the same turns, on N(0, 1) data and with a cold L2."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from warplab.errors import WarplabError
from warplab.hardware.device import architecture_of, present
from warplab.plan.archive import load
from warplab.plan.model import Plan

SLOWEST = 50.0  # milliseconds: what takes longer would use up the turns of the others
SLOW = 1.5  # times the library: such products race among themselves, as the card cools down while they run
WARM_UP, DRAWN_SECONDS = 0.5, 0.8  # seconds of products back to back: before a race, and with clock and power
UNIT = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24}  # roundoff, to nearest


def timed(
    plans: Mapping[str, str], shape: tuple[int, int, int], dtype: str, seconds: float, precision: float
) -> dict[str, Any]:
    """Milliseconds, and the ratio to torch's in the same turns, by plan (a file); what is too slow is left out.

    "wrong" has a sentence for each plan whose result is not torch's, but for rounding: it is left out too.
    """
    import torch

    from warplab.gpu import executor
    from warplab.gpu.stopwatch import time_in_turns

    device = present()
    assert device is not None
    k = shape[2]
    kind = torch.float16 if dtype == "float16" else torch.bfloat16
    with executor.on_stream() as stream:
        a, b, inputs = operands(shape, kind)
        expected = torch.matmul(a.float(), b.float())  # cuBLAS may add up parts in float16
        torch.cuda.synchronize()
        library = Library(stream, a, b)
        limit = SLOW * trial(library, stream)
        wrong: list[str] = []
        fast: dict[str, Any] = {"torch": library}
        slow: dict[str, Any] = {"torch": library}
        for name, path in plans.items():
            product = Product(load(Path(path)), architecture_of(device), stream, inputs)
            milliseconds = trial(product, stream)
            if milliseconds > SLOWEST:
                continue
            try:
                check(name, product.output, expected, k, dtype)
            except WarplabError as error:
                wrong.append(str(error))
                continue
            (fast if milliseconds < limit else slow)[name] = product
        answer: dict[str, Any] = {"wrong": wrong}
        for candidates in (fast, slow):
            if len(candidates) == 1:
                continue
            result = time_in_turns(candidates, stream, budget_seconds=seconds, precision=precision)
            for name in candidates.keys() - {"torch"}:
                time, ratio, rival = result.time(name), result.ratio("torch", name), result.time("torch")
                answer[name] = {
                    "ms": time.value,
                    "low": time.low,
                    "high": time.high,
                    "ratio": ratio.value,
                    "library_ms": rival.value,
                    "turns": result.turns,
                }
        return answer


def alone(plan: str, shape: tuple[int, int, int], seconds: float, precision: float) -> dict[str, Any]:
    """As `timed`, for one plan of float16 that shares the card with torch only; and what each draws back to back.

    "torch" and "ours" have what benchmarks.gemm.draw says. Nothing of a plan that is too slow.
    """
    import torch

    from benchmarks.gemm.draw import back_to_back
    from warplab.gpu import executor
    from warplab.gpu.stopwatch import time_in_turns

    device = present()
    assert device is not None
    with executor.on_stream() as stream:
        a, b, inputs = operands(shape, torch.float16)
        expected = torch.matmul(a.float(), b.float())  # cuBLAS may add up parts in float16
        torch.cuda.synchronize()
        ours = Product(load(Path(plan)), architecture_of(device), stream, inputs)
        if trial(ours, stream) > SLOWEST:
            return {}
        check(Path(plan).stem, ours.output, expected, shape[2], "float16")
        candidates: dict[str, Any] = {"torch": Library(stream, a, b), "ours": ours}
        back_to_back(candidates["torch"], stream, device.uuid, WARM_UP)  # every rung finds a warm card
        result = time_in_turns(candidates, stream, budget_seconds=seconds, precision=precision)
        drawn = {
            name: asdict(back_to_back(each, stream, device.uuid, DRAWN_SECONDS)) for name, each in candidates.items()
        }
        time, ratio = result.time("ours"), result.ratio("torch", "ours")
        return {
            "ms": time.value,
            "low": time.low,
            "high": time.high,
            "ratio": ratio.value,
            "ratio_interval": (ratio.low, ratio.high),
            "library_ms": result.time("torch").value,
            "turns": result.turns,
            **drawn,
        }


def operands(shape: tuple[int, int, int], kind: Any) -> tuple[Any, Any, dict[str, Any]]:
    """torch's matrices a and b of N(0, 1), and the same as a plan's inputs."""
    import cupy
    import torch

    m, n, k = shape
    torch.manual_seed(0)
    a, b = (torch.randn(size, device="cuda").to(kind) for size in ((m, k), (k, n)))
    inputs = {name: cupy.asarray(x.view(torch.int16)) for name, x in (("a", a), ("b", b))}
    return a, b, {name: x.view("float16" if kind is torch.float16 else "uint16") for name, x in inputs.items()}


def trial(candidate: Any, stream: Any) -> float:
    """Milliseconds of the second of two launches; of the first one if that was too slow anyway."""
    from cuda.core import Device, EventOptions

    begin, end = (Device().create_event(EventOptions(timing_enabled=True)) for _ in range(2))
    milliseconds = 0.0
    for _ in range(2):
        if milliseconds <= SLOWEST:
            stream.record(begin)
            candidate.launch()
            stream.record(end)
            end.sync()
            milliseconds = float(end - begin)
    return milliseconds


def check(name: str, output: Any, expected: Any, k: int, dtype: str) -> None:
    """Compare with torch's product: another order of adding, then a rounding or none, lie between them."""
    import torch

    given = torch.as_tensor(output.view("int16") if output.dtype == "uint16" else output)
    if given.dtype == torch.int16:
        given = given.view(torch.bfloat16)
    error = (given.float() - expected).abs()
    if not bool((error <= 4 * UNIT[dtype] * expected.abs() + 2.0**-18 * max(k, 64)).all()):
        raise WarplabError(f"{name} gave a wrong product for k = {k}: off by up to {float(error.max()):.3g}")


class Library:
    """torch.matmul as a candidate."""

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
    """A plan as a candidate; `output` is the name of its result."""

    def __init__(
        self, plan: Plan, architecture: str, stream: Any, inputs: Mapping[str, Any], output: str = "c"
    ) -> None:
        from warplab.gpu.executor import LoadedPlan

        self.launches = len(plan.launches)
        self._loaded = LoadedPlan(plan, architecture, stream)
        self._loaded.reset(dict(inputs))
        self.output = self._loaded.buffers[output].array

    def prepare(self, turn: int) -> None:
        """Nothing to prepare: the work does not depend on the data."""

    def launch(self) -> None:
        """Queue the product."""
        self._loaded.launch()

    def check(self, turn: int) -> None:
        """Nothing to check: the first launch was compared."""
