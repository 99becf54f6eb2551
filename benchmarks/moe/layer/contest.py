"""In the worker: a layer in one kernel, as a chain of kernels and by PyTorch, in the same turns, with a cold L2."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.gemm.contest import Product
from benchmarks.moe.layer.data import GROUP, Data, columns_by_one_scale
from benchmarks.moe.layer.rivals import GROUPED, LOOP, SCALED, Torch
from benchmarks.moe.shuffle import Captured
from warplab.hardware.device import architecture_of, present
from warplab.plan.archive import load

ALLOWED = 0.02  # of the layer's result, in the root mean square: codes that fall on the other side, and cut sums
ALLOWED_RIVALS = {LOOP: 0.02, GROUPED: 0.02, SCALED: 0.1}  # beside activations that keep their bits
DENSE = ("dense gate and up", "dense down")  # lab 09's products of as many rows, with one expert's weights
TIMES_RUN = 3  # before a result is looked at: what a run leaves behind must not change the next one
KINDS = ("one kernel", "three kernels", "chain")


def timed(
    plans: Mapping[str, Mapping[str, str]],
    dense: Mapping[str, Mapping[str, str]],
    layer: Mapping[str, Any],
    tokens: int,
    seconds: Sequence[float],
    precision: float,
    torch_too: bool,
) -> dict[str, Any]:
    """Races the plans of each kind, and those of each dense product (files by name), for seconds[0]; then the fastest
    of each kind beside PyTorch's, and the chain beside a graph of both dense products, for seconds[1] each; and the
    chain's kernels and the dense products one by one for seconds[2].

    Gives microseconds ("us", "pair" and "parts": name to value, low and high), what every choice took ("raced"), the
    fastest of each kind ("choice"), errors relative to PyTorch's float32 ("error"), how many experts have rows
    ("active"), the rows of the one that has most ("fullest"), and a sentence for each contender that was left out
    ("wrong").
    """
    import cupy
    import torch

    from warplab.gpu import executor
    from warplab.gpu.stopwatch import time_in_turns

    device = present()
    assert device is not None
    architecture = architecture_of(device)
    with executor.on_stream() as stream:
        torch_stream = torch.cuda.ExternalStream(int(stream.handle))
        data = Data(layer, tokens)
        answer: dict[str, Any] = {"wrong": [], "error": {}, "active": data.active, "fullest": data.fullest}
        contenders: dict[str, dict[str, Contender]] = {}
        for kind in KINDS:
            right = data.expected(GROUP if kind == "chain" else columns_by_one_scale(tokens))
            for name, path in plans.get(kind, {}).items():
                try:
                    contender = Contender(path, architecture, stream, torch_stream, data)
                    error = contender.error(right)
                except Exception as failure:  # one contender less; a broken device fails the next ones too
                    answer["wrong"].append(f"{kind} {name} cannot run: {words(failure)}")
                    continue
                if not error < ALLOWED:
                    answer["wrong"].append(f"{kind} {name} is off by {error:.3g} of the result: left out")
                    continue
                answer["error"][f"{kind} {name}"] = error
                contenders.setdefault(kind, {})[name] = contender
        runs: dict[str, dict[str, Any]] = {k: {n: c.graph for n, c in some.items()} for k, some in contenders.items()}
        if not runs:
            return {**answer, "us": {}}
        runs |= {name: products(data, name, files, architecture, stream, answer) for name, files in dense.items()}
        every = {f"{kind} {name}": run for kind, some in runs.items() for name, run in some.items()}
        race = time_in_turns(every, stream, budget_seconds=seconds[0], precision=0.01)
        raced = {name: 1e3 * race.time(name).value for name in every}
        best = {kind: min((raced[f"{kind} {name}"], name) for name in some)[1] for kind, some in runs.items() if some}
        chosen = {kind: runs[kind][name] for kind, name in best.items()}
        candidates: dict[str, Any] = {kind: run for kind, run in chosen.items() if kind in KINDS}
        if torch_too:
            candidates |= rivals(data, stream, torch_stream, answer)
        result = time_in_turns(candidates, stream, budget_seconds=seconds[1], precision=precision)
        answer |= {"raced": raced, "choice": best, "turns": result.turns, "us": microseconds(result, candidates)}
        answer |= {"parts": {}, "pair": {}}
        if "chain" in best:
            loaded = contenders["chain"][best["chain"]].loaded
            count = len(loaded.plan.launches)
            parts = {str(n): Captured(partial(loaded.launch_one, n), torch_stream) for n in range(count)}
            parts |= {name: chosen[name] for name in DENSE if name in chosen}
            result = time_in_turns(parts, stream, budget_seconds=seconds[2], precision=0.01)
            answer["parts"] = microseconds(result, parts)
        if {"chain", *DENSE} <= chosen.keys():
            # Both keep the board at its power limit: beside anything else the shorter one would have the higher clock.
            both = Captured(lambda: [chosen[name].launch() for name in DENSE], torch_stream)
            pair = {"chain": chosen["chain"], "dense": both}
            answer["pair"] = microseconds(
                time_in_turns(pair, stream, budget_seconds=seconds[1], precision=precision), pair
            )
        cupy.get_default_memory_pool().free_all_blocks()
        return answer


def words(failure: Exception) -> str:
    """An error in one line."""
    return " ".join(str(failure).split())[:300]


def microseconds(result: Any, names: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Medians and their intervals by name."""
    times = {name: result.time(name) for name in names}
    return {n: {"value": 1e3 * t.value, "low": 1e3 * t.low, "high": 1e3 * t.high} for n, t in times.items()}


class Contender:
    """A plan of the layer as one CUDA graph; its inputs are the data's arrays."""

    def __init__(self, path: str, architecture: str, stream: Any, torch_stream: Any, data: Data) -> None:
        from warplab.gpu.executor import LoadedPlan

        self.loaded = LoadedPlan(load(Path(path)), architecture, stream)
        self.loaded.reset(data.arrays)
        self.graph = Captured(self.loaded.launch, torch_stream)

    def error(self, right: Any) -> float:
        """Root-mean-square error relative to the result, after some runs; NaN if it has one."""
        import torch

        for _ in range(TIMES_RUN):
            self.graph.launch()
        self.loaded.synchronize()
        return relative(torch.as_tensor(self.loaded.buffers["out"].array), right)


def relative(found: Any, right: Any) -> float:
    """Root-mean-square difference relative to what is right."""
    return float(((found.float() - right).square().sum() / right.square().sum()).sqrt())


def rivals(data: Data, stream: Any, torch_stream: Any, answer: dict[str, Any]) -> dict[str, Any]:
    """PyTorch's chains that run here and are right; what is not is named in the answer."""
    import torch

    chains = Torch(data)
    right = data.expected(0)
    found: dict[str, Any] = {}
    for name, (function, graph) in chains.chains().items():
        try:
            candidate = Captured(function, torch_stream) if graph else Eager(function, torch_stream)
            candidate.launch()
            stream.sync()
            error = relative(candidate.results, right)
        except Exception as failure:
            answer["wrong"].append(f"{name} cannot run: {words(failure)}")
            torch_stream.synchronize()
            continue
        answer["error"][name] = error
        if not error < ALLOWED_RIVALS[name]:
            answer["wrong"].append(f"{name} is off by {error:.3g} of the result: left out")
            continue
        found[name] = candidate
    torch.cuda.synchronize()
    return found


class Eager:
    """A function that queues its work anew each time, as a candidate."""

    launches = 40

    def __init__(self, queue: Callable[[], Any], stream: Any) -> None:
        import torch

        self._torch, self._queue, self._stream = torch, queue, stream
        self.results: Any = None

    def prepare(self, turn: int) -> None:
        """Nothing to prepare: it reads the same scores again."""

    def launch(self) -> None:
        """Queue all of it; it waits for the device in between."""
        with self._torch.cuda.stream(self._stream):
            self.results = self._queue()

    def check(self, turn: int) -> None:
        """Nothing to check: the first launch was compared."""


def products(
    data: Data, name: str, files: Mapping[str, str], architecture: str, stream: Any, answer: dict[str, Any]
) -> dict[str, Product]:
    """Ways to compute a dense product of as many rows that run here; what does not is named in the answer."""
    found = {}
    inputs = dense_inputs(data, name, len(data.x) * data.k) if files else {}
    for choice, path in files.items():
        try:
            product = Product(load(Path(path)), architecture, stream, inputs, "y")
            product.launch()
            stream.sync()
            found[choice] = product
        except Exception as failure:
            answer["wrong"].append(f"{name} {choice} cannot run: {words(failure)}")
    return found


def dense_inputs(data: Data, name: str, rows: int) -> dict[str, Any]:
    """Arrays of a dense product of as many rows with the first expert's weights: `name` says which of the two."""
    import cupy
    import torch

    up = name == DENSE[0]
    width = data.d if up else data.f
    w8, w_scale = ("up8", "up_scale") if up else ("down8", "down_scale")
    codes = (100 * torch.randn((rows, width), device="cuda")).clamp(-448, 448).to(torch.float8_e4m3fn)
    torch.cuda.synchronize()
    return {
        "x8": cupy.asarray(codes.view(torch.uint8)),
        "x_scale": cupy.full((width // 128, rows), 2.0**-7, cupy.float32),
        "w8": data.arrays[w8][0],
        "w_scale": data.arrays[w_scale][0],
    }
