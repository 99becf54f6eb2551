"""Chapter 02: what its cells tabulate and draw of the measurements on an H200."""

from __future__ import annotations

from IPython.display import Markdown
from matplotlib.figure import Figure

from course.experiment import observe
from course.figures.explore import Explorer
from course.figures.timeline import timeline
from course.kernel_cell import KernelCell
from course.lesson import table
from course.measured import Measured, known, records_of, said
from warplab.figures import style
from warplab.hardware import Math
from warplab.hardware.chips import A100, B200, H100, H200, V100
from warplab.plan.occupancy import occupancy

INSTRUCTIONS = ("fma.f32", "fma.f16x2", "fma.f64", "mad.s32", "ex2.f32", "popc.b32", "shfl.b32")
_TENSOR_TYPES = ("float16", "bfloat16", "tfloat32", "float8_e4m3", "int8")


def rates_by_warps(measured: Measured, chains: int) -> dict[int, float]:
    """Float32 multiply-adds of one SM per cycle, by its warps, each with so many independent chains."""
    return dict(measured.curve("fma.f32 by warps", "rate", variant=f"{chains} chains"))


def comb(warps: int, schedulers: int = 4, lanes: int = 32) -> float:
    """Multiply-adds per cycle of an SM whose schedulers have so many lanes each: the fullest scheduler ends last."""
    return schedulers * lanes * warps / (schedulers * -(-warps // schedulers))


def figure_of_comb(measured: Measured) -> Figure:
    """The rate of one SM by the number of its warps, measured, beside that of four schedulers."""
    figure, (axes,) = style.figure(10, 4.2)
    warps = list(range(1, 17))
    axes.plot(warps, [comb(w) for w in warps], color=style.MUTED, linestyle="--", label="four schedulers")
    for chains, marker, colour in ((8, "o", style.BLUE), (1, "s", style.ORANGE)):
        rates = rates_by_warps(measured, chains)
        label = f"measured, {chains} independent chain{'s' * (chains > 1)} per warp"
        axes.plot(warps, [rates[w] for w in warps], marker=marker, color=colour, label=label)
    axes.set_xticks(warps)
    axes.set_xlabel("warps on one SM")
    axes.set_ylabel("float32 multiply-adds per cycle")
    axes.set_ylim(0, 140)
    axes.grid(True, axis="y")
    axes.legend(frameon=False, fontsize=style.SMALL, loc="lower right")
    subtitle = "measured on an H200; the teeth are the schedulers"
    style.headline(figure, "The rate of one SM by the number of its warps", subtitle)
    return figure


def explore_comb() -> Explorer:
    """Sliders for the schedulers of an SM and the lanes of each."""

    def drawn(schedulers: int, lanes_of_each: int) -> Figure:
        figure, (axes,) = style.figure(10, 3.4)
        warps = list(range(1, 33))
        axes.plot(warps, [comb(w, schedulers, lanes_of_each) for w in warps], color=style.BLUE, marker="o")
        axes.set_xlabel("warps on one SM, each with enough chains")
        axes.set_ylabel("multiply-adds per cycle")
        axes.set_ylim(0, 280)
        axes.grid(True, axis="y")
        subtitle = "calculated: all warps have the same work, and the last end counts"
        style.headline(figure, f"{schedulers} schedulers with {lanes_of_each} lanes each", subtitle)
        return figure

    return Explorer(drawn, schedulers=(4, [1, 2, 4, 8]), lanes_of_each=(32, [16, 32]))


def figure_of_five_warps(cell: KernelCell, case: dict) -> Figure:
    """The first multiply-adds of five warps, at the times of the emulator's model."""
    chart = observe(cell, case).timeline(modelled=True)
    first = next(issue.time for issue in chart.issues if str(issue.kind) == "arithmetic" and issue.time > 100)
    return timeline(chart, start=first - 4, title="Five warps, four schedulers: warps 0 and 4 share one")


def table_of_instructions(measured: Measured) -> Markdown:
    """Latency and rate of seven instructions, and how many cycles pass from one warp to the next at that rate."""
    rows = []
    for name in INSTRUCTIONS:
        latency, rate = measured.value(name, "latency"), measured.value(name, "rate")
        of_a_warp = 32 * (2 if name.endswith("x2") else 1)
        rows.append((name, latency, rate, 4 * of_a_warp / rate))
    heads = ["latency, cycles", "results per cycle of one SM", "cycles from one warp to the next, at this rate"]
    return table(["instruction", *heads], rows)


def sentence_of_operands(measured: Measured) -> Markdown:
    """The rates of multiply-adds of three different registers, with one chain and with four."""
    one, four = (measured.value("fma.f32 of three registers", "rate", variant=f"{chains} chains") for chains in (1, 4))
    return Markdown(
        f"One chain per warp: **{one:.0f}** per cycle. Four chains: **{four:.0f}**. "
        "(32 warps each, so latency is hidden in both.)"
    )


def table_of_resident_warps(measured: Measured) -> Markdown:
    """How many warps an SM held together, by their registers, beside the calculation."""
    rows = []
    for record in records_of(measured, ["resident warps"]):
        registers, kib = record.shape[0], record.extra["bytes_held"] / 1024
        rows.append((registers, record.value, occupancy("sm_90a", 32, registers).warps, kib))
    return table(["registers per thread", "warps per SM, measured", "warps, calculated", "KiB of registers"], rows)


def table_of_tensor_rates(measured: Measured) -> Markdown:
    """Operations per cycle of one SM's tensor cores by type: the datasheet's, and what two instructions reach."""
    rows = []
    for kind in _TENSOR_TYPES:
        group = measured.record("tensor core", "rate", variant="wgmma", dtype=kind)
        peak = group.extra["known"]
        row = [kind, peak, group.value, f"{group.value / peak:.0%}", "", "no such instruction"]
        if kind != "float8_e4m3":
            warp = measured.value("tensor core", "rate", variant="mma.sync", dtype=kind)
            row[4:] = [warp, f"{warp / peak:.0%}"]
        rows.append(row)
    return table(["type", "datasheet", "wgmma", "reaches", "mma.sync", "reaches"], rows)


def table_of_sustained(measured: Measured) -> Markdown:
    """What the tensor cores sustain for more than a second, at which clock and power."""
    rows = [
        (r.dtype, r.variant, said(r.value, r.unit), f"{r.value / r.extra['known']:.0%}", *_clock_and_power(r.extra))
        for r in records_of(measured, ["tensor core sustained"])
    ]
    heads = ["type", "data", "sustained", "of the datasheet", "clock", "power", "what limits the clock, by the driver"]
    return table(heads, rows)


def table_of_products(measured: Measured) -> Markdown:
    """The same for a library's matrix product."""
    rows = [(r.variant, said(r.value, r.unit), *_clock_and_power(r.extra)) for r in records_of(measured, ["matmul"])]
    heads = ["torch.matmul, 8192 x 8192 x 8192, float16, of", "sustained", "clock", "power", "what limits the clock"]
    return table(heads, rows)


def table_of_generations() -> Markdown:
    """The tensor core's largest float16 instruction in four generations, and its rate by the published peak."""
    registers, shared = "registers", "shared memory"
    generations = (
        (V100, V100.boost_clock, "mma.sync.m8n8k4", "a warp", 4, (8, 8, 4), registers, registers, registers),
        (A100, A100.boost_clock, "mma.sync.m16n8k16", "a warp", 1, (16, 8, 16), registers, registers, registers),
        (H100, H100.tensor_clock, "wgmma", "4 warps", 1, (64, 256, 16), f"{shared} or registers", shared, registers),
        (B200, B200.boost_clock, "tcgen05.mma", "1 thread", 1, (128, 256, 16), "shared or tensor memory", shared,
         "tensor memory"),
    )  # fmt: skip
    rows = []
    for chip, clock, name, issuer, products, (m, n, k), *places in generations:
        rate = known(chip.peak(Math.FP16_TENSOR)) / (2 * chip.sms * known(clock))
        shape = f"{m} × {n} × {k}" + (f", {products} times" if products > 1 else "")
        work, reads = f"{products * m * n * k:,}", f"{(m + n) / (m * n):.3f}"
        rows.append((chip.name, f"`{name}`", issuer, shape, work, f"{rate:,.0f}", reads, *places))
    per = ["multiply-adds in it", "multiply-adds per cycle of an SM", "elements read per multiply-add"]
    return table(["chip", "instruction", "issued by", "m × n × k, largest", *per, "A from", "B from", "sums in"], rows)


def clocks_of_the_peaks() -> tuple[float, float]:
    """The clocks in GHz at which an H200's lanes and its tensor cores reach the peaks of its datasheet."""
    lanes, tensor = known(H200.peak(Math.FP32)), known(H200.peak(Math.FP16_TENSOR))
    return lanes / (132 * 128 * 2) / 1e9, tensor / (132 * 4096) / 1e9


def _clock_and_power(extra: dict) -> tuple[str, str, str]:
    return f"{extra['sm_clock'] / 1e9:.2f} GHz", f"{extra['watts']:.0f} W", extra.get("held_by", "")
