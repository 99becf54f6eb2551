"""Two forms of half-precision products without a ring of stages: `few.cu` and `thin.cu`.

`few.cu` is for a factor with few rows or columns, `thin.cu` for a small k. They start faster than the forms of
`systems.search.half_product`, read rows or columns from any address without a copy, and write c with any strides.

A product has lines and vectors here: the long factor's rows or columns are lines, those of the other are vectors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from systems.kernels.matrices import Matrix, up
from systems.kernels.recipes import Code
from warplab.plan.model import Argument, Launch, Pointer, Value

MOST_VECTORS = 32  # that `few.cu` takes
SIDE = 64  # rows and columns of a tile of `thin.cu`
THIN_THREADS = 256


@dataclass(frozen=True)
class Thin:
    """`thin.cu`: k is small, so that writing c takes longest."""

    @property
    def name(self) -> str:
        """The name of the form, as records have it."""
        return "thin"

    def takes(self, m: int, n: int, k: int) -> bool:
        """Whether a grid can have as many blocks as c has tiles."""
        return up(m, SIDE) * up(n, SIDE) < 2**31

    def launch(self, a: Matrix, b: Matrix, c: Matrix, bfloat16: bool) -> tuple[Code, Launch]:
        """The code and the launch of c = a b, for matrices with any strides."""
        arguments = _strided(c)
        arguments += tuple(Value("int32", size) for size in (c.rows, c.columns, a.columns))
        arguments += (*_strided(a), *_strided(b))
        defined = {"BFLOAT16": bfloat16, "A_ALONG": a.across == 1, "B_ALONG": b.down == 1, "ROWS": c.across == 1}
        code = Code(("loose.cuh", "thin.cu"), "product", (*_type(bfloat16), *_numbers(defined)))
        blocks = up(c.rows, SIDE) * up(c.columns, SIDE)
        return code, Launch("product", (blocks, 1, 1), (THIN_THREADS, 1, 1), arguments)


@dataclass(frozen=True)
class Few:
    """`few.cu`: m or n is small. Clusters of `splits` blocks with `warps` warps each share the k of the same lines."""

    warps: int
    splits: int

    @property
    def name(self) -> str:
        """The name of the form, as records have it."""
        return f"few_{self.warps}_{self.splits}"

    def takes(self, m: int, n: int, k: int) -> bool:
        """Whether one factor has few enough vectors, and k is long enough for so many warps."""
        return min(m, n) <= MOST_VECTORS and k > 16 * (self.warps * self.splits - 1)

    def steps(self, vectors: int, k: int, down: bool, loose: bool) -> int:
        """Steps of k whose loads a warp has in flight: what its registers hold, and no more than its part of k has.

        `down`: lines lie side by side in memory. `loose`: they begin at any address.
        """
        most = 4 >> (down or loose) >> (vectors > 16)
        share = up(k, depth_per_step(down) * self.warps * self.splits)
        return min(most, 1 << (share.bit_length() - 1))

    def launch(self, a: Matrix, b: Matrix, c: Matrix, bfloat16: bool) -> tuple[Code, Launch]:
        """The code and the launch of c = a b, for contiguous rows or columns of a and b and any strides of c."""
        if c.rows < c.columns:
            a, b, c = b.turned, a.turned, c.turned
        down = not (a.has_lines and (a.mapped or not a.turned.mapped))
        lines = a.turned if down else a
        wide = b.down == 1 and b.turned.mapped
        eighths = up(c.columns, 8)
        steps = self.steps(8 * eighths, a.columns, down, not lines.mapped)
        defined = {
            "LINES_DOWN": int(down),
            "LOOSE": int(not lines.mapped),
            "WIDE": int(wide),
            "EIGHTS": eighths,
        }
        defined |= {"WARPS": self.warps, "SPLITS": self.splits, "STEPS": steps}
        code = Code(("loose.cuh", "few.cu"), "product", (*_type(bfloat16), *_numbers(defined)))
        arguments = _strided(c)
        arguments += tuple(Value("int32", size) for size in (c.rows, c.columns, a.columns))
        arguments += (Pointer(lines.name), Value("uint64", lines.extent), Value("uint64", lines.pitch))
        arguments += _strided(b)
        high = lines_per_warp(down)
        shared = 4 * self.warps * high * (8 * eighths + 2)
        grid = (up(c.rows, high) * self.splits, 1, 1)
        return code, Launch("product", grid, (32 * self.warps, 1, 1), arguments, shared, (self.splits, 1, 1))


FORMS: tuple[Thin | Few, ...] = (Thin(), *(Few(warps, splits) for warps in (1, 2, 4, 8) for splits in (1, 2, 4, 8)))


def lines_per_warp(down: bool) -> int:
    """Lines whose sums a warp of `few.cu` holds: more if they lie side by side in memory (`down`)."""
    return 64 if down else 16


def depth_per_step(down: bool) -> int:
    """Elements of k that a warp of `few.cu` multiplies per step."""
    return 16 if down else 32


def _type(bfloat16: bool) -> tuple[tuple[str, str], ...]:
    return (("TYPE", '"bf16"' if bfloat16 else '"f16"'),)


def _numbers(defined: Mapping[str, int]) -> tuple[tuple[str, str], ...]:
    return tuple((name, str(int(number))) for name, number in defined.items())


def _strided(matrix: Matrix) -> tuple[Argument, ...]:
    return Pointer(matrix.name), Value("int64", matrix.down), Value("int64", matrix.across)
