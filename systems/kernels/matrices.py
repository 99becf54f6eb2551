"""A matrix's layout in memory, and whether the tensor memory accelerator can read it."""

from __future__ import annotations

from dataclasses import dataclass

LINE = 64  # elements in 128 bytes, which a tensor copy reads at once
UNIT = 8  # elements of 2 bytes in 16 bytes; addresses and pitches of tensor maps are multiples of it


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
        """Whether rows are contiguous, each at or behind the one before, so that a pitch gives their places."""
        return self._steps(self.columns, self.across) and (self.rows == 1 or self.down >= 0)

    @property
    def pitch(self) -> int:
        """Elements from row to row, if rows are contiguous. A single row has a pitch that maps take."""
        return self.down if self.rows > 1 else up(self.columns, UNIT) * UNIT

    @property
    def mapped(self) -> bool:
        """Whether a tensor map takes it as contiguous rows."""
        return self.has_lines and self.aligned and self.pitch % UNIT == 0 and self.pitch > 0

    @property
    def extent(self) -> int:
        """Elements from the first one to behind the last one, if rows are contiguous."""
        return (self.rows - 1) * self.pitch + self.columns

    @staticmethod
    def _steps(count: int, stride: int) -> bool:
        return count == 1 or stride == 1


def packed(name: str, rows: int, columns: int) -> Matrix:
    """A matrix in scratch: contiguous rows at multiples of 16 bytes, or of 128 if they are longer than 128."""
    unit = UNIT if columns <= LINE else LINE
    return Matrix(name, rows, columns, up(columns, unit) * unit, 1, True)


def up(number: int, unit: int) -> int:
    """How many units hold `number`."""
    return -(-number // unit)
