"""Where the 32 lanes of one warp access land: in which sectors of global memory, in which banks of shared memory."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle

from course.figures.explore import Explorer
from warplab.figures import style
from warplab.hardware.requests import (
    BANKS,
    LANES,
    LINE,
    SECTOR,
    WORD,
    Addresses,
    BankAccess,
    SectorAccess,
    Wavefront,
    banks_of,
    sectors_of,
)

__all__ = [
    "BankAccess", "SectorAccess", "Wavefront", "banks_of", "explore_stride", "lanes_to_banks", "lanes_to_sectors",
    "sectors_of",
]  # fmt: skip

_ROWS_DRAWN = 32  # more wavefronts than this are counted but not drawn


def lanes_to_sectors(addresses: Addresses, size: int = 4, *, title: str = "") -> Figure:
    """Each lane, joined to the 32-byte sectors that it touches; in a sector, the words used are filled.

    `addresses`: 32 byte addresses, None for an idle lane; `size`: bytes a lane. Raises ValueError as `sectors_of`.
    """
    access = sectors_of(addresses, size)
    used = {
        word
        for address in addresses
        if address is not None
        for word in range(address // WORD, (address + size - 1) // WORD + 1)
    }
    made, (axes,) = style.figure(11, 3.6)
    style.canvas(axes)
    axes.set_xlim(-0.3, LANES + 0.3)
    axes.set_ylim(-1.55, 3.1)

    boxes, width = _sector_boxes(access.sectors)
    for number, (sector, left) in enumerate(boxes.items()):
        colour = style.PALETTE[number % 5]
        cell = width / (SECTOR // WORD)
        for word in range(SECTOR // WORD):
            filled = sector * (SECTOR // WORD) + word in used
            axes.add_artist(
                Rectangle(
                    (left + word * cell, 0),
                    cell,
                    0.6,
                    facecolor=colour if filled else style.EMPTY,
                    edgecolor=style.PANEL,
                    linewidth=0.6,
                    gid="used" if filled else "unused",
                )
            )
        axes.add_artist(
            Rectangle((left, 0), width, 0.6, fill=False, edgecolor=style.INK, linewidth=0.9, gid=f"sector {sector}")
        )
    _label_sectors(axes, boxes, width)
    for lane, touched in enumerate(access.lanes):
        colour = style.PALETTE[access.sectors.index(touched[0]) % 5] if touched else style.EMPTY
        _lane_box(axes, lane, 2.2, colour)
        for sector in touched:
            axes.plot(
                [lane + 0.5, _landing(addresses[lane], size, sector, boxes[sector], width)],
                [2.2, 0.6],
                color=colour,
                linewidth=1,
                alpha=0.8,
                zorder=0,
            )
    _row_names(axes, ((2.5, "lanes"), (0.3, "sectors")))
    active = sum(bool(touched) for touched in access.lanes)
    share = access.bytes_asked / access.bytes_moved if access.sectors else 0.0
    style.headline(
        made,
        title or "One global-memory request",
        f"{active} lanes x {size} bytes: {_count(len(access.sectors), 'sector')} of 32 bytes move, "
        f"{100 * share:.3g}% of their bytes are used",
    )
    return made


def explore_stride(size: int = 4) -> Explorer:
    """A slider over how far apart neighbouring lanes read, in elements of `size` bytes."""

    def draw(stride: int) -> Figure:
        addresses = [size * stride * lane for lane in range(LANES)]
        return lanes_to_sectors(addresses, size, title=f"x[{stride} * lane], elements of {size} bytes")

    return Explorer(draw, stride=(2, range(1, 33)))


def _sector_boxes(sectors: Sequence[int]) -> tuple[dict[int, float], float]:
    """The left edge of each sector's box, with a gap where addresses jump, and the width of a box."""
    gaps = [0.0]
    for before, after in zip(sectors, sectors[1:], strict=False):
        gaps.append(0.0 if after == before + 1 else 1.0)
    width = min(LANES / max(len(sectors) + 0.3 * sum(gaps), 1), 4.0)
    total = len(sectors) * width + 0.3 * width * sum(gaps)
    left = (LANES - total) / 2
    boxes = {}
    for sector, gap in zip(sectors, gaps, strict=False):
        left += 0.3 * width * gap
        boxes[sector] = left
        left += width
    return boxes, width


def _landing(address: int | None, size: int, sector: int, left: float, width: float) -> float:
    """Where a lane's line meets a sector: at the middle of the bytes that it takes from it."""
    assert address is not None
    first = max(address, sector * SECTOR) - sector * SECTOR
    last = min(address + size, (sector + 1) * SECTOR) - sector * SECTOR
    return left + width * (first + last) / 2 / SECTOR


def _label_sectors(axes: Axes, boxes: dict[int, float], width: float) -> None:
    """Byte offsets under the first sector of each run, and a bracket under each 128-byte line that is touched."""
    previous = None
    crowded = width < 1.6
    for number, (sector, left) in enumerate(boxes.items()):
        starts_run = previous is None or sector != previous + 1
        if starts_run and not (crowded and number % 4):
            axes.text(left, -0.12, f"{sector * SECTOR}", va="top", ha="left", size=style.SMALL, color=style.MUTED)
        previous = sector
    lines: dict[int, list[float]] = {}
    for sector, left in boxes.items():
        lines.setdefault(sector * SECTOR // LINE, []).append(left)
    for lefts in lines.values():
        start, end = min(lefts) + 0.04, max(lefts) + width - 0.04
        axes.plot([start, start, end, end], [-0.6, -0.72, -0.72, -0.6], color=style.MUTED, linewidth=0.9)
    axes.text(
        LANES / 2,
        -0.9,
        f"{_count(len(lines), 'cache line')} of 128 bytes; numbers are byte addresses",
        ha="center",
        va="top",
        size=style.SMALL,
        color=style.MUTED,
    )


def lanes_to_banks(
    addresses: Addresses, size: int = 4, *, write: bool = False, matrix: bool = False, title: str = ""
) -> Figure:
    """Which lanes each of the 32 banks serves in each wavefront; wavefronts that conflicts add are red.

    `addresses`: 32 byte addresses in shared memory, None for an idle lane; `size`: bytes a lane; `write` and `matrix`
    as for `banks_of`. Raises ValueError as it does.
    """
    access = banks_of(addresses, size, write=write, matrix=matrix)
    drawn = access.wavefronts[:_ROWS_DRAWN]
    row_height = 0.36 if len(drawn) <= 8 else 0.2  # inches
    header = 0.25 / row_height  # rows
    made, (axes,) = style.figure(11, 0.75 + row_height * (max(len(drawn), 1) + header))
    style.canvas(axes)
    axes.set_xlim(-3.2, BANKS + 0.1)
    axes.set_ylim(max(len(drawn), 1), -header)
    for bank in range(BANKS):
        axes.text(bank + 0.5, -0.1, f"{bank}", ha="center", va="bottom", size=style.SMALL, color=style.MUTED)
    axes.text(-0.3, -0.1, "bank", ha="right", va="bottom", size=style.SMALL, color=style.MUTED)
    for row, wavefront in enumerate(drawn):
        axes.text(-0.3, row + 0.5, f"wavefront {row + 1}", ha="right", va="center", size=style.SMALL, color=style.INK)
        for bank in range(BANKS):
            _bank_cell(axes, bank, row, wavefront)
    extra = f", {_count(access.conflicts, 'bank conflict')}" if access.conflicts else ", no bank conflicts"
    hidden = len(access.wavefronts) - len(drawn)
    style.headline(
        made,
        title or "One shared-memory request",
        f"{_count(len(access.wavefronts), 'wavefront')}{extra}; in each cell the lanes served"
        + (f"; {hidden} more wavefronts are not drawn" if hidden else ""),
    )
    return made


def _bank_cell(axes: Axes, bank: int, row: int, wavefront: Wavefront) -> None:
    served = wavefront.served.get(bank)
    face = style.EMPTY if served is None else style.RED if wavefront.conflict else style.BLUE
    gid = "idle" if served is None else f"word {served[0]}"
    style.box(axes, (bank, row), 1, 1, facecolor=face, edgecolor=style.PANEL, linewidth=1.2, gid=gid)
    if served is not None:
        text = _lane_names(served[1])
        in_lines = text if len(text) < 4 else text.replace("-", "-\n")  # as wide as a cell
        axes.text(bank + 0.5, row + 0.5, in_lines, ha="center", va="center", size=style.SMALL, color=style.ink_on(face))


def _lane_names(lanes: tuple[int, ...]) -> str:
    if len(lanes) == 1:
        return f"{lanes[0]}"
    if lanes == tuple(range(lanes[0], lanes[-1] + 1)):
        return f"{lanes[0]}-{lanes[-1]}"
    return f"{lanes[0]}+{len(lanes) - 1}"


def _lane_box(axes: Axes, lane: int, bottom: float, colour: str) -> None:
    axes.add_artist(
        FancyBboxPatch(
            (lane + 0.08, bottom),
            0.84,
            0.6,
            boxstyle="round,pad=0,rounding_size=0.12",
            facecolor=colour,
            edgecolor="none",
            gid=f"lane {lane}",
        )
    )
    axes.text(
        lane + 0.5, bottom + 0.3, f"{lane}", ha="center", va="center", size=style.SMALL, color=style.ink_on(colour)
    )


def _row_names(axes: Axes, names: Sequence[tuple[float, str]]) -> None:
    for height, name in names:
        axes.text(-0.4, height, name, ha="right", va="center", size=style.TEXT, color=style.MUTED)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
