"""A rank of the layer of experts on a GPU of its own: several calls in a CUDA graph, with other routes each."""

from __future__ import annotations

import json
import sys

import cupy
import numpy as np
import torch

from benchmarks.collectives_rank import join, to_the_end
from systems.peer.experts import Sizes
from systems.peer.experts_layer import ExpertsOverGpus
from tests.peer.expert_cases import drawn, truth

CALLS, REPLAYS = 3, 20


def main() -> None:
    """Prints the largest error of each call, in what it may be off by, and what the layer says of faults."""
    job = json.loads(sys.argv[1])
    _, group = join(job)
    rank = job["rank"]
    cupy.cuda.Device(rank).use()
    sizes = Sizes(*job["sizes"])
    layer = ExpertsOverGpus(rank, job["ranks"], group, sizes)
    calls, outs = [], []
    for seed in range(CALLS):
        arrays = drawn(sizes, seed)
        own = slice(rank * sizes.own, (rank + 1) * sizes.own)
        parts = arrays["x"][rank], arrays["chosen"], arrays["weight"], arrays["gate_up"][own], arrays["down"][own]
        given = [torch.as_tensor(np.ascontiguousarray(part).view(_signed(part.dtype)), device="cuda") for part in parts]
        given = [part.view(torch.bfloat16) if part.dtype == torch.int16 else part for part in given]
        outs.append(torch.empty_like(given[0]))
        calls.append((*given, outs[-1]))
    layer(*calls[0])
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            layer(*call)
    for _ in range(REPLAYS):
        graph.replay()
    torch.cuda.synchronize()
    worst = []
    for seed, out in enumerate(outs):
        right, allowed = truth(sizes, drawn(sizes, seed))
        worst.append(float((np.abs(out.double().cpu().numpy() - right[rank]) / allowed[rank]).max()))
    print(json.dumps({"worst": worst, "fault": layer.fault()}))


def _signed(dtype: np.dtype) -> np.dtype:
    """PyTorch has no 16-bit unsigned integers that it computes with."""
    return np.dtype(np.int16) if dtype == np.uint16 else dtype


if __name__ == "__main__":
    to_the_end(main)
