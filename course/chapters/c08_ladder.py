"""Chapters 08 and 08b: the ladder of lab 08, by the emulator's counters and by recorded times.

A recorded time is compared only with times of its own group, whose kernels ran in alternation and met the same clock.
The mark of a group is the rate of torch.matmul in it.
"""

from __future__ import annotations

from collections import Counter
from functools import cache

from IPython.display import Markdown
from matplotlib.figure import Figure

from course.figures.ladder import Metric, ladder
from course.lesson import Step, table
from course.measured import known, measured, results_of
from course.results import Record
from warplab.hardware.chips import H200

LAB = "08_hopper_hgemm"
SIZES = (2048, 4096, 8192, 16384)
PER_CYCLE = 2048  # multiply-adds of float16 in a tensor cycle
TILES = ((64, 64), (128, 128), (128, 256), (256, 256))


def demand(tile_m: int, tile_n: int) -> float:
    """Bytes that a block reads from L2 per tensor cycle: per step of k, 2 bytes of `tile_m` + `tile_n` elements."""
    return 2 * (tile_m + tile_n) * PER_CYCLE / (tile_m * tile_n)


def shared_demand(width: int) -> float:
    """Wavefronts of 128 bytes per tensor cycle for wgmma's operands, 64 x 16 and 16 x `width` elements."""
    return 2 * 16 * (64 + width) / 128 * PER_CYCLE / (64 * width * 16)


def demand_table() -> Markdown:
    """What tiles request per tensor cycle, beside what the main memory and L2 deliver."""
    per_cycle = H200.sms * known(H200.tensor_clock)
    hbm = H200.bandwidth / per_cycle
    l2 = measured("microbench", "l2", "bandwidth")
    of_l2 = l2 and l2.value / per_cycle
    rows = [
        (f"{m} x {n}", demand(m, n), demand(m, n) / hbm, demand(m, n) / of_l2 if of_l2 else "not measured yet")
        for m, n in TILES
    ]
    heads = ["times what the main memory delivers", "times what L2 delivered to plain loads"]
    return table(["tile", "bytes per tensor cycle", *heads], rows)


def stages_table(shared: int = 227 * 1024, depth: int = 64) -> Markdown:
    """How many stages of each tile fit into `shared` bytes."""
    sizes = [(m, n, 2 * depth * (m + n)) for m, n in TILES]
    rows = [(f"{m} x {n}", size / 1024, shared // size) for m, n, size in sizes]
    return table([f"tile, {depth} deep", "KiB per stage", "stages in 227 KiB"], rows)


def per_cycle(step: Step, counter: str, scale: float = 1) -> float:
    """A counter of the profile case, per tensor cycle of its product."""
    return step.per_multiply_add(counter) * scale * PER_CYCLE / 32


def bytes_from_l2(step: Step) -> float:
    """Bytes that tensor copies read from L2 per tensor cycle."""
    return per_cycle(step, "bulk_load_sectors", 32)


def meters(*steps: Step) -> Markdown:
    """Per rung what it takes per tensor cycle, and what one block of it occupies."""
    rows = []
    for step in steps:
        kernel, warps = step.rung.kernels[0], step.rung.profile.launches[0].block[0] // 32
        counted = (bytes_from_l2(step), f"{per_cycle(step, 'warpgroup_read_wavefronts'):.3f}")
        issued = f"{per_cycle(step, 'warp_instructions'):.2f}"
        blocks = round(kernel.occupancy * 64 / warps)
        room = (kernel.registers, kernel.spill_bytes, f"{kernel.shared / 1024:.0f}", blocks)
        rows.append((step.name, *counted, issued, *room))
    heads = ["bytes from L2", "wavefronts", "warp instructions", "registers", "spilled bytes", "shared KiB"]
    return table(["rung", *heads, "blocks per SM"], rows)


def recorded(stem: str, size: int) -> Record | None:
    """The rate of a rung for a square product, float16 in and out."""
    return measured("gemm", f"{LAB}/{stem}", "rate", shape=(size,) * 3, dtype="float16")


@cache
def _group(size: int) -> float | None:
    """The mark of the group that most rungs of a size were in, by the records: a release may lack the rungs."""
    file = results_of("gemm")
    marks = Counter(
        record.baseline_value
        for record in (file.records if file else ())
        if record.name.startswith(f"{LAB}/rung_")
        and (record.metric, record.shape, record.dtype) == ("rate", (size,) * 3, "float16")
    )
    return marks.most_common(1)[0][0] if marks else None


def in_group(stem: str, size: int) -> float | None:
    """A rung's FLOP/s if it was measured in the group of its size."""
    record = recorded(stem, size)
    return record.value if record and record.baseline_value == _group(size) else None


def gains(before: str, after: str) -> dict[int, float]:
    """By how many percent the rate rises from one rung to another, at each size where both are of one group."""
    rates = {size: (in_group(before, size), in_group(after, size)) for size in SIZES}
    return {size: 100 * (new / old - 1) for size, (old, new) in rates.items() if old and new}


def beside_cublas(*stems: str) -> Markdown:
    """TFLOP/s, and in brackets the ratio to torch.matmul, of rungs in the group of each size."""

    def cell(stem: str, size: int) -> str:
        if not recorded(stem, size):
            return "not measured"
        value, mark = in_group(stem, size), _group(size)
        return f"{value / 1e12:.0f} ({value / mark:.2f})" if value and mark else "other group"

    rows = [(stem.replace("_", " "), *(cell(stem, size) for size in SIZES)) for stem in stems]
    words = "Measured on an H200: TFLOP/s, in brackets times `torch.matmul` in the same group.\n\n"
    return Markdown(words + table(["rung", *(f"{size:,}³" for size in SIZES)], rows).data)


def outcome(before: str, after: str) -> list[Markdown]:
    """What a rung gained over another at every size where both were in one group, and their rates."""
    said = ", ".join(f"{percent:+.1f}% at {size:,}³" for size, percent in gains(before, after).items())
    names = f"{before[:7].replace('_', ' ')} to {after[:7].replace('_', ' ')}"
    return [Markdown(f"From {names}: {said or 'not measured in one group'}."), beside_cublas(before, after)]


def no_gain(pairs: list[tuple[str, str, str]]) -> Markdown:
    """For each (idea, rung before, rung after): what it changed at every size, in percent."""
    rows = []
    for idea, before, after in pairs:
        found = gains(before, after)
        rows.append((after[5:7], idea, *(f"{found[size]:+.1f}%" if size in found else "" for size in SIZES)))
    return table(["rung", "idea", *(f"{size:,}³" for size in SIZES)], rows)


def ladder_figure(steps: list[Step], size: int = 4096) -> Figure:
    """Bytes from L2 and the measured rate of each rung, side by side. Rungs of another group have no bar."""
    rates = [in_group(step.rung.name, size) for step in steps]
    return ladder(
        [step.name for step in steps],
        [
            Metric("bytes from L2 per tensor cycle", "", [bytes_from_l2(s) for s in steps], higher_is_better=False),
            Metric(f"rate at {size:,}³, H200", "FLOP/s", rates, missing="other group"),
        ],
        title="Counters and the clock",
        subtitle="counted by the emulator, and measured in one group",
    )


def rung_14_beside() -> Markdown:
    """Rung 14, which alternated with torch.matmul alone."""
    rows = [
        (f"{size:,}³", f"{r.value / 1e12:.0f}", f"{(r.baseline_value or 0) / 1e12:.0f}", f"{r.ratio:.3f}")
        for size in SIZES
        if (r := recorded("rung_14_any_shape", size))
    ]
    return table(["rung 14", "TFLOP/s", "torch.matmul, in alternation", "ratio"], rows)


def large_products(*stems: str, size: int = 16384) -> Markdown:
    """Rates of one size with the torch.matmul of each rung's own group."""
    rows = [
        (stem.replace("_", " "), f"{r.value / 1e12:.0f}", f"{(r.baseline_value or 0) / 1e12:.0f}", f"{r.ratio:.2f}")
        for stem in stems
        if (r := recorded(stem, size))
    ]
    return table([f"{size:,}³: rung", "TFLOP/s", "torch.matmul in its group", "ratio"], rows)
