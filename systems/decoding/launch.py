"""Compiling and launching the attention of decoding through CuPy: on a GPU or, recorded, on the emulator.

`Decoding` is what a user calls: it keeps a kernel for a form of heads, and what the kernel's blocks leave each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from warplab.ptx import tensor_map

PAGE, WARPS, QUERIES = 64, 4, 8  # as in attention.cu
THREADS = 32 * (WARPS + 1)  # one warp copies
RING_BYTES = 96 << 10  # of a block: two of them leave an SM of an H100 or H200 room for nothing else
BLOCKS = 2  # per SM


def source() -> str:
    """The kernel, CUDA C++."""
    return (Path(__file__).parent / "attention.cu").read_text("utf-8")


def stages(width: int, blocks: int = BLOCKS) -> int:
    """Tiles of keys and values that a block has room for, with so many blocks per SM."""
    return RING_BYTES * BLOCKS // blocks // (4 * PAGE * width)


def part_bytes(width: int) -> int:
    """Bytes of the kernel's `Part`: float32 of the largest scores, the totals and the sums of eight queries."""
    return 4 * QUERIES * (2 + width)


def busy(lengths: Sequence[int], heads: int, blocks: int) -> float:
    """The share of their time that blocks are busy, if each page takes equally long: the mean share over the largest.

    `lengths` are keys per sequence, `heads` those of keys. Every block takes an equal share of all pages, whatever
    sequence they belong to, so the largest share is the mean rounded up."""
    pages = heads * sum(-(-length // PAGE) for length in lengths)
    return pages / blocks / -(-pages // blocks)


@cache
def kernel(width: int, group: int, bfloat16: bool, blocks: int) -> Any:
    """The compiled kernel, one of CuPy's, for `blocks` of them per SM."""
    import cupy

    values = {"WIDTH": width, "GROUP": group, "STAGES": stages(width, blocks), "BLOCKS": blocks}
    options = ("-std=c++17", *(f"-D{name}={value}" for name, value in values.items()))
    options += ("-DBFLOAT16",) * bfloat16
    function = cupy.RawModule(code=source(), options=options).get_function("decode")
    function.max_dynamic_shared_size_bytes = stages(width, blocks) * 4 * PAGE * width + 1024
    return function


class Decoding:
    """Attention of one query per sequence, for `heads` heads of queries in `key_heads` groups, `width` elements wide.

    The width is 64 or 128, and a group has 1 to 8 heads. Elements are float16, or bfloat16 in arrays of uint16.
    `most` sequences can be decoded at a time. Needs compute capability 9.0. Raises ValueError for other forms.
    """

    def __init__(
        self,
        heads: int,
        key_heads: int,
        width: int,
        most: int,
        bfloat16: bool = False,
        sms: int = 132,  # of an H100 or H200
        blocks: int = BLOCKS,
    ) -> None:
        import cupy

        if width not in (64, 128):
            raise ValueError(f"Heads of {width} elements cannot be decoded. Take heads of 64 or 128.")
        if heads % key_heads or heads // key_heads > QUERIES:
            raise ValueError(
                f"{heads} heads of queries cannot share {key_heads} heads of keys. "
                f"Let 1 to {QUERIES} heads of queries share each head of keys."
            )
        self.width, self.heads, self.key_heads, self.most = width, heads, key_heads, most
        self._grid = blocks * sms
        self._kernel = kernel(width, heads // key_heads, bfloat16, blocks)
        self._shared = stages(width, blocks) * 4 * PAGE * width + 1024
        self._bfloat16 = bfloat16
        self._parts = cupy.empty((2 * self._grid, part_bytes(width)), np.uint8)
        self._counts = cupy.zeros(most * key_heads, np.uint32)  # the kernel leaves them zero

    def __call__(self, q: Any, k: Any, v: Any, table: Any, lengths: Any, out: Any) -> None:
        """Queue out = softmax(q k^T / sqrt(width)) v of each sequence on CuPy's current stream.

        q and out: (sequences, heads, width). k and v: (pages, key_heads, 64, width), in which a page has 64 keys of
        each head. table: int32, (sequences, columns), whose row says in which pages a sequence's keys lie; entries
        behind its last page are not read. lengths: int32, (sequences,), keys of each sequence, at least 1. All are in
        C order on the device. Rows of pages behind a sequence's end may have any content.
        Raises ValueError for more sequences than `most`, or another shape.
        """
        sequences, columns = table.shape
        if sequences > self.most:
            raise ValueError(f"There are {sequences} sequences. Make a Decoding for more than {self.most}.")
        pages = (k.shape[0], self.key_heads, PAGE, self.width)
        expected = {
            "q": (q, (sequences, self.heads, self.width)),
            "k": (k, pages),
            "v": (v, pages),
            "lengths": (lengths, (sequences,)),
            "out": (out, (sequences, self.heads, self.width)),
        }
        for name, (array, shape) in expected.items():
            if tuple(array.shape) != shape:
                raise ValueError(f"{name} has the shape {tuple(array.shape)}. It should be {shape}.")
        rows = (pages[0] * self.key_heads, PAGE, self.width)
        dtype = "bfloat16" if self._bfloat16 else None
        maps = [tensor_map(array.reshape(rows), (1, PAGE, 64), dtype=dtype) for array in (k, v)]
        scale = np.float32(math.log2(math.e) / math.sqrt(self.width))  # powers of two take the place of exponentials
        sizes = (np.int32(sequences), np.int32(self.key_heads), np.int32(columns), scale)
        self._kernel(
            (self._grid,),
            (THREADS,),
            (*maps, q, table, lengths, out, self._parts, self._counts, *sizes),
            shared_mem=self._shared,
        )


def decode(
    q: Any, k: Any, v: Any, table: Any, lengths: Any, sms: int = 132, times: int = 1, blocks: int = BLOCKS
) -> list[Any]:
    """The results of `times` calls of a `Decoding` with arrays of the host: for the emulator."""
    import cupy

    arrays = [cupy.asarray(array) for array in (q, k, v, table, lengths)]
    made = Decoding(q.shape[1], k.shape[1], q.shape[2], q.shape[0], np.dtype(q.dtype) == np.uint16, sms, blocks)
    results = []
    for _ in range(times):
        results.append(cupy.empty(q.shape, q.dtype))
        made(*arrays, results[-1])
    return [cupy.asnumpy(each) for each in results]
