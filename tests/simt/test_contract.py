"""Contraction of mul and add into fma: only where PTX allows it, and with the result rounded once."""

from __future__ import annotations

import pytest

from warplab.isa.parser import parse
from warplab.isa.syntax import Instruction
from warplab.simt.lowering.passes.contraction import contract

HEAD = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k() {
.reg .f32 %f<9>; .reg .b64 %r<3>; .reg .pred %p;
"""


def opcodes(body: str) -> list[str]:
    function = parse(HEAD + body + "\nret;\n}").functions["k"]
    contract(function)
    return [item.opcode for item in function.body if isinstance(item, Instruction)][:-1]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("mul.f32 %f3,%f1,%f2; add.f32 %f5,%f3,%f4; st.global.f32 [%r1],%f5;", ["fma.rn.f32", "st.global.f32"]),
        ("mul.ftz.f32 %f3,%f1,%f2; sub.ftz.f32 %f5,%f4,%f3;", ["neg.f32", "fma.rn.ftz.f32"]),
        ("mul.f32 %f3,%f1,%f2; sub.f32 %f5,%f3,%f4;", ["neg.f32", "fma.rn.f32"]),
        # the addition may overwrite the product, which ends its uses, if none came before
        ("mul.f32 %f3,%f1,%f2; add.f32 %f3,%f3,%f4; add.f32 %f5,%f3,%f3;", ["fma.rn.f32", "add.f32"]),
        ("mul.f32 %f3,%f1,%f2; neg.f32 %f6,%f3; add.f32 %f3,%f3,%f4;", ["mul.f32", "neg.f32", "add.f32"]),
        ("mul.f32 %f3,%f1,%f2; add.f32 %f3,%f3,%f3;", ["mul.f32", "add.f32"]),
        # a rounding mode, another width of flushing, a second use, a guard, a block's end or a new factor forbid it
        ("mul.rn.f32 %f3,%f1,%f2; add.f32 %f5,%f3,%f4;", ["mul.rn.f32", "add.f32"]),
        ("mul.f32 %f3,%f1,%f2; add.rn.f32 %f5,%f3,%f4;", ["mul.f32", "add.rn.f32"]),
        ("mul.f32 %f3,%f1,%f2; add.ftz.f32 %f5,%f3,%f4;", ["mul.f32", "add.ftz.f32"]),
        ("mul.f32 %f3,%f1,%f2; add.f32 %f5,%f3,%f4; add.f32 %f6,%f3,%f3;", ["mul.f32", "add.f32", "add.f32"]),
        ("mul.f32 %f3,%f1,%f2; @%p add.f32 %f5,%f3,%f4;", ["mul.f32", "add.f32"]),
        ("mul.f32 %f3,%f1,%f2; L: add.f32 %f5,%f3,%f4;", ["mul.f32", "add.f32"]),
        ("mul.f32 %f3,%f1,%f2; mov.f32 %f1,%f6; add.f32 %f5,%f3,%f4;", ["mul.f32", "mov.f32", "add.f32"]),
    ],
)
def test_what_is_fused(body: str, expected: list[str]) -> None:
    assert opcodes(body) == expected
