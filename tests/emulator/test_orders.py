"""`orders`: what is right by luck of the first order is found in another, and arrays stay those of the first."""

from __future__ import annotations

import numpy as np
import pytest

import warplab
from warplab.plan.execution import FindingKind

pytestmark = pytest.mark.processes

# The block that comes first writes out[block], and out has one element: right only if it is block 0.
FIRST = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry first(.param .u64 first_ticket, .param .u64 first_out)
{
    .reg .b32 %r<3>;
    .reg .b64 %rd<4>;
    .reg .pred %p;
    ld.param.u64 %rd1, [first_ticket];
    ld.param.u64 %rd2, [first_out];
    atom.global.add.u32 %r1, [%rd1], 1;
    setp.ne.u32 %p, %r1, 0;
    @%p ret;
    mov.u32 %r2, %ctaid.x;
    mul.wide.u32 %rd3, %r2, 4;
    add.s64 %rd3, %rd2, %rd3;
    st.global.u32 [%rd3], %r2;
    ret;
}
"""


def first(**options: int | None) -> warplab.Result:
    arrays = np.zeros(1, np.uint32), np.full(1, 9, np.uint32)
    return warplab.emulate(FIRST, "first", grid=4, block=1, args=arrays, **options)


def test_the_reverse_order_finds_what_the_first_does_not() -> None:
    assert not first().findings and not first(orders=1).findings
    result = first(orders=2)
    (finding,) = result.findings
    assert finding.kind is FindingKind.OUT_OF_BOUNDS and finding.block == (3, 0, 0)
    assert result.outputs["out"][0] == 0, "arrays are those of the first order"
    assert "The arrays differ with the last blocks and warps first" in str(result)
    assert len(first(orders=4).findings) == 1, "a fault is told once, however many orders show it"


def test_no_number_of_orders_below_one() -> None:
    with pytest.raises(warplab.EmulateError, match="orders is 0: give the number of orders to run, 1 or more"):
        first(orders=0)
