"""In the worker: a layer's backward pass as a chain of kernels and by PyTorch, in the same turns, with a cold L2."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.moe.backward import rivals
from benchmarks.moe.backward.data import GRADIENTS, Kept, relative
from benchmarks.moe.backward.plans import LAUNCHES
from benchmarks.moe.layer.contest import Eager, microseconds, words
from benchmarks.moe.shuffle import Captured
from warplab.hardware.device import architecture_of, present
from warplab.plan.archive import load

ALLOWED = 0.02  # of each gradient, in the root mean square: bf16 keeps 2^-9, and four of them follow each other
CHAIN, TORCH = "chain", "torch, "  # the second begins the names of torch's single products


def timed(
    plan: str, layer: Mapping[str, Any], tokens: int, seconds: Sequence[float], precision: float
) -> dict[str, Any]:
    """Times the chain (a file) beside PyTorch's for seconds[0], and every kernel and product alone for seconds[1].

    Gives microseconds ("us" and "parts": name to value, low and high), errors relative to autograd in float32
    ("error": by contender and gradient), how many experts have rows ("active"), the rows of the one that has most
    ("fullest"), the number of turns and a sentence for each contender that was left out ("wrong").
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
        kept = Kept(layer, tokens)
        right = kept.expected(torch.float32)
        torch.cuda.synchronize()
        answer: dict[str, Any] = {"wrong": [], "error": {}, "us": {}, "parts": {}, "turns": 0}
        answer |= {"active": kept.active, "fullest": kept.fullest}
        loaded = LoadedPlan(load(Path(plan)), architecture_of(device), stream)
        loaded.reset({name: unsigned(cupy.asarray(x)) for name, x in kept.arrays().items()})

        def ours() -> dict[str, Any]:
            loaded.launch()
            return {name: tensor(loaded.buffers[name].array) for name in GRADIENTS}

        makers: dict[str, tuple[Callable[[], Any], bool]] = {
            CHAIN: (lambda: ours, True),
            rivals.GROUPED: (lambda: rivals.grouped(kept), True),
            rivals.LOOP: (lambda: rivals.loop(kept), False),
        }
        candidates: dict[str, Any] = {}
        for name, (make, graph) in makers.items():
            try:
                made = make()
                torch.cuda.synchronize()
                entry: Any = Captured(made, torch_stream) if graph else Eager(made, torch_stream)
                entry.launch()
                stream.sync()
                errors = {which: relative(entry.results[which], right[which]) for which in GRADIENTS}
            except Exception as failure:  # one contender less; a broken device fails the next ones too
                answer["wrong"].append(f"{name} cannot run: {words(failure)}")
                torch_stream.synchronize()
                continue
            answer["error"][name] = errors
            if not all(error < ALLOWED for error in errors.values()):
                answer["wrong"].append(f"{name} is off by {errors}: left out")
                continue
            candidates[name] = entry
        if CHAIN not in candidates:
            return answer
        del right
        torch.cuda.synchronize()
        result = time_in_turns(candidates, stream, budget_seconds=seconds[0], precision=precision)
        answer |= {"turns": result.turns, "us": microseconds(result, candidates)}
        parts: dict[str, Any] = {
            name: Captured(partial(loaded.launch_one, n), torch_stream) for n, name in enumerate(LAUNCHES)
        }
        for name, (left, other) in operands(kept).items():
            try:
                parts[TORCH + name] = Captured(partial(rivals.products(kept)[name], left, other), torch_stream)
            except Exception as failure:
                answer["wrong"].append(f"torch's {name} cannot run: {words(failure)}")
                torch_stream.synchronize()
        result = time_in_turns(parts, stream, budget_seconds=seconds[1], precision=0.01)
        answer["parts"] = microseconds(result, parts)
        cupy.get_default_memory_pool().free_all_blocks()
        return answer


def operands(kept: Kept) -> dict[str, tuple[Any, Any]]:
    """Both operands of each product by the name of its launch; gradients of rows are drawn, for time alone."""
    import torch

    dy, a = (torch.randn((len(kept.x), n), device="cuda").bfloat16() for n in (kept.d, kept.f))
    pairs = ((dy, kept.down), (dy, a), (kept.h, kept.up), (kept.h, kept.x))
    torch.cuda.synchronize()
    return dict(zip((LAUNCHES[n] for n in (1, 3, 4, 5)), pairs, strict=True))


def unsigned(array: Any) -> Any:
    """A cupy array whose int16 are the bits of bf16, as plans name them."""
    return array.view("uint16") if array.dtype == "int16" else array


def tensor(array: Any) -> Any:
    """A plan's buffer as a tensor: uint16 are the bits of bf16."""
    import torch

    if array.dtype == "uint16":
        return torch.as_tensor(array.view("int16")).view(torch.bfloat16)
    return torch.as_tensor(array)
