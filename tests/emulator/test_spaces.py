"""isspacep: which space a generic address lies in."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.plans import buffer, plan_of
from warplab.emulator import execute
from warplab.plan.model import Pointer, Role

SOURCE = """
.version 9.0
.target sm_90a
.address_size 64
.const .align 8 .b64 first[2];
.const .align 8 .b64 second[4];
.global .align 8 .b64 variable[2];
.visible .entry test(.param .u64 out)
{
.reg .pred %p<2>;
.reg .b32 %r<2>;
.reg .b64 %rd<8>;
.shared .align 8 .b64 tile[2];
.local .align 8 .b64 mine[2];
ld.param.u64 %rd0, [out];
mov.u64 %rd1, %rd0;
ADDRESSES
ret;
}
"""
ADDRESSES = {
    "buffer": "add.u64 %rd1, %rd0, 8;",
    "variable": "mov.u64 %rd1, variable; cvta.global.u64 %rd1, %rd1;",
    "first": "mov.u64 %rd1, first; cvta.const.u64 %rd1, %rd1;",
    "second": "mov.u64 %rd1, second; add.u64 %rd1, %rd1, 24; cvta.const.u64 %rd1, %rd1;",
    "parameter": "mov.u64 %rd1, out; cvta.param.u64 %rd1, %rd1;",
    "shared": "mov.u64 %rd1, tile; cvta.shared.u64 %rd1, %rd1;",
    "local": "mov.u64 %rd1, mine; cvta.local.u64 %rd1, %rd1;",
    "none": "mov.u64 %rd1, 0;",
}
# From the code that ptxas makes for sm_90: constants are not in global memory, parameters are.
INSIDE = {
    "const": {"first", "second"},
    "param": {"parameter"},
    "global": {"buffer", "variable", "parameter"},
    "shared": {"shared"},
    "local": {"local"},
}


@pytest.mark.parametrize("space", list(INSIDE))
def test_the_space_of_an_address(space: str) -> None:
    lines = []
    for place, address in enumerate(ADDRESSES.values()):
        lines += [address, f"isspacep.{space} %p0, %rd1;", "selp.b32 %r0, 1, 0, %p0;"]
        lines += [f"st.global.b32 [%rd0+{4 * place}], %r0;"]
    out = np.zeros(len(ADDRESSES), np.uint32)
    text = SOURCE.replace("ADDRESSES", "\n".join(lines))
    plan = plan_of(text, "test", {"out": buffer("out", out, Role.OUTPUT)}, (Pointer("out"),), (1,), (32,))
    result = execute(plan, {})
    assert {n for n, r in zip(ADDRESSES, result.outputs["out"], strict=True) if r} == INSIDE[space]
