"""Section 8 of chapter 15: a layer over two GPUs that sends while it multiplies, as a model and as measured."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from IPython.display import Markdown
from matplotlib.figure import Figure

from autograder.spec.lab import CHECKOUT
from course import results
from course.chapters.c15_overlap_and_megakernels import SMS, copy, passage
from course.figures.stacks import stacks
from course.lesson import table
from course.measured import measured, needed

WIDE, KS = 8192, {"attention's output": 4096, "MLP, down": 14336}  # outputs; K on each of two GPUs
flops = needed("ceilings", "tensor_fp16", "rate").value
link = needed("collectives", "all_reduce", "time", variant="nccl", shape=(2, 1 << 30)).extra["bus_bandwidth"] * 1e9


def product(m: int, k: int) -> float:
    """Seconds: of the tensor cores, or of the weights' way from memory."""
    return max(2 * m * WIDE * k / flops, 2 * WIDE * k / copy)


def crossing(m: int) -> float:
    """Seconds of an all-reduce's bytes on the link."""
    return 2 * m * WIDE / link


def layer(m: int, k: int, others_first: bool = True, latency: float = 2e-6) -> tuple[float, float]:
    """Seconds until the last tile is multiplied, and until the last result has crossed; on both GPUs."""
    width = next((w for w in (256, 128) if -(-m // 128) * WIDE // w >= 0.9 * SMS), 64)
    tiles = -(-m // 128) * WIDE // width
    waves = -(-tiles // SMS)
    wave = product(m, k) * max(1, waves * SMS / tiles) / waves
    done = [(turn // SMS + 1) * wave for turn in range(tiles)]
    halves = done[: tiles // 2], done[tiles // 2 :]
    sent, kept = halves if others_first else halves[::-1]
    message, free = crossing(m) / tiles, 0.0
    queue = [(ready, tile, True) for tile, ready in enumerate(sent)]
    heapify(queue)
    while queue:
        ready, tile, partial = heappop(queue)
        free = max(free, ready) + message
        if partial:
            heappush(queue, (max(free + latency, kept[tile]), tile, False))
    return done[-1], free + latency


def hidden(m: int, k: int) -> float:
    """The share of the link's time that the model hides with the other's tiles first."""
    multiplied, end = layer(m, k)
    return 1 - (end - multiplied) / crossing(m)


def layer_by(tokens: int, k: int) -> Figure:
    """The layer's time in three orders, as the product's and what is not hidden."""
    multiplied = layer(tokens, k)[0]
    ends = {
        "one after the other": multiplied + crossing(tokens),
        "the other's tiles first": layer(tokens, k, True)[1],
        "own tiles first": layer(tokens, k, False)[1],
    }
    bars = {name: {"product": 1e6 * multiplied, "not hidden": 1e6 * (end - multiplied)} for name, end in ends.items()}
    title = f"{tokens:,} tokens, K = {k:,}: {1e6 * crossing(tokens):,.0f} µs on the link"
    return stacks(bars, across="µs", title=title, subtitle="modelled; no additions, no launches")


def sender() -> Markdown:
    """The lines of the kernel that send; a course's student release is without them."""
    path = CHECKOUT / "systems" / "peer" / "row_parallel.cu"
    if not path.exists():
        return Markdown("*The kernel is not in this release.*")
    return passage("// One thread: sends what a warpgroup", "}", path.read_text(encoding="utf-8"))


def table_of_layers() -> Markdown:
    """The layer on two GPUs as measured, beside its rivals and the model."""
    rows = []
    for name, k in KS.items():
        for m in (16, 64, 256, 1024, 4096):
            ours, alone, nccl = (_measured(way, m, k) for way in ("ours", "torch.matmul", "torch.matmul, nccl"))
            if not (ours and alone and nccl):
                continue
            saved, one_shot = _measured("ours", m, k, "hidden communication"), _measured("torch.matmul, one-shot", m, k)
            times = (f"{one.value:,.1f}" if one else "no room" for one in (ours, alone, nccl, one_shot))
            share = f"{saved.value:.0%}" if saved and saved.value > 0 else "none"
            model = f"{1e6 * layer(m, k)[1]:,.1f}"
            rows.append((name, f"{m:,}", *times, f"{nccl.value / ours.value:.2f}", share, model))
    heads = ["layer", "tokens", "ours, µs", "product alone", "product, then NCCL", "then our one-shot"]
    return table([*heads, "NCCL, times ours", "hidden", "the model of H200s, µs"], rows)


def _measured(way: str, m: int, k: int, metric: str = "time") -> results.Record | None:
    file = "collectives_nvidia_h100_80gb_hbm3"
    return measured(file, "row-parallel linear", metric, variant=f"by hand: {way}", shape=(2, m, WIDE, k))
