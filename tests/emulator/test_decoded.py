"""What is kept of a kernel from one run to the next: its instructions, never what it left behind."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from tests.emulator.plans import buffer, plan_of
from warplab.emulator import execute
from warplab.plan.model import Plan, Pointer, Role

# A product and its sum, which decoding fuses, and a variable of the module that each thread counts up.
SOURCE = """
.version 9.0
.target sm_90a
.address_size 64
.global .align 4 .u32 count = 5;
.visible .entry test(.param .u64 out)
{
.reg .b32 %r<4>;
.reg .f32 %f<4>;
.reg .b64 %rd<4>;
ld.param.u64 %rd0, [out];
mov.u64 %rd1, count;
atom.global.add.u32 %r0, [%rd1], 1;
cvt.rn.f32.u32 %f0, %r0;
mul.f32 %f1, %f0, FACTOR;
add.f32 %f2, %f1, 0f3F800000;
mov.u32 %r1, %tid.x;
mul.wide.u32 %rd2, %r1, 4;
add.s64 %rd3, %rd0, %rd2;
st.global.f32 [%rd3], %f2;
ret;
}
"""


def counting(factor: str) -> Plan:
    out = np.zeros(32, np.float32)
    text = SOURCE.replace("FACTOR", factor)
    return plan_of(text, "test", {"out": buffer("out", out, Role.OUTPUT)}, (Pointer("out"),), (1,), (32,))


def test_a_second_run_finds_the_module_as_it_was() -> None:
    plan = counting("0f40000000")
    first, second = (execute(plan, {}) for _ in range(2))
    assert sorted(first.outputs["out"]) == [1 + 2 * n for n in range(5, 37)]
    np.testing.assert_array_equal(first.outputs["out"], second.outputs["out"])
    assert first.total == second.total


def test_kernels_that_differ_in_a_number_are_not_taken_for_each_other() -> None:
    twice, thrice = (execute(counting(factor), {}).outputs["out"].max() for factor in ("0f40000000", "0f40400000"))
    assert (twice, thrice) == (73, 109)


def test_runs_side_by_side_read_a_new_kernel_as_one_alone_does() -> None:
    plan = counting("0f40800000")
    with ThreadPoolExecutor(8) as pool:
        runs = list(pool.map(lambda _: execute(plan, {}), range(16)))
    assert {float(run.outputs["out"].max()) for run in runs} == {145.0}
    assert all(run.total == runs[0].total for run in runs)
