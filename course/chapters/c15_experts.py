"""Chapter 15, experts over several GPUs in one launch: rows that cross, bytes counted by the emulator, a timeline."""

from __future__ import annotations

from functools import cache
from math import comb
from typing import Any

import numpy as np
from IPython.display import Markdown
from matplotlib.figure import Figure

from course.figures.rank_timeline import rank_timeline
from course.lesson import table
from systems.peer.experts import Sizes
from systems.peer.experts_on_one import planned
from systems.peer.experts_timeline import spans
from warplab.emulator import execute
from warplab.hardware.chips import H200
from warplab.plan.model import EMULATED_ARCHITECTURE

MODELS = {"DeepSeek-V3": (8, 256), "Llama 4 Scout": (1, 16)}  # choices of a token, and experts
TOY = Sizes(ranks=2, tokens=32, choices=4, experts=8, width=256, hidden=64)
BLOCKS, ROOM = 6, 64  # of a rank; items of a block that are kept


def rows(choices: int, experts: int, ranks: int, once: bool) -> float:
    """Rows that cross links for a token, there and back, if all experts are chosen alike.

    `once`: one for each other rank that has an expert of the token, and not one for each of its experts there.
    """
    others = ranks - 1
    if not once:
        return 2 * choices * others / ranks
    elsewhere = comb(experts - experts // ranks, choices) / comb(experts, choices)
    return 2 * others * (1 - elsewhere)


def table_of_rows() -> Markdown:
    """The rows of two models' tokens on 2 to 8 ranks."""
    lines = []
    for name, (choices, experts) in MODELS.items():
        for ranks in (2, 4, 8):
            each, once = (rows(choices, experts, ranks, once) for once in (False, True))
            lines.append((name, ranks, f"{each:.2f}", f"{once:.2f}", f"{each / once:.1f}"))
    return table(["model", "GPUs", "rows, one per choice", "rows, once per GPU", "times fewer"], lines)


def drawn(sizes: Sizes, seed: int = 1) -> dict[str, Any]:
    """Random rows, experts and routes."""
    draw = np.random.default_rng(seed)
    chosen = np.argsort(draw.random((sizes.ranks, sizes.tokens, sizes.experts)), axis=2)[:, :, : sizes.choices]

    def halves(*shape: int) -> np.ndarray:
        values = (draw.standard_normal(shape) / 16).astype(np.float32)
        return (values.view(np.uint32) >> 16).astype(np.uint16)

    return {
        "x": halves(sizes.ranks, sizes.tokens, sizes.width),
        "chosen": chosen.astype(np.int32),
        "weight": draw.random(chosen.shape).astype(np.float32),
        "gate_up": halves(sizes.experts, 2 * sizes.hidden, sizes.width),
        "down": halves(sizes.experts, sizes.width, sizes.hidden),
    }


@cache
def counted(sizes: Sizes = TOY) -> dict[str, int]:
    """Bytes over the link of one launch on the emulator, as counted and as they follow from the routes."""
    arrays = drawn(sizes)
    plan, inputs = planned(sizes, arrays, EMULATED_ARCHITECTURE, blocks=BLOCKS)
    copied = frozenset({"chosen", "weight"})
    caches = execute(plan, inputs, sanitize=False, caches=H200, copied=copied).launches[0].caches
    assert caches is not None
    return {
        "counted by the emulator": 32 * (caches.link_read_sectors + caches.link_written_sectors),
        "each token once per rank, and one sum back": sizes.crossing(arrays["chosen"]),
        "one row per choice, and one back": sizes.crossing_by_choice(arrays["chosen"]),
    }


def table_of_bytes() -> Markdown:
    """The bytes of a toy layer over its link."""
    lines = [(name, f"{amount:,}") for name, amount in counted().items()]
    return table([f"{TOY.tokens} tokens on each of 2 ranks, {TOY.choices} of {TOY.experts} experts", "bytes"], lines)


def timeline() -> Figure:
    """What each block of both ranks does: steps of items from the emulator, in time by what waits for what."""
    arrays = drawn(TOY)
    plan, inputs = planned(TOY, arrays, EMULATED_ARCHITECTURE, blocks=BLOCKS, room=ROOM)
    times = execute(plan, inputs, sanitize=False).outputs["times"]
    return rank_timeline(
        spans(TOY, arrays["chosen"], times),
        title="Two ranks in one launch, each with its list of work items",
        subtitle=f"{BLOCKS} blocks per rank; items take the steps that the emulator counts, signals none (modelled)",
        unit="steps of the emulator",
    )
