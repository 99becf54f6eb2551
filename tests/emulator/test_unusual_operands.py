"""What ptxas adds for unusual operands. The truth is its machine code, read by hand for each operand (ptxas 13.0), and,
in test_machine_code.py, what Nsight Compute counted on an H200."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.plans import buffer, plan_of
from warplab import emulator
from warplab.plan import disassembler
from warplab.plan.assemble import assemble
from warplab.plan.execution import Counters
from warplab.plan.model import Pointer, Role

pytestmark = [
    pytest.mark.skipif(disassembler.nvdisasm() is None, reason="nvidia-cuda-nvdisasm is not installed"),
    pytest.mark.stored,
]

INF, NAN, SMALL, SMALL_64 = np.inf, np.nan, 1e-40, 1e-310  # the last two are subnormal
HEAD = """
.version 9.0
.target sm_90a
.address_size 64
"""
KERNEL = """
.visible .entry k{number}(.param .u64 p, .param .u64 q, .param .u64 o) {{
    .reg .b32 %r<2>; .reg .b64 %rd<9>; .reg .f32 %f<4>; .reg .f64 %d<4>;
    ld.param.u64 %rd1, [p];
    ld.param.u64 %rd2, [q];
    ld.param.u64 %rd3, [o];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd4, %r1, 8;
    add.s64 %rd5, %rd1, %rd4;
    add.s64 %rd6, %rd2, %rd4;
    add.s64 %rd7, %rd3, %rd4;
    ld.global.{source} %{a}1, [%rd5];
    ld.global.{source} %{a}2, [%rd6];
    {operation} %{b}3, {operands};
    st.global.{result} [%rd7], %{b}3;
    ret;
}}
"""
# Of each operation and lane: the operands, and how many sums, products and fused operations it takes.
LANES: dict[str, list[tuple[tuple[float, ...], tuple[int, int, int]]]] = {
    "div.rn.f32": [
        ((1, 3), (0, 0, 5)),
        ((0, 3), (0, 0, 5)),
        ((2.0**-110, 1), (1, 0, 12)),  # the remainder may be subnormal
        ((SMALL, 3), (1, 0, 16)),  # scaled first, and the subnormal quotient is rounded three ways
        ((1, 2.5e38), (1, 0, 15)),
        ((1e-30, 1e30), (1, 0, 12)),  # a quotient of zero
        ((3e38, 1e-5), (1, 0, 12)),
        ((NAN, 1), (1, 0, 5)),
        ((INF, 1), (0, 0, 5)),
        ((1, 0), (0, 0, 5)),
    ],
    "div.rn.ftz.f32": [
        ((1, 3), (0, 0, 5)),
        ((2.0**-110, 1), (1, 0, 12)),
        ((SMALL, 3), (0, 0, 5)),
        ((1, 2.5e38), (1, 0, 12)),
        ((1, NAN), (1, 0, 5)),
    ],
    "rcp.rn.f32": [
        ((3,), (1, 0, 2)),
        ((0,), (0, 0, 0)),
        ((INF,), (0, 0, 0)),
        ((SMALL,), (1, 0, 4)),
        ((1.5 * 2.0**126,), (1, 0, 3)),
    ],
    "rcp.rn.ftz.f32": [((3,), (1, 0, 2)), ((0,), (0, 0, 0)), ((SMALL,), (0, 0, 0)), ((2.0**127,), (0, 0, 0))],
    "sqrt.rn.f32": [
        ((2,), (0, 2, 2)),
        ((0,), (0, 0, 0)),
        ((-1,), (0, 0, 0)),
        ((NAN,), (1, 0, 0)),
        ((1e-35,), (1, 3, 3)),
        ((SMALL,), (1, 3, 3)),
    ],
    "sqrt.rn.ftz.f32": [((2,), (0, 2, 2)), ((0,), (0, 1, 0)), ((SMALL,), (0, 1, 0)), ((1e-35,), (1, 4, 2))],
    "div.rn.f64": [
        ((1, 3), (0, 1, 7)),
        ((0, 3), (0, 2, 15)),
        ((1e-300, 3), (0, 3, 14)),
        ((SMALL_64, 3), (0, 4, 17)),
        ((SMALL_64, 4), (0, 3, 16)),
        ((1, 0), (0, 3, 14)),
        ((NAN, 1), (0, 2, 14)),
        ((1, 1e308), (0, 4, 16)),
        # Quotients with the upper word of the least normal number go as subnormal ones, all below (1 + 2^-20) 2^-1022:
        # seen on a card in corpus/unseen_fourth/numba_all_roots. Without a remainder nothing is rounded.
        (((3 + 3 * 2.0**-21 + 2.0**-50) * 2.0**-522, 3 * 2.0**500), (0, 4, 16)),
        ((3 * (1 + 2.0**-21) * 2.0**-522, 3 * 2.0**500), (0, 3, 15)),
        ((3 * (1 + 2.0**-20) * 2.0**-522, 3 * 2.0**500), (0, 1, 7)),
        ((9 * 2.0**-1074, 3), (0, 3, 16)),
    ],
    "rcp.rn.f64": [((3,), (0, 0, 5)), ((0,), (0, 0, 5)), ((SMALL_64,), (0, 2, 10)), ((1e308,), (0, 1, 13))],
    "sqrt.rn.f64": [
        ((2,), (0, 3, 5)),
        ((0,), (1, 3, 5)),
        ((INF,), (1, 3, 5)),
        ((-1,), (0, 3, 5)),
        ((1e-300,), (0, 3, 7)),
        ((SMALL_64,), (0, 7, 10)),
    ],
    "ex2.approx.f32": [((-1,), (0, 0, 0)), ((-130,), (0, 2, 0)), ((-INF,), (0, 2, 0)), ((NAN,), (0, 0, 0))],
    "lg2.approx.f32": [((2,), (0, 0, 0)), ((0,), (1, 1, 0)), ((SMALL,), (1, 1, 0)), ((-1,), (0, 0, 0))],
    "rsqrt.approx.f32": [((2,), (0, 0, 0)), ((-SMALL,), (0, 2, 0))],
    "div.full.f32": [((1, 3), (0, 1, 0)), ((1, SMALL), (0, 3, 0)), ((1, -2e38), (0, 3, 0))],
    "cvt.rn.ftz.f32.f64": [((1,), (0, 0, 0)), ((0,), (0, 1, 0)), ((1e-39,), (0, 1, 0))],
}  # fmt: skip


def _types(operation: str) -> tuple[str, str]:
    """Of the operands and of the result."""
    return operation[-3:], "f32" if operation.startswith("cvt") else operation[-3:]


def _kernel(number: int, operation: str) -> str:
    source, result = _types(operation)
    a, b = ({"f32": "f", "f64": "d"}[kind] for kind in (source, result))
    operands = ", ".join(f"%{a}{n + 1}" for n in range(len(LANES[operation][0][0])))
    return KERNEL.format(number=number, source=source, result=result, operation=operation, operands=operands, a=a, b=b)


TEXT = HEAD + "".join(map(_kernel, range(len(LANES)), LANES))  # one text: it is assembled once


def _total(operation: str, operands: np.ndarray) -> Counters:
    """The counters of one warp; `operands`: of each lane, [32, how many]."""
    size = {"f32": 4, "f64": 8}[_types(operation)[0]]
    values = {name: np.zeros(32, np.float64) for name in "pqo"}
    for name, column in zip("pq", operands.T, strict=False):
        values[name].view(f"f{size}")[:: 8 // size] = column
    buffers = {n: buffer(n, values[n], Role.OUTPUT if n == "o" else Role.INPUT) for n in "pqo"}
    plan = plan_of(TEXT, f"k{list(LANES).index(operation)}", buffers, tuple(map(Pointer, "pqo")), (1,), (32,))
    execution = emulator.execute(assemble(plan, "sm_90a"), {n: values[n] for n in "pq"}, workers=1)
    assert not execution.notes
    return execution.total


@pytest.mark.parametrize("operation", LANES)
def test_counts_what_the_machine_code_does(operation: str) -> None:
    lanes = LANES[operation]
    chosen = [lanes[n % len(lanes)] for n in range(32)]
    with np.errstate(over="ignore"):
        total = _total(operation, np.array([operands for operands, _ in chosen], dtype=np.float64))
    letter = "d" if operation.endswith("f64") and not operation.startswith("cvt") else "f"
    counted = tuple(getattr(total, f"thread_{letter}{name}") for name in ("add", "mul", "fma"))
    assert counted == tuple(np.sum([operations for _, operations in chosen], axis=0))
