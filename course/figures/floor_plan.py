"""What stands in one SM: its four partitions with their lanes, and the memory that they share."""

from __future__ import annotations

from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from warplab.figures import style
from warplab.hardware.records import KIB, Chip

PARTITIONS = 4
WARP = 32


@dataclass(frozen=True)
class Units:
    """Results a cycle of each kind of unit in one partition, which is how many lanes wide it is.

    `special` are the units for exponentials, roots and sines; `load_store` the threads whose addresses are taken.
    """

    float32: int
    int32: int
    float64: int
    special: int
    load_store: int


# A quarter of what the CUDA C++ Programming Guide's table "Throughput of Native Arithmetic Instructions" gives for an
# SM of each compute capability (int32: the row of multiplications). Load and store units: the figures of an SM in
# NVIDIA's V100, A100 and H100 whitepapers (8 a partition), Turing's and Ada's (4).
UNITS = {
    (7, 0): Units(16, 16, 8, 4, 8),
    (7, 5): Units(16, 16, 0, 4, 4),
    (8, 0): Units(16, 16, 8, 4, 8),
    (8, 9): Units(32, 16, 0, 4, 4),
    (9, 0): Units(32, 16, 16, 4, 8),
    (10, 0): Units(32, 16, 16, 4, 8),
}
_NAMES = {
    "float32": ("float32", style.BLUE),
    "int32": ("int32", style.SKY),
    "float64": ("float64", style.PURPLE),
    "special": ("special", style.GREEN),
    "load_store": ("load, store", "#B4BCC6"),
}
_L1 = "#EBD9A5"  # a memory's own colour, as tensor cores are orange
_WIDE, _HIGH = 10.0, 6.6  # of one partition, in units of the drawing
_CELL = 0.262


def floor_plan(chip: Chip, *, title: str = "") -> Figure:
    """One SM of a chip: a partition has a scheduler, a quarter of the registers, its lanes and its tensor cores.

    A small box is one result a cycle: 32 of a kind take a warp's instruction every cycle, 16 every other one. How the
    units are wired is not drawn, and sizes are not to scale.
    Raises ValueError for a compute capability whose units are not known here.
    """
    units = UNITS.get(chip.compute_capability)
    if units is None:
        known = ", ".join(f"{major}.{minor}" for major, minor in UNITS)
        raise ValueError(f"the units of compute capability {chip.compute_capability} are not known, only of {known}")
    made, (axes,) = style.figure(11, 8.2)
    style.canvas(axes)
    axes.set_xlim(-0.3, 2 * _WIDE + 0.9)
    axes.set_ylim(-3.0, 2 * _HIGH + 0.8)
    for number in range(PARTITIONS):
        left, bottom = (_WIDE + 0.6) * (number % 2), (_HIGH + 0.4) * (1 - number // 2)
        _partition(axes, left, bottom, number, chip, units)
    _box(
        axes, 0, -1.25, 2 * _WIDE + 0.6, 0.95, _L1, "l1",
        f"L1 cache and shared memory: one array, up to {chip.shared_per_sm // KIB} KiB of it shared memory,"
        " 32 banks of 4 bytes",
    )  # fmt: skip
    _box(axes, 0, -2.5, 2 * _WIDE + 0.6, 0.95, style.FAINT, "l2", "to L2 and the memory, in sectors of 32 bytes")
    style.headline(
        made,
        title or f"One of the {chip.sms} SMs of the {chip.name}",
        f"{chip.cuda_cores_per_sm} float32 lanes in four partitions; a box is one result per cycle; not to scale",
    )
    return made


def _partition(axes: Axes, left: float, bottom: float, number: int, chip: Chip, units: Units) -> None:
    axes.add_artist(
        Rectangle((left, bottom), _WIDE, _HIGH, facecolor=style.EMPTY, edgecolor=style.MUTED, linewidth=0.8,
                  gid=f"partition {number}")
    )  # fmt: skip
    top = bottom + _HIGH
    wide = _WIDE - 0.4
    _box(
        axes, left + 0.2, top - 0.85, wide, 0.65, style.FAINT, "scheduler", "scheduler: one warp instruction per cycle"
    )
    registers = chip.register_file_per_sm // PARTITIONS
    _box(
        axes, left + 0.2, top - 1.7, wide, 0.65, style.FAINT, "registers",
        f"registers: {registers // 4:,} of 32 bits, {registers // KIB} KiB",
    )  # fmt: skip
    height = top - 2.2
    for kind, (name, colour) in _NAMES.items():
        lanes = getattr(units, kind)
        if not lanes:
            continue
        _lanes(axes, left + 0.2, height, lanes, colour, kind)
        cycles = "a warp per cycle" if lanes == WARP else f"a warp in {WARP // lanes} cycles"
        beside = lanes < WARP  # else there is no room but under the boxes
        axes.text(
            left + 0.2 + (_CELL * lanes + 0.15 if beside else 0), height - (0.02 if beside else 0.42),
            f"{lanes} {name}: {cycles}", va="center", size=style.SMALL, color=style.INK,
        )  # fmt: skip
        height -= 0.47 if beside else 0.87
    cores = chip.tensor_cores_per_sm // PARTITIONS
    each = (wide - 0.2 * (cores - 1)) / cores
    for core in range(cores):
        _box(
            axes, left + 0.2 + core * (each + 0.2), bottom + 0.2, each, 0.85, style.ORANGE, "tensor core", "tensor core"
        )


def _lanes(axes: Axes, left: float, middle: float, lanes: int, colour: str, kind: str) -> None:
    for lane in range(lanes):
        corner = left + lane * _CELL, middle - 0.15
        style.box(axes, corner, 0.8 * _CELL, 0.3, facecolor=colour, edgecolor="none", gid=kind)


def _box(axes: Axes, left: float, bottom: float, width: float, height: float, colour: str, gid: str, text: str) -> None:
    axes.add_artist(Rectangle((left, bottom), width, height, facecolor=colour, edgecolor="none", gid=gid))
    axes.text(
        left + width / 2,
        bottom + height / 2,
        text,
        ha="center",
        va="center",
        size=style.SMALL,
        color=style.ink_on(colour),
    )
