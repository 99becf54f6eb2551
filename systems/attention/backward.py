"""The gradients of attention through CuPy: two kernels, on a GPU or, recorded, on the emulator."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

ROWS, THREADS = 64, 128  # as in backward.cu


@cache
def kernels(width: int) -> tuple[Any, Any]:
    """The kernels for heads of `width`, of CuPy's: the gradient of queries, and those of keys and values."""
    import cupy

    code = (Path(__file__).parent / "backward.cu").read_text("utf-8")
    module = cupy.RawModule(code=code, options=("-std=c++17", f"-DWIDTH={width}"))
    found = tuple(module.get_function(name) for name in ("of_queries", "of_keys"))
    for each in found:
        each.max_dynamic_shared_size_bytes = shared_bytes(width)
    return found


def shared_bytes(width: int) -> int:
    """Bytes of a block's tiles: two of its own, and two stages of the two that it walks over."""
    return 6 * ROWS * width * 2


def gradients(
    q: Any, k: Any, v: Any, out: Any, dout: Any, log_total: Any, causal: bool, dq: Any, dk: Any, dv: Any, mean: Any
) -> None:
    """Queue the gradients of out = softmax(q k^T / sqrt(d)) v of each head, given `dout`, that of out.

    All but two are float16 of (heads, n, d), d is 64 or 128; dq, dk and dv are written. log_total is float32 of
    (heads, n): ln of the sum of e^score of each query. mean, of the same form, gets the sum of dout out of each query.
    With `causal` query i sees keys 0 to i. The products are made in float16 with float32 sums, in a fixed order.
    """
    heads, n, width = q.shape
    of_queries, of_keys = kernels(width)
    grid, scale = (-(-n // ROWS), heads), np.float32(1 / math.sqrt(width))
    sizes = (np.int32(n), np.int32(causal), scale)
    shared = shared_bytes(width)
    of_queries(grid, (THREADS,), (q, k, v, out, dout, log_total, mean, dq, *sizes), shared_mem=shared)
    of_keys(grid, (THREADS,), (q, k, v, dout, log_total, mean, dk, dv, *sizes), shared_mem=shared)


def of_host(q: Any, k: Any, v: Any, out: Any, dout: Any, log_total: Any, causal: bool) -> list[Any]:
    """dq, dk and dv for arrays of the host: for the emulator."""
    import cupy

    q, k, v, out, dout, log_total = (cupy.asarray(each) for each in (q, k, v, out, dout, log_total))
    dq, dk, dv = (cupy.empty(q.shape, np.float16) for _ in range(3))
    gradients(q, k, v, out, dout, log_total, causal, dq, dk, dv, cupy.empty(log_total.shape, np.float32))
    return [cupy.asnumpy(each) for each in (dq, dk, dv)]
