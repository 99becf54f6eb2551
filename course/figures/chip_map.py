"""A whole H200: GPCs of TPCs of SMs around two halves of L2, the memory at the edges; and blocks on its SMs."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from course.figures.explore import Explorer
from course.figures.waves import Placed, place_blocks
from warplab.figures import style

# The full GH100 has 8 GPCs of 9 TPCs of 2 SMs, 6 stacks of HBM with 12 controllers of 512 bits, 60 MB of L2; on an H100
# SXM5 66 TPCs are switched on (NVIDIA, Hopper Architecture In-Depth, H100 GPU architecture). How the 66 are shared out
# is not published and differs from chip to chip. This is one way that gives both halves the same number of SMs, as
# the latencies of an H200's L2 show (benchmarks/results/microbench.json, "l2 half").
TPCS = (9, 8, 9, 8, 8, 8, 8, 8)  # switched on, by GPC: 0 to 3 above the L2, 4 to 7 below it
TPCS_FULL = 9
SMS_A_TPC = 2
STACKS = 6
CONTROLLERS = 12
SMS = SMS_A_TPC * sum(TPCS)

_TPC = 1.0  # the width of a TPC, in units of the drawing
_SM = 0.9  # the height of an SM
_GPC_WIDE = TPCS_FULL * _TPC + 0.5
_GPC_HIGH = SMS_A_TPC * _SM + 1.0
_GAP = 0.5
_L2_HIGH = 1.7
_WIDE = 4 * _GPC_WIDE + 3 * _GAP
_HIGH = 2 * _GPC_HIGH + _L2_HIGH + 2 * _GAP
_EDGE = 3.6  # for controllers and stacks on each side


def chip_map(*, title: str = "") -> Figure:
    """The parts of the chip by name. Not to scale; which TPCs are off is one possibility of many."""
    made, axes = _die(above=1.9)
    for sm in range(SMS):
        _sm(axes, sm, style.BLUE, f"sm {sm}")
    left, bottom = _corner(0)
    _point_at(axes, (left + 0.45, bottom + 1.3), (left - 0.3, _HIGH + 0.9), "an SM")
    _point_at(axes, (left + 2 * _TPC, bottom + 1.95), (left + 3.2, _HIGH + 0.9), "a TPC")
    _point_at(axes, (left + 8.6, bottom + _GPC_HIGH), (left + 9.5, _HIGH + 0.9), "a GPC: up to nine TPCs")
    style.headline(
        made,
        title or f"An H200: {SMS} SMs in eight GPCs, two halves of L2, {STACKS} stacks of memory",
        "hatched: TPCs that are switched off, which ones differs from chip to chip; not to scale",
    )
    return made


def blocks_on_chip(blocks: int, places: int = 1) -> Figure:
    """Where the blocks of a grid are in its last wave, if all take equally long and an SM has so many places.

    A model: SMs get blocks in the order of their number. Raises ValueError for a grid or an SM without a block.
    """
    if blocks < 1 or places < 1:
        raise ValueError("a grid has at least one block, and an SM at least one place")
    placed = place_blocks([1.0] * blocks, SMS, places)
    waves = round(max(one.end for one in placed))
    last = residents(placed, waves - 1)
    made, axes = _die(above=0.3)
    for sm in range(SMS):
        here = last[sm]
        _sm(axes, sm, style.FAINT if not here else style.BLUE, f"sm {sm}: {here}", "" if not here else str(here))
    idle = sum(not here for here in last)
    style.headline(
        made,
        f"{blocks:,} blocks, {places} to an SM: wave {waves} of {waves}",
        f"{idle} of {SMS} SMs have no block in it; over the whole run {blocks / (waves * places * SMS):.0%} of the"
        " places' time is used (modelled)",
    )
    return made


def residents(placed: Sequence[Placed], time: float) -> list[int]:
    """How many blocks each SM holds just after `time`."""
    held = [0] * SMS
    for one in placed:
        held[one.sm] += one.start <= time < one.end
    return held


def explore_blocks_on_chip() -> Explorer:
    """Sliders over the blocks of a grid and the places that an SM has for them."""

    def draw(blocks: int, places_per_SM: int) -> Figure:  # noqa: N803 a label of the slider
        return blocks_on_chip(blocks, places_per_SM)

    return Explorer(draw, blocks=(133, range(1, 801)), places_per_SM=(1, range(1, 9)))


def _die(above: float) -> tuple[Figure, Axes]:
    """All that does not depend on what the SMs do, with so much room above it."""
    made, (axes,) = style.figure(11, 4.5 + above / 3)
    style.canvas(axes)
    axes.set_xlim(-_EDGE - 0.3, _WIDE + _EDGE + 0.3)
    axes.set_ylim(-2.1, _HIGH + above)
    for gpc, on in enumerate(TPCS):
        left, bottom = _corner(gpc)
        _box(axes, left, bottom, _GPC_WIDE, _GPC_HIGH, style.EMPTY, f"gpc {gpc}", edge=style.MUTED)
        axes.text(
            left + _GPC_WIDE - 0.25, bottom + _GPC_HIGH - 0.12, f"GPC {gpc}", va="top", ha="right", size=style.SMALL,
            color=style.MUTED,
        )  # fmt: skip
        for tpc in range(on, TPCS_FULL):
            axes.add_artist(
                Rectangle(
                    (left + 0.25 + tpc * _TPC + 0.06, bottom + 0.15), _TPC - 0.12, SMS_A_TPC * _SM, hatch="/////",
                    facecolor=style.PANEL, edgecolor=style.FAINT, linewidth=0.5, gid="off",
                )
            )  # fmt: skip
    half = (_WIDE - 3 * _GAP) / 2
    for number in range(2):
        left = number * (half + 3 * _GAP)
        _box(axes, left, _GPC_HIGH + _GAP, half, _L2_HIGH, style.SKY, f"l2 {number}", "half of the L2 cache: 30 MiB")
    axes.annotate(
        "", (half + 3 * _GAP, _HIGH / 2), xytext=(half, _HIGH / 2),
        arrowprops={"arrowstyle": "<->", "color": style.INK, "linewidth": 1.2},
    )  # fmt: skip
    high = _HIGH / (STACKS / 2)
    for stack in range(STACKS):
        side, bottom = stack // (STACKS // 2), (stack % (STACKS // 2)) * high
        outer, inner = (-_EDGE, -1.5) if side == 0 else (_WIDE + 1.7, _WIDE + 0.3)
        _box(axes, outer, bottom + 0.15, 1.9, high - 0.3, style.GREEN, f"stack {stack}", "HBM")
        for n in range(CONTROLLERS // STACKS):
            part = (high - 0.3) / 2
            _box(axes, inner, bottom + 0.15 + n * part + 0.06, 1.2, part - 0.12, style.FAINT, "controller", "MC")
    _box(axes, 0, -1.6, _WIDE * 0.62, 0.9, style.FAINT, "nvlink", "NVLink: other GPUs")
    _box(axes, _WIDE * 0.66, -1.6, _WIDE * 0.34, 0.9, style.FAINT, "pcie", "PCIe: the host")
    return made, axes


def _corner(gpc: int) -> tuple[float, float]:
    return (gpc % 4) * (_GPC_WIDE + _GAP), (_GPC_HIGH + _L2_HIGH + 2 * _GAP) if gpc < 4 else 0.0


def _place(sm: int) -> tuple[int, int, int]:
    """GPC, TPC and SM in it, of the SM with this number: neighbours in number are a GPC apart, as far as it goes."""
    order = [(gpc, tpc, one) for tpc in range(TPCS_FULL) for one in range(SMS_A_TPC) for gpc in range(len(TPCS))]
    return [place for place in order if place[1] < TPCS[place[0]]][sm]


def _sm(axes: Axes, sm: int, colour: str, gid: str, text: str = "") -> None:
    gpc, tpc, one = _place(sm)
    left, bottom = _corner(gpc)
    _box(
        axes, left + 0.25 + tpc * _TPC + 0.06, bottom + 0.15 + one * _SM + 0.05, _TPC - 0.12, _SM - 0.1, colour, gid,
        text, size=style.SMALL,
    )  # fmt: skip


def _box(
    axes: Axes, left: float, bottom: float, width: float, height: float, colour: str, gid: str, text: str = "",
    *, edge: str = "none", size: float = style.SMALL,
) -> None:  # fmt: skip
    style.box(axes, (left, bottom), width, height, facecolor=colour, edgecolor=edge, linewidth=0.7, gid=gid)
    if text:
        axes.text(
            left + width / 2, bottom + height / 2, text, ha="center", va="center", size=size, color=style.ink_on(colour)
        )


def _point_at(axes: Axes, part: tuple[float, float], beside: tuple[float, float], name: str) -> None:
    axes.annotate(
        name, part, xytext=beside, size=style.SMALL, color=style.INK, va="center",
        arrowprops={"arrowstyle": "-", "color": style.INK, "linewidth": 0.8},
    )  # fmt: skip
