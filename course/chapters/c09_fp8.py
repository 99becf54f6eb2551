"""Chapter 09: scales, sums and formats of FP8, with the figures and tables that show what each loses."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import geometric_mean
from typing import Any

import numpy as np
from IPython.display import Markdown
from matplotlib.figure import Figure

from course.chapters.spoken import dimensions
from course.kernel_cell import KernelCell
from course.lesson import table
from course.measured import measured, results_of
from course.results import Record, Results
from warplab.emulator import Profile
from warplab.emulator.core.tensor.numerics import RULES, Kind, Rule
from warplab.figures import style
from warplab.hardware import Math, Roofline
from warplab.hardware.chips import H200
from warplab.hardware.small_floats import E2M1, E4M3, E5M2, SmallFloat

WHOLE = 10**9
PARTS = {"tensor": (WHOLE, WHOLE), "row": (1, WHOLE), "128 x 128": (128, 128), "1 x 128": (1, 128)}
PER_CYCLE = 4096  # FP8 multiply-adds of an SM per cycle (microbench.json, tensor core, wgmma, float8_e4m3)
EVERY, NEVER = 256, 1 << 30  # sums are kept every 256 of k; an interval that is never reached
DEPTHS = (256, 1024, 4096, 8192, 16384)
LONGEST = 16384
WAYS = ("one accumulator", "promoted every 128", "float32")
LIBRARIES = ("tensor-wise", "tensor-wise fast", "blocks", "bfloat16")


def instruction_agrees(codes: np.ndarray, inputs: np.ndarray, number: SmallFloat) -> np.ndarray:
    """Where the hardware's codes are those of the rule."""
    with np.errstate(invalid="ignore"):
        return codes == number.encode(inputs)


def conversion_table(outputs: dict[str, np.ndarray], inputs: np.ndarray) -> Markdown:
    """On how many of all bfloat16 the instruction and the rule agree, and the codes of infinities and NaN."""
    bits = inputs.view(np.uint32) >> 16
    rows = []
    for number in (E4M3, E5M2):
        codes = outputs[number.name].view(np.uint8)
        same = instruction_agrees(codes, inputs, number)
        special = (f"{int(codes[bits == each][0]):#x}" for each in (0x7F80, 0xFF80, 0x7FC0))
        rows.append((number.name, f"{same.sum():,} of {same.size:,}", *special))
    heads = ["the instruction and the rule agree on", "code of infinity", "of -infinity", "of NaN"]
    return table(["format", *heads], rows)


def largest_of(x: np.ndarray, part: tuple[int, int]) -> np.ndarray:
    """The largest magnitude of each part of a matrix, at every element of it."""
    rows, columns = min(part[0], x.shape[0]), min(part[1], x.shape[1])
    blocks = np.abs(x).reshape(x.shape[0] // rows, rows, x.shape[1] // columns, columns)
    return np.repeat(np.repeat(blocks.max(axis=(1, 3)), rows, axis=0), columns, axis=1)


def scaled(x: np.ndarray, part: tuple[int, int], number: SmallFloat = E4M3) -> np.ndarray:
    """The matrix as it comes back: scaled, rounded to `number`, and multiplied by the scale again."""
    scale = largest_of(x, part) / number.largest
    return number.rounded(x / scale) * scale


def int8(x: np.ndarray, part: tuple[int, int]) -> np.ndarray:
    """The same with 255 equally spaced values, for comparison."""
    scale = largest_of(x, part) / 127
    return np.rint(x / scale) * scale


def error(found: np.ndarray, true: np.ndarray) -> float:
    """The relative error of an array, in the root mean square."""
    return float(np.linalg.norm(found - true) / np.linalg.norm(true))


def ordinary(x: np.ndarray) -> np.ndarray:
    """Which values are at most 20 times the median magnitude."""
    return np.abs(x) <= 20 * np.median(np.abs(x))


def activations(rng: np.random.Generator, tokens: int = 256, k: int = 2048) -> dict[str, np.ndarray]:
    """Four matrices of activations, `tokens` x `k`: with light and heavy tails, large channels, massive values."""
    channels = np.where(np.isin(np.arange(k), rng.choice(k, 6, replace=False)), 100.0, 1.0)
    massive = rng.standard_t(3, (tokens, k))
    massive[rng.integers(tokens, size=2), rng.integers(k, size=2)] = 5e4, -3e4
    return {
        "normal": rng.standard_normal((tokens, k)),
        "Student's t, 3 degrees": rng.standard_t(3, (tokens, k)),
        "six channels x 100": rng.standard_normal((tokens, k)) * channels,
        "two massive values": massive,
    }


def of_ordinary(x: np.ndarray, back: np.ndarray) -> float:
    """The error of the ordinary values of x."""
    usual = ordinary(x)
    return error(back[usual], x[usual])


def gain_of_small_parts(x: np.ndarray) -> float:
    """By what factor the error of ordinary values falls from one scale per tensor to one per 1 x 128, in e4m3."""
    tensor, block = (of_ordinary(x, scaled(x, PARTS[part])) for part in ("tensor", "1 x 128"))
    return tensor / block


def parts_table(data: dict[str, np.ndarray]) -> Markdown:
    """The error of ordinary values for each part and code."""
    rows = [
        (f"{name}, {kind}", *(f"{of_ordinary(x, code(x, part)):.2%}" for part in PARTS.values()))
        for name, x in data.items()
        for kind, code in (("e4m3", scaled), ("int8", int8))
    ]
    return table(["error of ordinary values", *PARTS], rows)


def outlier_figure(plain: np.ndarray) -> Figure:
    """The error of all other values when one value of `plain` grows."""
    outliers = 10.0 ** np.arange(1, 6.6, 0.25)
    codes: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "e4m3, tensor": lambda x: scaled(x, PARTS["tensor"]),
        "e4m3, row": lambda x: scaled(x, PARTS["row"]),
        "e4m3, 1 x 128": lambda x: scaled(x, PARTS["1 x 128"]),
        "e5m2, tensor": lambda x: scaled(x, PARTS["tensor"], E5M2),
        "int8, tensor": lambda x: int8(x, PARTS["tensor"]),
        "int8, 1 x 128": lambda x: int8(x, PARTS["1 x 128"]),
    }
    made, (axes,) = style.figure(7.2, 4.4)
    others = np.ones(plain.shape, bool)
    others[plain.shape[0] // 2, plain.shape[1] // 2] = False
    for (name, code), colour in zip(codes.items(), style.PALETTE, strict=True):
        errors = []
        for outlier in outliers:
            x = np.where(others, plain, outlier)
            errors.append(error(code(x)[others], x[others]))
        axes.plot(outliers, errors, color=colour, linewidth=2, label=name)
    reach = E4M3.largest / E4M3.smallest_normal
    axes.axvline(reach, color=style.MUTED, linestyle=":", linewidth=1.2)
    axes.text(reach * 0.93, 0.006, "448 / $2^{-6}$", parse_math=True, ha="right", color=style.MUTED)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("one value, in standard deviations of the others")
    axes.set_ylabel("error of all others")
    axes.grid(alpha=0.5)
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.01, 0.5), labelcolor=style.INK)
    style.headline(made, "How large may an outlier be?", "128 x 1,024 normal values and one that is larger")
    return made


def parts_figure(x: np.ndarray) -> Figure:
    """The largest magnitude of each kind of part, at its place."""
    made, panels = style.figure(7.2, 3.0, widths=(1, 1, 1, 1))
    for axes, (name, part) in zip(panels, PARTS.items(), strict=True):
        look: dict[str, Any] = {"cmap": "viridis", "vmin": 1, "vmax": 16, "aspect": "auto", "interpolation": "nearest"}
        picture = axes.imshow(np.log2(largest_of(x, part)), **look)
        axes.set_title(name, loc="left", fontsize=style.TEXT, color=style.INK)
        axes.set_xlabel("k")
        axes.set_xticks([])
        axes.set_yticks([])
    bar = made.colorbar(picture, ax=panels, shrink=0.9, ticks=[2, 6, 10, 14])
    bar.ax.set_yticklabels(["$2^2$", "$2^6$", "$2^{10}$", "$2^{14}$"], parse_math=True)
    style.headline(
        made, "Which values lose bits to an outlier", "the largest magnitude of each part, which sets its scale"
    )
    return made


def products_table(data: dict[str, np.ndarray], rng: np.random.Generator) -> Markdown:
    """The error of a product with weights in e4m3, for each part of the activations."""
    weights = 0.02 * rng.standard_normal((2048, 256))
    back = scaled(weights, PARTS["128 x 128"])
    rows = []
    for name, x in data.items():
        exact = x @ weights
        rows.append((name, *(f"{error(scaled(x, shape) @ back, exact):.2%}" for shape in PARTS.values())))
    return table(["error of the product, weights in e4m3 with 128 x 128", *PARTS], rows)


def costs_table(depth: int = 4096) -> Markdown:
    """Bytes of scales and operations to apply them, for a product of `depth`."""
    block, square = f"{4 / 128:.1e}", f"{4 / 128**2:.1e}"
    rows = [
        ("tensor", f"{4 / depth**2:.1e}", "1 multiplication per result, at the end", f"{1000 / depth:.2f}"),
        ("row (and column)", f"{4 / depth:.1e}", "1 or 2 multiplications per result", f"{2000 / depth:.2f}"),
        ("1 x 128, 128 x 128", f"{block}, {square}", "1 multiply-add per result and 128 of k", f"{1000 / 128:.2f}"),
        ("1 x 128, 1 x 128", f"{block}, {block}", "1 multiplication and 1 multiply-add", f"{2000 / 128:.2f}"),
    ]
    heads = ["bytes per byte of codes", "operations on CUDA cores", "per 1,000 of the tensor cores'"]
    return table(["scales of a, with those of b", *heads], rows)


def sums(kernel: KernelCell, a: np.ndarray, bt: np.ndarray, interval: int = NEVER) -> np.ndarray:
    """64 x 8 sums of e4m3 codes at every 256 of k by the cell `short_sums`, float64 of shape (k / 256, 64, 8)."""
    case: dict[str, Any] = {"a": a, "bt": bt, "interval": interval}
    run = kernel.run(case, out=("float32", (a.shape[1] // EVERY, 64, 8)))
    assert not run.findings
    return run.execution.outputs["out"].astype(np.float64)


def rule_of(kind: Kind) -> Rule:
    """How Hopper's wgmma adds up products of this type in float32."""
    wanted = ("sm_90", "wgmma", kind, kind, Kind.F32)
    return next(r for r in RULES if (r.architecture, r.instruction, r.a, r.b, r.accumulator) == wanted)


def rules_table() -> Markdown:
    """The rules of e4m3 and float16."""
    rows = [
        (name, rule.block, rule.fraction_bits, rule.result_bits)
        for name, rule in (("e4m3", rule_of(Kind.E4M3)), ("f16", rule_of(Kind.F16)))
    ]
    heads = ["products added at once", "fraction bits kept while adding", "fraction bits of the float32 result"]
    return table(["wgmma on sm_90", *heads], rows)


def partial_products(a: np.ndarray, bt: np.ndarray) -> np.ndarray:
    """a @ bt.T in float64 at every 256 of k."""
    blocks = np.einsum("mdk,ndk->dmn", a.reshape(len(a), -1, EVERY), bt.reshape(len(bt), -1, EVERY))
    return np.cumsum(blocks, axis=0)


def float32_chain(a: np.ndarray, bt: np.ndarray) -> np.ndarray:
    """The same products added up one after the other in float32, as CUDA cores would."""
    chain, kept = np.zeros((len(a), len(bt)), np.float32), []
    for p in range(a.shape[1]):
        chain = chain + (a[:, p : p + 1] * bt[:, p]).astype(np.float32)
        if (p + 1) % EVERY == 0:
            kept.append(chain)
    return np.stack(kept).astype(np.float64)


def rms(x: np.ndarray) -> np.ndarray:
    """The root mean square at each depth."""
    return np.sqrt((x**2).mean(axis=(1, 2)))


def at(depth: int) -> int:
    """Where a depth stands in an array of sums."""
    return depth // EVERY - 1


@dataclass
class LongSums:
    """Sums of 16,384 FP8 products of three kinds of data, added up in three ways. Errors by (data, way) and depth.

    `adding` is the error against the exact sum of the same rounded numbers, `whole` that against the numbers before
    any rounding. `operands` are the codes.
    """

    kernel: KernelCell
    rng: np.random.Generator
    adding: dict[tuple[str, str], np.ndarray] = field(default_factory=dict)
    whole: dict[tuple[str, str], np.ndarray] = field(default_factory=dict)
    operands: dict[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        draws: dict[str, Callable[[tuple[int, int]], np.ndarray]] = {
            "positive": self.rng.random,
            "both signs": self.rng.standard_normal,
            "heavy tails": lambda shape: self.rng.standard_t(3, shape),
        }
        for name, draw in draws.items():
            self._add(name, draw((64, LONGEST)), draw((8, LONGEST)))

    def _add(self, name: str, a: np.ndarray, bt: np.ndarray) -> None:
        scale_a, scale_b = np.abs(a).max() / 448, np.abs(bt).max() / 448
        codes_a, codes_b = E4M3.encode(a / scale_a), E4M3.encode(bt / scale_b)
        qa, qb = E4M3.decode(codes_a), E4M3.decode(codes_b)
        self.operands[name] = codes_a, codes_b
        exact, true = partial_products(qa, qb), partial_products(a, bt)
        found = (
            sums(self.kernel, codes_a, codes_b),
            sums(self.kernel, codes_a, codes_b, 128),
            float32_chain(qa, qb),
        )
        for way, values in zip(WAYS, found, strict=True):
            self.adding[name, way] = rms(values - exact) / rms(exact)
            self.whole[name, way] = rms(values * scale_a * scale_b - true) / rms(true)

    def lost(self, depth: int, data: str = "positive") -> float:
        """The error of adding up in one accumulator."""
        return float(self.adding[data, WAYS[0]][at(depth)])

    def times_float32(self, data: str) -> np.ndarray:
        """The total error of promoted sums over that of float32 sums, at every 256 of k."""
        return self.whole[data, WAYS[1]] / self.whole[data, WAYS[2]]

    def adding_table(self) -> Markdown:
        """The error of adding up."""
        rows = [
            (name, way, *(f"{values[at(depth)]:.1e}" for depth in DEPTHS))
            for (name, way), values in self.adding.items()
        ]
        return table(["data", "sums", *(f"k = {depth:,}" for depth in DEPTHS)], rows)

    def at_4096_table(self) -> Markdown:
        """The error of one accumulator at k = 4,096."""
        rows = [(name, f"{self.lost(4096, name):.2%}") for name in self.operands]
        return table(["one accumulator, k = 4,096", "error of adding up"], rows)

    def whole_table(self) -> Markdown:
        """Total errors of the three ways."""
        rows = []
        for name in self.operands:
            for depth in DEPTHS:
                each = [self.whole[name, way][at(depth)] for way in WAYS]
                ratios = (f"{each[0] / each[2]:.3g}", f"{each[1] / each[2]:.3g}")
                rows.append((name, f"{depth:,}", *(f"{value:.2e}" for value in each), *ratios))
        heads = [*(f"error, {way}" for way in WAYS), "one / float32", "promoted / float32"]
        return table(["data", "k", *heads], rows)

    def figure(self, predicted: np.ndarray) -> Figure:
        """Errors of adding up over k, and what the rule predicts for positive data."""
        made, (axes,) = style.figure(7.2, 5.2)
        depths = np.arange(EVERY, LONGEST + 1, EVERY)
        for (name, way), values in self.adding.items():
            if name != "heavy tails":  # close to "both signs"
                dashes, colour = ("-" if name == "positive" else "--"), style.PALETTE[WAYS.index(way)]
                axes.plot(depths, values, color=colour, linewidth=2, linestyle=dashes, label=f"{way}, {name}")
        dots: dict[str, Any] = {
            "color": style.INK,
            "markersize": 4,
            "zorder": 3,
            "label": "predicted from the rule, positive",
        }
        axes.plot(depths[3::4], predicted[3::4], "o", **dots)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xlabel("k: how many products are added up")
        axes.set_ylabel("error of adding up")
        axes.grid(alpha=0.5)
        axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, labelcolor=style.INK)
        style.headline(made, "What a long FP8 sum loses", "relative, against the exact sum of the same rounded numbers")
        return made


def predicted_loss(codes_a: np.ndarray, codes_b: np.ndarray) -> np.ndarray:
    """From the rule alone: the share of the sum that is lost, at every 256 of k, for positive products."""
    products = (E4M3.decode(codes_a[:, :64])[:, None, :] * E4M3.decode(codes_b[:, :64])[None, :, :]).ravel()
    bits = rule_of(Kind.E4M3).fraction_bits
    mean, total, lost = products.mean(), 0.0, []
    for step in range(codes_a.shape[1] // 32):
        unit = 2.0 ** (math.floor(math.log2(max(total, products.max()))) - bits)
        total += 32 * (products - products % unit).mean()
        if (step + 1) % (EVERY // 32) == 0:
            lost.append(1 - total / (32 * mean * (step + 1)))
    return np.array(lost)


def promotion_slots(interval: int, instructions: int = 1) -> float:
    """Warp instructions per cycle of an SM that promote, at the tensor cores' full rate."""
    return PER_CYCLE * instructions / interval / 32


def price_figure(kernel: KernelCell, codes_a: np.ndarray, codes_b: np.ndarray) -> Figure:
    """The error of adding up against the instructions that promotion takes, for each interval."""
    intervals = (32, 64, 128, 256, 512, 1024, 2048)
    exact = E4M3.decode(codes_a) @ E4M3.decode(codes_b).T
    errors = [error(sums(kernel, codes_a, codes_b, interval)[-1], exact) for interval in intervals]
    slots = [promotion_slots(interval) for interval in intervals]
    made, (axes,) = style.figure(7.2, 4.2)
    axes.plot(slots, errors, "o-", color=style.BLUE, linewidth=2)
    for interval, x, y in zip(intervals, slots, errors, strict=True):
        axes.annotate(f"every {interval}", (x, y), xytext=(8, 5), textcoords="offset points", color=style.INK)
    axes.axvline(4, color=style.MUTED, linestyle=":", linewidth=1.2)
    axes.text(3.8, max(errors), "all that an SM can issue", ha="right", va="center", color=style.MUTED)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlim(0.05, 9)
    axes.set_ylim(None, 2 * max(errors))
    axes.set_xticks([1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4], ["1/16", "1/8", "1/4", "1/2", "1", "2", "4"])
    axes.set_xlabel("warp instructions per cycle that promote, at the tensor cores' full rate")
    axes.set_ylabel("error of adding up")
    axes.grid(alpha=0.5)
    style.headline(made, "The price of each bit", "positive data, k = 4,096: promoted every ... of k")
    return made


def rounding_to(fraction_bits: int) -> float:
    """The relative error of rounding to a format with so many fraction bits, in the root mean square over a binade."""
    x = np.linspace(1, 2, 100_001)
    return float(np.sqrt(((np.rint(x * 2**fraction_bits) / 2**fraction_bits / x - 1) ** 2).mean()))


def rates_table() -> Markdown:
    """Tensor cores alone: rate, power and energy of three formats on an H200."""
    rows = []
    kinds = (
        ("float16", Math.FP16_TENSOR, 10),
        ("bfloat16", Math.BF16_TENSOR, 7),
        ("float8_e4m3", Math.FP8_TENSOR, 3),
    )
    for name, kind, fraction_bits in kinds:
        rate = measured("microbench", "tensor core", "rate", variant="wgmma", dtype=name)
        sustained = measured("microbench", "tensor core sustained", "rate", variant="random", dtype=name)
        peak, lost = f"{(H200.peak(kind) or 0) / 1e12:,.0f}", f"{rounding_to(fraction_bits):.2%}"
        if rate is None or sustained is None:
            rows.append((name, peak, "not measured yet", "", "", "", lost))
            continue
        watts = sustained.extra["watts"]
        energy = (f"{sustained.value / 1e12:,.0f}", f"{watts:.0f}", f"{1e12 * watts / sustained.value:.2f}")
        rows.append((name, peak, f"{rate.value:,.0f}", *energy, lost))
    heads = ["datasheet, TFLOP/s", "measured, FLOP per cycle and SM", "sustained, TFLOP/s", "watts of the board"]
    return table(["wgmma, H200", *heads, "pJ per FLOP, complete board", "error of rounding an input"], rows)


def beside(file: Results, library: str, m: int | None = None) -> list[Record]:
    """Rung 5 of lab 09 beside one of PyTorch's products, for m tokens or for all."""
    name, variant = "09_fp8_gemm/rung_5_any_shape", f"beside {library}"
    found = [r for r in file.records if (r.name, r.variant) == (name, variant)]
    return [r for r in found if m in (None, r.shape[0])]


def products_measured(name: str) -> Markdown:
    """Rung 5 of lab 09 beside four products of PyTorch as it was measured, or a sentence."""
    file = results_of(name)
    if file is None:
        return Markdown("*FP8 products of lab 09: not measured yet.*")
    columns = {library: {r.shape: r for r in beside(file, library)} for library in LIBRARIES}
    rows = []
    for shape, record in columns["tensor-wise"].items():
        ratios = [f"{columns[library][shape].ratio:.2f}" if shape in columns[library] else "" for library in LIBRARIES]
        rows.append((dimensions(shape), f"{record.value / 1e12:,.0f}", *ratios))
    for m in sorted({shape[0] for shape in columns["tensor-wise"]}):
        each = ([record.ratio or 0 for record in beside(file, library, m)] for library in LIBRARIES)
        rows.append((f"mean, m = {m:,}", "", *(f"{geometric_mean(some):.2f}" if some else "" for some in each)))
    heads = ["one scale, accurate", "one scale, fast", "blocks", "bfloat16"]
    words = f"Measured on {file.header.where}; the last four are times PyTorch's product.\n\n"
    return Markdown(words + table(["m x n x k", "TFLOP/s", *heads], rows).data)


BYTES = {"bf16": 2, "fp8": 1}
ROOFS = {
    "bf16": Roofline(H200.peak(Math.BF16_TENSOR) or 0.0, H200.bandwidth),
    "fp8": Roofline(H200.peak(Math.FP8_TENSOR) or 0.0, H200.bandwidth),
}


def layer(m: int, kind: str, n: int = 4096, k: int = 7168) -> tuple[int, float]:
    """FLOP of a linear layer for m tokens, and bytes of its inputs, weights, scales and bf16 results."""
    moved: float = BYTES[kind] * (m * k + n * k) + 2 * m * n
    if kind == "fp8":
        moved += 4 * (m * k / 128 + n * k / 128**2)
    return 2 * m * n * k, moved


def gain_table() -> Markdown:
    """What the roofline lets FP8 gain over bf16, by tokens."""
    rows = []
    for m in (1, 64, 128, 256, 512, 4096):
        least = {kind: 1e6 * ROOFS[kind].floor_seconds(*layer(m, kind)) for kind in ROOFS}
        flops, moved = layer(m, "fp8")
        bound = ROOFS["fp8"].bound(flops / moved).value
        times = (f"{least['bf16']:.1f}", f"{least['fp8']:.1f}", f"{least['bf16'] / least['fp8']:.2f}")
        rows.append((f"{m:,}", f"{flops / moved:.0f}", bound, *times))
    heads = ["FLOP per byte, fp8", "bound by", "least time bf16, us", "least time fp8, us", "gain at most"]
    return table(["tokens", *heads], rows)


def roofline_figure() -> Figure:
    """A layer for a few numbers of tokens on the rooflines of bf16 and FP8."""
    made, (axes,) = style.figure(7.2, 4.4)
    x = np.geomspace(30, 4000, 300)
    for (kind, roof), colour in zip(ROOFS.items(), (style.BLUE, style.GREEN), strict=True):
        slope = style.FAINT if kind == "fp8" else colour
        axes.plot(x, [roof.attainable(i) / 1e12 for i in x], color=slope, linewidth=2.2, zorder=1)
        flat = x[x > roof.ridge]
        label = f"{kind}: ridge {roof.ridge:.0f}"
        axes.plot(flat, [roof.peak_flops / 1e12] * len(flat), color=colour, linewidth=2.2, label=label)
        for m in (64, 128, 4096):
            flops, moved = layer(m, kind)
            place = (flops / moved, roof.attainable(flops / moved) / 1e12)
            axes.plot(*place, "o", color=colour, markersize=9, markeredgecolor=style.PANEL, zorder=3)
            left = kind == "bf16" or m == 128
            where: dict[str, Any] = {"xytext": (-9, 4), "ha": "right"} if left else {"xytext": (9, -13), "ha": "left"}
            axes.annotate(f"{kind}, m = {m:,}", place, textcoords="offset points", color=style.INK, **where)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_yticks([200, 500, 1000, 2000], ["200", "500", "1,000", "2,000"])
    axes.set_xticks([50, 100, 200, 500, 1000, 2000], ["50", "100", "200", "500", "1,000", "2,000"])
    axes.minorticks_off()
    axes.set_ylim(120, 3200)
    axes.set_xlim(18, 9000)
    axes.set_xlabel("arithmetic intensity, FLOP per byte")
    axes.set_ylabel("TFLOP/s at most")
    axes.grid(alpha=0.5)
    axes.legend(frameon=False, loc="upper left", labelcolor=style.INK)
    style.headline(made, "Decoding lies left of both ridges", "H200, datasheet: a layer of 7,168 x 4,096 for m tokens")
    return made


@dataclass(frozen=True)
class Scaled:
    """64 tokens and 8 columns of weights as codes and block scales, and their exact product."""

    case: dict[str, np.ndarray]
    exact: np.ndarray


def scaled_operands(tokens: np.ndarray, weights: np.ndarray) -> Scaled:
    """Codes with a scale per 1 x 128 of 64 tokens, and per 128 of k for all columns of the weights."""
    scale_a = (np.abs(tokens).reshape(64, -1, 128).max(axis=2) / 448).astype(np.float32)
    scale_b = (np.abs(weights).reshape(8, -1, 128).max(axis=(0, 2)) / 448).astype(np.float32)
    wide_a, wide_b = np.repeat(scale_a, 128, axis=1), np.repeat(scale_b, 128)
    a, bt = E4M3.encode(tokens / wide_a), E4M3.encode(weights / wide_b)
    exact = (E4M3.decode(a) * wide_a) @ (E4M3.decode(bt) * wide_b).T
    return Scaled({"a": a, "bt": bt, "scale_a": scale_a, "scale_b": scale_b}, exact)


def promoting_instructions(run: Profile, k: int) -> float:
    """Instructions of a thread that promote, per sum and 128 of k: of the lines with "* part[" in them."""
    text = run.plan.source.splitlines()
    lines = [n for n, line in enumerate(text, 1) if "* part[" in line]
    counted = sum(run.execution.lines[n].warp_instructions for n in lines)
    return counted / (k // 128 * 4 * 4)  # four sums of a thread, four warps


def promotion_table() -> Markdown:
    """Cycles of promotion beside those of products, for tiles of several sizes."""
    rows = []
    for height, width in ((64, 64), (64, 128), (64, 192), (128, 128), (128, 256)):
        products = height * width * 128 / PER_CYCLE
        for instructions in (1, 2):
            promoted = height * width * instructions / H200.cuda_cores_per_sm
            counted = (instructions, height * width * instructions // 32, products, promoted)
            rows.append((f"{height} x {width}", *counted, f"{promoted / products:.0%}"))
    heads = ["instructions per sum", "warp instructions to promote", "cycles of the tensor cores per 128 of k"]
    return table(["tile", *heads, "cycles of CUDA cores", "of the tensor cores' time"], rows)


def from_l2(tile_m: int, tile_n: int) -> float:
    """Bytes that a tile requests from L2 per tensor cycle of FP8, 4,096 multiply-adds."""
    return (tile_m + tile_n) * PER_CYCLE / (tile_m * tile_n)


def mx(x: np.ndarray, number: SmallFloat, block: int = 32) -> np.ndarray:
    """An MX format as it comes back: a power of two for each block, by the specification's rule."""
    exponent = np.floor(np.log2(largest_of(x, (1, block)))) - math.floor(math.log2(number.largest))
    return number.rounded(x / 2.0**exponent) * 2.0**exponent


def nvfp4(x: np.ndarray) -> np.ndarray:
    """NVFP4 as it comes back: e4m3 scales for each 16, made to fit by one float32 for the tensor."""
    tensor = np.abs(x).max() / (E2M1.largest * E4M3.largest)
    scale = E4M3.rounded(largest_of(x, (1, 16)) / E2M1.largest / tensor) * tensor
    return E2M1.rounded(x / np.where(scale == 0, 1, scale)) * scale


FORMATS: dict[str, tuple[float, Callable[[np.ndarray], np.ndarray]]] = {
    "MXFP8": (8.25, lambda x: mx(x, E4M3)),
    "e4m3, float32 for 1 x 128": (8.25, lambda x: scaled(x, (1, 128))),
    "int8, float32 for 1 x 128": (8.25, lambda x: int8(x, (1, 128))),
    "MXFP4": (4.25, lambda x: mx(x, E2M1)),
    "e2m1, float32 for 1 x 128": (4.25, lambda x: scaled(x, (1, 128), E2M1)),
    "e2m1, E8M0 for 1 x 16": (4.5, lambda x: mx(x, E2M1, 16)),
    "NVFP4": (4.5, nvfp4),
}


def qualities(data: dict[str, np.ndarray]) -> dict[str, list[float]]:
    """The error of ordinary values of each matrix, by format."""
    return {name: [of_ordinary(x, back(x)) for x in data.values()] for name, (_, back) in FORMATS.items()}


def formats_table(quality: dict[str, list[float]], names: Sequence[str]) -> Markdown:
    """`qualities` as a table."""
    rows = [(name, FORMATS[name][0], *(f"{each:.1%}" for each in values)) for name, values in quality.items()]
    return table(["format", "bits", *names], rows)


def formats_figure(quality: dict[str, list[float]], names: Sequence[str]) -> Figure:
    """`qualities` as dots: squares for eight bits, circles for four."""
    made, (axes,) = style.figure(7.2, 5.0)
    places = np.arange(len(names))
    colours = (*style.PALETTE, style.INK)
    for number, ((name, values), colour) in enumerate(zip(quality.items(), colours, strict=True)):
        bits = FORMATS[name][0]
        look: dict[str, Any] = {"color": colour, "markersize": 9, "label": f"{name}: {bits:g} bits"}
        axes.plot(places + 0.1 * (number - 3), values, "s" if bits > 8 else "o", **look)
    for place in places[1:]:
        axes.axvline(place - 0.5, color=style.FAINT, linewidth=1)
    axes.set_yscale("log")
    axes.set_ylim(0.005, 0.8)
    axes.set_yticks([0.01, 0.03, 0.1, 0.3], ["1%", "3%", "10%", "30%"])
    axes.minorticks_off()
    axes.set_xticks(places, [name.replace(", ", ",\n").replace(" x 100", "\nx 100") for name in names])
    axes.set_ylabel("error of ordinary values")
    axes.grid(axis="y", alpha=0.5)
    axes.set_axisbelow(True)
    axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2, labelcolor=style.INK)
    style.headline(made, "Error at equal bits", "squares: about eight bits per element, circles: about four")
    return made
