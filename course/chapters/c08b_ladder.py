"""Chapter 08b: orders of tiles, variants of a rung, shapes of rung 14, and each rung alone with its clock."""

from __future__ import annotations

from functools import cache
from statistics import geometric_mean
from types import ModuleType

import numpy as np
from IPython.display import Markdown
from matplotlib.figure import Figure

from autograder.spec.lab import CHECKOUT
from course import results
from course.chapters.c08_ladder import LAB, SIZES
from course.chapters.spoken import dimensions
from course.figures.tile_order import CHOICES, Product
from course.kernel_cell import KernelCell
from course.lesson import Lesson, Step, solution, table
from course.loading import module_of
from course.results import Record
from course.trial import attempt
from warplab.figures import style
from warplab.files import write_whole

SHAPES = (
    (8192, 8192, 8192), (2048, 2048, 2048), (1024, 1024, 1024), (512, 512, 16384), (1024, 1024, 8192), (64, 4096, 4096),
)  # fmt: skip
FENCE = '                asm volatile("fence.proxy.async.shared::cta;" ::: "memory");\n'
SPILL = ("rung_03_producer_consumer", "rung_04_one_consumer")
FIVE = [
    ("registers move", "rung_05_two_consumers", "rung_06_registers"),
    ("fewer arrivals", "rung_08_grouped", "rung_09_one_arrival"),
    ("products in flight", "rung_09_one_arrival", "rung_10_in_flight"),
    ("clusters", "rung_10_in_flight", "rung_11_cluster"),
    ("back and forth", "rung_12_tma_store", "rung_13_back_and_forth"),
]
# Why each of the other choices of a prediction is wrong.
WHY_NO_GAIN = {
    "registers move": "Rung 5 spills nothing, so more registers have nothing to do.",
    "fewer arrivals": "The barrier was not what a warp waited for.",
    "products in flight": "Two consumers fill each other's gaps already.",
    "clusters": "L2 delivered the bytes in time before.",
    "back and forth": "L2 keeps more than the strips of the last wave anyway.",
}
WHY_NOT_SPILL = {
    "faster by about a quarter: fewer bytes": "It would be, if the sums fitted into registers.",
    "about equally fast": "Spilled sums are stored and loaded again between products.",
}
WHY_NOT_RUNS = {
    "2,048³: few tiles per block": "With one tile per block all orders are alike.",
    "no size: each block reads as before": "It does, but L2 answers fewer of its reads.",
}
WHY_NOT_HALVED = {
    "bytes from L2": "The operands come as before.",
    "wavefronts of products": "The products read the same tiles.",
}


def square(size: int) -> Product:
    """The product of two square matrices, in tiles of 128 x 256 and 132 at a time."""
    return Product(size, size, size)


def megabytes(order: str, size: int, group: int = 8) -> float:
    """Megabytes of a and b that the waves need, each strip once per wave: its blocks step along k together."""
    product = square(size)
    return sum(product.bytes(wave.rows, wave.columns) for wave in product.waves(order, group)) / 1e6


def fresh(order: str, size: int) -> float:
    """Megabytes of a and b that a wave needs and the wave before did not, over all waves."""
    product = square(size)
    return sum(product.bytes(wave.new_rows, wave.new_columns) for wave in product.waves(order, 8)) / 1e6


def strips(order: str, size: int) -> int:
    """Strips of a and of b that the first wave needs, in groups of 8 rows where there are groups."""
    first = square(size).waves(order, 8)[0]
    return first.rows + first.columns


def orders_table(*orders: str, need=megabytes) -> Markdown:
    """Modelled megabytes of some orders, or of all, at every size."""
    rows = [(order, *(need(order, size) for size in SIZES)) for order in orders or CHOICES]
    return table(["order: MB of a and b, modelled", *(f"{size:,}³" for size in SIZES)], rows)


def check_order(cell: KernelCell, size: int = 16384) -> tuple[float | None, float]:
    """Megabytes that the waves of a cell's order need, None if a tile is missing; and those of groups of 8."""
    product = square(size)
    down, across = product.grid
    trial = attempt(cell, {"down": down, "across": across, "out": np.empty((down * across, 2), np.int32)})
    order = [(int(row), int(column)) for row, column in trial.output] if trial.output is not None else []
    if sorted(order) != [(row, column) for row in range(down) for column in range(across)]:
        return None, megabytes("in groups", size)
    waves = [order[start : start + product.blocks] for start in range(0, len(order), product.blocks)]
    needed = [(len({row for row, _ in wave}), len({column for _, column in wave})) for wave in waves]
    return sum(product.bytes(*wave) for wave in needed) / 1e6, megabytes("in groups", size)


def variant(lesson: Lesson, name: str, source: str, *edits: tuple[str, str]) -> Step:
    """A rung with edits, (old, new) each, kept as a file of its own and counted. Raises ClosedLab."""
    text = solution(LAB, source).read_text(encoding="utf-8")
    for old, new in edits:
        assert old in text, f"{source} has no {old!r}"
        text = text.replace(old, new)
    path = CHECKOUT / "build" / "rungs" / LAB / f"{name}.py"
    write_whole(path, text)
    return lesson.climb(path)


def stores_table(*steps: Step) -> Markdown:
    """Sectors that threads and copies store."""
    rows = [(step.name, step.total.global_store_sectors, step.total.bulk_store_sectors) for step in steps]
    return table(["rung", "sectors stored by threads", "by copies"], rows)


def drains_table(*steps: Step, depth: int = 64) -> Markdown:
    """Waits for all products, over all warps, and the steps of a tile."""
    rows = [(s.name, s.total.warpgroup_drains, s.lab.task.profile.dimensions["k"] // depth) for s in steps]
    return table(["rung", "drains of warps", "k steps per tile"], rows)


@cache
def rung_14() -> ModuleType:
    """The host code of rung 14, which chooses tiles for a shape. Raises ClosedLab."""
    return module_of(solution(LAB, "rung_14_any_shape"))


def tiles_of(m: int, n: int, width: int) -> int:
    """Tiles of 128 x `width` in m x n results."""
    return -(-m // 128) * -(-n // width)


def widths_table() -> Markdown:
    """How many tiles each width makes of some shapes."""
    rows = [(dimensions(shape), *(tiles_of(*shape[:2], width) for width in (256, 128, 64))) for shape in SHAPES]
    return table(["m x n x k", "tiles 128 x 256", "128 x 128", "128 x 64"], rows)


def choices_table() -> Markdown:
    """What rung 14 chooses for some shapes."""
    rows = []
    for shape in SHAPES:
        width, pairs, splits = rung_14().choose(*shape)
        rows.append((dimensions(shape), f"128 x {width}", pairs, splits, tiles_of(*shape[:2], width) * splits))
    return table(["m x n x k", "tile", "blocks that share b", "parts of k", "blocks in all"], rows)


def odd_shapes() -> list[Record]:
    """Rung 14 at odd sizes beside torch.matmul, on an H100."""
    found = results.read(results.DIRECTORY / "gemm_nvidia_h100_80gb_hbm3.json").records
    return [record for record in found if record.variant == "odd"]


def odd_table() -> Markdown:
    """The rates of `odd_shapes`."""
    rows = [
        (
            dimensions(r.shape), f"{r.value / 1e12:.0f}", f"{(r.baseline_value or 0) / 1e12:.0f}", f"{r.ratio:.2f}",
            r.extra["launches"],
        )
        for r in odd_shapes()
    ]  # fmt: skip
    return table(["m x n x k, H100", "rung 14, TFLOP/s", "torch.matmul", "ratio", "launches"], rows)


def drawn_shapes() -> list[Record]:
    """Rung 14 at shapes that are powers of two, slowest beside torch.matmul first."""
    found = results.read(results.DIRECTORY / "gemm.json").records
    return sorted((record for record in found if record.variant == "shapes"), key=lambda record: record.ratio or 0)


def drawn_table(ends: int = 4) -> Markdown:
    """The geometric mean over `drawn_shapes`, and the shapes at both ends."""
    shapes = drawn_shapes()
    mean = geometric_mean(record.ratio or 0 for record in shapes)
    rows = [
        (dimensions(r.shape), f"{r.ratio:.2f}", str(rung_14().choose(*r.shape)))
        for r in (*shapes[:ends], *shapes[-ends:])
    ]  # fmt: skip
    words = f"{len(shapes)} drawn shapes, H200: {mean:.3f} times as fast as `torch.matmul` in the geometric mean.\n\n"
    return Markdown(words + table(["m x n x k", "times torch.matmul", "chosen: tile, pairs, parts"], rows).data)


def alone(lab: str = LAB) -> dict[str, Record]:
    """Records of rungs that ran beside torch.matmul alone, at 8,192 cubed on an H100, by the name of the rung."""
    found = results.read(results.DIRECTORY / "gemm_alone.json").records
    return {record.name.partition("/")[2]: record for record in found if record.name.startswith(lab)}


def back_to_back(record: Record) -> float:
    """FLOP/s of a rung that runs again and again."""
    return 2 * 8192**3 / (record.extra["ms_ours"] * 1e-3)


def alone_table() -> Markdown:
    """Each rung beside torch.matmul alone, and back to back with its clock and its power."""
    rows = []
    for name, r in alone().items():
        if name.startswith("rung"):
            low, high = r.extra["ratio_interval"]
            ratio = f"{r.extra['ratio_turn_by_turn']:.3f} ({low:.3f} to {high:.3f})"
            per_cycle = back_to_back(r) / (r.extra["clock_ours"] * 1e6) / 1e3
            clocks = (r.extra["clock_ours"], r.extra["power_ours"], r.extra["clock_library"], per_cycle)
            rows.append((name.replace("_", " "), f"{r.value / 1e12:.0f}", ratio, *(f"{each:.0f}" for each in clocks)))
    heads = ["TFLOP/s, alternating", "times torch.matmul (95%)", "MHz, back to back", "W", "MHz of torch.matmul"]
    return table(["rung, H100", *heads, "thousand FLOP per cycle"], rows)


def clock_figure() -> Figure:
    """The clock and the rate of kernels that run back to back: a point for each rung of labs 07 and 08."""
    made, (axes,) = style.figure(7.2, 4.2)
    for lab, label, colour in (
        ("07_tensor_core_hgemm", "lab 07, mma.sync", style.BLUE),
        (LAB, "lab 08, wgmma", style.GREEN),
    ):
        found = alone(lab)
        at = [(r.extra["clock_ours"], back_to_back(r) / 1e12) for r in found.values()]
        axes.plot(*zip(*at, strict=True), "o", color=colour, label=label, markersize=7, alpha=0.85)
    for name, words, offset in (
        ("rung_04_one_consumer", "rung 4 spills", (-8, 10)),
        ("rung_14_any_shape", "rung 14", (10, 0)),
    ):
        r = alone()[name]
        axes.annotate(
            words, (r.extra["clock_ours"], back_to_back(r) / 1e12), xytext=offset, textcoords="offset points",
            ha="right" if offset[0] < 0 else "left", va="center", color=style.INK,
        )  # fmt: skip
    axes.set_xlabel("SM clock, MHz")
    axes.set_ylabel("TFLOP/s, back to back")
    axes.set_ylim(0, None)
    axes.grid(alpha=0.5)
    axes.legend(frameon=False, loc="upper right", labelcolor=style.INK)
    style.headline(made, "Busy tensor cores lower the clock", "8,192 cubed on an H100, one point per rung")
    return made
