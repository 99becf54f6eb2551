"""In the worker: routing by one kernel against PyTorch's chain, each as one CUDA graph, in the same turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from warplab.hardware.device import architecture_of, present
from warplab.plan.archive import load

OURS, WIDE, NARROW = "ours", "torch, int64 keys", "torch, int16 keys"
PRECISION = 0.01


def scores_of(tokens: int, experts: int, seed: int = 0) -> np.ndarray:
    """Distinct float32 in random order, tokens x experts: of equal ones PyTorch does not promise which it takes."""
    rng = np.random.default_rng(seed)
    ranks = rng.permuted(np.tile(np.arange(experts, dtype=np.float32), (tokens, 1)), axis=1)
    return (ranks - experts / 2) / np.float32(16)


def chain(scores: Any, ones: Any, narrow: bool) -> dict[str, Any]:
    """The choices, the stable order of the rows and the count of each expert, by calls of PyTorch.

    `ones` is an int64 for each row, tokens times k of them, which a user would keep from call to call.
    `torch.bincount` would wait for the device to learn how many bins it needs, which no graph can hold: an addition by
    index counts instead. topk gives int64, which a radix sort takes four times as many passes for as for int16:
    `narrow` converts first.
    """
    import torch

    _, chosen = torch.topk(scores, ones.numel() // scores.shape[0], dim=1)
    flat = chosen.reshape(-1)
    _, order = torch.sort(flat.to(torch.int16) if narrow else flat, stable=True)
    count = torch.zeros(scores.shape[1], dtype=torch.int64, device=scores.device)
    count.scatter_add_(0, flat, ones)
    return {"chosen": chosen, "order": order, "count": count}


def differences(outputs: Mapping[str, np.ndarray], rivals: Mapping[str, np.ndarray]) -> list[str]:
    """What of our outputs is not what PyTorch says, or does not follow from it; nothing if all is equal."""
    order, count = rivals["order"], rivals["count"]
    position = np.empty_like(order)
    position[order] = np.arange(order.size)
    right = {**rivals, "first": np.cumsum(count) - count, "position": position.reshape(rivals["chosen"].shape)}
    return [name for name in right if not np.array_equal(outputs[name], right[name])]


def timed(plans: Mapping[str, str], experts: int, k: int, warm: bool, seconds: float) -> dict[str, Any]:
    """Microseconds of each of the plans (files, by number of tokens) and of PyTorch's chains, all in the same turns.

    "wrong" has a sentence for each number of tokens for which the results differ: these are left out. With `warm` the
    data are in the L2 as far as they fit, without it all of it was swept out before each launch.
    """
    import cupy
    import torch

    from warplab.gpu.executor import LoadedPlan, on_stream
    from warplab.gpu.stopwatch import time_in_turns

    device = present()
    assert device is not None
    candidates: dict[str, Any] = {}
    wrong: list[str] = []
    with on_stream() as stream:
        torch_stream = torch.cuda.ExternalStream(int(stream.handle))
        for tokens in map(int, plans):
            scores = scores_of(tokens, experts)
            given, ones = torch.from_numpy(scores).cuda(), torch.ones(tokens * k, dtype=torch.int64, device="cuda")
            torch.cuda.synchronize()
            loaded = LoadedPlan(load(Path(plans[str(tokens)])), architecture_of(device), stream)
            loaded.reset({"scores": cupy.asarray(scores)})
            ours = Captured(loaded.launch, torch_stream)
            rivals = {
                name: Captured(partial(chain, given, ones, narrow), torch_stream)
                for name, narrow in ((WIDE, False), (NARROW, True))
            }
            ours.launch()
            outputs = loaded.outputs()
            for name, rival in rivals.items():
                rival.launch()
                torch_stream.synchronize()
                results = {part: tensor.cpu().numpy() for part, tensor in rival.results.items()}
                if parts := differences(outputs, results):
                    wrong.append(f"{tokens} tokens, {experts} experts, k = {k}: {name} has other {', '.join(parts)}")
                    break
            else:
                candidates |= {f"{tokens} {OURS}": ours, **{f"{tokens} {name}": rivals[name] for name in rivals}}
        answer: dict[str, Any] = {"wrong": wrong}
        if candidates:
            result = time_in_turns(candidates, stream, budget_seconds=seconds, precision=PRECISION, warm=warm)
            for name in candidates:
                time = result.time(name)
                answer[name] = {"us": 1e3 * time.value, "low": 1e3 * time.low, "high": 1e3 * time.high}
            answer["turns"] = result.turns
        return answer


class Captured:
    """A CUDA graph of what a function queues on a stream, as a candidate; `results` is what it returned."""

    launches = 1

    def __init__(self, queue: Callable[[], Any], stream: Any) -> None:
        import torch

        self._torch, self._stream = torch, stream
        self._queue = queue  # and with it all memory that the graph uses
        with torch.cuda.stream(stream):
            for _ in range(2):  # libraries choose kernels and allocate at a first call
                queue()
            stream.synchronize()
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph, stream=stream):
                self.results = queue()
        stream.synchronize()

    def prepare(self, turn: int) -> None:
        """Nothing to prepare: a graph reads the same scores again."""

    def launch(self) -> None:
        """Queue the graph."""
        with self._torch.cuda.stream(self._stream):
            self._graph.replay()

    def check(self, turn: int) -> None:
        """Nothing to check: the first launch was compared."""
