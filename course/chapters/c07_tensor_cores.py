"""Chapter 07: meters per mma, tiles of a warp, the ladder of lab 07 by the clock, and what a tensor core adds up."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from IPython.display import Markdown
from matplotlib.figure import Figure

from course.figures.explore import Explorer
from course.figures.ladder import Metric, ladder
from course.figures.lanes import lanes_to_banks
from course.kernel_cell import KernelCell
from course.lesson import Step, table
from course.measured import measured
from course.results import Record
from warplab.emulator import Profile
from warplab.figures import style
from warplab.hardware import Math
from warplab.hardware.chips import H200
from warplab.hardware.requests import banks_of

SIDES = (2048, 4096)  # at which all rungs were measured, in two groups of turns
WORK = 16 * 8 * 16  # multiply-adds of an mma.m16n8k16
TILES = ((16, 8), (16, 16), (32, 32), (64, 32), (64, 64), (128, 64), (128, 128))


def peak() -> float:
    """The tensor cores' FLOP/s in float16 by an H200's datasheet."""
    return H200.peak(Math.FP16_TENSOR) or 0.0


def rate(step: Step, side: int) -> Record | None:
    """The rate of a rung on an H200, beside cuBLAS in the same turns."""
    name = f"{step.lab.name}/{step.rung.name}"
    return measured("gemm", name, "rate", shape=(side, side, side), dtype="float16")


def clock(step: Step, side: int = 4096) -> Markdown:
    """One sentence on how fast a rung is."""
    record = rate(step, side)
    if record is None:
        return Markdown(f"*{step.name}: not measured yet.*")
    return Markdown(
        f"**{step.name}: {record.value / 1e12:.3g} TFLOP/s** for {side}³ on an H200, {record.value / peak():.1%} of "
        f"the datasheet's peak; cuBLAS made {(record.baseline_value or 0) / 1e12:.0f} in alternation with it."
    )


def per_mma(step: Step, *counters: str) -> float:
    """Counters of the profile case, summed, per mma that the product needs."""
    return step.per_multiply_add(*counters) * WORK / 32


def wavefronts(rows: int, columns: int) -> float:
    """Wavefronts of shared memory per mma, for a warp that makes `rows` x `columns` sums."""
    return 32 * (rows + columns) / (rows * columns)


def registers(rows: int, columns: int) -> tuple[int, int]:
    """Registers of a lane: for float32 sums, and for the fragments of one step of 16 along k."""
    return rows * columns // 32, rows // 16 * 4 + columns // 8 * 2


def tiles_table() -> Markdown:
    """Wavefronts and registers of a warp's tile."""
    rows = [(f"{m} x {n}", wavefronts(m, n), *registers(m, n)) for m, n in TILES]
    return table(["warp tile", "wavefronts per mma", "registers for sums", "for fragments"], rows)


def layouts_table(run: Profile) -> Markdown:
    """The three launches of the cell `moves`: wavefronts of a load and of a store, and bytes per row."""
    rows = []
    for name, size, launch in zip(
        ("plain", "padded", "swizzled"), (128, 144, 128), run.execution.launches, strict=True
    ):
        c = launch.total
        load = c.matrix_load_wavefronts / c.matrix_load_requests
        rows.append((name, load, c.shared_store_wavefronts / c.shared_store_requests, size))
    return table(["layout", "wavefronts per ldmatrix.x4", "wavefronts per store", "bytes per row"], rows)


def explore_layouts() -> Explorer:
    """Choose the rows of a tile, their padding and swizzle, and a step along k; see the banks of ldmatrix."""

    def draw(row_bytes: int, padding: int, turn: int, step: int) -> Figure:
        pieces = row_bytes // 16
        wanted = [(lane % 16, 2 * step % pieces + lane // 16) for lane in range(32)]
        addresses = [row * (row_bytes + padding) + 16 * (piece ^ (row & turn)) for row, piece in wanted]
        title = f"rows of {row_bytes} + {padding} bytes, piece ^ (row & {turn})"
        return lanes_to_banks(addresses, 16, matrix=True, title=title)

    return Explorer(
        draw, row_bytes=(128, [128, 256, 512]), padding=(0, [0, 16, 32]), turn=(3, [0, 1, 3, 7]), step=(0, range(4))
    )


def cycles(step: Step) -> dict[str, float]:
    """Cycles of one SM per mma, by resource."""
    requests = per_mma(step, "global_load_requests", "global_store_requests")
    sectors = per_mma(step, "global_load_sectors", "global_store_sectors") - per_mma(step, "async_copy_bypass_sectors")
    return {
        "tensor cores": 1.0,
        "reads of shared memory": per_mma(step, "shared_load_wavefronts"),
        "writes of shared memory": per_mma(step, "shared_store_wavefronts", "async_copy_wavefronts"),
        "global loads and stores": max(requests, sectors * 32 / 128),
        "instruction issue": per_mma(step, "warp_instructions") / 4,
    }


def at_most(step: Step) -> float:
    """The share of the tensor cores' peak that the busiest resource leaves; the three in the middle share a unit."""
    tensor, *on_chip, issue = cycles(step).values()
    return 1 / max(tensor, sum(on_chip), issue)


def meters(*steps: Step) -> Markdown:
    """`cycles` of some rungs, and the bound that follows."""
    rows = [(name, *(cycles(step)[name] for step in steps)) for name in cycles(steps[0])]
    rows.append(("at most (modelled, not measured)", *(f"{at_most(step):.1%}" for step in steps)))
    return table(["cycles of an SM per mma", *(step.name for step in steps)], rows)


def in_flight() -> Markdown:
    """Bytes in flight that an SM needs for its share of the main memory's rate, by Little's law."""
    per_cycle = H200.bandwidth / H200.sms / (H200.tensor_clock or 0)
    latency = measured("microbench", "hbm", "latency")
    if latency is None:
        return Markdown(f"{per_cycle:.1f} bytes per cycle and SM; the latency is not measured yet.")
    return Markdown(
        f"{per_cycle:.1f} bytes per cycle and SM x {latency.value:.0f} cycles (measured on an H200) = "
        f"**{per_cycle * latency.value / 1024:.0f} KiB in flight in each SM**"
    )


def ahead_table(*steps: Step) -> Markdown:
    """Counters and registers of rungs, in all."""
    names = ("tensor_instructions", "shared_load_wavefronts", "async_copy_wavefronts", "warp_instructions")
    rows = [(s.name, *(getattr(s.total, name) for name in names), s.rung.kernels[0].registers) for s in steps]
    return table(["rung", *(name.replace("_", " ") for name in names), "registers per lane"], rows)


def intensities(step: Step) -> tuple[float, float | None]:
    """FLOP per byte that blocks request from L2, and per byte that shared memory delivers; None if it is not read."""
    read = 128 * per_mma(step, "shared_load_wavefronts")
    return 2 * WORK / (32 * per_mma(step, "global_load_sectors")), 2 * WORK / read if read else None


def intensities_table(steps: list[Step]) -> Markdown:
    """`intensities` of all rungs, with instructions and the model's bound."""
    rows = []
    for step in steps:
        outside, inside = intensities(step)
        issued = per_mma(step, "warp_instructions")
        rows.append((step.name, outside, "none read" if inside is None else inside, issued, f"{at_most(step):.1%}"))
    heads = ["FLOP per byte requested from L2", "FLOP per byte of shared memory", "instructions per mma"]
    return table(["rung", *heads, "at most (model)"], rows)


def rates_table(steps: list[Step]) -> Markdown:
    """The measured rates of all rungs at both sizes, each with the cuBLAS of its turns."""
    rows = []
    for step in steps:
        found = [rate(step, side) for side in SIDES]
        pairs = [(f"{r.value / 1e12:.0f}", f"{(r.baseline_value or 0) / 1e12:.0f}") if r else ("", "") for r in found]
        rows.append((step.name, *(cell for pair in pairs for cell in pair)))
    heads = [head for side in SIDES for head in (f"{side:,}³", "cuBLAS in these turns")]
    return table(["rung: TFLOP/s, H200", *heads], rows)


def ladder_figure(steps: list[Step]) -> Figure:
    """Instructions per mma and the measured rate of each rung, side by side."""
    rates = [r.value if (r := rate(step, 4096)) else None for step in steps]
    issued = [per_mma(step, "warp_instructions") for step in steps]
    return ladder(
        [step.name for step in steps],
        [
            Metric("instructions per mma", "", issued, higher_is_better=False),
            Metric("rate at 4,096³, H200", "FLOP/s", rates),
        ],
        title="Six kernels, one product",
        subtitle="counted by the emulator, and measured",
    )


def alone_rates() -> dict[str, Record]:
    """FLOP per cycle of an SM of both instructions in float16, without any memory."""
    found = {
        name: measured("microbench", "tensor core", "rate", variant=name, dtype="float16")
        for name in ("mma.sync", "wgmma")
    }
    return {name: record for name, record in found.items() if record}


def instructions_table() -> Markdown:
    """`alone_rates` beside the datasheet's peak."""
    whole = peak() / H200.sms / (H200.tensor_clock or 0)
    rows = [(name, r.value, f"{r.value / whole:.0%}", f"{2 * WORK / r.value:.2f}") for name, r in alone_rates().items()]
    heads = ["FLOP per cycle of an SM", "of the peak", "cycles for the work of one mma"]
    return table(["instruction, float16", *heads], rows)


def share_of_the_instruction(lab: str) -> float | None:
    """What share of the rate of mma.sync alone the reference reaches per cycle, back to back on an H100."""
    alone = measured("gemm_alone", f"{lab}/submission", "rate", shape=(8192, 8192, 8192))
    sync = alone_rates().get("mma.sync")
    if not (alone and sync):
        return None
    seconds, rate_of_clock = 1e-3 * alone.extra["ms_ours"], 1e6 * alone.extra["clock_ours"]
    return 2 * 8192**3 / seconds / rate_of_clock / H200.sms / sync.value  # an H100 has as many SMs


def above_one(cell: KernelCell, small: float, terms: int = 15) -> tuple[float, float, float]:
    """[1, small, ...] with itself by one mma, by a float32 chain, and exactly: how far above 1, in units of 2**-23."""
    row = np.array([1] + [small] * terms + [0] * (15 - terms), np.float16)
    a, bt = np.zeros((16, 16), np.float16), np.zeros((8, 16), np.float16)
    a[0], bt[0] = row, row
    tensor = cell.run({"a": a, "bt": bt}, d=("float32", (16, 8))).execution.outputs["d"][0, 0]
    chain = np.float32(0)
    for p in row.astype(np.float32) * row.astype(np.float32):
        chain = np.float32(chain + p)  # the products are exact in float32, so this is a fused multiply-add
    exact = float(np.sum(row.astype(np.float64) ** 2))
    first, second, third = ((float(value) - 1) * 2**23 for value in (tensor, chain, exact))
    return first, second, third


def explore_terms(cell: KernelCell) -> Explorer:
    """Choose the size of the small terms and their number."""

    def draw(each_term_is_2_to_the_minus: int, terms: int) -> Figure:
        values = above_one(cell, 2.0 ** -(each_term_is_2_to_the_minus // 2), terms)
        made, (axes,) = style.figure(7.2, 2.6)
        axes.barh(("tensor core", "chain of float32", "exact"), values, color=[style.ORANGE, style.BLUE, style.MUTED])
        for row, value in enumerate(values):
            axes.text(value, row, f" {value:g}", va="center", color=style.INK)
        axes.set_xlim(0, 34)
        axes.set_xlabel("above 1, in units of 2⁻²³")
        axes.invert_yaxis()
        title = f"1 and {terms} terms of 2 to the -{each_term_is_2_to_the_minus}"
        style.headline(made, title, "on the emulator, whose tensor core has an H200's bits")
        return made

    return Explorer(draw, each_term_is_2_to_the_minus=(24, range(22, 29, 2)), terms=(15, range(1, 16)))


def relative(values: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """The largest relative error at each depth."""
    return np.abs(values / truth - 1).max(axis=(1, 2))


def long_errors(cell: KernelCell, rng: np.random.Generator, k: int = 8192, every: int = 256) -> dict[str, np.ndarray]:
    """Errors of 8 x 8 sums of positive products at every 256 of k: in float16, in float32, and by a float32 chain."""
    a, bt = rng.uniform(0, 1, (16, k)).astype(np.float16), rng.uniform(0, 1, (8, k)).astype(np.float16)
    shape = (k // every, 8, 8)
    outputs = cell.run({"a": a, "bt": bt}, in_f32=("float32", shape), in_f16=("float32", shape)).execution.outputs
    products = a[:8, None, :].astype(np.float64) * bt[None, :, :].astype(np.float64)
    truth = np.stack([products[:, :, :depth].sum(2) for depth in range(every, k + 1, every)])
    chain, chains = np.zeros((8, 8), np.float32), []
    for p in range(k):
        chain = chain + products[:, :, p].astype(np.float32)
        if (p + 1) % every == 0:
            chains.append(chain)
    return {
        "f16, sums in float16": relative(outputs["in_f16"], truth),
        "f16, sums in float32": relative(outputs["in_f32"], truth),
        "float32 chain on CUDA cores": relative(np.stack(chains), truth),
    }


def errors_figure(errors: dict[str, np.ndarray], every: int = 256) -> Figure:
    """`long_errors` over k."""
    made, (axes,) = style.figure(7.2, 4.2)
    for (name, values), colour in zip(errors.items(), style.PALETTE, strict=False):
        axes.plot(every * np.arange(1, len(values) + 1), values, color=colour, linewidth=2, label=name)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("k: number of products that are added up")
    axes.set_ylabel("largest relative error")
    axes.set_ylim(None, 0.4)  # room for the legend
    axes.grid(alpha=0.5)
    axes.legend(frameon=False, loc="upper left", labelcolor=style.INK)
    style.headline(made, "What a long sum loses", "positive terms, with the bits that an H200's tensor cores give")
    return made


def conflicts(swizzle: Callable[[int, int], int]) -> tuple[int, bool]:
    """Bank conflicts of ldmatrix.x4 on 16 rows of 64 bytes, in both steps; whether no pieces share a place."""
    found = 0
    for step in (0, 1):
        addresses = [64 * (lane % 16) + 16 * swizzle(lane % 16, 2 * step + lane // 16) for lane in range(32)]
        found += banks_of(addresses, 16, matrix=True).conflicts
    own_places = all(sorted(swizzle(row, piece) for piece in range(4)) == [0, 1, 2, 3] for row in range(16))
    return found, own_places
