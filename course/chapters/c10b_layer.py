"""Chapter 10b: a complete layer of experts, by the emulator, by counts of bytes and by recorded times."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from IPython.display import Markdown

from course import results
from course.chapters.c10_experts import (
    HERE,
    SCOUT,
    V3,
    Model,
    Work,
    active_experts,
    chain,
    least_us,
    quantised_rows,
    recorded,
    replayed,
)
from course.lesson import table
from course.measured import measured
from course.results import Record
from warplab.hardware.chips import H200
from warplab.hardware.small_floats import E4M3

DECODE, PREFILL = (1, 16, 64, 256), 4096
BESIDE = {
    "chain": "chain",
    "three kernels": "three launches",
    "torch grouped, fp8": "torch, FP8 groups",
    "torch grouped, bf16": "torch, bf16 groups",
    "torch loop, bf16": "torch, loop",
}
KERNELS = ("shuffle", "gather, quantise", "gate and up", "SwiGLU, quantise", "down", "combine")
BOTH = "gate, up, SwiGLU, quantise"  # in one launch
TILES = {
    "lab 11, 128 x 192": "128x192-one, 128x192-one",
    "lab 11, 128 x 256": "128x256-by2-half, 128x256-by2-half",
    "128 x 256, SwiGLU in the epilogue": "wide",
}
OTHERS = {
    "bf16": "ours in bf16",
    "torch loop fp8, blocks": "torch's 1 × 128 blocks, in a loop",
    "torch grouped fp8": "torch's FP8 groups, a scale per line",
}


def grouped(
    x8: np.ndarray, x_scale: np.ndarray, w8: np.ndarray, w_scale: np.ndarray, routing: dict[str, np.ndarray]
) -> np.ndarray:
    """One product of groups by lab 11's reference on the emulator, float16."""
    (experts, n, width), slots = w8.shape, len(x8)
    sizes = {"most": slots, "slots": slots, "experts": experts, "n": n, "k": width}
    sizes |= {"blocks": -(-width // 128), "panels": -(-n // 128)}
    plan = recorded("11_grouped_gemm", "submission", sizes, most=slots)
    where = {name: routing[name] for name in ("first", "count")}
    data = {"x8": x8, "x_scale": x_scale, "w8": w8, "w_scale": w_scale}
    return replayed(plan, **data, y=np.zeros((slots, n), np.float16), **where)["y"]


def shares(scores: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Each token's shares of its chosen experts, float32: softmax over their scores."""
    kept = np.take_along_axis(scores, chosen, axis=1)
    weights = np.exp(kept - kept.max(axis=1, keepdims=True))
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)


def in_float64(
    x: np.ndarray, chosen: np.ndarray, share: np.ndarray, up: np.ndarray, down: np.ndarray, rounded: bool
) -> np.ndarray:
    """The layer by a loop over tokens; `rounded` rounds activations to e4m3 and float16 where the kernels do."""

    def keep(row: np.ndarray) -> np.ndarray:
        if not rounded:
            return row
        codes, scale = quantised_rows(row[None])
        return (E4M3.decode(codes) * np.repeat(scale.T, 128, axis=1)[:, : row.size])[0]

    out, inside = np.zeros(x.shape), down.shape[2]
    for token, row in enumerate(x.astype(np.float64)):
        for expert, weight in zip(chosen[token], share[token], strict=True):
            h = up[expert] @ keep(row)
            h = h.astype(np.float16).astype(np.float64) if rounded else h
            activated = h[:inside] / (1 + np.exp(-h[:inside])) * h[inside:]
            out[token] += weight * (down[expert] @ keep(activated))
    return out


def errors_table(
    found: np.ndarray, x: np.ndarray, chosen: np.ndarray, share: np.ndarray, up: np.ndarray, down: np.ndarray
) -> Markdown:
    """How far `found` is from `in_float64` of the same layer, with rounded activations and without."""
    rows = []
    for words, rounded, most in (
        ("activations rounded to e4m3 at the same places", True, 0.01),
        ("activations as they are", False, 0.06),
    ):
        right = in_float64(x, chosen, share, up, down, rounded)
        away = float(np.linalg.norm(found - right) / np.linalg.norm(right))
        assert away < most
        rows.append((words, f"{away:.2%}"))
    return table(["the layer against float64, with the same weights in e4m3 and", "error"], rows)


def fused(model: Model, here: int, tokens: int, active: float | None = None) -> Work:
    """The chain with the gather in the producer, SwiGLU in the epilogue and the combination in the last kernel."""
    rows, d, f = model.k * tokens, model.hidden, model.inside
    active = active_experts(here, rows) if active is None else active
    scale = 1 + 4 / 128
    routed = 2.0 * tokens * d + 2.0 * d * model.experts + 4.0 * tokens * model.experts + 12.0 * rows
    return [
        ("router, shuffle", 0.0, routed),
        ("quantise", 0.0, 2.0 * tokens * d + scale * tokens * d),
        ("gate and up, SwiGLU, quantise", 4.0 * rows * f * d, active * 2 * f * d + scale * rows * (d + f)),
        ("down, combine", 2.0 * rows * f * d, active * f * d + scale * rows * f + 4.0 * rows * d),
    ]


def fused_table() -> Markdown:
    """Bytes and least times of both models' layers, kernel by kernel and fused."""
    rows = []
    for model, here in HERE:
        for tokens in (1, 64, 1024, 8192):
            works = [make(model, here, tokens) for make in (chain, fused)]
            separate, one = (sum(moved for *_, moved in work) for work in works)
            times = [sum(least_us(work)) for work in works]
            saved = (f"{1 - one / separate:.0%}", f"{times[0] / times[1]:.2f}")
            rows.append((model.name, f"{tokens:,}", f"{separate / 1e6:,.0f}", f"{one / 1e6:,.0f}", *saved))
    heads = ["MB moved, separate", "MB, fused", "saved", "least time, separate over fused"]
    return table(["model", "tokens", *heads], rows)


def blocks_read(model: Model, experts: int, sms: int = H200.sms) -> tuple[float, float, float]:
    """Blocks of 128 x 128 weights per SM: the average, the busiest in two launches, the busiest in one kernel."""
    blocks_up, blocks_down = model.hidden // 128, model.inside // 128
    tiles_up, tiles_down = experts * 2 * model.inside // 128, experts * model.hidden // 128
    average = (tiles_up * blocks_up + tiles_down * blocks_down) / sms
    separate = -(-tiles_up // sms) * blocks_up + -(-tiles_down // sms) * blocks_down
    if tiles_up // sms < 4:  # few tiles: each step is shared by itself
        return average, separate, -(-tiles_up // sms) * blocks_up + tiles_down * blocks_down / sms
    return average, separate, average  # an SM with a tile less takes more of the second step


def blocks_table() -> Markdown:
    """`blocks_read` for both models."""
    rows = []
    for model, experts in ((V3, 8), (V3, 32), (SCOUT, 1), (SCOUT, 16)):
        mean, apart, one = blocks_read(model, experts)
        busiest = (f"{apart:.0f}, {apart / mean:.2f} times", f"{one:.1f}, {one / mean:.2f} times")
        rows.append((model.name, experts, f"{mean:.1f}", *busiest))
    heads = ["blocks per SM, average", "busiest, two launches", "busiest, one kernel"]
    return table(["model", "active experts", *heads], rows)


def shape_of(model: Model, here: int, tokens: int) -> tuple[int, ...]:
    """The shape of a layer's records."""
    return (tokens, here, model.k, model.hidden, model.inside)


def layers_measured() -> Markdown:
    """The layer in one kernel as it was measured, or a sentence."""
    rows = []
    for model, here in HERE:
        for tokens in DECODE:
            shape = shape_of(model, here, tokens)
            found = [
                measured("experts", "layer/one_kernel", "time", variant=f"beside {rival}", shape=shape)
                for rival in BESIDE
            ]
            one, read = found[0], measured("experts", "layer/one_kernel", "weights read", shape=shape)
            if one is not None and read is not None:
                ratios = (f"{record.ratio:.2f}" if record else "" for record in found)
                rate = f"{read.value / 1e12:.2f} TB/s, {read.ratio:.0%}"
                rows.append((model.name, tokens, f"{one.value:.1f}", rate, *ratios))
    if not rows:
        return Markdown("*The layer in one kernel: not measured yet.*")
    header = results.read(results.DIRECTORY / "experts.json").header
    words = f"The layer in one kernel on an {header.gpu}, and how many times as fast as each rival:\n\n"
    return Markdown(
        words + table(["model", "tokens", "us", "weights read, of a copy's rate", *BESIDE.values()], rows).data
    )


def _chain_row(model: Model, here: int, tokens: int) -> tuple[str, ...] | None:
    shape = shape_of(model, here, tokens)
    found = {
        kernel: measured("experts", "layer/chain", "time of a kernel", variant=kernel, shape=shape)
        for kernel in (*KERNELS, BOTH)
    }
    read, both = measured("experts", "layer/chain", "weights read", shape=shape), found.pop(BOTH)
    if both is not None:
        found["gate and up"] = both
        del found["SwiGLU, quantise"]
    times = {kernel: record.value for kernel, record in found.items() if record}
    if read is None or len(times) < len(found):
        return None
    active = read.extra["active"]
    work = chain(model, here, tokens, active)
    least = dict(zip((kernel for kernel, *_ in work), least_us(work), strict=True))
    if both is not None:
        least["gate and up"] = least_us(fused(model, here, tokens, active))[2]
    cells = [
        f"{us:,.1f}, {us / sum(times.values()):.0%} ({least[kernel] / us:.0%})"
        if (us := times.get(kernel))
        else "in the product"
        for kernel in KERNELS
    ]
    rate = measured("experts", "layer/chain", "rate", shape=shape)
    whole = (
        f"{read.ratio:.0%} of a copy"
        if rate is None
        else f"{rate.value / 1e12:,.0f} TFLOP/s, {rate.ratio:.0%} of dense products"
    )
    return (model.name, f"{tokens:,}", *cells, whole)


def chain_measured() -> Markdown:
    """Each kernel's time, its share of the chain's and, in brackets, of its own roof; or a sentence."""
    rows = [row for model, here in HERE for tokens in (*DECODE, PREFILL) if (row := _chain_row(model, here, tokens))]
    if not rows:
        return Markdown("*The kernels of the chain: not measured yet.*")
    return table(["model", "tokens", *(f"{kernel}, us" for kernel in KERNELS), "the whole chain"], rows)


def rows_of_up(inside: int) -> np.ndarray:
    """Which row of `up` each column of the first product's tiles is: eight gates, their eight values, and so on."""
    return np.arange(2 * inside).reshape(2, inside // 8, 8).transpose(1, 0, 2).ravel()


def lane_table(lane: int = 1, inside: int = V3.inside) -> Markdown:
    """Which gates and values a lane has of the first 32 columns of a tile."""
    mine = [8 * j + 2 * lane + i for j in range(4) for i in (0, 1)]
    found = rows_of_up(inside)[mine]
    meaning = (f"gate {row}" if row < inside else f"value {row - inside}" for row in found)
    rows = [("row of up", *map(str, found)), ("which is", *meaning)]
    return table(["column of the tile", *map(str, mine)], rows)


def fused_measured() -> Markdown:
    """The chains of each layer for PREFILL tokens, and the fastest beside dense products; or a sentence."""
    rows = []
    for model, here in HERE:
        shape = shape_of(model, here, PREFILL)
        raced = [
            measured("experts", "layer/choices", "time", variant=f"chain {way}", shape=shape) for way in TILES.values()
        ]
        rate = measured("experts", "layer/chain", "rate", shape=shape)
        times = [f"{record.value:,.0f}" for record in raced if record]
        if rate is not None and len(times) == len(raced):
            whole = f"{rate.value / 1e12:,.0f} TFLOP/s, {rate.ratio:.0%} of dense products"
            rows.append((model.name, *times, whole))
    if not rows:
        return Markdown("*The chain with wide products: not measured yet.*")
    return table(["model", *(f"{tiles}, us" for tiles in TILES), "the fastest, beside dense products"], rows)


def above(rows: int, experts: int = 16, tokens: int = PREFILL, draws: int = 2_000) -> float:
    """How many experts have more than `rows` rows on average, if each token chooses one at random."""
    counts = np.random.default_rng(0).multinomial(tokens, np.full(experts, 1 / experts), size=draws)
    return float(experts * (counts > rows).mean())


def gradients_in_fp8(tokens: int = PREFILL) -> Iterator[tuple[str, str, int, list[Record]]]:
    """Model, product, float32 results, and the records of the FP8 product over tokens beside OTHERS."""
    for model, here in HERE:
        for product, m, n in (("down", model.hidden, model.inside), ("gate and up", 2 * model.inside, model.hidden)):
            shape = (tokens, here, model.k, m, n)
            variants = [f"{product}, beside {other}" for other in OTHERS]
            found = [
                record
                for variant in variants
                if (record := measured("experts", "gradients_fp8/product", "time", variant=variant, shape=shape))
            ]
            if len(found) == len(OTHERS):
                yield model.name, product, here * m * n, found


def gradients_table() -> Markdown:
    """The FP8 product over tokens as it was measured."""
    rows = []
    for name, product, written, found in gradients_in_fp8():
        seconds = found[0].value * 1e-6
        rates = (f"{found[0].extra['flop'] / seconds / 1e12:,.0f}", f"{4 * written / seconds / 1e12:.2f}")
        rows.append((name, product, f"{found[0].value:,.0f}", *rates, *(f"{record.ratio:.2f}" for record in found)))
    heads = ["us, H200", "TFLOP/s", "TB/s of results", *(f"times as fast as {other}" for other in OTHERS.values())]
    return table(["model", "weights", *heads], rows)


def backward_work(model: Model, here: int, tokens: int) -> Work:
    """Launches of the backward pass in bf16: name, operations, bytes if each is moved once. All experts have rows."""
    rows, d, f = model.k * tokens, model.hidden, model.inside
    product, wide, narrow, matrix = 2.0 * rows * d * f, 2.0 * rows * d, 2.0 * rows * f, 2.0 * here * d * f
    return [
        ("combine, backward", 0.0, 4.0 * tokens * d + 2 * wide),
        ("down, backward", product, wide + narrow + matrix),
        ("SwiGLU, backward", 0.0, 6 * narrow),
        ("down, weights", product, wide + narrow + matrix),
        ("gate and up, backward", 2 * product, wide + 2 * narrow + 2 * matrix),
        ("gate and up, weights", 2 * product, wide + 2 * narrow + 2 * matrix),
        ("shuffle, backward", 0.0, wide + 4.0 * tokens * d),
    ]


def backward_least(tokens: int = PREFILL) -> Markdown:
    """Each launch's share of the operations, its bytes and its operations per byte, for both models."""
    rows = []
    for model, here in HERE:
        launches = backward_work(model, here, tokens)
        flop = sum(operations for _, operations, _ in launches)
        for launch, operations, moved in launches:
            counted = (f"{operations / flop:.0%}", f"{moved / 1e6:,.0f}", f"{operations / moved:,.0f}")
            rows.append((model.name, f"{tokens:,}", launch, *counted))
    return table(["model", "tokens", "kernel", "of all operations", "MB, at least", "operations per byte"], rows)


def backward_measured(tokens: int = PREFILL) -> list[Markdown]:
    """The backward pass as it was measured, whole and kernel by kernel, or a sentence."""
    whole: list[tuple] = []
    parts: list[tuple] = []
    for model, here in HERE:
        shape = shape_of(model, here, tokens)
        found = [
            measured("experts", "backward/chain", "time", variant=f"beside {rival}", shape=shape)
            for rival in ("torch grouped", "torch loop, autograd")
        ]
        if one := next((record for record in found if record), None):
            ratios = (f"{record.ratio:.2f}" if record else "not measured" for record in found)
            whole.append((model.name, f"{one.value:,.0f}", *ratios))
        names = [launch for launch, *_ in backward_work(model, here, tokens)]
        kernels = [
            record
            for name in names
            if (record := measured("experts", "backward/chain", "time of a kernel", variant=name, shape=shape))
        ]
        together = sum(record.value for record in kernels)
        for record in kernels:
            beside = (f"{record.baseline_value:,.0f}", f"{record.ratio:.2f}") if record.baseline_value else ("", "")
            parts.append(
                (model.name, record.variant, f"{record.value:,.0f}", f"{record.value / together:.0%}", *beside)
            )
    if not whole:
        return [Markdown("*The backward pass: not measured.*")]
    heads = ["us, H200", "times as fast as torch, groups", "as torch, autograd through a loop"]
    return [
        table(["model", *heads], whole),
        table(["model", "kernel", "us", "of the chain", "torch's product, us", "times as fast"], parts),
    ]


def depths_table() -> Markdown:
    """How deep the sums of the backward products are, in steps of 64."""
    rows = []
    for model, here in HERE:
        depth = model.k * PREFILL / here
        rows.append((model.name, f"{depth:,.0f}", f"{depth / 64:.0f}", f"{model.hidden / 64:.0f}"))
    heads = ["tokens per expert, on average", "steps of a tile of weights", "steps of a sum over the width"]
    return table(["model", *heads], rows)
