"""Builds PTX around one or several wgmma instructions, with operands in shared memory as canonical layouts put them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.emulator.plans import buffer, plan_of
from warplab.emulator import execute
from warplab.plan.execution import Execution
from warplab.plan.model import Pointer, Role

BASE = 1024  # where the first shared array lies in the block's window
WIDTHS = {0: 1, 1: 8, 2: 4, 3: 2}  # swizzle field: pieces of 16 bytes in a line


@dataclass(frozen=True)
class Layout:
    """A canonical layout of the PTX ISA: where element (row, k) of an operand lies, and the descriptor that says so."""

    rows: int
    element: int  # bytes
    swizzle: int = 0
    transposed: bool = False
    start: int = 0  # from the start of the tile

    def places(self) -> np.ndarray:
        """Byte offsets [row, k] in the tile, by the strides of the canonical layout and its swizzle."""
        t, width = 16 // self.element, WIDTHS[self.swizzle]
        leading, stride = (offset // self.element for offset in self.offsets())
        row, k = np.meshgrid(np.arange(self.rows), np.arange(32 // self.element), indexing="ij")
        if self.transposed:
            if self.swizzle:
                place = row % t + row // t % width * t + row // (t * width) * leading
                place = place + k % 8 * width * t + k // 8 * stride
            else:
                place = row % t + row // t * stride + k % 8 * t + k // 8 * leading
        else:
            step = t if self.swizzle else leading
            place = row % 8 * width * t + row // 8 * stride + k % t + k // t * step
        place = place * self.element + self.start
        return place ^ ((place >> 7 & (width - 1)) << 4)

    def offsets(self) -> tuple[int, int]:
        """Leading and stride offset in bytes, with a gap between the parts where there can be one."""
        atom = 128 * WIDTHS[self.swizzle]
        if self.transposed:
            repeats = -(-self.rows * self.element // (16 * WIDTHS[self.swizzle]))
            return (atom, atom * repeats) if self.swizzle else (atom * repeats, atom)
        return (128 * (self.rows // 8) if not self.swizzle else 16, atom)

    def descriptor(self) -> int:
        leading, stride = self.offsets()
        address = BASE + self.start
        return address >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | self.swizzle << 62

    def put(self, tile: np.ndarray, matrix: np.ndarray) -> None:
        """Write a matrix [row, k] into the tile's bytes."""
        raw = np.ascontiguousarray(matrix).view(np.uint8).reshape(*matrix.shape, self.element)
        for byte in range(self.element):
            tile[self.places() + byte] = raw[..., byte]


def accumulators(matrix: np.ndarray) -> np.ndarray:
    """D [64, n] of 16 or 32 bits as registers: [register, thread]."""
    lane = np.arange(128) % 32
    row, q = np.arange(128) // 32 * 16 + lane // 4, lane % 4
    n = matrix.shape[1]
    registers = []
    for i in range(n // 2):
        registers.append(matrix[row + i // 2 % 2 * 8, i // 4 * 8 + 2 * q + i % 2])
    if matrix.itemsize == 2:
        pairs = [np.stack(registers[i : i + 2], axis=1) for i in range(0, len(registers), 2)]
        registers = [np.ascontiguousarray(p).view(np.uint32)[:, 0] for p in pairs]
    return np.ascontiguousarray(np.stack(registers)).view(np.uint32)


def fragments(matrix: np.ndarray) -> np.ndarray:
    """A [64, k] as four registers: [register, thread]."""
    words = np.ascontiguousarray(matrix).view(np.uint32)  # eight a row
    lane = np.arange(128) % 32
    row, q = np.arange(128) // 32 * 16 + lane // 4, lane % 4
    return np.stack([words[row + i % 2 * 8, q + i // 2 * 4] for i in range(4)])


def names(first: int, count: int) -> str:
    """A register list."""
    return "{" + ", ".join(f"%r{first + i}" for i in range(count)) + "}"


def run(
    body: str,
    tile: np.ndarray,
    c: np.ndarray,
    a: np.ndarray | None = None,
    threads: int = 128,
    seed: int | None = None,
    target: str = "sm_90a",
    after: str = "",
) -> Execution:
    """Run `body` by a warpgroup: `tile` is in shared memory, `c` [register, thread] in %r100 on, `a` in %r10 to %r13.

    Accumulators are stored afterwards. %p1 is true, %p2 false; %r1 is the thread, %r2 the warp.
    """
    a = np.zeros((4, 128), np.uint32) if a is None else a
    count = len(c)
    tile = np.concatenate([tile, np.zeros(-len(tile) % 2048, np.uint8)])
    loads = " ".join(
        f"ld.global.v4.b32 {{%r3, %r4, %r5, %r6}}, [%a6 + {i * 2048}]; st.shared.v4.b32 [%r7 + {i * 2048}], "
        "{%r3, %r4, %r5, %r6};"
        for i in range(len(tile) // 2048)
    )
    sums = " ".join(f"ld.global.b32 %r{100 + i}, [%a1 + {512 * i}];" for i in range(count))
    inputs = " ".join(f"ld.global.b32 %r{10 + i}, [%a2 + {512 * i}];" for i in range(4))
    stores = " ".join(f"st.global.b32 [%a3 + {512 * i}], %r{100 + i};" for i in range(count))
    ptx = f"""
.version 8.7
.target {target}
.address_size 64
.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3) {{
    .reg .pred %p<4>; .reg .b32 %r<500>; .reg .b64 %a<9>; .reg .b64 %d<20>;
    .shared .align 1024 .b8 tile[{len(tile)}];
    mov.u32 %r1, %tid.x;
    shr.u32 %r2, %r1, 5;
    setp.eq.u32 %p1, %r1, %r1;
    setp.ne.u32 %p2, %r1, %r1;
    ld.param.u64 %a6, [p0]; ld.param.u64 %a1, [p1]; ld.param.u64 %a2, [p2]; ld.param.u64 %a3, [p3];
    mul.wide.u32 %a7, %r1, 16; add.s64 %a6, %a6, %a7;
    mul.wide.u32 %a7, %r1, 4; add.s64 %a1, %a1, %a7; add.s64 %a2, %a2, %a7; add.s64 %a3, %a3, %a7;
    mov.u32 %r8, tile; mad.lo.u32 %r7, %r1, 16, %r8;
    {loads}
    {sums}
    {inputs}
    fence.proxy.async;
    bar.sync 0;
{body}
    {stores}
    {after}
    ret;
}}"""
    arrays = {"tile": tile, "c": c, "a": a, "d": np.zeros_like(c)}
    buffers = {n: buffer(n, x, Role.OUTPUT if n == "d" else Role.INPUT) for n, x in arrays.items()}
    plan = plan_of(ptx, "k", buffers, tuple(Pointer(n) for n in buffers), (1,), (threads,), 0, ptx)
    return execute(plan, {n: arrays[n] for n in ("tile", "c", "a")}, seed=seed)


FENCE = "wgmma.fence.sync.aligned;"
WAIT = "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"


def product(
    form: str, n: int, a: int | None, b: int, rest: str, count: int, keep: str = "%p1", first: int = 100
) -> str:
    """One wgmma.mma_async; `a` and `b` are descriptors, None stands for A in registers."""
    left = names(10, 4) if a is None else "%d1"
    moves = f"mov.b64 %d2, {b:#x};" + ("" if a is None else f" mov.b64 %d1, {a:#x};")
    return f"{moves} wgmma.mma_async.sync.aligned.m64n{n}{form} {names(100, count)}, {left}, %d2, {keep}{rest};"
