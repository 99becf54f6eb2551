"""Records of the row-parallel layer, of the times that its ranks took."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from course.results import Record
from warplab.gpu.statistics import median_interval

NAME = "row-parallel linear"
MATMUL, OURS = "torch.matmul", "ours"
NCCL = f"{MATMUL}, nccl"
_TURNS = "{} samples in turns, the slowest rank of each; CUDA graphs of {} calls; weights not in L2; NVLS off"


def records(one: dict[str, Any], ranks: int) -> Iterator[Record]:
    """Of one size [m, n, k of a rank]: the time of each way beside ours, and which part of NCCL's time is hidden.

    NCCL's time is what its all-reduce adds to the product alone; what ours takes longer than the product is not hidden.
    The share is above 1 where ours is faster than the product alone, and below 0 where it hides nothing and is slower.
    """
    took = {way: median_interval([second * 1e6 for second in samples]) for way, samples in one["ways"].items()}
    shape, ours = (ranks, *one["shape"]), took[OURS].value
    conditions = _TURNS.format(took[OURS].samples, one["calls"])
    for way, interval in took.items():
        extra: dict[str, Any] = {"gpus": ranks, "memory": one["memory"]}
        beside: dict[str, Any] = {}
        if way == OURS:
            extra |= {"width": one["width"], "times ours": {name: other.value / ours for name, other in took.items()}}
            rival = took[NCCL].value
            beside = {"baseline": "torch.matmul, then NCCL's all_reduce, same turns", "baseline_value": rival}
            beside["ratio"] = rival / ours
        print(f"{NAME} {'x'.join(map(str, shape)):20}{way:24}{interval.value:9.1f} us {interval.value / ours:6.2f}")
        yield Record(
            NAME, "time", interval.value, "us", f"by hand: {way}", shape, "bfloat16", (interval.low, interval.high),
            conditions=conditions, extra=extra, **beside,
        )  # fmt: skip
    alone = took[MATMUL].value
    if (communication := took[NCCL].value - alone) > 0:
        hidden = 1 - (ours - alone) / communication
        print(f"{NAME} {'x'.join(map(str, shape)):20}hidden of {communication:.1f} us: {hidden:.0%}", flush=True)
        yield Record(
            NAME, "hidden communication", hidden, "share", f"by hand: {OURS}", shape, "bfloat16", conditions=conditions
        )
