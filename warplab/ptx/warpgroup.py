"""Tensor-core products of a warpgroup, asynchronous and fed from shared memory (PTX ISA, "wgmma"; sm_90a).

Sums of m64nN: warp w of the warpgroup holds rows 16w to 16w + 15. With g = lane // 4 and q = lane % 4, sums 4j to
4j + 3 of a lane are row g columns 8j + 2q and 8j + 2q + 1, then row g + 8 of the same columns.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from numba import cuda

from warplab.ptx.inline import F32, I32, U32, U64, Fragment, Operand, instruction, types

_K = {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32, "s8": 32, "u8": 32}
SWIZZLE_NONE, SWIZZLE_128, SWIZZLE_64, SWIZZLE_32 = range(4)


@cache
def wgmma(
    a: str,
    *,
    n: int,
    b: str | None = None,
    sums: str | None = None,
    a_in_registers: bool = False,
    a_transposed: bool = False,
    b_transposed: bool = False,
    negate_a: bool = False,
    negate_b: bool = False,
) -> Callable:
    """A function `product(d, a, b, accumulate) -> d` that issues wgmma.mma_async.m64nNkK: d += a b, or d = a b.

    `a` and `b` (default: as `a`) name the operands' types: f16, bf16, tf32, e4m3, e5m2, s8 or u8, with k of 16, 8 or
    32; `n` is 8 to 256 in steps of 8; `sums` the type of d (default f32, s32 for integers; f16 with f16 and fp8). An
    operand in shared memory is a descriptor (uint64), `a_in_registers` takes four uint32 instead, laid out as mma's a.
    Transposed operands, 16-bit ones only, lie with m or n contiguous. With `accumulate` 0 (uint32) the old sums are
    ignored. d is a tuple of n / 2 float32 or int32, or n / 4 uint32 (two f16 each).

    Call it at the top level of a file. The sums are there only after wgmma_commit and a wgmma_wait; registers that
    the kernel itself changed need wgmma_fence before. Raises ValueError for a form that PTX does not have.
    """
    b = b or a
    whole = a in ("s8", "u8")
    sums = sums or ("s32" if whole else "f32")
    fits = a == b or {a, b} in ({"e4m3", "e5m2"}, {"s8", "u8"})
    allowed = ("s32",) if whole else ("f32", "f16") if a in ("f16", "e4m3", "e5m2") else ("f32",)
    if a not in _K or not fits or n % 8 or not 8 <= n <= 256 or sums not in allowed:
        raise ValueError(
            f"PTX has no wgmma of m64n{n} with a {a}, b {b} and sums {sums}: see warplab/ptx/warpgroup.py."
        )
    if whole and n % 16 and n not in (8, 24):
        raise ValueError(f"PTX has no wgmma of m64n{n} for integers: n is 8, 24, or a multiple of 16.")
    if (
        (a_transposed or b_transposed)
        and _K[a] != 16
        or a_in_registers
        and a_transposed
        or whole
        and (negate_a or negate_b)
    ):
        raise ValueError(
            f"wgmma transposes only f16 and bf16 in shared memory and negates only floats, not {a} as asked."
        )
    flags = []
    if not whole:
        flags += ["-1" if negate_a else "1", "-1" if negate_b else "1"]
    if _K[a] == 16:
        flags += ([] if a_in_registers else [str(int(a_transposed))]) + [str(int(b_transposed))]
    name = f"wgmma_m64n{n}k{_K[a]}_{a}_{b}_{sums}"
    form = f"wgmma.mma_async.sync.aligned.m64n{n}k{_K[a]}.{sums}.{a}.{b}"
    arguments = ", ".join(["{d}", "{1}", "{2}", "p", *flags])
    text = f"{{ .reg .pred p; setp.ne.b32 p, {{3}}, 0; {form} {arguments}; }}"
    total = {"f32": Fragment(F32, n // 2), "s32": Fragment(I32, n // 2), "f16": Fragment(U32, n // 4)}[sums]
    source: Operand = Fragment(U32, 4) if a_in_registers else U64
    doc = f"{name}(d, a, b, accumulate) -> d: see warplab.ptx.wgmma."
    return instruction(name, text, [total, source, U64, U32], total, updates=True, doc=doc)


@cuda.jit(device=True, inline="always")
def shared_descriptor(address: int, leading: int, stride: int, swizzle: int) -> int:
    """shared_descriptor(address, leading, stride, swizzle) -> uint64: where a matrix lies in shared memory.

    `address`: of its first element, 16-byte aligned; `leading` and `stride`: byte offsets between the matrix's blocks,
    by the tables of the PTX ISA, "Matrix descriptor"; `swizzle`: one of SWIZZLE_NONE, _128, _64, _32. To step along k
    within a swizzled row, add bytes / 16 to the descriptor.
    """
    low = types.uint64(address & 0x3FFFF) >> types.uint64(4) | types.uint64(leading >> 4) << types.uint64(16)
    return low | types.uint64(stride >> 4) << types.uint64(32) | types.uint64(swizzle) << types.uint64(62)


def zeros(count: int, dtype: str = "float32") -> tuple:
    """A tuple of zeros to start sums from: a constant for kernels, made at the top level of a file."""
    import numpy as np

    return (np.dtype(dtype).type(0),) * count


wgmma_fence = instruction(
    "wgmma_fence",
    "wgmma.fence.sync.aligned;",
    doc="wgmma_fence(): order this warp's earlier register and shared-memory accesses before the next wgmma.",
)

wgmma_commit = instruction(
    "wgmma_commit",
    "wgmma.commit_group.sync.aligned;",
    doc="wgmma_commit(): close a group of the products issued since the last one.",
)


@cache
def wgmma_wait(pending: int) -> Callable:
    """A function `wait()` that waits until at most the `pending` youngest groups are on their way.

    Call it at the top level of a file: PTX wants the number at compile time.
    """
    return instruction(
        f"wgmma_wait_{pending}",
        f"wgmma.wait_group.sync.aligned {pending};",
        doc=f"Wait until at most {pending} groups of products are on their way.",
    )
