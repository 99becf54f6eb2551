"""How a matrix lies in memory, and what of it the tensor memory accelerator can read."""

from __future__ import annotations

from dataclasses import dataclass

LINE = 64  # elements in 128 bytes, which a tensor copy reads at once
UNIT = 8  # elements of 2 bytes in 16 bytes: what addresses and pitches of tensor maps are multiples of


@dataclass(frozen=True)
class Matrix:
    """A matrix of 2-byte elements: its size, its strides in elements, and whether it begins at a multiple of 16 bytes.

    `name` is the array that it is in.
    """

    name: str
    rows: int
    columns: int
    down: int  # from row to row
    across: int  # from column to column
    aligned: bool

    @property
    def turned(self) -> Matrix:
        """The transpose, in the same memory."""
        return Matrix(self.name, self.columns, self.rows, self.across, self.down, self.aligned)

    @property
    def has_lines(self) -> bool:
        """Whether rows lie as a whole, each at or behind the one before, so that a pitch says where."""
        return self._steps(self.columns, self.across) and (self.rows == 1 or self.down >= 0)

    @property
    def pitch(self) -> int:
        """Elements from row to row, where rows lie as a whole. A single row has a pitch that maps take."""
        return self.down if self.rows > 1 else up(self.columns, UNIT) * UNIT

    @property
    def mapped(self) -> bool:
        """Whether a tensor map takes it, with rows that lie as a whole."""
        return self.has_lines and self.aligned and self.pitch % UNIT == 0 and self.pitch > 0

    @property
    def extent(self) -> int:
        """Elements from the first one to behind the last one, where rows lie as a whole."""
        return (self.rows - 1) * self.pitch + self.columns

    @staticmethod
    def _steps(count: int, stride: int) -> bool:
        return count == 1 or stride == 1


def packed(name: str, rows: int, columns: int) -> Matrix:
    """A matrix of our own: rows as a whole, each at a multiple of 16 bytes, and of 128 where they are as long."""
    unit = UNIT if columns <= LINE else LINE
    return Matrix(name, rows, columns, up(columns, unit) * unit, 1, True)


def up(number: int, unit: int) -> int:
    """`number` in whole units, rounded up."""
    return -(-number // unit)
