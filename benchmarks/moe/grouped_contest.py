"""In the worker: products of groups against PyTorch's and against a dense one in the same turns, with a cold L2."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.gemm.contest import Product
from benchmarks.gemm.fp8_contest import ALLOWED, Fp8Library
from warplab.hardware.device import architecture_of, present
from warplab.plan.archive import load

SAMPLED = 16  # rows of an expert that are checked in float64
DENSE, WHOLE = "dense ", "all rows "  # begin the names of dense products: of one expert's rows, of all
KINDS = {"dense": DENSE, "dense, all rows": WHOLE, "best": ""}  # each with what its names begin with


def timed(
    plans: Mapping[str, str],
    dense: Mapping[str, str],
    whole: Mapping[str, str],
    plain: str,
    layout: Mapping[str, Any],
    seconds: Sequence[float],
    precision: float,
) -> dict[str, Any]:
    """Races the choices in `plans`, `dense` and `whole` (files by name) for seconds[0], then the fastest of each beside
    `plain` and torch's products for seconds[1].

    `layout` has counts and firsts of the experts' rows, slots, n and k. A dense product is that of the first expert's
    rows with its weights; `whole` are those of all rows with them, as long as the groups' and so at the same clock.
    Gives milliseconds ("ms": name to value, low and high), what every choice took ("raced"), the fastest of each
    kind, the root-mean-square error relative to float64 products of the same codes and scales ("error"), and a
    sentence for each contender that was left out ("wrong").
    """
    import cupy

    from warplab.gpu import executor
    from warplab.gpu.stopwatch import time_in_turns

    device = present()
    assert device is not None
    with executor.on_stream() as stream:
        inputs = Inputs(layout)
        wrong: list[str] = []
        entries: dict[str, Product] = {}
        errors: dict[str, float] = {}
        named = {**plans, **({"plain": plain} if plain else {})}
        named |= {DENSE + name: path for name, path in dense.items()}
        named |= {WHOLE + name: path for name, path in whole.items()}
        for name, path in named.items():
            kind = kind_of(name)
            arrays = {"best": inputs.arrays, "dense": inputs.first_expert}.get(kind, inputs.all_rows)
            try:
                product = Product(load(Path(path)), architecture_of(device), stream, arrays, "y")
                product.launch()
                error = inputs.error(product.output, dense=kind != "best")
            except Exception as failure:  # one contender less; a broken device fails the next ones too
                wrong.append(f"{name} cannot run: {' '.join(str(failure).split())[:300]}")
                continue
            if not error < ALLOWED:
                wrong.append(f"{name} is off by {error:.3g} of the product: left out")
                continue
            errors[name], entries[name] = error, product
        choices = {name: entry for name, entry in entries.items() if name != "plain"}
        if not any(name in plans for name in choices):
            return {"wrong": [*wrong, "no choice of the last rung is left"], "ms": {}}
        race = time_in_turns(choices, stream, budget_seconds=seconds[0], precision=0.02)
        took = {name: race.time(name).value for name in choices}
        best = {
            kind: min((name for name in took if kind_of(name) == kind), key=took.__getitem__)
            for kind in ("best", "dense", "dense, all rows")
            if any(kind_of(name) == kind for name in took)
        }
        candidates: dict[str, Any] = {kind: choices[name] for kind, name in best.items()}
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
            "choice": {kind: name.removeprefix(KINDS[kind]) for kind, name in best.items()},
            "turns": result.turns,
            "ms": {name: {"value": t.value, "low": t.low, "high": t.high} for name, t in times.items()},
            "error": {kind: errors[name] for kind, name in {**best, "plain": "plain"}.items() if name in errors},
        }


def kind_of(name: str) -> str:
    """Which of KINDS a contender is of, by what its name begins with."""
    return next(kind for kind, prefix in KINDS.items() if name.startswith(prefix))


class Inputs:
    """Codes and scales of N(0, 1) data: x in blocks of 1 x 128 with powers of two, w in blocks of 128 x 128.

    Rows of nobody have codes and scales of NaN.
    """

    def __init__(self, layout: Mapping[str, Any]) -> None:
        import cupy
        import torch

        counts, firsts, n, k = layout["counts"], layout["firsts"], layout["n"], layout["k"]
        slots, blocks, panels = layout["slots"], k // 128, -(-n // 128)
        torch.manual_seed(0)
        self._x8 = torch.full((slots, k), 0x7F, dtype=torch.uint8, device="cuda")
        x_scale = torch.full((blocks, slots), float("nan"), device="cuda")
        self._w8 = torch.empty((len(counts), n, k), dtype=torch.uint8, device="cuda")
        w_scale = torch.empty((len(counts), panels, blocks), device="cuda")
        expected, rows = [], []
        for e, (first, count) in enumerate(zip(firsts, counts, strict=True)):
            x = torch.randn((count, blocks, 128), device="cuda")
            scale = torch.exp2(torch.ceil(torch.log2(x.abs().amax(2) / 448)))
            codes = (x / scale[:, :, None]).view(count, k).to(torch.float8_e4m3fn)
            self._x8[first : first + count] = codes.view(torch.uint8)
            x_scale[:, first : first + count] = scale.t()
            w = torch.zeros((panels * 128, k), device="cuda")
            w[:n] = torch.randn((n, k), device="cuda")
            tiles = w.view(panels, 128, blocks, 128)
            w_scale[e] = tiles.abs().amax((1, 3)) / 448
            quantised = (tiles / w_scale[e][:, None, :, None]).view(-1, k)[:n].to(torch.float8_e4m3fn)
            self._w8[e] = quantised.view(torch.uint8)
            chosen = torch.arange(0, count, max(1, count // SAMPLED), device="cuda")
            a = codes[chosen].double() * scale[chosen].double().repeat_interleave(128, 1)
            b = quantised.double() * w_scale[e].double().repeat_interleave(128, 0)[:n].repeat_interleave(128, 1)
            expected.append(a @ b.t())
            rows.append(chosen + first)
        del x, w, tiles, quantised, codes, a, b
        torch.cuda.synchronize()
        self._rows, self._expected = torch.cat(rows), torch.cat(expected)
        self._in_first = len(rows[0])
        self._taken = torch.cat([torch.arange(f, f + c, device="cuda") for f, c in zip(firsts, counts, strict=True)])
        self._ends = torch.tensor(counts, device="cuda").cumsum(0).to(torch.int32)
        self._n = n
        self.arrays = {
            "x8": cupy.asarray(self._x8),
            "x_scale": cupy.asarray(x_scale),
            "w8": cupy.asarray(self._w8),
            "w_scale": cupy.asarray(w_scale),
            "first": cupy.asarray(firsts, dtype="int32"),
            "count": cupy.asarray(counts, dtype="int32"),
        }
        few = slice(firsts[0], firsts[0] + counts[0])
        first = {"w8": self.arrays["w8"][0], "w_scale": self.arrays["w_scale"][0]}
        self.all_rows = {"x8": self.arrays["x8"], "x_scale": self.arrays["x_scale"], **first}
        self.first_expert = {
            "x8": self.arrays["x8"][few],
            "x_scale": cupy.ascontiguousarray(self.arrays["x_scale"][:, few]),
            **first,
        }

    def error(self, output: Any, dense: bool) -> float:
        """Root-mean-square error of the sampled rows, relative to the product; NaN if it has one. A dense product has
        the first expert's weights: its first rows, which are that expert's, are compared."""
        import torch

        torch.cuda.synchronize()
        rows, expected = self._rows, self._expected
        if dense:
            rows, expected = rows[: self._in_first] - rows[0], expected[: self._in_first]
        given = torch.as_tensor(output)[rows].double()
        return float(((given - expected).square().sum() / expected.square().sum()).sqrt())

    def libraries(self, wrong: list[str]) -> dict[str, Callable[[], Any]]:
        """torch's products of groups, with one scale a row; what this version of it lacks is named in `wrong`."""
        import torch
        import torch.nn.functional as F

        x8 = self._x8[self._taken].view(torch.float8_e4m3fn)
        w8 = self._w8.view(torch.float8_e4m3fn).transpose(-2, -1)
        of_x = torch.ones(len(x8), device="cuda")
        of_w = torch.ones((len(w8), self._n), device="cuda")

        def by_name(fast: bool) -> Callable[[], Any]:
            return lambda: torch._scaled_grouped_mm(
                x8, w8, of_x, of_w, offs=self._ends, out_dtype=torch.bfloat16, use_fast_accum=fast
            )

        def functional(fast: bool) -> Callable[[], Any]:
            kind = F.ScalingType.RowWise
            return lambda: F.scaled_grouped_mm(
                x8, w8, of_x, kind, of_w, kind, offs=self._ends, output_dtype=torch.bfloat16, use_fast_accum=fast
            )

        found: dict[str, Callable[[], Any]] = {}
        for name, fast in (("grouped fast", True), ("grouped", False)):
            words = ""
            for launch in (by_name(fast), functional(fast)):
                try:
                    launch()
                    torch.cuda.synchronize()
                    found[name] = launch
                    break
                except Exception as error:
                    words += f" {' '.join(str(error).split())[:250]}"
            else:
                wrong.append(f"torch has no product {name!r} here:{words}")
        return found
