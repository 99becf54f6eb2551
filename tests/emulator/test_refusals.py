"""PTX that cannot be read is refused in one sentence, and before it takes memory or time; never by a Python error."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.plans import buffer, plan_of
from warplab.emulator import execute
from warplab.errors import PlanError
from warplab.isa.parser import MAX_REGISTERS, MAX_TEXT, parse
from warplab.plan.execution import Execution
from warplab.plan.model import Pointer, Role

HEAD = ".version 8.7\n.target sm_90a\n.address_size 64\n"
MANY = 1 << 18


def kernel(body: str, before: str = "") -> str:
    """A kernel with this body, and what stands before it."""
    registers = ".reg .b32 %r<9>; .reg .b64 %v<9>; .reg .pred %p<3>;"
    return f"{HEAD}{before}.visible .entry k (.param .u64 out) {{\n{registers}\n{body}\nret;\n}}\n"


def functions(count: int, calls: int) -> str:
    """So many functions, each of which calls the next one so many times; the last one is empty."""
    body = [f".func f{i} () {{ {f'call f{i + 1}, ();' * calls} ret; }}" for i in range(count)]
    return "\n".join([*body, f".func f{count} () {{ }}\n"])


def run(ptx: str) -> Execution:
    out = np.zeros(4, np.int32)
    plan = plan_of(kernel(""), "k", {"out": buffer("out", out, Role.INOUT)}, (Pointer("out", 0, "out"),), (1,), (1,))
    plan.kernels["kernel"].ptx["sm_90a"] = ptx  # type: ignore[index]
    return execute(plan, {"out": out})


@pytest.mark.parametrize(
    "ptx",
    [
        kernel("add.s32 %r1, 1+2*3, %r1;"), kernel("add.s32 %r1, [, %r1;"),
        kernel("ld.global.u32 %r1, [];"), kernel("add.s32 %r1, %r2, " + "9" * 5000 + ";"), kernel("}"), kernel("{"),
        kernel("{" * 1000 + "}" * 1000), kernel("ld.global.v4.u32 " + "{" * 2000 + "}" * 2000 + ", [%v1];"),
        kernel("mov.b32 %r1, " + "!" * 5000 + "%p1;"), kernel("@%r"), kernel("@%q1 add.s32 %r1, %r1, 1;"),
        kernel("mov.b32 %r1|%r2|%r3, 1;"), kernel(".reg .b32 %x<99999999999999999999999>;"), kernel("/* never ends"),
        kernel('.pragma "never ends;'), kernel(".local .align 3 .b8 x[4];"), kernel(".local .b8 x[-4];"),
        kernel(".local .b8 x[999999999999999];"), kernel("bra nowhere;"),
        kernel("brx.idx %r1, T; T: .branchtargets nowhere;"),
        kernel("", ".global .b32 x[2] = {k, k};"), kernel("", ".global .u64 x = 0fZZ;"),
        kernel("", ".global .b8 x" + "[65536]" * 4 + ";"), kernel("", ".global " + ".a " * 10_000 + ".b8 x;"),
        f"{HEAD}.visible .entry k (.param .u64 out", f"{HEAD}.visible .entry",
        f"{HEAD}.entry k (.param .u64 out) {{ ret;",
        "", "\0", "}", "{", ";", ".entry", kernel("", ".func f () { call f0, (); }\n" * 3).replace("k (", "j ("),
        kernel(f".reg .b32 %x<{MAX_REGISTERS + 1}>;"), kernel(".reg .b32 q<2000000000>;"), "/" * (MAX_TEXT + 1),
        kernel("call f0, ();", functions(99, 1)),
        kernel("call f0, ();", functions(40, 2)),
        kernel(
            "".join(f"mov.b64 %v1, x{i};\n" for i in range(600)), "".join(f".global .b8 x{i};\n" for i in range(600))
        ),
    ],
)  # fmt: skip
def test_it_is_one_sentence(ptx: str) -> None:
    with pytest.raises(PlanError) as refused:
        run(ptx)
    message = str(refused.value)
    assert len(message) < 300 and "\n" not in message and message.endswith(".")


@pytest.mark.parametrize("kind", ["texref", "samplerref", "surfref"])
def test_a_texture_is_named_in_words(kind: str) -> None:
    with pytest.raises(
        PlanError, match=r"declares a texture or surface \(line 4 of the PTX\).*arrays in global memory"
    ):
        run(kernel("", f".global .{kind} t;\n"))


@pytest.mark.parametrize(
    "ptx",
    [
        kernel('.pragma "{";'), kernel('.pragma "}";\n.pragma "nounroll;";'), kernel("// .entry j () {\n/* } */"),
        kernel("add.s32 %r1, %r1/* a comment */, 1;"), f'{kernel("")}.file 1 "a//b.py"\n.file 2 "{{"\n',
        kernel('.loc 1 99999999999999999999 0\nadd.s32 %r1, %r1, 1;\n.loc 99999999999 1 0'),
        kernel("", '.section .debug_str { .b8 123 }\n'),
    ],
)  # fmt: skip
def test_strings_comments_and_odd_lines_are_no_code(ptx: str) -> None:
    assert not run(ptx).findings


def test_a_line_that_no_file_has_is_not_reported() -> None:
    body = "ld.param.u64 %v1, [out];\n.loc 1 7 0\nst.global.u32 [%v1+{}], %r1;"
    near = kernel(f".loc 1 99999999999999999999 0\n{body.format(400)}") + '.file 1 "submission.py"\n'
    (finding,) = run(near).findings
    assert finding.line == 7
    far = kernel(".loc 1 2147483648 0\n" + body.format(400).replace(".loc 1 7 0", "")) + '.file 1 "submission.py"\n'
    (finding,) = run(far).findings
    assert finding.line == 0


@pytest.mark.parametrize(
    "text",
    [
        "/*" * (3 * MANY), "//\n" * MANY, '"' * (3 * MANY), '"' + '\\"' * (3 * MANY), ".section a " * (MANY // 2),
        ".section a;" * (MANY // 2), ".visible " * (MANY // 2), ".global " + ".a " * MANY + ".b8 x;",
        ".file 1 " * (MANY // 2),
        f"{HEAD}.entry k (" + "(" * (3 * MANY),
        f"{HEAD}.entry k " + "a " * MANY,
        kernel("@" + "%p1" * MANY + ";"),
        kernel("mov.b32 %r1, " + "[" * MANY + ";"), kernel("mov.b32 %r1, " + "{" * (3 * MANY) + ";"),
        kernel(" " * (6 * MANY)),
        kernel(".loc 1 1 1, inlined_at " + "inlined_at " * (MANY // 2)), kernel("x" * (6 * MANY)), kernel("{}" * MANY),
    ],
)  # fmt: skip
def test_megabytes_that_mean_nothing_are_read_once(text: str) -> None:
    """Each of them took a reader that looks ahead from every character hours, so that this would not end."""
    try:
        parse(text)
    except PlanError as refused:
        assert len(str(refused)) < 300


@pytest.mark.parametrize(
    "text", ["ld.global.u32 %r1;", "ld.volatile.shared.u32 [%rd1];", "atom.cas.b32 %r1;", "mov.b32;"]
)
def test_an_instruction_that_lacks_an_operand_is_refused(text: str) -> None:
    with pytest.raises(PlanError, match="cannot be read near"):
        parse(kernel(text))


def test_a_refusal_names_the_kernel_and_both_lines() -> None:
    body = ".loc 1 7 1\nadd.s32 %r1, [, %r1;"
    with pytest.raises(
        PlanError, match="Kernel kernel .*cannot be read near 'add.s32.*line 7 of the PTX, line 7 of the"
    ):
        run(kernel(body) + '.file 1 "submission.py"\n')
