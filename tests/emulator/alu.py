"""Runs single PTX instructions over columns of operands, for comparison with independent arithmetic."""

from __future__ import annotations

import numpy as np

from tests.emulator.plans import buffer, plan_of
from warplab.emulator import execute
from warplab.plan.model import Pointer, Role

BITS = {"pred": 8, "b16": 16, "b32": 32, "b64": 64}
LOAD = {16: "u16", 32: "u32", 64: "u64"}


def run(
    body: str, result: int, operands: list[np.ndarray], declarations: str = "", target: str = "sm_90a"
) -> np.ndarray:
    """Run `body` once an element. It reads %a0, %a1, ... (registers as wide as the arrays) and leaves %d.

    `result` is the width of %d in bits. Operands are unsigned integer arrays of equal length.
    """
    count = operands[0].size
    arrays = {f"in{i}": np.ascontiguousarray(o) for i, o in enumerate(operands)}
    arrays["out"] = np.zeros(count, dtype=f"u{result // 8}")
    names = list(arrays)
    parameters = ",\n".join(f".param .u64 p{i}" for i in range(len(names)))
    lines = [".version 9.0", f".target {target}", ".address_size 64", f".visible .entry test({parameters})", "{"]
    lines += [".reg .pred %p<8>;", ".reg .b16 %h<8>;", ".reg .b32 %r<16>;", ".reg .b64 %rd<16>;", declarations]
    lines.append(f".reg .b{result} %d;")
    lines += [f".reg .b{8 * arrays[n].itemsize} %a{i};" for i, n in enumerate(names[:-1])]
    lines += ["mov.u32 %r0, %ctaid.x;", "mov.u32 %r1, %tid.x;", "mad.lo.u32 %r1, %r0, 32, %r1;"]
    lines += [f"setp.ge.u32 %p0, %r1, {count};", "@%p0 bra END;"]
    for i, name in enumerate(names):
        size = arrays[name].itemsize
        lines += [f"ld.param.u64 %rd{i}, [p{i}];", f"mad.wide.u32 %rd{i}, %r1, {size}, %rd{i};"]
        if name != "out":
            lines.append(f"ld.global.{LOAD[8 * size]} %a{i}, [%rd{i}];")
    lines += [body, f"st.global.{LOAD[result]} [%rd{len(names) - 1}], %d;", "END: ret;", "}"]
    roles = {n: Role.OUTPUT if n == "out" else Role.INPUT for n in names}
    buffers = {n: buffer(n, a, roles[n]) for n, a in arrays.items()}
    plan = plan_of("\n".join(lines), "test", buffers, tuple(Pointer(n) for n in names), (-(-count // 32),), (32,))
    execution = execute(plan, {n: arrays[n] for n in names[:-1]}, workers=1)
    assert not execution.findings, execution.findings
    return execution.outputs["out"]


def integers(width: int, count: int, seed: int) -> np.ndarray:
    """Random bit patterns with the corner cases of a width among them."""
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 2**width, count, dtype=np.uint64)
    corners = [0, 1, 2, 2 ** (width - 1) - 1, 2 ** (width - 1), 2**width - 1, 2**width - 2, width, 31, 33]
    chosen = rng.integers(0, count, 4 * len(corners))
    values[chosen] = np.tile(np.array(corners, dtype=np.uint64), 4)
    return values.astype(f"u{width // 8}")


def floats(width: int, count: int, seed: int) -> np.ndarray:
    """Random floats as bit patterns: every exponent, subnormals, infinities, NaNs and values of similar size."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2**width, count, dtype=np.uint64)
    kind = rng.integers(0, 4, count)
    near = (rng.standard_normal(count) * 2.0 ** rng.integers(-3, 4, count)).astype(
        {16: "f2", 32: "f4", 64: "f8"}[width]
    )
    bits = np.where(kind < 2, near.view(f"u{width // 8}").astype(np.uint64), bits)
    significand = {16: 10, 32: 23, 64: 52}[width]
    infinity = (2 ** (width - 1 - significand) - 1) << significand
    sign = 1 << (width - 1)
    corners = [0, sign, 1, sign | 1, 1 << significand, (1 << significand) - 1, infinity, infinity | sign, infinity - 1,
               infinity | 1, infinity | (1 << (significand - 1)), sign | (1 << significand)]  # fmt: skip
    chosen = rng.integers(0, count, 6 * len(corners))
    bits[chosen] = np.tile(np.array(corners, dtype=np.uint64), 6)
    return bits.astype(f"u{width // 8}")
