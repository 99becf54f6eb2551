"""In the worker: block-scaled FP8 products against PyTorch's in the same turns, on N(0, 1) data and with a cold L2."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.gemm.contest import Product
from warplab.hardware.device import architecture_of, present
from warplab.plan.archive import load

SAMPLED = 64  # rows of a product that are checked in float64
ALLOWED = 2e-3  # of the product's size, in the root mean square: cuts of the short accumulator, and float16's rounding


def timed(
    plans: Mapping[str, str], plain: str, shape: tuple[int, int, int], seconds: Sequence[float], precision: float
) -> dict[str, Any]:
    """Races the choices in `plans` (files) for seconds[0], then the fastest beside torch for seconds[1].

    Gives milliseconds ("ms": name to value, low and high), what every choice took ("raced"), the root-mean-square error
    relative to float64 products of the same quantised inputs ("error"), and a sentence for each that was wrong.
    """
    import cupy

    from warplab.gpu import executor
    from warplab.gpu.stopwatch import time_in_turns

    device = present()
    assert device is not None
    with executor.on_stream() as stream:
        inputs = Inputs(*shape)
        wrong: list[str] = []
        entries: dict[str, Product] = {}
        errors: dict[str, float] = {}
        for name, path in {**plans, **({"plain": plain} if plain else {})}.items():
            product = Product(load(Path(path)), architecture_of(device), stream, inputs.arrays, "y")
            product.launch()
            error = inputs.error(product.output)
            if not error < ALLOWED and "none" not in name:
                wrong.append(f"{name} is off by {error:.3g} of the product for {shape}: left out")
                continue
            errors[name], entries[name] = error, product
        choices = {name: entry for name, entry in entries.items() if name != "plain"}
        race = time_in_turns(choices, stream, budget_seconds=seconds[0], precision=0.02)
        took = {name: race.time(name).value for name in choices}
        choice = min((name for name in took if "none" not in name), key=lambda name: took[name])
        candidates: dict[str, Any] = {"best": choices[choice]}
        if "plain" in entries:
            candidates["plain"] = entries["plain"]
        for name, launch in inputs.libraries(wrong).items():
            candidates[name] = Fp8Library(stream, launch)
        result = time_in_turns(candidates, stream, budget_seconds=seconds[1], precision=precision)
        times = {name: result.time(name) for name in candidates}
        cupy.get_default_memory_pool().free_all_blocks()
        return {
            "wrong": wrong,
            "raced": took,
            "choice": choice,
            "turns": result.turns,
            "ms": {name: {"value": t.value, "low": t.low, "high": t.high} for name, t in times.items()},
            "error": {"best": errors[choice]} | ({"plain": errors["plain"]} if "plain" in errors else {}),
        }


class Inputs:
    """Quantised operands of a product: x in blocks of 1 x 128 with powers of two, w in blocks of 128 x 128."""

    def __init__(self, m: int, n: int, k: int) -> None:
        import cupy
        import torch

        torch.manual_seed(0)
        self._x, self._w = (torch.randn(size, device="cuda", dtype=torch.bfloat16) for size in ((m, k), (n, k)))
        blocks = self._x.float().view(m, k // 128, 128)
        scale = torch.exp2(torch.ceil(torch.log2(blocks.abs().amax(2) / 448)))
        self.x8 = (blocks / scale[:, :, None]).view(m, k).to(torch.float8_e4m3fn)
        self.x_scale = scale.t().contiguous()  # blocks x m
        panels = -(-n // 128)
        padded = torch.zeros((panels * 128, k), device="cuda")
        padded[:n] = self._w.float()
        tiles = padded.view(panels, 128, k // 128, 128)
        self.w_scale = (tiles.abs().amax((1, 3)) / 448).contiguous()  # panels x blocks
        self.w8 = (tiles / self.w_scale[:, None, :, None]).view(-1, k)[:n].contiguous().to(torch.float8_e4m3fn)
        torch.cuda.synchronize()
        self.arrays = {
            "x8": cupy.asarray(self.x8.view(torch.uint8)),
            "w8": cupy.asarray(self.w8.view(torch.uint8)),
            "x_scale": cupy.asarray(self.x_scale),
            "w_scale": cupy.asarray(self.w_scale),
        }
        rows = torch.arange(0, m, max(1, m // SAMPLED), device="cuda")[:SAMPLED]
        x = self.x8[rows].double() * self.x_scale.t()[rows].double().repeat_interleave(128, 1)
        w = torch.empty((n, k), device="cuda", dtype=torch.float64)
        for first in range(0, n, 4096):
            part = self.w_scale.repeat_interleave(128, 0)[first : first + 4096][: n - first]
            w[first : first + 4096] = self.w8[first : first + 4096].double() * part.double().repeat_interleave(128, 1)
        self._rows, self._expected = rows, x @ w.t()
        del w

    def error(self, output: Any) -> float:
        """Root-mean-square error of the sampled rows, relative to the product; NaN if it has one."""
        import torch

        torch.cuda.synchronize()
        given = torch.as_tensor(output)[self._rows].double()
        return float(((given - self._expected).square().sum() / self._expected.square().sum()).sqrt())

    def libraries(self, wrong: list[str]) -> dict[str, Callable[[], Any]]:
        """torch's products; what this version of it lacks is named in `wrong` and left out."""
        import torch
        import torch.nn.functional as F

        one = torch.ones((), device="cuda")
        w = self.w8.t()
        bf16 = self._w.t()

        def tensor_wise(fast: bool) -> Callable[[], Any]:
            return lambda: torch._scaled_mm(
                self.x8, w, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=fast
            )

        def blocks() -> Any:
            kinds = F.ScalingType
            return F.scaled_mm(
                self.x8,
                w,
                self.x_scale.t(),
                kinds.BlockWise1x128,
                self.w_scale.t(),
                kinds.BlockWise128x128,
                output_dtype=torch.bfloat16,
            )

        def older_blocks() -> Any:
            return torch._scaled_mm(
                self.x8, w, scale_a=self.x_scale.t(), scale_b=self.w_scale.t(), out_dtype=torch.bfloat16
            )

        found = {
            "tensor-wise": tensor_wise(False),
            "tensor-wise fast": tensor_wise(True),
            "blocks": blocks,
            "bfloat16": lambda: torch.matmul(self._x, bf16),
        }
        for name, launch in list(found.items()):
            try:
                launch()
                torch.cuda.synchronize()
            except Exception as error:
                words = " ".join(str(error).split())[:300]
                del found[name]
                if name == "blocks":
                    try:
                        older_blocks()
                        torch.cuda.synchronize()
                        found[name] = older_blocks
                        continue
                    except Exception as older:
                        words += f"; {' '.join(str(older).split())[:300]}"
                wrong.append(f"torch has no product {name} here: {words}")
        return found


class Fp8Library:
    """One of torch's products as a candidate."""

    launches = 1

    def __init__(self, stream: Any, launch: Callable[[], Any]) -> None:
        import torch

        self._torch, self._launch = torch, launch
        self._stream = torch.cuda.ExternalStream(int(stream.handle))

    def prepare(self, turn: int) -> None:
        """Nothing to prepare: the work does not depend on the data."""

    def launch(self) -> None:
        """Queue the product."""
        with self._torch.cuda.stream(self._stream):
            self._launch()

    def check(self, turn: int) -> None:
        """Nothing to check."""
