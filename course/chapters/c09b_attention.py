"""Chapter 09b: what attention moves and computes, inputs of its kernels, and its figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from IPython.display import Markdown
from matplotlib.figure import Figure

import warplab
from course.lesson import Lesson, table
from course.measured import results_of
from systems.attention import decoding as launch
from warplab.figures import style
from warplab.plan.execution import Execution

TILE = 128  # queries of a block, keys of a tile
MULTIPLY_ADDS, POWERS = 2048, 16  # per cycle of an SM of an H100 or H200: tensor cores in float16, and exponentials
_SECTOR = 32  # bytes
_RUNGS = (
    "rung_1_naive",
    "rung_2_online",
    "rung_3_tiles",
    "rung_4_roles",
    "rung_5_in_turns",
    "rung_6_without_gaps",
    "submission",
)


def data_bytes(n: int, d: int) -> int:
    """Bytes of q, k, v and out of one head in float16."""
    return 4 * 2 * n * d


def score_bytes(n: int) -> int:
    """Bytes of scores and weights that three kernels write, read, write and read, in float16."""
    return 4 * 2 * n * n


def bytes_table(d: int, lengths: Sequence[int]) -> Markdown:
    """Bytes of a head in three kernels and in one, and operations per byte."""
    rows = []
    for n in lengths:
        data, scores, operations = data_bytes(n, d), score_bytes(n), 4 * n * n * d
        mebibytes = (f"{size / 2**20:,g} MiB" for size in (data, scores))
        rows.append((f"{n:,}", *mebibytes, f"{operations / (data + scores):.0f}", f"{operations / data:,.0f}"))
    heads = ["n", "q, k, v, out", "scores and weights", "intensity, three kernels", "intensity, one kernel"]
    return table(heads, rows)


def head(n: int, d: int) -> dict[str, np.ndarray]:
    """q, k, v of normal numbers and an empty `out`, n x d in float32, by the names of the kernels' arguments."""
    draw = np.random.default_rng(0)
    arrays: dict[str, np.ndarray] = {name: draw.standard_normal((n, d), np.float32) for name in "qkv"}
    arrays["q"] *= 4  # scores that differ: some weights are close to 1
    return arrays | {"out": np.zeros((n, d), np.float32)}


def paged_head(pages: int, page: int, used: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """A head of four queries over `used` of a cache's pages in a drawn order, and the same with keys side by side."""
    one = head(pages * page, 32)
    one |= {"q": one["q"][:4], "out": one["out"][:4]}
    order = np.random.default_rng(1).permutation(pages)[:used].astype(np.int32)
    rows = (order[:, None] * page + np.arange(page)).reshape(-1)
    given = {name: one[name] for name in "qkv"} | {"table": order, "out": one["out"]}
    return given, one | {"k": one["k"][rows], "v": one["v"][rows]}


def attention(case: Mapping[str, np.ndarray]) -> np.ndarray:
    """softmax(q k^T / sqrt(d)) v in float64, with the whole matrix."""
    q, k, v = (case[name].astype(np.float64) for name in "qkv")
    scores = q @ k.T / math.sqrt(q.shape[1])
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights @ v / weights.sum(axis=1, keepdims=True)


def is_attention(case: Mapping[str, np.ndarray], out: np.ndarray | None) -> bool:
    """Whether `out` is the head's attention, to 1e-4."""
    return out is not None and bool(np.abs(out - attention(case)).max() < 1e-4)


def agree(case: Mapping[str, np.ndarray], *runs: Execution) -> None:
    """Raises AssertionError unless each run's `out` is the head's attention."""
    for run in runs:
        assert is_attention(case, run.outputs["out"])


def compare(runs: Mapping[str, Execution], out: np.ndarray) -> Markdown:
    """Sectors read and written per sector of the result."""
    sectors = out.nbytes / _SECTOR
    rows = [
        (name, run.total.global_store_sectors / sectors, run.total.global_load_sectors / sectors)
        for name, run in runs.items()
    ]
    return table(["form", "sectors written per sector of out", "sectors requested per sector of out"], rows)


def tiles_kept(rows: int) -> float:
    """The share of rows x rows tiles that a causal mask leaves."""
    return rows * (rows + 1) / 2 / rows**2


def cycles(d: int) -> tuple[float, float]:
    """Cycles of an SM for a tile of 128 x 128: both products, and the powers."""
    return 2 * TILE * TILE * d / MULTIPLY_ADDS, TILE * TILE / POWERS


def share_in_sequence(d: int) -> float:
    """The share of the time that tensor cores work if products and powers come one after the other."""
    products, powers = cycles(d)
    return products / (products + powers)


def units_table(widths: Sequence[int]) -> Markdown:
    """Cycles of both units per tile, and the tensor cores' share in sequence and at best."""
    rows = []
    for d in widths:
        products, powers = cycles(d)
        best = min(1.0, products / powers)
        rows.append((d, f"{products:,.0f}", f"{powers:,.0f}", f"{share_in_sequence(d):.0%}", f"{best:.0%}"))
    heads = ["d", "products, cycles", "powers, cycles", "tensor cores busy, in sequence", "at best, overlapped"]
    return table(heads, rows)


def cache_bytes(tokens: int, heads: int, d: int) -> int:
    """Bytes of the keys and values of one sequence and layer in float16; `heads` are those of keys."""
    return 2 * 2 * tokens * heads * d


def decoding_case(group: int, lengths: Sequence[int], width: int = 128) -> dict[str, np.ndarray]:
    """q, k, v, table and lengths of systems.attention.decoding in float16: one head of keys, pages in a drawn order."""
    draw = np.random.default_rng(0)
    pages = [-(-length // launch.PAGE) for length in lengths]
    order = draw.permutation(sum(pages)).astype(np.int32)
    rows = np.zeros((len(lengths), max(pages)), np.int32)
    for row, (count, end) in enumerate(zip(pages, np.cumsum(pages), strict=True)):
        rows[row, :count] = order[end - count : end]
    k, v = draw.standard_normal((2, len(order), 1, launch.PAGE, width)).astype(np.float16)
    q = draw.standard_normal((len(lengths), group, width)).astype(np.float16)
    return {"q": q, "k": k, "v": v, "table": rows, "lengths": np.array(lengths, np.int32)}


def decoding_table(groups: Sequence[int], lengths: Sequence[int] = (128, 64)) -> Markdown:
    """Sectors of the cache that the decoding kernel copies on the emulator, and its products beside those needed."""
    rows = []
    for group in groups:
        case = decoding_case(group, lengths)
        total = warplab.run(launch.decode, *case.values(), sms=1).execution.total
        copied = total.amount("global_read_sectors") - total.global_load_sectors - total.global_atomic_sectors
        needed = 2 * group * sum(lengths) * case["q"].shape[-1]
        rows.append((group, f"{copied:,}", f"{copied / group:,.0f}", f"{total.tensor_multiply_adds / needed:.0f}"))
    heads = [
        "query heads per key head",
        "sectors of keys and values",
        "per query head",
        "tensor multiply-adds per needed",
    ]
    return table(heads, rows)


def shares_table(sequences: int, heads: int, lengths: Sequence[int], sms: int = 132) -> Markdown:
    """How many SMs work, on average, with a block per sequence and head of keys, and with equal shares of all pages."""
    rows = []
    for length in lengths:
        even = launch.busy([length] * sequences, heads, sms)
        rows.append((f"{length:,}", f"{min(1.0, sequences * heads / sms):.0%}", f"{even:.0%}"))
    return table(["keys per sequence", "a block per sequence and head", f"{sms} equal shares"], rows)


def decoding_rates() -> Markdown:
    """Measured rates of systems.attention.decoding, and beside a copy and PyTorch in the same run."""
    found = results_of("attention")
    records = [one for one in found.records if one.variant == "decode" and one.name == "decode"] if found else []
    if not found or not records:
        return Markdown("*Not measured yet: `python -m benchmarks.decode.attention` does, on a Hopper GPU.*")
    rows = []
    for one in sorted(records, key=lambda one: (one.shape[1], one.shape[0], one.shape[3])):
        sequences, queries, key_heads, keys, _ = one.shape
        rate, copy, torch = one.value / 1e12, one.extra["beside_copy"], one.extra["beside_torch"]
        rows.append((queries // key_heads, sequences, f"{keys:,}", f"{rate:.2f} TB/s", f"{copy:.2f}", f"{torch:.2f}"))
    heads = ["query heads per key head", "sequences", "keys", "rate", "times the copy's rate", "times PyTorch's rate"]
    made = table(heads, rows)
    return Markdown(f"{made.data}\n\nMeasured on {found.header.where}, in one run with the copy and PyTorch.")


def forward_rates(width: int = 128) -> Markdown:
    """Measured rates of lab 21's rungs, in TFLOP/s, beside PyTorch's backends in the same run."""
    found = results_of("attention")
    records = [one for one in found.records if one.variant in ("full", "causal")] if found else []
    records = [one for one in records if one.shape[-1] == width]
    if not found or not records:
        return Markdown("*Not measured yet: `python -m benchmarks.attention` does, on a Hopper GPU.*")
    names = list(dict.fromkeys(one.name for one in records))
    rates = {(one.shape[2], one.variant, one.name): one.value for one in records}
    rows = [
        (
            f"{n:,}",
            variant,
            *(f"{rates[n, variant, name] / 1e12:.0f}" if (n, variant, name) in rates else "" for name in names),
        )
        for n, variant in sorted({key[:2] for key in rates})
    ]
    made = table(["keys", "mask", *names], rows)
    return Markdown(f"{made.data}\n\nTFLOP/s, heads of {width}, measured on {found.header.where}, all in one run.")


def gradient_rates() -> Markdown:
    """Measured rates of systems.attention.backward, and beside PyTorch in the same run."""
    found = results_of("attention")
    records = [one for one in found.records if one.name == "gradients"] if found else []
    if not found or not records:
        return Markdown("*Not measured yet: `python -m benchmarks.attention` does, on a Hopper GPU.*")
    rows = [
        (
            one.shape[3],
            f"{one.shape[2]:,}",
            one.variant.removeprefix("backward, "),
            f"{one.value / 1e12:.0f} TFLOP/s",
            f"{one.extra['beside_flash']:.2f}",
        )
        for one in sorted(records, key=lambda one: (one.shape[3], one.shape[2], one.variant))
    ]
    made = table(["d", "keys", "mask", "rate", "times PyTorch's FlashAttention"], rows)
    return Markdown(f"{made.data}\n\nMeasured on {found.header.where}, in one run with PyTorch.")


def rungs() -> Markdown:
    """Lab 21's rungs: bytes beside the data's own, products beside the visible ones, and warp instructions."""
    lesson, rows = Lesson("21_attention"), []
    for name in _RUNGS:
        step = lesson.climb(name)
        task, total = step.lab.task, step.total
        size = task.profile.dimensions
        data, visible = task.bytes_moved(size) / _SECTOR, task.flops(size) / 2
        moved = total.amount("global_read_sectors") + total.amount("global_written_sectors")
        rows.append((step.name, moved / data, total.tensor_multiply_adds / visible, f"{total.warp_instructions:,}"))
    heads = ["rung", "sectors per sector of data", "tensor multiply-adds per visible one", "warp instructions"]
    return table(heads, rows)


def figure_of_tiles(rows: int) -> Figure:
    """Tiles of queries by keys under a causal mask: whole, masked and skipped."""
    made, (axes,) = style.figure(8.0, 4.8)
    for query in range(rows):
        for key in range(rows):
            kind = "whole" if key < query else "masked" if key == query else "skipped"
            colour = {"whole": style.BLUE, "masked": style.ORANGE, "skipped": style.EMPTY}[kind]
            style.box(axes, (key + 0.04, query + 0.04), 0.92, 0.92, facecolor=colour, edgecolor="none")
    axes.set_xlim(0, rows)
    axes.set_ylim(rows, 0)
    axes.set_aspect("equal")
    axes.set_xlabel(f"keys, in tiles of {TILE}")
    axes.set_ylabel(f"queries, in blocks of {TILE}")
    axes.set_xticks([])
    axes.set_yticks([])
    whole, masked, skipped = rows * (rows - 1) // 2, rows, rows * (rows - 1) // 2
    marks = ((style.BLUE, f"{whole} whole: no mask"), (style.ORANGE, f"{masked} on the diagonal: masked"))
    _legend(made, (*marks, (style.EMPTY, f"{skipped} skipped: never loaded")))
    style.headline(made, "A causal mask leaves out whole tiles", "walk each row from the diagonal to the left")
    return made


def figure_of_turns(d: int, tiles: int = 4) -> Figure:
    """Products and powers of two warpgroups of 64 queries, in step and in turns; `d` is at least 64."""
    products, powers = (whole / 2 for whole in cycles(d))  # of a warpgroup's half of a tile
    made, (above, below) = style.figure(8.0, 4.4, heights=(1, 1))
    end = tiles * 2 * (products + powers)
    busy = []
    # In step, each unit serves both warpgroups at once, and takes twice as long.
    for axes, slower, step, late in ((above, 2, 2 * (products + powers), 0.0), (below, 1, 2 * products, products)):
        for group in range(2):
            for tile in range(tiles):
                start = tile * step + group * late
                _bar(axes, group, start, slower * products, style.BLUE)
                _bar(axes, group, start + slower * products, slower * powers, style.ORANGE)
        busy.append(2 * products / step)
        axes.set_xlim(0, end)
        axes.set_ylim(2, 0)
        axes.set_yticks([0.5, 1.5], ["warpgroup 1", "warpgroup 2"])
        axes.tick_params(axis="y", length=0)
    words = ("in step", "in turns")
    for axes, how, share in zip((above, below), words, busy, strict=True):
        axes.set_title(f"{how}: tensor cores busy {share:.0%} of the time", loc="left", fontsize=style.TEXT)
    below.set_xlabel("cycles of an SM")
    _legend(made, ((style.BLUE, "products"), (style.ORANGE, "powers")))
    style.headline(made, "Two warpgroups share two units", f"{tiles} tiles of 128 keys, d = {d}, calculated")
    return made


def _bar(axes: Any, row: int, start: float, length: float, colour: str) -> None:
    style.box(axes, (start, row + 0.12), length, 0.76, facecolor=colour, edgecolor=style.PANEL)


def _legend(made: Figure, marks: Sequence[tuple[str, str]]) -> None:
    from matplotlib.patches import Patch

    handles = [Patch(facecolor=colour, label=label) for colour, label in marks]
    made.legend(handles=handles, loc="outside lower center", ncols=len(marks), frameon=False, fontsize=style.TEXT)
