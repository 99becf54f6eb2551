"""Builds PTX around tcgen05 instructions, with operands in shared memory as canonical layouts put them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tests.emulator.plans import buffer, plan_of
from warplab.emulator import execute
from warplab.plan.execution import Execution
from warplab.plan.model import Plan, Pointer, Role

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

    def places(self) -> np.ndarray:
        """Byte offsets [row, k] in the tile, by the strides of the canonical layout and its swizzle."""
        t, width = 16 // self.element, WIDTHS[self.swizzle]
        leading, stride = (offset // self.element for offset in self.offsets())
        row, k = np.meshgrid(np.arange(self.rows), np.arange(K_BYTES // self.element), indexing="ij")
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
.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2) {{
    .reg .pred %p<9>; .reg .b16 %h<4>; .reg .b32 %r<300>; .reg .b64 %a<9>; .reg .b64 %d<20>;
    .reg .b32 %t; .reg .b32 %own;
    .shared .align 1024 .b8 tile[{bytes}];
    .shared .align 8 .b64 bar; .shared .align 8 .b64 other;
    .shared .align 4 .b32 slot; .shared .align 4 .b32 second;
    mov.u32 %r0, %tid.x;
    shr.u32 %r1, %r0, 5;
    setp.eq.u32 %p0, %r0, 0;
    setp.eq.u32 %p1, %r1, 0;
    setp.eq.u32 %p2, %r1, 1;
    ld.param.u64 %a0, [p0]; ld.param.u64 %a1, [p1]; ld.param.u64 %a2, [p2];
    mul.wide.u32 %a7, %r0, 16; add.s64 %a0, %a0, %a7;
    mul.wide.u32 %a7, %r0, 4; add.s64 %a1, %a1, %a7; add.s64 %a2, %a2, %a7;
    mov.u32 %r3, tile; mad.lo.u32 %r2, %r0, 16, %r3;
    and.b32 %r4, %r1, 3; shl.b32 %r4, %r4, 21;
"""
TILE = """    ld.global.v4.b32 {{%r5, %r6, %r7, %r8}}, [%a0 + {at}];
    st.shared.v4.b32 [%r2 + {at}], {{%r5, %r6, %r7, %r8}};
"""
START = """    @%p0 mbarrier.init.shared.b64 [bar], 1;
    @%p0 mbarrier.init.shared.b64 [other], 1;
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


def kernel(
    body: str, size: int = 2048, columns: int = 256, target: str = "sm_100a", start: str = START, end: str = END
):
    """A kernel for four warps, whose `body` finds `size` bytes of a tile in shared memory and `columns` allocated.

    %r0 is the thread, %r1 its warp, %t the allocation's address, %own with the warp's lanes; %p0 is true in thread 0,
    %p1 in warp 0, %p2 in warp 1; %a1 and %a2 are the thread's words of the input and of the output.
    """
    start, end = (part.replace("{columns}", str(columns)) for part in (start, end))
    tile = "".join(TILE.format(at=at) for at in range(0, size, 2048))
    head = HEADER.format(target=target, bytes=size)
    return f"{head}{tile}{start}{body}\n{end}    ret;\n}}"


def plan(text: str, tile: np.ndarray, words: np.ndarray, out: int, threads: int = 128) -> Plan:
    """Run with `words` [register, thread] as input and `out` registers of output."""
    arrays = {"tile": tile, "words": words, "out": np.zeros((out, threads), np.uint32)}
    buffers = {n: buffer(n, x, Role.OUTPUT if n == "out" else Role.INPUT) for n, x in arrays.items()}
    return plan_of(text, "k", buffers, tuple(Pointer(n) for n in buffers), (1,), (threads,), 0, text)


def run(
    body: str,
    tile: np.ndarray | None = None,
    words: np.ndarray | None = None,
    out: int = 1,
    seed: int | None = None,
    threads: int = 128,
    **options,
) -> Execution:
    """Run `body` in such a kernel."""
    tile = np.zeros(2048, np.uint8) if tile is None else np.concatenate([tile, np.zeros(-len(tile) % 2048, np.uint8)])
    words = np.zeros((1, threads), np.uint32) if words is None else words
    text = kernel(body, len(tile), **options)
    arrays = {"tile": tile, "words": words}
    return execute(plan(text, tile, words, out, threads), arrays, architecture="sm_100a", seed=seed)


def product(
    descriptor: int, b: int, a: int | str, keep: bool = False, kind: str = "f16", rest: str = "", d: str = "%t",
    scale: int = 0,
) -> str:  # fmt: skip
    """One tcgen05.mma by thread 0; `a` is a descriptor, or a register with an address in tensor memory."""
    left = f"[{a}]" if isinstance(a, str) else "%d1"
    moves = "" if isinstance(a, str) else f"mov.b64 %d1, {a:#x};"
    scaled = f", {scale}" if scale else ""
    return (
        f"    {moves} mov.b64 %d2, {b:#x}; mov.b32 %r10, {descriptor:#x}; setp.ne.u32 %p4, {int(keep)}, 0;\n"
        f"    @%p0 tcgen05.mma.cta_group::1.kind::{kind} [{d}], {left}, %d2, %r10, {rest}%p4{scaled};\n"
    )


COMMIT = "    @%p0 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];\n"
AFTER = "    tcgen05.fence::after_thread_sync;\n"
BEFORE = "    tcgen05.fence::before_thread_sync;\n"
BARRIER = "    bar.sync 0;\n"


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
