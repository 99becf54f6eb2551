"""What a tensor map's swizzle does to the rows of a tile in shared memory, and to the banks that a column meets."""

from __future__ import annotations

from collections import Counter

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from course.figures.explore import Explorer
from warplab.figures import style

PIECE, LINE = 16, 128  # bytes: what is moved as one, and what all 32 banks hold side by side
ROWS = 8  # that one matrix of ldmatrix, or one line group of a wgmma operand, reads together
SPANS = (32, 64, 128)
ELEMENTS = {"float32": 4, "float16": 2, "float8": 1}


def place(span: int, row: int, byte: int, *, swizzled: bool = True) -> int:
    """Where byte `byte` of row `row` lies, from the start of a tile that begins at a multiple of 1,024 bytes.

    Rows are `span` bytes (32, 64 or 128) long and lie one after the other. Swizzling XORs the number of the 16-byte
    piece in its span, address bits 4 up, with the number of the 128-byte line, bits 7 up: one bit of it for 32 bytes,
    two for 64, three for 128 (PTX ISA, "Swizzling modes"). Raises ValueError for another span or a byte outside.
    """
    if span not in SPANS:
        raise ValueError(f"a swizzle spans 32, 64 or 128 bytes, not {span}")
    if not 0 <= byte < span or row < 0:
        raise ValueError(f"a row has bytes 0 to {span - 1} and no number below 0: there is no byte {byte} of row {row}")
    plain = row * span + byte
    return plain ^ (plain >> 7 & span // PIECE - 1) << 4 if swizzled else plain


def wavefronts(span: int, piece: int, *, swizzled: bool = True) -> int:
    """Wavefronts that reading 16-byte piece `piece` of rows 0 to 7 takes: one serves each group of four banks once."""
    groups = Counter(place(span, row, piece * PIECE, swizzled=swizzled) % LINE for row in range(ROWS))
    return max(groups.values())


def swizzle(span: int = 128, row: int = 3, column: int = 10, dtype: str = "float16", *, title: str = "") -> Figure:
    """Eight rows of a tile as they lie in shared memory, without and with the swizzle; a line of the picture is one of
    128 bytes, over all 32 banks. A box is a 16-byte piece, marked row.piece; the pieces that one column read asks for
    are filled, and element (`row`, `column`) of `dtype` has a frame. Raises ValueError for what a tile has not."""
    size = ELEMENTS[dtype]
    byte = column * size
    places = [place(span, row, byte, swizzled=swizzled) for swizzled in (False, True)]
    if row >= ROWS:
        raise ValueError(f"eight rows are drawn, 0 to {ROWS - 1}, and no row {row}")
    made, axes = style.figure(11.5, 1.75 + 0.36 * ROWS * span / LINE, widths=(1, 1))
    for drawn, swizzled, at in zip(axes, (False, True), places, strict=True):
        _lines(drawn, span, byte // PIECE, (row, byte // PIECE), swizzled)
        count = wavefronts(span, byte // PIECE, swizzled=swizzled)
        drawn.set_title(
            f"{'with' if swizzled else 'without'} the swizzle: the column takes {count} "
            f"wavefront{'s' * (count > 1)}\nelement at byte {at}: {_bank(at, size)}",
            loc="left", fontsize=style.TEXT, color=style.INK,
        )  # fmt: skip
    style.headline(
        made,
        title or f"{span}-byte swizzle: element ({row}, {column}) of {dtype}, piece {byte // PIECE} of its row",
        "filled: that piece of eight rows, which ldmatrix or wgmma reads at a time; a column of boxes is four banks",
    )
    return made


def explore_swizzle() -> Explorer:
    """Choose the span, the element type and an element; see where it lies and what a column of pieces costs."""
    return Explorer(
        swizzle,
        span=(128, list(SPANS)),
        dtype=("float16", list(ELEMENTS)),
        row=(3, range(ROWS)),
        column=(10, range(64)),
    )


def _bank(at: int, size: int) -> str:
    part = f" from its byte {at % 4}" if size < 4 and at % 4 else ""
    return f"bank {at % LINE // 4}{part}, line {at // LINE}"


def _lines(axes: Axes, span: int, asked: int, chosen: tuple[int, int], swizzled: bool) -> None:
    style.canvas(axes)
    axes.set_xlim(-1.1, LINE / PIECE + 0.1)
    axes.set_ylim(ROWS * span / LINE + 0.15, -0.75)
    for row in range(ROWS):
        for piece in range(span // PIECE):
            at = place(span, row, piece * PIECE, swizzled=swizzled)
            line, slot = at // LINE, at % LINE // PIECE
            colour = style.PALETTE[row % 6] if piece == asked else style.EMPTY
            axes.add_artist(
                Rectangle(
                    (slot, line), 1, 1, facecolor=colour, edgecolor=style.PANEL, linewidth=1.2,
                    gid=f"row {row} piece {piece}",
                )
            )  # fmt: skip
            if (row, piece) == chosen:
                axes.add_artist(
                    Rectangle((slot + 0.04, line + 0.04), 0.92, 0.92, fill=False, edgecolor=style.INK, linewidth=2.2,
                              gid="chosen")
                )  # fmt: skip
            axes.text(
                slot + 0.5, line + 0.52, f"{row}.{piece}", ha="center", va="center", size=style.SMALL,
                color=style.ink_on(colour) if piece == asked else style.MUTED,
            )  # fmt: skip
    for slot in range(LINE // PIECE):
        axes.text(
            slot + 0.5, -0.12, f"{4 * slot}-{4 * slot + 3}", ha="center", va="bottom", size=style.SMALL,
            color=style.MUTED,
        )  # fmt: skip
    axes.text(-0.1, -0.12, "banks", ha="right", va="bottom", size=style.SMALL, color=style.MUTED)
    for line in range(ROWS * span // LINE):
        axes.text(-0.1, line + 0.5, f"line {line}", ha="right", va="center", size=style.SMALL, color=style.MUTED)
