"""The order in which blocks make the tiles of a product, and what of A and B those made at the same time share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from course.figures.explore import Explorer
from warplab.figures import style

Tile = tuple[int, int]  # row and column in the grid of tiles


def by_rows(rows: int, columns: int, group: int) -> list[Tile]:
    """One row of tiles after the other; `group` does not matter."""
    return [(row, column) for row in range(rows) for column in range(columns)]


def in_groups(rows: int, columns: int, group: int) -> list[Tile]:
    """`group` rows at a time, walked down column by column."""
    return [
        (row, column)
        for first in range(0, rows, group)
        for column in range(columns)
        for row in range(first, min(first + group, rows))
    ]


def back_and_forth(rows: int, columns: int, group: int) -> list[Tile]:
    """As in groups, but every second group from the right to the left."""
    return [
        (row, columns - 1 - column if first // group % 2 else column)
        for first in range(0, rows, group)
        for column in range(columns)
        for row in range(first, min(first + group, rows))
    ]


def hilbert(rows: int, columns: int, group: int) -> list[Tile]:
    """Along Hilbert's curve over the smallest square that holds the grid, leaving out what lies outside of it.

    Neighbours in the order are neighbours in the grid, at every scale (D. Hilbert, Ueber die stetige Abbildung einer
    Linie auf ein Flaechenstueck, Mathematische Annalen 38, 1891). `group` does not matter.
    """
    side = 1
    while side < max(rows, columns):
        side *= 2
    curve = [_on_curve(number, side) for number in range(side * side)]
    return [(row, column) for row, column in curve if row < rows and column < columns]


def _on_curve(number: int, side: int) -> Tile:
    """Point `number` of the curve in a square of `side`, a power of two: quarter by quarter, the smallest first."""
    row = column = 0
    scale = 1
    while scale < side:
        right = number >> 1 & 1
        down = (number ^ right) & 1
        if not down:
            if right:
                row, column = scale - 1 - row, scale - 1 - column
            row, column = column, row
        row, column = row + scale * down, column + scale * right
        number >>= 2
        scale *= 2
    return row, column


ORDERS: dict[str, Callable[[int, int, int], list[Tile]]] = {
    "by rows": by_rows,
    "in groups": in_groups,
    "back and forth": back_and_forth,
    "Hilbert": hilbert,
}
RUNS = "a run each"  # not one order for all: each block has a run of neighbouring tiles of its own, by rows
CHOICES = (*ORDERS, RUNS)


@dataclass(frozen=True)
class Wave:
    """Tiles made at the same time: the rows of A and columns of B (in tiles) that they need, and how many of those the
    wave before did not."""

    tiles: tuple[Tile, ...]
    rows: int
    columns: int
    new_rows: int
    new_columns: int


@dataclass(frozen=True)
class Product:
    """C (m x n) = A (m x k) B (k x n) in tiles of `tile`, `blocks` at a time; elements of two bytes."""

    m: int
    n: int
    k: int
    tile: tuple[int, int] = (128, 256)
    blocks: int = 132

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of tiles."""
        return -(-self.m // self.tile[0]), -(-self.n // self.tile[1])

    def waves(self, order: str, group: int = 8) -> list[Wave]:
        """The waves of an order, one of CHOICES. Raises ValueError for another, or for a group below 1."""
        if order not in CHOICES or group < 1:
            raise ValueError(f"orders are {', '.join(CHOICES)}, in groups of at least one row of tiles")
        if order == RUNS:
            tiles = by_rows(*self.grid, group)
            each = -(-len(tiles) // self.blocks)
            together = [tiles[number::each] for number in range(each)]
        else:
            tiles = ORDERS[order](*self.grid, group)
            together = [tiles[start : start + self.blocks] for start in range(0, len(tiles), self.blocks)]
        made: list[Wave] = []
        before: tuple[set[int], set[int]] = set(), set()
        for wave in map(tuple, together):
            rows, columns = {row for row, _ in wave}, {column for _, column in wave}
            made.append(Wave(wave, len(rows), len(columns), len(rows - before[0]), len(columns - before[1])))
            before = rows, columns
        return made

    def bytes(self, rows: int, columns: int) -> int:
        """Bytes of so many strips of A and of B, over all of k."""
        return 2 * self.k * (rows * self.tile[0] + columns * self.tile[1])


def tile_order(
    product: Product, order: str = "in groups", group: int = 8, *, coloured: int | None = None, title: str = ""
) -> Figure:
    """Left, the grid of tiles, the first `coloured` waves (default: all) in colours; right, what each wave needs of A
    and B, once: its blocks go along k side by side. What the wave before needed too is pale: where the L2 is large
    enough it may still be there.

    Raises ValueError as `Product.waves`.
    """
    waves = product.waves(order, group)
    down, across = product.grid
    made, (left, right) = style.figure(11.5, 4.6, widths=(1.1, 1))
    left.set_xlim(0, across)
    left.set_ylim(down, 0)
    for number, wave in enumerate(waves):
        face = _colour(number) if coloured is None or number < coloured else style.EMPTY
        for row, column in wave.tiles:
            left.add_artist(
                Rectangle(
                    (column, row), 1, 1, facecolor=face, edgecolor=style.PANEL, linewidth=0.4,
                    gid=f"tile {row} {column} wave {number}",
                )
            )  # fmt: skip
    left.set_xlabel(f"columns of tiles ({product.tile[1]} wide)")
    left.set_ylabel(f"rows of tiles ({product.tile[0]} high)")
    megabytes = [product.bytes(w.rows, w.columns) / 1e6 for w in waves]
    fresh = [product.bytes(w.new_rows, w.new_columns) / 1e6 for w in waves]
    places = range(len(waves))
    colours = [_colour(number) for number in places]
    for bar, name in ((right.barh(places, megabytes, color=colours, alpha=0.35), "needed"),
                      (right.barh(places, fresh, color=colours), "new")):  # fmt: skip
        for number, patch in enumerate(bar.patches):
            patch.set_gid(f"{name} {number}")
    right.set_ylim(len(waves) - 0.4, -0.6)
    right.set_ylabel("wave")
    right.set_xlabel("MB of A and B (pale: the wave before needed it too)")
    total, least = sum(megabytes), product.bytes(down, across) / 1e6
    grouped = order in ("in groups", "back and forth")
    named = f"{order} of {group}" if grouped else order
    style.headline(
        made,
        title or f"Order of tiles: {named}; {product.blocks} at a time",
        f"a wave needs up to {max(megabytes):,.0f} MB of A and B; all waves together {total:,.0f} MB, "
        f"{total / least:.1f} times A and B (modelled, not measured)",
    )
    return made


def explore_tile_order(size: int = 8192) -> Explorer:
    """Choose an order, the rows of a group and the size of a square product."""

    def draw(order: str, group: int, size: int) -> Figure:
        return tile_order(Product(size, size, size), order, group)

    return Explorer(
        draw,
        order=("in groups", list(CHOICES)),
        group=(8, [1, 2, 4, 8, 16, 32]),
        size=(size, [2048, 4096, 8192, 16384]),
    )


def _colour(wave: int) -> str:
    return style.PALETTE[wave % len(style.PALETTE)]
