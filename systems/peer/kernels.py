"""The kernels of all_reduce.cu as PTX, how their memory is laid out, and by how many threads they are launched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from warplab.errors import WarplabError
from warplab.plan.capture.nvrtc import Module, compile_cpp

SOURCE = Path(__file__).resolve().parent / "all_reduce.cu"
INCLUDE = (f"-I{SOURCE.parent}",)  # where waiting.cuh is
MOST_RANKS = 8
LINE = UNIT = 16  # bytes in memory: a line of LL, of which half are data; a unit of the two-shot, all data
SETS, ROOMS = 4, 2  # of lines, and of units
KINDS = 3  # of calls, each counted by itself: one-shot and fused, two-shot, LL two-shot
ROW_TURNS = 4  # lines of a row that a thread of the fused kernel holds
WARP, MOST_THREADS = 32, 512
PATIENCE = 2.0  # seconds that a kernel waits for a message before it gives up
CPP_NAMES = {"float32": "float", "float16": "__half", "bfloat16": "__nv_bfloat16"}
ITEMSIZE = {"float32": 4, "float16": 2, "bfloat16": 2}

# As `Team` in the source. `memory` has room for MOST_RANKS addresses, of which the first `ranks` count.
TEAM = np.dtype(
    [
        ("rank", "u4"), ("blocks", "u4"), ("lines", "u4"), ("units", "u4"),
        ("patience", "u8"), ("state", "u8"), ("memory", "u8", (MOST_RANKS,)),
    ],
    align=True,
)  # fmt: skip


class PeerError(WarplabError):
    """An array or a machine that these kernels cannot work with, or a rank that did not answer."""


@dataclass(frozen=True)
class Layout:
    """What each rank's memory has room for. `lines` and `units` are those of one block from one rank."""

    ranks: int
    blocks: int = 64
    lines: int = 2048  # 8 bytes of data each: one-shot up to 1 MiB in all, rows of the fused kernel up to 16 KiB
    units: int = 1024  # 16 bytes each: as the lines are for the LL two-shot, room for 1 MiB for each rank

    @property
    def nbytes(self) -> int:
        """Bytes of the memory that all ranks write to: lines, rooms, flags."""
        each = self.blocks * self.ranks
        return each * (SETS * self.lines * LINE + ROOMS * (self.units * UNIT + 4))

    @property
    def state_bytes(self) -> int:
        """Bytes of a rank's own state: KINDS of calls, two numbers of 4 bytes a block."""
        return KINDS * self.blocks * 8


@dataclass(frozen=True)
class Shape:
    """Blocks and threads of a launch."""

    blocks: int
    threads: int


def one_shot_shape(layout: Layout, nbytes: int, threads: int = 128) -> Shape:
    """As many blocks as there are lines for, `threads` to each; more threads when the blocks are all taken.

    Raises PeerError if the memory has too few lines for so many bytes.
    """
    return _shape("one-shot", layout, nbytes, threads, LINE // 2, layout.lines, 1)


def two_shot_shape(layout: Layout, nbytes: int, threads: int = 256) -> Shape:
    """As `one_shot_shape`, for the two-shot: a rank's share is what the blocks divide."""
    return _shape("two-shot", layout, nbytes, threads, UNIT, layout.units, layout.ranks)


def two_shot_ll_shape(layout: Layout, nbytes: int, threads: int = 128) -> Shape:
    """As `two_shot_shape`, for the LL two-shot."""
    return _shape("LL two-shot", layout, nbytes, threads, LINE // 2, layout.lines, layout.ranks)


def _shape(what: str, layout: Layout, nbytes: int, threads: int, unit: int, room: int, shares: int) -> Shape:
    """For data in units of so many bytes, of which a block has `room` for so many of each share."""
    if nbytes < 1:
        raise PeerError("The array is empty: an all-reduce needs at least one number.")
    share = -(-nbytes // (unit * shares))
    blocks = min(layout.blocks, -(-share // threads))
    each = -(-share // blocks)
    if each > room:
        most = layout.blocks * room * unit * shares
        raise PeerError(f"{nbytes} bytes are too many for the {what}, whose memory has room for {most}.")
    return Shape(blocks, min(MOST_THREADS, _warps(each)))


def row_shape(layout: Layout, rows: int, row_bytes: int) -> Shape:
    """A block a row as long as there are blocks. Raises PeerError for rows that do not fit."""
    if rows < 1 or row_bytes < 1:
        raise PeerError("There are no rows to reduce: the array is empty.")
    if row_bytes % (LINE // 2):
        raise PeerError(f"Rows of {row_bytes} bytes do not fit: they need to be a multiple of {LINE // 2} bytes.")
    lines = row_bytes // (LINE // 2)
    blocks = min(layout.blocks, rows)
    if lines > ROW_TURNS * MOST_THREADS or -(-rows // blocks) * lines > layout.lines:
        raise PeerError(f"{rows} rows of {row_bytes} bytes do not fit: a block has room for {layout.lines} lines of 8.")
    return Shape(blocks, _warps(min(MOST_THREADS, lines)))


def _warps(threads: int) -> int:
    return -(-threads // WARP) * WARP


def fault_in(state: np.ndarray, rank: int, blocks: int) -> str:
    """A sentence about the first of a rank's blocks that waited in vain; "" if none has.

    `state` is that of kinds of calls, each of `blocks` blocks: two numbers a block, as `State` in the source.
    """
    faults = state.reshape(-1, 2)[:, 1]
    if not faults.any():
        return ""
    block = int(np.flatnonzero(faults)[0]) % blocks
    return f"Rank {rank}'s block {block} waited {PATIENCE:g} s for rank {faults.max() - 1}, which sent nothing."


def names(dtype: str, ranks: int) -> dict[str, str]:
    """The kernels' names in C++, by what they do."""
    number = CPP_NAMES[dtype]
    found = {what: f"{what}_kernel<{number}, {ranks}>" for what in ("one_shot", "two_shot", "two_shot_ll", "fused")}
    return found | {"add_norm": f"add_norm_kernel<{number}>"}


@cache
def compiled(dtypes: Sequence[str], ranks: int, architecture: str) -> Module:
    """PTX with the kernels for a tuple of dtypes and a number of ranks; `lowered` has their symbols by C++ name."""
    wanted = [name for dtype in dtypes for name in names(dtype, ranks).values()]
    return compile_cpp(SOURCE.read_text("utf-8"), SOURCE.name, INCLUDE, wanted, architecture)
