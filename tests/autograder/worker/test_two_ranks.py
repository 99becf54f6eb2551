"""Signals that end at their own GPU are found in the PTX, whichever instruction they are."""

from __future__ import annotations

import pytest

from autograder.worker.two_ranks import narrow_signals
from tests.emulator.plans import plan_of

KERNEL = """
.version 8.4
.target sm_90a
.address_size 64
.visible .entry kernel()
{{
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    {body}
    ret;
}}
"""


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("st.release.gpu.global.u32 [%rd1], %r1;", 1),
        ("ld.acquire.gpu.global.u32 %r1, [%rd1];", 1),
        ("ld.relaxed.gpu.global.u32 %r1, [%rd1];", 1),
        ("atom.global.add.u32 %r1, [%rd1], 1;", 1),  # of GPU scope, as none is said
        ("red.relaxed.gpu.global.add.u32 [%rd1], %r1;", 1),
        ("fence.acq_rel.gpu;", 1),
        ("membar.gl;", 1),
        ("membar.gl; atom.add.u32 %r1, [%rd1], 1;", 2),
        ("st.release.sys.global.u32 [%rd1], %r1;", 0),
        ("atom.sys.global.add.u32 %r1, [%rd1], 1;", 0),
        ("fence.acq_rel.sys; membar.sys;", 0),
        ("ld.volatile.global.u32 %r1, [%rd1];", 0),  # of system scope
        ("ld.global.u32 %r1, [%rd1]; st.global.u32 [%rd1], %r1;", 0),
        ("atom.shared.add.u32 %r1, [%r2], 1; membar.cta;", 0),  # within a block
    ],
)
def test_signals_of_gpu_scope_are_counted(body: str, count: int) -> None:
    assert narrow_signals(plan_of(KERNEL.format(body=body), "kernel", {}, (), (1,), (32,))) == count


def test_a_kernel_that_is_not_launched_does_not_count() -> None:
    other = KERNEL.format(body="membar.gl;").replace("kernel", "spare").partition(".visible")[2]
    text = KERNEL.format(body="membar.sys;") + ".visible" + other
    for entry, count in (("kernel", 0), ("spare", 1)):
        assert narrow_signals(plan_of(text, entry, {}, (), (1,), (32,))) == count
