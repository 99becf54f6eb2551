"""Fragments of mma.sync by the layouts of the PTX ISA, and one mma on them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.emulator.plans import buffer, plan_of
from warplab.emulator import execute
from warplab.plan.execution import Execution
from warplab.plan.model import Pointer, Role

LANE = np.arange(32)
G, Q = LANE // 4, LANE % 4
Place = Callable[[int], tuple[np.ndarray, np.ndarray]]  # element i of each lane's fragment to (row, column)


def sums(i: int) -> tuple[np.ndarray, np.ndarray]:
    return G + 8 * (i >= 2), 2 * Q + i % 2


def halves_a16(i: int) -> tuple[np.ndarray, np.ndarray]:
    return G + 8 * (2 <= i < 4 or i >= 6), 2 * Q + i % 2 + 8 * (i >= 4)


def halves_b16(i: int) -> tuple[np.ndarray, np.ndarray]:
    return 2 * Q + i % 2 + 8 * (i >= 2), G


def fragment(matrix: np.ndarray, place: Place, count: int) -> np.ndarray:
    """What each lane holds, as registers: [register, lane]."""
    elements = np.stack([matrix[place(i)] for i in range(count)], axis=1)
    words = np.ascontiguousarray(elements).view(np.uint64 if matrix.itemsize == 8 else np.uint32)
    return np.ascontiguousarray(words.T)


def run_mma(name: str, a: np.ndarray, b: np.ndarray, c: np.ndarray, lanes: str = "") -> Execution:
    """One warp, one mma on registers [register, lane]; `lanes` is a guard on it, such as "@%p1"."""
    wide = a.itemsize == 8
    size = 8 if wide or c.itemsize == 8 else 4
    kind, register = ("b64", "%w") if wide else ("b32", "%r")
    lines, names, index = [], {}, 8
    for number, array in enumerate((a, b, c)):
        names[number] = [f"{register}{index + i}" for i in range(len(array))]
        lines += [f"ld.global.{kind} {n}, [%a{number} + {i * 32 * size}];" for i, n in enumerate(names[number])]
        index += len(array)
    packs = ["{" + ", ".join(names[n]) + "}" for n in (2, 0, 1, 2)]
    stores = [f"st.global.{kind} [%a3 + {i * 32 * size}], {n};" for i, n in enumerate(names[2])]
    addresses = [
        f"ld.param.u64 %a{n}, [p{n}]; mul.wide.u32 %a{n + 4}, %r1, {size}; add.s64 %a{n}, %a{n}, %a{n + 4};"
        for n in range(4)
    ]
    ptx = f"""
.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3) {{
    .reg .pred %p<4>; .reg .b32 %r<32>; .reg .b64 %w<32>; .reg .b64 %a<9>;
    mov.u32 %r1, %tid.x;
    setp.lt.u32 %p1, %r1, 16;
    {" ".join(addresses)}
    {" ".join(lines)}
    {lanes} mma.sync.aligned.{name} {", ".join(packs)};
    {" ".join(stores)}
    ret;
}}"""
    arrays = {"a": a, "b": b, "c": c, "d": np.zeros_like(c)}
    buffers = {n: buffer(n, x, Role.OUTPUT if n == "d" else Role.INPUT) for n, x in arrays.items()}
    plan = plan_of(ptx, "k", buffers, tuple(Pointer(n) for n in buffers), (1,), (32,))
    return execute(plan, {n: arrays[n] for n in "abc"})
