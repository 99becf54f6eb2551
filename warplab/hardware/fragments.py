"""Which lane of a warp holds which element of a matrix, in which register: the fragments of `mma`, `ldmatrix`, `wgmma`.

The layouts are those of the PTX ISA ("Matrix fragments for mma.m16n8kK", "ldmatrix", "Register fragments and shared
memory matrix layouts" of wgmma). Lane t belongs to group g = t // 4 as its member q = t % 4; a 32-bit register holds
32 / bits neighbours, or half of one 64-bit element.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "f64": 64}
DEPTHS = {
    "f16": (16, 8), "bf16": (16, 8), "tf32": (8, 4), "e4m3": (32,), "e5m2": (32,), "s8": (32, 16), "u8": (32, 16),
    "f64": (16, 8, 4),
}  # fmt: skip
OPERANDS = ("a", "b", "d")
_GROUPS = 8  # groups of four lanes in a warp: rows of an 8 x 8 matrix


@dataclass(frozen=True, eq=False)
class Fragment:
    """A matrix in the registers of a warp, or of a warpgroup. The three arrays are [rows, columns] of int64."""

    name: str
    letter: str  # of its registers, as in a0, a1
    bits: int  # of an element
    lanes: np.ndarray = field(repr=False)  # of the warp, or thread of the warpgroup
    registers: np.ndarray = field(repr=False)
    parts: np.ndarray = field(repr=False)  # the element's place in its register: 0 is the lowest bits

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        rows, columns = self.lanes.shape
        return rows, columns

    @property
    def threads(self) -> int:
        """32, or 128 for a warpgroup."""
        return int(self.lanes.max()) + 1

    @property
    def registers_a_lane(self) -> int:
        """Registers of `bits` or, for smaller elements, 32 bits."""
        return int(self.registers.max()) + 1

    def of_lane(self, lane: int) -> list[list[tuple[int, int]]]:
        """The (row, column) of the elements in each register of a lane, lowest bits first."""
        held: list[list[tuple[int, int]]] = [[] for _ in range(self.registers_a_lane)]
        for row, column in np.argwhere(self.lanes == lane).tolist():
            held[int(self.registers[row, column])].append((row, column))
        return [sorted(places, key=lambda place: int(self.parts[place])) for places in held]

    def gather(self, matrix: np.ndarray) -> np.ndarray:
        """The elements as the lanes hold them: [threads, registers, elements a register]."""
        held = np.zeros((self.threads, self.registers_a_lane, int(self.parts.max()) + 1), matrix.dtype)
        held[self.lanes, self.registers, self.parts] = matrix
        return held


def mma(operand: str, dtype: str = "f16", k: int = 16, *, sums: str = "f32") -> Fragment:
    """The fragment of mma.sync.m16n8kK for operand "a" (16 x k), "b" (k x 8), or the sums "d" (and c, 16 x 8).

    `sums` is the sums' type, "f32" or "f16" ("s32" and "f64" lie as "f32" does). Raises ValueError for a form that
    PTX does not have.
    """
    if dtype not in BITS or k not in DEPTHS[dtype] or operand not in OPERANDS or sums not in ("f32", "f16"):
        known = "; ".join(f"{name}: k {', '.join(map(str, depths))}" for name, depths in DEPTHS.items())
        raise ValueError(f"there is no operand {operand!r} of mma.m16n8k{k} with {dtype} ({known})")
    name = f"{operand} of mma.m16n8k{k}, {dtype if operand != 'd' else sums}"
    if operand == "d":
        row, column = np.indices((16, 8))
        lanes, upper, odd = 4 * (row % _GROUPS) + column // 2, row // _GROUPS, column % 2
        if sums == "f16":
            return Fragment(name, "d", 16, lanes, upper, odd)
        return Fragment(name, "d", 64 if dtype == "f64" else 32, lanes, 2 * upper + odd, np.zeros_like(odd))
    packed = max(32 // BITS[dtype], 1)  # neighbours along k in a register
    if operand == "a":
        row, along = np.indices((16, k))
        register = along // (4 * packed) * 2 + row // _GROUPS
    else:
        along, row = np.indices((k, 8))
        register = along // (4 * packed)
    lanes = 4 * (row % _GROUPS) + along % (4 * packed) // packed
    return Fragment(name, operand, BITS[dtype], lanes, register, along % packed)


def ldmatrix(*, transposed: bool = False) -> Fragment:
    """The fragment of one 8 x 8 matrix of 16-bit elements that ldmatrix gives, rows as they lie in shared memory."""
    row, column = np.indices((8, 8))
    if transposed:
        row, column = column, row
    name = "an 8 x 8 matrix by ldmatrix" + (".trans" if transposed else "")
    return Fragment(name, "r", 16, 4 * row + column // 2, np.zeros_like(row), column % 2)


def wgmma_sums(n: int) -> Fragment:
    """The sums (64 x n float32) of wgmma.m64nNkK in 128 threads: warp w of the warpgroup holds rows 16 w to 16 w + 15.

    Raises ValueError unless n is one of 8, 16, ... 256.
    """
    if n % 8 or not 8 <= n <= 256:
        raise ValueError(f"the n of wgmma is a multiple of 8 from 8 to 256, not {n}")
    row, column = np.indices((64, n))
    lanes = 32 * (row // 16) + 4 * (row % _GROUPS) + column % 8 // 2
    registers = column // 8 * 4 + row % 16 // _GROUPS * 2 + column % 2
    return Fragment(f"the sums of wgmma.m64n{n}, f32", "d", 32, lanes, registers, np.zeros_like(row))
