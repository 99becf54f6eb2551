"""Chapter 10: two models' experts, plans that are replayed for other counts, and what each kernel of a layer takes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from IPython.display import HTML, Markdown
from matplotlib.figure import Figure

from autograder.spec.lab import find_lab
from course import results
from course.captures import captured
from course.chapters.spoken import dimensions
from course.figures.experts import Groups, distinct_nodes, routed
from course.lesson import Lesson, highlighted, solution, table
from course.measured import measured
from course.results import Record
from warplab.emulator import execute
from warplab.figures import style
from warplab.hardware import Math, Roofline
from warplab.hardware.chips import H200
from warplab.hardware.small_floats import E4M3
from warplab.plan.assemble import with_machine_code
from warplab.plan.model import EMULATED_ARCHITECTURE, Plan


@dataclass(frozen=True)
class Model:
    """A mixture of experts: `experts` of them, of which a token visits `k`; sizes D and F of one expert."""

    name: str
    experts: int
    k: int
    hidden: int
    inside: int

    @property
    def weights(self) -> int:
        """Bytes of one expert in FP8: gate, up and down."""
        return 3 * self.hidden * self.inside


V3 = Model("DeepSeek-V3", 256, 8, 7168, 2048)
SCOUT = Model("Llama 4 Scout", 16, 1, 5120, 8192)
HERE = ((V3, 32), (SCOUT, 16))  # experts on this GPU
ROOF = Roofline(H200.peak(Math.FP8_TENSOR) or 0.0, H200.bandwidth)
Work = list[tuple[str, float, float]]  # kernel, FLOP of tensor cores, bytes


def models_table() -> Markdown:
    """The weights of both models."""
    rows = [
        (m.name, f"{m.weights / 1e6:.0f}", f"{m.experts * m.weights / 1e9:.1f}", f"{m.k} of {m.experts}")
        for m in (V3, SCOUT)
    ]
    return table(["model", "an expert's weights in FP8, MB", "all of them, GB", "a token visits"], rows)


def waves_table(columns: int = 32) -> Markdown:
    """Waves of tiles 128 high, `columns` tiles wide, in one launch and in one launch per expert."""
    rows = []
    favourites = "some favourites"
    for tokens, skew in ((256, favourites), (2048, favourites), (16384, favourites), (16384, "one favourite")):
        many = Groups(routed(tokens, 32, 2, skew), 128, columns=columns)
        least = f"{many.rows * columns / 128 / H200.sms:.1f}"
        launches = sum(tall > 0 for tall in many.tall)
        rows.append((f"{tokens:,}", skew, least, many.waves(H200.sms), many.waves_one_by_one(H200.sms), launches))
    heads = ["waves of real rows", "waves in one launch", "waves, one launch per expert", "launches"]
    return table(["tokens", "routing", *heads], rows)


def recorded(lab: str, file: str, dimensions: dict[str, int], **scalars: int) -> Plan:
    """What a solution launches for arrays of these dimensions. No data are known here."""
    call = find_lab(lab).task.host_call(dimensions, scalars)
    (plan,) = captured(solution(lab, file), [call], EMULATED_ARCHITECTURE)
    return with_machine_code(plan, EMULATED_ARCHITECTURE)


def replayed(plan: Plan, **arrays: np.ndarray) -> dict[str, np.ndarray]:
    """The outputs of a recorded plan for these data, on the emulator."""
    run = execute(plan, arrays, architecture=EMULATED_ARCHITECTURE)
    assert not run.findings, run.findings[0].message
    return run.outputs


def shuffle_figure(routing: dict[str, np.ndarray]) -> Figure:
    """Where the rows of each token go: tokens at the left, rows in the order of their experts at the right."""
    tokens, choices = routing["position"].shape
    made, (axes,) = style.figure(7.2, 4.4)
    for token in range(tokens):
        for choice in range(choices):
            row = routing["position"][token, choice]
            colour = style.PALETTE[routing["chosen"][token, choice]]
            axes.plot([0, 1], [token / tokens, row / (tokens * choices)], color=colour, linewidth=1.1, alpha=0.8)
    for expert, (first, count) in enumerate(zip(routing["first"], routing["count"], strict=True)):
        start, end = first / (tokens * choices), (first + count - 0.5) / (tokens * choices)
        colour = style.PALETTE[expert]
        axes.plot([1.02, 1.02], [start, end], color=colour, linewidth=7, solid_capstyle="butt")
        axes.text(1.06, (start + end) / 2, f"expert {expert}: {count} rows", color=style.INK, va="center")
    axes.invert_yaxis()
    axes.set_xlim(-0.05, 1.5)
    axes.set_xticks([0, 1], ["tokens", "rows"])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
    style.headline(made, f"{tokens} tokens, two rows each", "sorted by expert, then by token (the emulator's result)")
    return made


def shuffled(tokens: int, experts: int, k: int) -> Record | None:
    """Lab 10's reference in CUDA C++ beside PyTorch's calls in the same turns, with a cold L2, in us."""
    where = {"variant": "cold", "shape": (tokens, experts, k)}
    return measured("experts", "10_index_shuffle/submission_cuda", "time", **where)


def shuffles_table() -> Markdown:
    """The shuffle for three routers, or a sentence."""
    rows = []
    for experts, k in ((16, 1), (128, 8), (320, 8)):
        for tokens in (16, 64, 256, 1024, 4096, 16384):
            if record := shuffled(tokens, experts, k):
                rows.append((f"{k} of {experts}", f"{tokens:,}", f"{record.value:.1f}", f"{record.ratio:.1f}"))
    if not rows:
        return Markdown("*The shuffle: not measured.*")
    return table(["router", "tokens", "us, H200", "times as fast as torch"], rows)


RUNGS = {
    "rung_1_a_block_a_tile": "a block for each tile there could be",
    "rung_2_blocks_stay": "blocks stay and search",
    "submission": "and leave out empty halves",
}


def padding_table(lesson: Lesson) -> Markdown:
    """Counters of three rungs of lab 11 on its profile case, beside a batched product of the whole buffer."""
    capacity = 4 * lesson.lab.task.profile.dimensions["slots"] * 256 * 256 // (64 * 128 * 32)
    rows: list[tuple[str, ...]] = [("a batched product of the whole buffer", f"{capacity:,}", "", "")]
    for name, words in RUNGS.items():
        total = lesson.climb(name).total
        counted = (total.tensor_instructions, total.bulk_load_sectors, total.global_load_sectors)
        rows.append((words, *(f"{each:,}" for each in counted)))
    heads = ["tensor instructions", "sectors of tensor copies", "sectors that threads read"]
    return table(["256 of 2,048 rows are real", *heads], rows)


def tiles_of(
    block: int, blocks: int, counts: Sequence[int], columns: int, tile: int = 128
) -> list[tuple[int, int, int]]:
    """The tiles (expert, row, column) that one of `blocks` blocks makes, in its order."""
    expert, before, number, found = 0, 0, block, []
    while expert < len(counts):
        tiles = -(-counts[expert] // tile) * columns
        if number < before + tiles:
            found.append((expert, (number - before) // columns, (number - before) % columns))
            number += blocks
        else:
            before += tiles
            expert += 1
    return found


def walked(find: Callable, counts: Sequence[int], columns: int) -> list:
    """What `find` says of every tile number, and of the first that is none."""
    tiles = sum(-(-count // 128) * columns for count in counts)
    return [find(counts, columns, number) for number in range(tiles + 1)]


def listing(function: Callable) -> HTML:
    """A function's text."""
    return highlighted(inspect.getsource(function))


def walk_figure(counts: Sequence[int] = (130, 0, 300, 5, 64, 200), blocks: int = 6, columns: int = 3) -> Figure:
    """The tiles that each of a few persistent blocks makes, one after the other."""
    made, (axes,) = style.figure(7.2, 3.6)
    for block in range(blocks):
        for turn, (expert, row, column) in enumerate(tiles_of(block, blocks, counts, columns)):
            axes.barh(block, 0.96, left=turn, height=0.8, color=style.PALETTE[expert])
            words = f"expert {expert}\n{row}, {column}"
            ink = style.ink_on(style.PALETTE[expert])
            axes.text(turn + 0.48, block, words, ha="center", va="center", size=9, color=ink)
    axes.set_yticks(range(blocks), [f"block {n}" for n in range(blocks)])
    axes.invert_yaxis()
    axes.set_xlabel("tiles, one after the other: expert, then row and column of the tile")
    axes.spines["left"].set_visible(False)
    style.headline(made, "Six persistent blocks", f"rows of the experts: {', '.join(map(str, counts))}")
    return made


BEST = "11_grouped_gemm/rung_4_shared_strips"
SHAPES = {
    "contiguous": ((4, 4096, 7168), (8, 7168, 2048)),
    "masked": ((32, 4096, 7168), (32, 7168, 2048)),
}
RIVALS = ("grouped fast", "grouped", "dense")


def products_measured(file: str) -> Markdown:
    """Lab 11's last rung as it was measured, or a sentence."""
    rows = []
    for layout, shapes in SHAPES.items():
        metric = "rate" if layout == "contiguous" else "weights read"
        for shape in shapes:
            found = [measured(file, BEST, metric, variant=f"{layout}, beside {r}", shape=shape) for r in RIVALS]
            one = next((record for record in found if record), None)
            if one is not None:
                rate = metric == "rate"
                value = f"{one.value / 1e12:,.0f} TFLOP/s" if rate else f"{one.value / 1e12:.2f} TB/s of weights"
                ratios = (f"{record.ratio:.2f}" if record else "" for record in found)
                rows.append((layout, dimensions(shape), value, *ratios))
    if not rows:
        return Markdown("*Products of groups: not measured yet.*")
    where = results.read(results.DIRECTORY / f"{file}.json").header.where
    words = f"Measured on {where}; 8,192 or 4,096 rows per expert, about 20 if masked. Times as fast as each rival:\n\n"
    heads = ["reached", "PyTorch, fast sums", "PyTorch, accurate sums", "dense, lab 09"]
    return Markdown(words + table(["layout", "experts x n x k", *heads], rows).data)


def quantised_rows(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Codes (uint8) and scales (blocks x rows, float32) by lab 09's rule: 1 x 128, powers of two."""
    n, width = x.shape
    padded = np.zeros((n, -(-width // 128) * 128))
    padded[:, :width] = x
    largest = np.abs(padded).reshape(n, -1, 128).max(axis=2)
    scale = np.where(largest > 0, 2.0 ** np.ceil(np.log2(np.where(largest > 0, largest, 1) / 448)), 1.0)
    codes = E4M3.encode((padded / np.repeat(scale, 128, axis=1))[:, :width]).astype(np.uint8)
    return codes, scale.T.astype(np.float32).copy()


def quantised_weights(w: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Codes, scales and values of experts x n x k weights in blocks of 128 x 128: the largest becomes 448."""
    experts, n, width = w.shape
    panels, blocks = -(-n // 128), -(-width // 128)
    padded = np.zeros((experts, panels * 128, blocks * 128))
    padded[:, :n, :width] = w
    scale = (np.abs(padded).reshape(experts, panels, 128, blocks, 128).max(axis=(2, 4)) / 448).astype(np.float32)
    wide = np.repeat(np.repeat(scale, 128, axis=1), 128, axis=2)[:, :n, :width]
    codes = E4M3.encode(w / wide)
    return codes.astype(np.uint8), scale, E4M3.decode(codes) * wide


@dataclass(frozen=True)
class Batch:
    """Random rows and weights of a product of groups, as codes and scales, for one plan."""

    plan: Plan
    x8: np.ndarray
    x_scale: np.ndarray
    w8: np.ndarray
    w_scale: np.ndarray
    w: np.ndarray

    def multiplied(self, counts: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """The plan's result and float64's for so many rows per expert; rows of no expert keep a 7."""
        count = np.array(counts, np.int32)
        first = (np.cumsum(count) - count).astype(np.int32)
        right = np.full((len(self.x8), self.w.shape[1]), 7.0)
        data = {"x8": self.x8, "x_scale": self.x_scale, "w8": self.w8, "w_scale": self.w_scale}
        y = replayed(self.plan, **data, first=first, count=count, y=right.astype(np.float16))["y"]
        x = E4M3.decode(self.x8) * self.x_scale.T
        for weights, start, rows in zip(self.w, first, count, strict=True):
            right[start : start + rows] = x[start : start + rows] @ weights.T
        return y, right

    def table(self, routings: Sequence[Sequence[int]]) -> Markdown:
        """How far the plan is from float64 for each of some routings."""
        rows = []
        for counts in routings:
            y, right = self.multiplied(counts)
            away = np.abs(y - right).max()
            assert away < 2e-3 * np.abs(right).max()
            rows.append((str(tuple(counts)), f"{away:.4f}", int((y == 7).all(axis=1).sum())))
        return table(["counts", "largest difference to float64", "rows left as they were"], rows)


def batch(rng: np.random.Generator, slots: int = 48, experts: int = 4, width: int = 128, outputs: int = 64) -> Batch:
    """Lab 11's reference, recorded for `slots` rows of `width`, and data for it."""
    sizes = {"most": slots, "slots": slots, "experts": experts, "n": outputs, "k": width, "blocks": 1, "panels": 1}
    plan = recorded("11_grouped_gemm", "submission", sizes, most=slots)
    x8, x_scale = quantised_rows(rng.standard_normal((slots, width)).astype(np.float16))
    return Batch(plan, x8, x_scale, *quantised_weights(rng.standard_normal((experts, outputs, width))))


def active_experts(here: int, rows: int) -> float:
    """How many of `here` experts have rows on average, if all are as likely."""
    return here * (1 - (1 - 1 / here) ** rows)


def chain(model: Model, here: int, tokens: int, active: float | None = None) -> Work:
    """The kernels of a layer with `here` experts on this GPU, of which `active` have rows; bytes that each must move.

    Activations are bf16 between kernels. Inputs of products are FP8 with a float32 scale for 128 codes.
    """
    rows, d, f = model.k * tokens, model.hidden, model.inside
    active = active_experts(here, rows) if active is None else active
    scale = 1 + 4 / 128
    return [
        ("router", 0.0, 2.0 * tokens * d + 2.0 * d * model.experts),
        ("shuffle", 0.0, 4.0 * tokens * model.experts + 3 * 4.0 * rows),
        ("gather, quantise", 0.0, 2.0 * tokens * d + scale * rows * d),
        ("gate and up", 2.0 * rows * 2 * f * d, active * 2 * f * d + scale * rows * d + 2.0 * rows * 2 * f),
        ("SwiGLU, quantise", 0.0, 2.0 * rows * 2 * f + scale * rows * f),
        ("down", 2.0 * rows * f * d, active * f * d + scale * rows * f + 2.0 * rows * d),
        ("combine", 0.0, 2.0 * rows * d + 2.0 * tokens * d),
    ]


def least_us(work: Work) -> list[float]:
    """The least time of each kernel by the datasheet's ceilings, in us."""
    return [1e6 * ROOF.floor_seconds(flops, moved) for _, flops, moved in work]


def bounds_tables() -> Iterator[Markdown]:
    """Both models: the least time of each kernel, its share, and what bounds it."""
    for model, here in HERE:
        columns = {tokens: chain(model, here, tokens) for tokens in (64, 1024, 8192)}
        rows = []
        for number, name in enumerate(step[0] for step in columns[64]):
            cells = []
            for work in columns.values():
                times, (_, flops, moved) = least_us(work), work[number]
                bound = ROOF.bound(flops / moved).value if flops else "memory"
                cells.append(f"{times[number]:.1f} us, {times[number] / sum(times):.0%}, {bound}")
            rows.append((name, *cells))
        rows.append(("together", *(f"{sum(least_us(work)):.0f} us" for work in columns.values())))
        words = f"**{model.name}**, {here} experts here; least times by an H200's datasheet, not measured\n\n"
        yield Markdown(words + table(["kernel", *(f"{tokens:,} tokens" for tokens in columns)], rows).data)


def time_figure() -> Figure:
    """The least time of a layer over the tokens, and what of it is reading weights and multiplying."""
    made, panels = style.figure(7.2, 3.9, widths=(1, 1))
    tokens = np.unique(np.geomspace(1, 16384, 60).astype(int))
    for axes, (model, here) in zip(panels, HERE, strict=True):
        work = [chain(model, here, int(each)) for each in tokens]
        weights = [active_experts(here, model.k * int(n)) * model.weights / H200.bandwidth * 1e6 for n in tokens]
        products = [sum(flops for _, flops, _ in steps) / ROOF.peak_flops * 1e6 for steps in work]
        whole = [sum(least_us(steps)) for steps in work]
        axes.plot(tokens, whole, color=style.INK, linewidth=2.2, label="the complete chain")
        axes.plot(tokens, weights, color=style.BLUE, linewidth=1.8, label="reading weights")
        axes.plot(tokens, products, color=style.GREEN, linewidth=1.8, label="tensor cores")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_ylim(1, 3e4)
        axes.set_xlabel("tokens on this GPU")
        axes.grid(alpha=0.5)
        axes.set_title(f"{model.name}, {here} experts", loc="left", fontsize=style.TEXT, color=style.INK)
    panels[0].set_ylabel("least time, us")
    panels[0].legend(frameon=False, loc="upper left", labelcolor=style.INK)
    style.headline(made, "A few tokens activate all experts", "least times by an H200's datasheet, not measured")
    return made


def sent_table(away: float = 7 / 8) -> Markdown:
    """Bytes of a token between 8 nodes with DeepSeek-V3's experts. A random token's own node is among 8."""
    dispatch, combine = V3.hidden * (1 + 4 / 128), V3.hidden * 2
    rows = [
        (words, f"{copies:.2f}", f"{copies * away * dispatch / 1e3:.1f}", f"{copies * away * combine / 1e3:.1f}")
        for words, copies in (
            ("a copy for each expert", V3.k),
            ("once for each node", distinct_nodes(8, 256, 8)),
            ("once for each of at most 4 nodes", distinct_nodes(8, 256, 8, most=4)),
        )
    ]
    heads = ["copies of a token", "KB per token between nodes, dispatch", "combine"]
    return table(["what is sent", *heads], rows)


def nodes_figure() -> Figure:
    """What sending a token once to each node saves, by the number of its experts."""
    made, (axes,) = style.figure(7.2, 3.8)
    fan = np.arange(1, 17)
    for nodes, colour in zip((2, 4, 8, 16), style.PALETTE, strict=False):
        shares = [distinct_nodes(nodes, 256, int(each)) / each for each in fan]
        axes.plot(fan, shares, "o-", color=colour, markersize=4, label=f"{nodes} nodes")
    limited = [distinct_nodes(8, 256, int(each), most=4) / each for each in fan[3:]]
    axes.plot(fan[3:], limited, "s--", color=style.MUTED, markersize=4, label="8, at most 4")
    axes.set_xlabel("experts of a token")
    axes.set_ylabel("bytes, of those without it")
    axes.set_ylim(0, 1.05)
    axes.grid(alpha=0.5)
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.01, 0.5), labelcolor=style.INK)
    style.headline(made, "Sending a token once to each node", "256 experts, all as likely; closed form")
    return made
