"""Compiling and launching the attention of decoding through CuPy: on a GPU or, recorded, on the emulator.

A user calls `Decoding`. It keeps a kernel for a form of heads, and the memory that the kernel's blocks share.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from warplab.ptx import tensor_map

PAGE, WARPS, QUERIES = 64, 4, 8  # as in decode.cu
THREADS = 32 * (WARPS + 1)  # one warp copies
RING_BYTES = 192 << 10  # of a block: an SM of an H100 or H200 has room for one. Two with half the ring are slower


def source() -> str:
    """The kernel, CUDA C++."""
    return (Path(__file__).parent / "decode.cu").read_text("utf-8")


def stages(width: int) -> int:
    """Tiles of keys and values that a block has room for."""
    return RING_BYTES // (4 * PAGE * width)


def part_bytes(width: int) -> int:
    """Bytes of the kernel's `Part`: float32 of the largest scores, the totals and the sums of eight queries."""
    return 4 * QUERIES * (2 + width)


def busy(lengths: Sequence[int], heads: int, blocks: int) -> float:
    """The fraction of the time that blocks are busy, if each page takes equally long: the mean share over the largest.

    `lengths` are keys per sequence, `heads` those of keys. Every block takes an equal share of all pages, whatever
    sequence they belong to, so the largest share is the mean rounded up."""
    pages = heads * sum(-(-length // PAGE) for length in lengths)
    return pages / blocks / -(-pages // blocks)


@cache
def kernel(width: int, group: int, bfloat16: bool) -> Any:
    """The compiled kernel, one of CuPy's."""
    import cupy

    values = {"WIDTH": width, "GROUP": group, "STAGES": stages(width)}
    options = ("-std=c++17", *(f"-D{name}={value}" for name, value in values.items()))
    options += ("-DBFLOAT16",) * bfloat16
    function = cupy.RawModule(code=source(), options=options).get_function("decode")
    function.max_dynamic_shared_size_bytes = RING_BYTES + 1024
    return function


class Decoding:
    """Attention of one query per sequence, for `heads` heads of queries, over a cache of keys and values in pages.

    k and v: (pages, key_heads, 64, width) on the device, in C order, in which a page has 64 keys of each head. The
    width is 64 or 128, and 1 to 8 heads of queries share each head of keys. Elements are float16, or bfloat16 in arrays
    of uint16. At most `most` sequences are decoded at a time. `sms` blocks
    run: give the number of the GPU's SMs. Needs compute capability 9.0.

    Raises ValueError for other forms.
    """

    def __init__(self, k: Any, v: Any, heads: int, most: int, bfloat16: bool = False, sms: int = 132) -> None:
        import cupy

        pages, key_heads, page, width = k.shape
        if page != PAGE or width not in (64, 128) or v.shape != k.shape:
            raise ValueError(
                f"k has the shape {tuple(k.shape)} and v {tuple(v.shape)}. "
                f"Both should be (pages, heads of keys, {PAGE}, 64 or 128)."
            )
        if heads % key_heads or heads // key_heads > QUERIES:
            raise ValueError(
                f"{heads} heads of queries cannot share {key_heads} heads of keys. "
                f"Let 1 to {QUERIES} heads of queries share each head of keys."
            )
        self._most, self._query, self._key_heads, self._sms = most, (heads, width), key_heads, sms
        self._kernel = kernel(width, heads // key_heads, bfloat16)
        rows, dtype = (pages * key_heads, PAGE, width), "bfloat16" if bfloat16 else None
        self._cache = k, v  # the maps need them alive
        self._maps = [tensor_map(array.reshape(rows), (1, PAGE, 64), dtype=dtype) for array in (k, v)]
        self._parts = cupy.empty((2 * sms, part_bytes(width)), np.uint8)
        self._counts = cupy.zeros(most * key_heads, np.uint32)  # the kernel leaves them zero

    def __call__(self, q: Any, table: Any, lengths: Any, out: Any) -> None:
        """Queue out = softmax(q k^T / sqrt(width)) v of each sequence on CuPy's current stream.

        q and out: (sequences, heads, width). table: int32, (sequences, columns), whose row says in which pages a
        sequence's keys lie; entries behind its last page are not read. lengths: int32, (sequences,), keys of each
        sequence, at least 1. All are in C order on the device. Pages may have any content behind a sequence's end.
        Raises ValueError for more sequences than `most`, or another shape.
        """
        sequences, columns = table.shape
        if sequences > self._most:
            raise ValueError(f"There are {sequences} sequences. Make a Decoding for more than {self._most}.")
        shape = (sequences, *self._query)
        for name, array, expected in (("q", q, shape), ("lengths", lengths, (sequences,)), ("out", out, shape)):
            if tuple(array.shape) != expected:
                raise ValueError(f"{name} has the shape {tuple(array.shape)}. It should be {expected}.")
        scale = np.float32(math.log2(math.e) / math.sqrt(shape[2]))  # powers of two take the place of exponentials
        sizes = (np.int32(sequences), np.int32(self._key_heads), np.int32(columns), scale)
        arrays = (q, table, lengths, out, self._parts, self._counts)
        self._kernel((self._sms,), (THREADS,), (*self._maps, *arrays, *sizes), shared_mem=RING_BYTES + 1024)


def decode(q: Any, k: Any, v: Any, table: Any, lengths: Any, sms: int = 132, times: int = 1) -> list[Any]:
    """The results of `times` calls of a `Decoding` with arrays of the host: for the emulator."""
    import cupy

    q, k, v, table, lengths = (cupy.asarray(array) for array in (q, k, v, table, lengths))
    made = Decoding(k, v, q.shape[1], q.shape[0], np.dtype(q.dtype) == np.uint16, sms)
    results = []
    for _ in range(times):
        results.append(cupy.empty(q.shape, q.dtype))
        made(q, table, lengths, results[-1])
    return [cupy.asnumpy(each) for each in results]
