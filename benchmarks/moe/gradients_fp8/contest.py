"""In the worker: gradients of all experts' weights in FP8, in bf16 and by PyTorch, in the same turns, cold L2."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.moe.backward.contest import tensor, unsigned
from benchmarks.moe.gradients_fp8 import rivals
from benchmarks.moe.gradients_fp8.data import Tokens
from benchmarks.moe.layer.contest import microseconds, words
from benchmarks.moe.shuffle import Captured
from warplab.hardware.device import architecture_of, present
from warplab.plan.archive import load

FP8, BF16 = "fp8", "bf16"  # our two products
# Of a gradient, in the root mean square: bf16 results keep 2^-9; e4m3 loses about 2.6% of the numbers of both operands.
ALLOWED = {FP8: 0.06, BF16: 0.01, rivals.BF16: 0.01}


def timed(
    plans: Mapping[str, str],
    layer: Mapping[str, Any],
    tokens: int,
    m: int,
    n: int,
    seconds: float,
    precision: float,
) -> dict[str, Any]:
    """Times the plans (files, by FP8 and BF16) beside PyTorch's products, each as a CUDA graph, for gradients of m x n.

    Gives microseconds ("us": name to value, low and high), errors relative to float64 gradients of the tokens in bf16
    ("error"), how many experts have tokens ("active"), the tokens of the one that has most ("fullest"), the number of
    turns and a sentence for each contender that was left out ("wrong").
    """
    import cupy
    import torch

    from warplab.gpu import executor
    from warplab.gpu.executor import LoadedPlan
    from warplab.gpu.stopwatch import time_in_turns

    device = present()
    assert device is not None
    with executor.on_stream() as stream:
        torch_stream = torch.cuda.ExternalStream(int(stream.handle))
        given = Tokens(layer, tokens, m, n)
        torch.cuda.synchronize()
        answer: dict[str, Any] = {"wrong": [], "error": {}, "us": {}, "turns": 0}
        answer |= {"active": given.active, "fullest": given.fullest}

        def ours(name: str) -> Callable[[], Any]:
            loaded = LoadedPlan(load(Path(plans[name])), architecture_of(device), stream)
            loaded.reset({key: unsigned(cupy.asarray(x)) for key, x in inputs(given, name).items()})
            return partial(launched, loaded)

        makers: dict[str, Callable[[], Callable[[], Any]]] = {name: partial(ours, name) for name in plans}
        makers |= {name: partial(make, given) for name, make in rivals.ALL.items()}
        candidates: dict[str, Any] = {}
        for name, make in makers.items():
            try:
                queue = make()
                torch.cuda.synchronize()
                candidate = Captured(queue, torch_stream)
                candidate.launch()
                stream.sync()
                error = given.error(candidate.results)
            except Exception as failure:  # one contender less; a broken device fails the next ones too
                answer["wrong"].append(f"{name} cannot run: {words(failure)}")
                torch_stream.synchronize()
                continue
            answer["error"][name] = error
            if not error < ALLOWED.get(name, ALLOWED[FP8]):
                answer["wrong"].append(f"{name} is off by {error:.3g} of the gradient: left out")
                continue
            candidates[name] = candidate
        if FP8 in candidates:
            torch.cuda.synchronize()
            result = time_in_turns(candidates, stream, budget_seconds=seconds, precision=precision)
            answer |= {"turns": result.turns, "us": microseconds(result, candidates)}
        cupy.get_default_memory_pool().free_all_blocks()
        return answer


def inputs(given: Tokens, name: str) -> dict[str, Any]:
    """Arrays of one of our two products as tensors: bf16 as int16."""
    import torch

    if name == BF16:
        dy, x = (matrix.view(torch.int16) for matrix in (given.dy, given.x))
        return {"dy": dy, "x": x, "first": given.first, "count": given.count}
    names = ("dy8", "dy_scale", "x8", "x_scale", "count")
    return {key: getattr(given, key) for key in names} | {"first": given.first8}


def launched(loaded: Any) -> Any:
    """Queue a plan; its gradients as a tensor."""
    loaded.launch()
    return tensor(loaded.buffers["dw"].array)
