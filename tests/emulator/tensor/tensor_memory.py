"""Builds PTX around tcgen05 instructions, with operands in shared memory as canonical layouts put them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.emulator.plans import buffer, plan_of
from warplab.emulator import execute
from warplab.plan.execution import Execution
from warplab.plan.model import Pointer, Role

BASE = 1024  # where the first shared array lies in the block's window
WIDTHS = {0: 1, 1: 8, 2: 8, 4: 4, 6: 2}  # code of the swizzle: pieces of 16 bytes in a line
K_BYTES = 32


@dataclass(frozen=True)
class Layout:
    """A canonical layout of the PTX ISA (9.7.16.3.3): where element (row, k) of an operand lies, and its descriptor."""

    rows: int
    element: int  # bytes
    swizzle: int = 0
    transposed: bool = False
    start: int = 0  # from the start of the tile
    width: int = K_BYTES  # of a row

    def places(self) -> np.ndarray:
        """Byte offsets [row, k] in the tile, by the strides of the canonical layout and its swizzle."""
        t, width = 16 // self.element, WIDTHS[self.swizzle]
        leading, stride = (offset // self.element for offset in self.offsets())
        row, k = np.meshgrid(np.arange(self.rows), np.arange(self.width // self.element), indexing="ij")
        lines = 4 if self.swizzle == 1 else 8
        if self.transposed:
            if self.swizzle:
                place = row % t + row // t % width * t + row // (t * width) * leading
                place = place + k % lines * width * t + k // lines * stride
            else:
                place = row % t + row // t * stride + k % 8 * t + k // 8 * leading
        else:
            step = t if self.swizzle else leading
            place = row % 8 * width * t + row // 8 * stride + k % t + k // t * step
        place = place * self.element + self.start
        if self.swizzle == 1:
            return place ^ ((place >> 7 & 3) << 5)
        return place ^ ((place >> 7 & (width - 1)) << 4)

    def offsets(self) -> tuple[int, int]:
        """Leading and stride offset in bytes."""
        width = WIDTHS[self.swizzle]
        atom = 16 * width * (4 if self.swizzle == 1 else 8)
        if self.transposed:
            repeats = -(-self.rows * self.element // (16 * width))
            return (atom, atom * repeats) if self.swizzle else (atom * repeats, atom)
        return (128 * (self.rows // 8) if not self.swizzle else 16, 128 * width)

    def descriptor(self) -> int:
        leading, stride = self.offsets()
        address = BASE + self.start
        return address >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | 1 << 46 | self.swizzle << 61

    def put(self, tile: np.ndarray, matrix: np.ndarray) -> None:
        """Write a matrix [row, k] into the tile's bytes."""
        raw = np.ascontiguousarray(matrix).view(np.uint8).reshape(*matrix.shape, self.element)
        for byte in range(self.element):
            tile[self.places() + byte] = raw[..., byte]


def instruction_descriptor(
    m: int, n: int, d: int = 1, a: int = 0, b: int = 0, transposed: tuple[bool, bool] = (False, False), more: int = 0
) -> int:
    """The instruction descriptor of a product of m x n: codes of the types of D, A and B."""
    return d << 4 | a << 7 | b << 10 | transposed[0] << 15 | transposed[1] << 16 | n >> 3 << 17 | m >> 4 << 24 | more


def names(first: int, count: int) -> str:
    """A register list."""
    return "{" + ", ".join(f"%r{first + i}" for i in range(count)) + "}"


HEADER = """.version 9.0
.target {target}
.address_size 64
.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2) {cluster} {{
    .reg .pred %p<9>; .reg .b16 %h<4>; .reg .b32 %r<300>; .reg .b64 %a<9>; .reg .b64 %d<20>;
    .reg .b32 %t; .reg .b32 %own; .reg .b32 %rank;
    .shared .align 1024 .b8 tile[{bytes}];
    .shared .align 8 .b64 bar; .shared .align 8 .b64 other;
    .shared .align 4 .b32 slot; .shared .align 4 .b32 second;
    mov.u32 %r0, %tid.x;
    shr.u32 %r1, %r0, 5;
    mov.u32 %rank, %cluster_ctarank;
    add.u32 %r5, %r0, %rank;
    setp.eq.u32 %p0, %r5, 0;
    setp.eq.u32 %p3, %r0, 0;
    setp.eq.u32 %p1, %r1, 0;
    setp.lt.u32 %p8, %r0, 128;
    setp.eq.u32 %p2, %r1, 1;
    ld.param.u64 %a0, [p0]; ld.param.u64 %a1, [p1]; ld.param.u64 %a2, [p2];
    mul.wide.u32 %a7, %r0, 16; add.s64 %a0, %a0, %a7;
    mul.wide.u32 %a7, %r0, 4; add.s64 %a1, %a1, %a7; add.s64 %a2, %a2, %a7;
    mul.wide.u32 %a7, %rank, {bytes}; add.s64 %a0, %a0, %a7;
    mul.wide.u32 %a7, %rank, {words}; add.s64 %a1, %a1, %a7;
    mul.wide.u32 %a7, %rank, {out}; add.s64 %a2, %a2, %a7;
    mov.u32 %r3, tile; mad.lo.u32 %r2, %r0, 16, %r3;
    and.b32 %r4, %r1, 3; shl.b32 %r4, %r4, 21;
"""
TILE = """    @%p8 ld.global.v4.b32 {{%r5, %r6, %r7, %r8}}, [%a0 + {at}];
    @%p8 st.shared.v4.b32 [%r2 + {at}], {{%r5, %r6, %r7, %r8}};
"""
START = """    @%p3 mbarrier.init.shared.b64 [bar], 1;
    @%p3 mbarrier.init.shared.b64 [other], 1;
    fence.proxy.async;
    @!%p1 bra NOT_FIRST;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], {columns};
NOT_FIRST:
    bar.sync 0;
    ld.shared.b32 %t, [slot];
    add.u32 %own, %t, %r4;
"""
END = """    bar.sync 0;
    @!%p1 bra NOT_LAST;
    tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %t, {columns};
NOT_LAST:
"""


CLUSTER_BARRIER = "    barrier.cluster.arrive.aligned;\n    barrier.cluster.wait.aligned;\n"
PAIR = (START + CLUSTER_BARRIER).replace("cta_group::1", "cta_group::2")
PAIR_END = (CLUSTER_BARRIER + END).replace("cta_group::1", "cta_group::2")


def kernel(
    body: str,
    size: int = 2048,
    words: int = 1,
    out: int = 1,
    blocks: int = 1,
    columns: int = 256,
    target: str = "sm_100a",
    start: str = START,
    end: str = END,
) -> str:
    """A kernel for four warps or more: `body` finds `size` bytes of a tile in shared memory and `columns` allocated.

    %r0 is the thread, %r1 its warp, %rank the block's rank in the cluster of all `blocks`, %t the allocation's address,
    %own with the warp's lanes; %p0 is true in thread 0 of block 0, %p3 in that of each block, %p1 in warp 0, %p2 in
    warp 1; %a1 and %a2 are the thread's words of the block's input and output.
    """
    start, end = (part.replace("{columns}", str(columns)) for part in (start, end))
    tile = "".join(TILE.format(at=at) for at in range(0, size, 2048))
    cluster = f".reqnctapercluster {blocks}, 1, 1" if blocks > 1 else ""
    head = HEADER.format(target=target, bytes=size, words=512 * words, out=512 * out, cluster=cluster)
    return f"{head}{tile}{start}{body}\n{end}    ret;\n}}"


def run(
    body: str,
    tile: np.ndarray | None = None,
    words: np.ndarray | None = None,
    out: int = 1,
    seed: int | None = None,
    blocks: int = 1,
    threads: int = 128,
    **options: Any,
) -> Execution:
    """Run `body` in such a kernel: `words` [block, register, thread] are its input, `out` registers its output.

    The tile is one for each block. With one block the first dimension may be left out.
    """
    tile = np.zeros(2048 * blocks, np.uint8) if tile is None else tile
    tile = tile.reshape(blocks, -1)
    tile = np.concatenate([tile, np.zeros((blocks, -tile.shape[1] % 2048), np.uint8)], axis=1)
    words = np.zeros((blocks, 1, 128), np.uint32) if words is None else words.reshape(blocks, -1, 128)
    text = kernel(body, tile.shape[1], words.shape[1], out, blocks, **options)
    result = np.zeros((out, 128) if blocks == 1 else (blocks, out, 128), np.uint32)
    arrays = {"tile": tile, "words": words, "out": result}
    buffers = {n: buffer(n, x, Role.OUTPUT if n == "out" else Role.INPUT) for n, x in arrays.items()}
    pointers = tuple(Pointer(n) for n in buffers)
    plan = plan_of(text, "k", buffers, pointers, (blocks,), (threads,), 0, text)
    return execute(plan, {"tile": tile, "words": words}, architecture="sm_100a", seed=seed)


def product(
    descriptor: int, b: int, a: int | str, keep: bool = False, kind: str = "f16", rest: str = "", d: str = "%t",
    scale: int = 0, group: int = 1, masks: tuple[int, ...] = (),
) -> str:  # fmt: skip
    """One tcgen05.mma by thread 0; `a` is a descriptor, or a register with an address in tensor memory.

    `rest` stands before enable-input-d, as do the `masks` of lanes that stay as they are.
    """
    left = f"[{a}]" if isinstance(a, str) else "%d1"
    moves = "" if isinstance(a, str) else f"mov.b64 %d1, {a:#x};"
    scaled = f", {scale}" if scale else ""
    if masks:
        moves += " ".join(f"mov.b32 %r{20 + i}, {mask:#x};" for i, mask in enumerate(masks))
        rest = names(20, len(masks)) + ", "
    return (
        f"    {moves} mov.b64 %d2, {b:#x}; mov.b32 %r10, {descriptor:#x}; setp.ne.u32 %p4, {int(keep)}, 0;\n"
        f"    @%p0 tcgen05.mma.cta_group::{group}.kind::{kind} [{d}], {left}, %d2, %r10, {rest}%p4{scaled};\n"
    )


COMMIT = "    @%p0 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];\n"
AFTER = "    tcgen05.fence::after_thread_sync;\n"
BEFORE = "    tcgen05.fence::before_thread_sync;\n"
BARRIER = "    bar.sync 0;\n"
FENCED = BEFORE + BARRIER + AFTER


def wait(label: str = "WAIT", parity: int = 0) -> str:
    """All threads wait for a phase of `bar`."""
    return f"{label}: mbarrier.try_wait.parity.shared.b64 %p5, [bar], {parity};\n    @!%p5 bra {label};\n"


DONE = COMMIT + wait() + AFTER
WAIT_LOAD = "    tcgen05.wait::ld.sync.aligned;\n"
WAIT_STORE = "    tcgen05.wait::st.sync.aligned;\n"


def load(count: int, shape: str = "32x32b.x{}", address: str = "%own", first: int = 100) -> str:
    """tcgen05.ld into registers from `first` on."""
    return f"    tcgen05.ld.sync.aligned.{shape.format(count)}.b32 {names(first, count)}, [{address}];\n"


def store(count: int, shape: str = "32x32b.x{}", address: str = "%own", first: int = 100) -> str:
    """tcgen05.st of registers from `first` on."""
    return f"    tcgen05.st.sync.aligned.{shape.format(count)}.b32 [{address}], {names(first, count)};\n"


def put(count: int, first: int = 100, at: int = 0) -> str:
    """Registers to the output."""
    return "".join(f"    st.global.b32 [%a2 + {512 * (at + i)}], %r{first + i};\n" for i in range(count))


def take(count: int, first: int = 100, at: int = 0) -> str:
    """Registers from the input."""
    return "".join(f"    ld.global.b32 %r{first + i}, [%a1 + {512 * (at + i)}];\n" for i in range(count))


def fill(columns: int) -> str:
    """The input to the first columns, a word for each lane of a warp."""
    return _by_parts(columns, lambda at, count: take(count, at=at) + store(count, address="%r9")) + WAIT_STORE


def read(columns: int) -> str:
    """The first columns to the output."""
    return _by_parts(columns, lambda at, count: load(count, address="%r9") + WAIT_LOAD + put(count, at=at))


def _by_parts(columns: int, move: Callable[[int, int], str]) -> str:
    parts = ((at, min(columns, 128)) for at in range(0, columns, 128))
    return "".join(f"    add.u32 %r9, %own, {at};\n{move(at, count)}" for at, count in parts)


TYPES = {  # kind, codes of D, A and B, bytes of an element
    "f16": ("f16", 1, 0, 0, 2),
    "bf16": ("f16", 1, 1, 1, 2),
    "f16 x bf16": ("f16", 1, 0, 1, 2),
    "half sums": ("f16", 0, 0, 0, 2),
    "tf32": ("tf32", 1, 2, 2, 4),
    "e4m3": ("f8f6f4", 1, 0, 0, 1),
    "e5m2 x e4m3": ("f8f6f4", 1, 1, 0, 1),
    "s8": ("i8", 2, 1, 1, 1),
    "u8 x s8": ("i8", 2, 0, 1, 1),
}


def encoded(values: np.ndarray, kind: str, code: int) -> np.ndarray:
    """Small whole numbers in the bits of a type."""
    if kind == "i8":
        return values.astype(np.int8)
    if kind == "tf32" or (kind, code) == ("f16", 1):
        bits = values.astype(np.float32).view(np.uint32)
        return bits if kind == "tf32" else (bits >> 16).astype(np.uint16)
    if kind == "f16":
        return values.astype(np.float16)
    if code == 1:
        return (values.astype(np.float16).view(np.uint16) >> 8).astype(np.uint8)
    bits = values.astype(np.float16).view(np.uint16).astype(np.int64)
    return np.where(values == 0, 0, (bits >> 8 & 0x80) | (bits >> 7 & 0xFF) - 64).astype(np.uint8)


def sums(words: np.ndarray, types: str) -> np.ndarray:
    """The words of D as numbers."""
    kind, d = TYPES[types][:2]
    if kind == "i8":
        return words.view(np.int32)
    return words.view(np.float32) if d else (words & 0xFFFF).astype(np.uint16).view(np.float16)


def copy(shape: str, descriptor: int, address: str = "%t") -> str:
    """One tcgen05.cp by thread 0."""
    return f"    mov.b64 %d1, {descriptor:#x};\n    @%p0 tcgen05.cp.cta_group::1.{shape} [{address}], %d1;\n"
