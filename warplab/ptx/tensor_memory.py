"""Blackwell's tensor memory and the tensor core that works on it, by single blocks (PTX ISA, "tcgen05"; sm_100a).

The upper 16 bits of an address are a lane, 0 to 127, and the lower 16 a column, 0 to 511. Row i of 128 rows of sums
lies in lane i, one column per sum. A warp reaches 32 lanes, from 32 times its number modulo 4 on.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from numba import cuda

from warplab.ptx.inline import U32, U64, Fragment, instruction, types

_KINDS = {"f16": (0, 0), "bf16": (1, 1), "tf32": (2, 2), "e4m3": (0, 0), "e5m2": (1, 1), "s8": (1, 1), "u8": (0, 0)}
_KIND_OF = {"f16": "f16", "bf16": "f16", "tf32": "tf32", "e4m3": "f8f6f4", "e5m2": "f8f6f4", "s8": "i8", "u8": "i8"}
_SUMS = {"f16": 0, "f32": 1, "s32": 2}
TENSOR_SWIZZLE_NONE, TENSOR_SWIZZLE_128, TENSOR_SWIZZLE_64, TENSOR_SWIZZLE_32 = 0, 2, 4, 6

tensor_alloc = instruction(
    "tensor_alloc",
    "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [{0}], {1};",
    [U32, U32],
    doc="tensor_alloc(place, columns): a warp allocates columns, a power of two from 32 to 512, and waits until these "
    "are free. Their address goes to shared memory at `place`. Free them with tensor_dealloc.",
)

tensor_dealloc = instruction(
    "tensor_dealloc",
    "tcgen05.dealloc.cta_group::1.sync.aligned.b32 {0}, {1};",
    [U32, U32],
    doc="tensor_dealloc(address, columns): a warp frees all columns of one tensor_alloc.",
)

tensor_relinquish = instruction(
    "tensor_relinquish",
    "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;",
    doc="tensor_relinquish(): this block allocates no more, so another block on its SM need not wait to allocate.",
)

tensor_wait_load = instruction(
    "tensor_wait_load",
    "tcgen05.wait::ld.sync.aligned;",
    doc="tensor_wait_load(): wait for this warp's loads. Use their words only after it.",
)

tensor_wait_store = instruction(
    "tensor_wait_store",
    "tcgen05.wait::st.sync.aligned;",
    doc="tensor_wait_store(): wait for this warp's stores.",
)

tensor_fence_before = instruction(
    "tensor_fence_before",
    "tcgen05.fence::before_thread_sync;",
    doc="tensor_fence_before(): put it before a synchronisation that passes tensor memory on to other threads.",
)

tensor_fence_after = instruction(
    "tensor_fence_after",
    "tcgen05.fence::after_thread_sync;",
    doc="tensor_fence_after(): put it after a synchronisation, before you access tensor memory that other threads "
    "used.",
)

tensor_commit = instruction(
    "tensor_commit",
    "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [{0}];",
    [U32],
    doc="tensor_commit(mbarrier): one arrival at an mbarrier (shared address) when all products and copies that this "
    "thread has issued are done.",
)

tensor_copy = instruction(
    "tensor_copy",
    "tcgen05.cp.cta_group::1.128x256b [{0}], {1};",
    [U32, U64],
    doc="tensor_copy(address, descriptor): one thread copies 128 rows of 32 bytes from shared memory (a descriptor of "
    "tensor_descriptor) to eight columns.",
)


@cache
def tensor_load(count: int) -> Callable:
    """A function `load(address) -> words` that gives each thread `count` columns of its lane, as uint32.

    `count` is a power of two from 1 to 128. All threads of a warp give the same address, whose lane is 32 times the
    warp's number modulo 4. Call it at the top level of a file. The words are there after tensor_wait_load.
    """
    _need_count(count)
    result = U32 if count == 1 else Fragment(U32, count)
    registers = "{{d}}" if count == 1 else "{d}"
    text = f"tcgen05.ld.sync.aligned.32x32b.x{count}.b32 {registers}, [{{0}}];"
    return instruction(f"tensor_load_{count}", text, [U32], result, doc="load(address) -> words: see warplab.ptx.")


@cache
def tensor_store(count: int) -> Callable:
    """A function `store(address, words)` for columns as tensor_load has them: `words` is a tuple of `count` uint32."""
    _need_count(count)
    source = U32 if count == 1 else Fragment(U32, count)
    registers = "{{1}}" if count == 1 else "{1}"
    text = f"tcgen05.st.sync.aligned.32x32b.x{count}.b32 [{{0}}], {registers};"
    return instruction(f"tensor_store_{count}", text, [U32, source], doc="store(address, words): see warplab.ptx.")


def _need_count(count: int) -> None:
    if count not in (1, 2, 4, 8, 16, 32, 64, 128):
        raise ValueError(f"One access cannot have {count} columns of tensor memory: take a power of two from 1 to 128.")


@cache
def tensor_multiply(kind: str, *, a_in_tensor_memory: bool = False) -> Callable:
    """A function `multiply(d, a, b, descriptor, accumulate)` by which one thread issues tcgen05.mma: d += a b.

    `kind` is that of the operands: f16, bf16, tf32, e4m3, e5m2, s8 or u8. d is an address in tensor memory (uint32), a
    and b are descriptors of tensor_descriptor (uint64), or a an address too, and `descriptor` is what
    tensor_instruction gives (uint32). With `accumulate` 0 (uint32) the old sums are ignored. One product has k of 32
    bytes. The sums are there when a tensor_commit behind it has arrived. Call it at the top level of a file.
    """
    if kind not in _KIND_OF:
        raise ValueError(f"tensor_multiply knows the kinds {', '.join(_KIND_OF)}, not {kind!r}.")
    form = f"tcgen05.mma.cta_group::1.kind::{_KIND_OF[kind]}"
    left = "[{1}]" if a_in_tensor_memory else "{1}"
    text = f"{{ .reg .pred p; setp.ne.b32 p, {{4}}, 0; {form} [{{0}}], {left}, {{2}}, {{3}}, p; }}"
    name = f"tensor_multiply_{kind}" + ("_from_memory" if a_in_tensor_memory else "")
    doc = f"{name}(d, a, b, descriptor, accumulate): see warplab.ptx.tensor_multiply."
    return instruction(name, text, [U32, U32 if a_in_tensor_memory else U64, U64, U32, U32], doc=doc)


def tensor_instruction(
    kind: str, m: int, n: int, *, sums: str | None = None, a_transposed: bool = False, b_transposed: bool = False
) -> int:
    """The instruction descriptor of products of m x n: a number for kernels, made at the top level of a file.

    `sums` is f32 (default), f16, or s32 for integers. m is 64 or 128. n is 8 to 256 in steps of 8, or of 16
    with m = 128, for integers from 32 on, and for a transposed b of bytes.

    Raises ValueError for what the tensor core does not have. (PTX ISA, "Instruction descriptor".)
    """
    if kind not in _KIND_OF:
        raise ValueError(f"tensor_instruction knows the kinds {', '.join(_KIND_OF)}, not {kind!r}.")
    whole = kind in ("s8", "u8")
    sums = sums or ("s32" if whole else "f32")
    allowed = ("s32",) if whole else ("f32", "f16") if kind in ("f16", "e4m3", "e5m2") else ("f32",)
    in_bytes = _KIND_OF[kind] in ("f8f6f4", "i8")
    step = 16 if m == 128 or whole and n > 32 or in_bytes and b_transposed else 8
    if m not in (64, 128) or n % step or not step <= n <= 256 or sums not in allowed:
        raise ValueError(f"The tensor core has no product of {m} x {n} with operands of {kind} and sums of {sums}.")
    a, b = _KINDS[kind]
    return _SUMS[sums] << 4 | a << 7 | b << 10 | a_transposed << 15 | b_transposed << 16 | n // 8 << 17 | m // 16 << 24


@cuda.jit(device=True, inline="always")
def tensor_descriptor(address: int, leading: int, stride: int, swizzle: int) -> int:
    """tensor_descriptor(address, leading, stride, swizzle) -> uint64: where an operand lies in shared memory.

    As shared_descriptor of wgmma, but with one of TENSOR_SWIZZLE_NONE, _128, _64, _32. A shared array is aligned as the
    swizzle needs only if its declaration says so: `cuda.shared.array(..., alignment=1024)`.
    """
    low = types.uint64(address & 0x3FFFF) >> types.uint64(4) | types.uint64(leading >> 4) << types.uint64(16)
    high = types.uint64(1) << types.uint64(46) | types.uint64(swizzle) << types.uint64(61)
    return low | types.uint64(stride >> 4) << types.uint64(32) | high
