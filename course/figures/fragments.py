"""Which lane and register of a warp holds which element of a matrix: a picture, and an explorer for notebooks."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from course.figures.explore import Explorer
from warplab.figures import style
from warplab.hardware.fragments import BITS, DEPTHS, Fragment, ldmatrix, mma

_SIZE = 9  # points: a narrow matrix is drawn as wide as a page
_TEXT_UP_TO = 640  # cells that are large enough for the number of a lane


def fragment(layout: Fragment, lane: int | None = 5, *, title: str = "") -> Figure:
    """The matrix, with each element's lane as its number and its register as its colour; right, what `lane` holds.

    Raises ValueError for a lane that holds nothing.
    """
    rows, columns = layout.shape
    if lane is not None and not 0 <= lane < layout.threads:
        raise ValueError(f"there is no lane {lane}: {layout.name} lies in lanes 0 to {layout.threads - 1}")
    height = min(max(1.3 + 0.27 * rows, 2.9), 7.5)
    narrow = columns <= 16
    widths = (max(columns, 12) * 0.27 + 0.6, 2.6 if narrow else 3.9)
    made, (left, right) = style.figure(7.3 if narrow else 11, height, widths=widths)
    _matrix(left, layout, lane)
    _registers(right, layout, lane)
    packed = int(layout.parts.max()) + 1
    holds = f"{packed} elements" if packed > 1 else "one element"
    style.headline(
        made,
        title or layout.name,
        f"{rows} x {columns} elements of {layout.bits} bits; numbers are lanes, colours registers "
        f"({layout.registers_a_lane} per lane, {holds} each)",
    )
    return made


def explore_fragments(dtype: str = "f16", operand: str = "a", lane: int = 5) -> Explorer:
    """Choose an instruction, an operand and a lane; see what the lane holds. The first choice stays as a figure."""
    forms = [f"mma.m16n8k{k}, {name}" for name in BITS for k in DEPTHS[name]] + ["ldmatrix", "ldmatrix.trans"]

    def draw(form: str, operand: str, lane: int) -> Figure:
        return fragment(_layout(form, operand), lane)

    first = f"mma.m16n8k{DEPTHS[dtype][0]}, {dtype}"
    return Explorer(draw, form=(first, forms), operand=(operand, ["a", "b", "d"]), lane=(lane, range(32)))


def _layout(form: str, operand: str) -> Fragment:
    if form.startswith("ldmatrix"):
        return ldmatrix(transposed=form.endswith("trans"))
    shape, dtype = form.split(", ")
    return mma(operand, dtype, int(shape.rpartition("k")[2]))


def _colour(register: int) -> str:
    return style.PALETTE[register % len(style.PALETTE)]


def _faded(colour: str) -> tuple[float, float, float]:
    """A colour mixed with the panel's, so that text on it reads well."""
    red, green, blue = (0.3 * c + 0.7 * p for c, p in zip(to_rgb(colour), to_rgb(style.PANEL), strict=True))
    return red, green, blue


def _matrix(axes: Axes, layout: Fragment, lane: int | None) -> None:
    rows, columns = layout.shape
    style.canvas(axes)
    axes.set_xlim(-1.4, columns + 0.1)
    axes.set_ylim(rows + 0.1, -1.1)
    with_text = rows * columns <= _TEXT_UP_TO
    for row in range(rows):
        for column in range(columns):
            held_by, register = int(layout.lanes[row, column]), int(layout.registers[row, column])
            chosen = held_by == lane
            face = to_rgb(_colour(register)) if chosen else _faded(_colour(register))
            style.box(
                axes, (column, row), 1, 1, facecolor=face, edgecolor=style.PANEL, linewidth=0.8,
                gid=f"element {row} {column} lane {held_by} register {register}",
            )  # fmt: skip
            if with_text:
                axes.text(
                    column + 0.5, row + 0.5, f"{held_by}", ha="center", va="center", size=_SIZE,
                    color=style.ink_on(face), weight="bold" if chosen else "normal",
                )  # fmt: skip
    step = 1 if rows <= 16 else 8
    for row in range(0, rows, step):
        axes.text(-0.3, row + 0.5, f"{row}", ha="right", va="center", size=_SIZE, color=style.MUTED)
    for column in range(0, columns, 1 if columns <= 16 else 4):
        axes.text(column + 0.5, -0.25, f"{column}", ha="center", va="bottom", size=_SIZE, color=style.MUTED)


def _registers(axes: Axes, layout: Fragment, lane: int | None) -> None:
    """The registers of a lane as boxes, with the (row, column) of what they hold; lowest bits at the right."""
    style.canvas(axes)
    axes.set_xlim(0, 4)
    if lane is None:
        return
    held = layout.of_lane(lane)
    drawn = held[:16]
    axes.set_ylim(max(len(drawn), 8) + 0.4, -1.1)
    axes.text(0, -0.45, f"lane {lane}", weight="bold", va="center", size=style.TEXT, color=style.INK)
    axes.text(4, -0.45, "low bits", ha="right", va="center", size=_SIZE, color=style.MUTED)
    for number, places in enumerate(drawn):
        colour = _colour(number)
        axes.text(0, number + 0.45, f"{layout.letter}{number}", va="center", size=style.TEXT, color=style.INK)
        width = 3.5 / len(places)
        for part, (row, column) in enumerate(places):
            start = 4 - (part + 1) * width
            axes.add_artist(
                Rectangle((start, number), width, 0.85, facecolor=colour, edgecolor=style.PANEL, linewidth=1.2)
            )
            axes.text(
                start + width / 2, number + 0.43, f"{row}, {column}", ha="center", va="center", size=_SIZE,
                color=style.ink_on(colour), gid=f"{layout.letter}{number} part {part}: {row}, {column}",
            )  # fmt: skip
    if len(held) > len(drawn):
        axes.text(0, len(drawn) + 0.4, f"and {len(held) - len(drawn)} more", size=_SIZE, color=style.MUTED)
