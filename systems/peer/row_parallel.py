"""The layer of row_parallel.cu as PTX: its tiles, its shared memory, how its memory is laid out, what it refuses."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from systems.peer.kernels import INCLUDE, PeerError
from warplab.plan.capture.nvrtc import Module, compile_cpp
from warplab.plan.model import TensorMap

SOURCE = Path(__file__).resolve().parent / "row_parallel.cu"
RANKS = 2
TILE_M, TILE_K, PANEL = 128, 64, 64  # rows and k of a stage; columns of a panel
BOX_A, BOX_B, BOX_C = (TILE_K, TILE_M), (PANEL, TILE_K), (PANEL, TILE_M // 2)  # columns and rows of one copy
WIDTHS = (64, 128, 256)  # columns of a tile, as the kernel is compiled for
THREADS = 384  # a warpgroup that brings and sends, two that multiply
HALVES = 2  # of a tile: a warpgroup's rows
MULTIPLE = 8  # numbers in 16 bytes, of which a row of a tensor map has a whole number
_BFLOAT16 = 2  # bytes
_MOST_SHARED = 232448  # bytes of shared memory that a block of Hopper may have
_BESIDE = 1024  # bytes that aligning takes; barriers take less than as many again
_ALIGN = 1024

# As `Pair` in the source.
PAIR = np.dtype(
    [("rank", "u4"), ("most", "u4"), ("slots", "u8"), ("patience", "u8"), ("state", "u8"), ("memory", "u8", (RANKS,))],
    align=True,
)


@dataclass(frozen=True)
class Size:
    """A layer's call: C (m x n) = the sum over ranks of A (m x k) times B (k x n); `k` is one rank's part.

    Raises PeerError for sizes that the kernel cannot do.
    """

    m: int
    n: int
    k: int

    def __post_init__(self) -> None:
        if min(self.m, self.n, self.k) < 1:
            raise PeerError(f"A product of {self.m} x {self.k} and {self.k} x {self.n} is empty.")
        for name, value in (("n", self.n), ("k of a rank", self.k)):
            if value % MULTIPLE:
                raise PeerError(f"{name} is {value}: rows of whole 16 bytes need a multiple of {MULTIPLE}.")

    def tiles(self, width: int) -> int:
        """How many tiles of that many columns C has."""
        return -(-self.m // TILE_M) * -(-self.n // width)

    def width(self, blocks: int) -> int:
        """The widest tile that still gives nine in ten of the blocks one; the narrowest where none does.

        A wide tile multiplies more for each byte that it loads; narrow ones spread few rows' weights over all SMs.
        """
        return next((w for w in reversed(WIDTHS) if 10 * self.tiles(w) >= 9 * blocks), WIDTHS[0])


@dataclass(frozen=True)
class Room:
    """Each rank's memory for layers up to `m` rows and `n` columns: flags, slots for partial sums, and C (m x n)."""

    m: int
    n: int

    @property
    def most(self) -> int:
        """Tiles that flags are there for."""
        return -(-self.m // TILE_M) * -(-self.n // WIDTHS[0])

    @property
    def slots(self) -> int:
        """The byte at which slots begin."""
        return _aligned(2 * self.most * HALVES * 4)

    @property
    def out(self) -> int:
        """The byte at which C begins."""
        down = -(-self.m // TILE_M)
        bytes_by_width = (-(-down * -(-self.n // w) // 2) * TILE_M * w * _BFLOAT16 for w in WIDTHS)
        return _aligned(self.slots + max(bytes_by_width))

    @property
    def nbytes(self) -> int:
        """Bytes of the memory that both ranks write to."""
        return _aligned(self.out + self.m * self.n * _BFLOAT16)

    def holds(self, size: Size) -> None:
        """Raises PeerError if a call is larger than this."""
        if size.m > self.m or size.n > self.n:
            raise PeerError(f"C of {size.m} x {size.n} does not fit the memory, which is for {self.m} x {self.n}.")


def shared_bytes(width: int) -> int:
    """Dynamic shared memory of a block: stages of A and B, a buffer for what is sent, and what aligning takes."""
    stage, buffers = 2 * TILE_K * (TILE_M + width), 2 * TILE_M * width
    return min(8, (_MOST_SHARED - 2 * _BESIDE - buffers) // stage) * stage + buffers + _BESIDE


def tensor_map(name: str, offset: int, rows: int, columns: int, box: tuple[int, int]) -> TensorMap:
    """How a bfloat16 matrix lies from byte `offset` of a buffer on; `box` is the columns and rows of one copy."""
    return TensorMap(name, offset, "bfloat16", (columns, rows), (2 * columns,), box, (1, 1), 128, 128)


def name(width: int) -> str:
    """The kernel's name in C++."""
    return f"row_parallel_kernel<{width}>"


@cache
def compiled(architecture: str) -> Module:
    """PTX with the kernel for all widths; `lowered` has its symbols by C++ name."""
    names = [name(width) for width in WIDTHS]
    return compile_cpp(SOURCE.read_text("utf-8"), SOURCE.name, INCLUDE, names, architecture)


def _aligned(nbytes: int) -> int:
    return -(-nbytes // _ALIGN) * _ALIGN
