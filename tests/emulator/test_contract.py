"""Contraction of mul and add into fma: only where PTX allows it, and with the result rounded once."""

from __future__ import annotations

import random

import pytest

from tests.emulator.recorded import needs_nvdisasm
from warplab.emulator.lowering.passes.contraction import contract
from warplab.isa.parser import parse
from warplab.isa.syntax import Instruction
from warplab.plan import assembler, disassembler

HEAD = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .f32 a) {
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
        # additions may share a product
        ("mul.f32 %f3,%f1,%f2; add.f32 %f5,%f3,%f4; sub.f32 %f6,%f4,%f3;", ["fma.rn.f32", "neg.f32", "fma.rn.f32"]),
        ("mul.f32 %f3,%f1,%f2; add.f32 %f5,%f3,%f4; fma.rn.f32 %f6,%f1,%f4,%f3;", ["mul.f32", "add.f32", "fma.rn.f32"]),
        # of two products, that which nothing else needs
        ("mul.f32 %f3,%f1,%f2; mul.f32 %f5,%f1,%f4; add.f32 %f6,%f3,%f5; neg.f32 %f7,%f3;",
         ["mul.f32", "fma.rn.f32", "neg.f32"]),
        # a factor that is constant is there in every block
        ("mov.f32 %f1,%f6; mul.f32 %f3,%f1,0f40400000; L: add.f32 %f5,%f3,%f4;", ["mov.f32", "fma.rn.f32"]),
        ("ld.param.f32 %f1,[a]; ld.global.f32 %f2,[%r1]; mul.f32 %f3,%f1,%f2; L: add.f32 %f5,%f3,%f4;",
         ["ld.param.f32", "ld.global.f32", "fma.rn.f32"]),
        ("mov.f32 %f1,%f6; mov.f32 %f1,%f7; mul.f32 %f3,%f1,0f40400000; L: add.f32 %f5,%f3,%f4;",
         ["mov.f32", "mov.f32", "mul.f32", "add.f32"]),
        ("mul.f32 %f3,%f1,%f2; bar.sync 0; add.f32 %f5,%f3,%f4;", ["bar.sync", "fma.rn.f32"]),
        ("mul.f32 %f3,%f3,%f2; add.f32 %f3,%f3,%f4;", ["fma.rn.f32"]),
        # a rounding mode, another width of flushing, a second use, a guard, a block's end or a new factor forbid it
        ("mul.rn.f32 %f3,%f1,%f2; add.f32 %f5,%f3,%f4;", ["mul.rn.f32", "add.f32"]),
        ("mul.f32 %f3,%f1,%f2; add.rn.f32 %f5,%f3,%f4;", ["mul.f32", "add.rn.f32"]),
        ("mul.f32 %f3,%f1,%f2; add.ftz.f32 %f5,%f3,%f4;", ["mul.f32", "add.ftz.f32"]),
        ("mul.f32 %f3,%f1,%f2; add.f32 %f5,%f3,%f4; add.f32 %f6,%f3,%f3;", ["mul.f32", "add.f32", "add.f32"]),
        ("mul.f32 %f3,%f1,%f2; @%p add.f32 %f5,%f3,%f4;", ["mul.f32", "add.f32"]),
        ("mul.f32 %f3,%f1,%f2; L: add.f32 %f5,%f3,%f4;", ["mul.f32", "add.f32"]),
        ("mul.f32 %f3,%f1,%f2; mov.f32 %f1,%f6; add.f32 %f5,%f3,%f4;", ["mul.f32", "mov.f32", "add.f32"]),
        # so does what ptxas makes branches of, but not where a factor is constant
        ("mul.f32 %f3,%f1,%f2; div.rn.f32 %f6,%f1,%f2; add.f32 %f5,%f3,%f4;", ["mul.f32", "div.rn.f32", "add.f32"]),
        ("div.rn.f32 %f6,%f1,%f2; mul.f32 %f3,%f1,%f2; add.f32 %f5,%f3,%f4;", ["div.rn.f32", "fma.rn.f32"]),
        ("mov.f32 %f1,%f6; mul.f32 %f3,%f1,0f40400000; sqrt.rn.f32 %f7,%f1; add.f32 %f5,%f3,%f4;",
         ["mov.f32", "sqrt.rn.f32", "fma.rn.f32"]),
    ],
)  # fmt: skip
def test_what_is_fused(body: str, expected: list[str]) -> None:
    assert opcodes(body) == expected


def _random_kernel(number: int, draw: random.Random) -> str:
    """Three blocks, of which a branch leads past the second: all results are used, no two operations are the same."""
    lines: list[str] = []
    used: set[int] = set()
    known: set[tuple] = set()

    def block(before: list[int]) -> list[int]:
        made: list[int] = []
        for _ in range(draw.randint(2, 6)):
            name = draw.choice(["mul", "add", "sub", "mul", "add", "sub", "mul", "add", "sub", "fma.rn"])
            operands = [draw.choice((before + made)[-5:]), *draw.sample(before + made, 2 if name == "fma.rn" else 1)]
            constant = name == "mul" and draw.random() < 0.4
            key = (name, *operands[:1], "constant") if constant else (name, *sorted(operands))
            if key in known or len(set(operands)) < len(operands):
                continue
            known.add(key)
            used.update(operands[:1] if constant else operands)
            result = 4 + len(known)
            factors = [f"%f{operands[0]}", "0f3F5DB3D7"] if constant else [f"%f{n}" for n in operands]
            lines.append(f"{name}.f32 %f{result}, {', '.join(factors)};")
            made.append(result)
        return made

    def stores(made: list[int]) -> list[str]:
        return [f"st.global.f32 [%rd2+{256 * n}], %f{n};" for n in made if n not in used]

    first = block([0, 1, 2, 3])
    lines.append(f"@%p1 bra L{number};")
    lines += [*stores(block(first + [0, 1])), "bar.sync 0;", f"L{number}:"]
    last = block(first + [2, 3])
    loads = [f"ld.global.f32 %f{n}, [%rd1+{256 * n}];" for n in range(4)]
    return "\n".join([
        f".visible .entry k{number}(.param .u64 p, .param .u64 q) {{",
        ".reg .f32 %f<40>; .reg .b64 %rd<4>; .reg .b32 %r<3>; .reg .pred %p<2>;",
        "ld.param.u64 %rd1, [p]; ld.param.u64 %rd2, [q]; mov.u32 %r1, %tid.x; setp.gt.s32 %p1, %r1, 3;",
        "mul.wide.u32 %rd3, %r1, 4; add.s64 %rd1, %rd1, %rd3; add.s64 %rd2, %rd2, %rd3;",
        *loads, *lines, *stores(first + last), "ret;\n}",
    ])  # fmt: skip


@pytest.mark.processes
@needs_nvdisasm
def test_fuses_what_ptxas_fuses() -> None:
    """Each line of PTX: what the pass makes of it, and what the assembler does."""
    draw = random.Random(5)
    text = "\n".join([*HEAD.splitlines()[:3], *(_random_kernel(number, draw) for number in range(400))])
    lines = text.split("\n")
    functions = parse(text).functions
    machine = disassembler.disassembled(assembler.run(text, "sm_90a", 60).image) or {}
    assert len(machine) == len(functions) == 400
    fused = 0
    for name, code in machine.items():
        contract(functions[name])
        ours = {i.places[0]: i.opcode.partition(".")[0] for i in functions[name].body
                if isinstance(i, Instruction) and i.opcode.startswith(("mul.f", "add.f", "sub.f", "fma."))}  # fmt: skip
        theirs = {i.line: i.root for i in code if i.root in ("FMUL", "FADD", "FFMA")}
        words = {"mul": "FMUL", "add": "FADD", "sub": "FADD", "fma": "FFMA"}
        assert {line: words[word] for line, word in ours.items()} == theirs, name
        fused += sum(root == "FFMA" and "fma" not in lines[line - 1] for line, root in theirs.items())
    assert fused > 200


BETWEEN = (  # products and the additions that take them
    "div.rn.f32 %f5,%f2,%f3;", "div.rn.ftz.f32 %f5,%f2,0f40800000;", "div.rz.f32 %f5,%f2,%f3;",
    "div.full.f32 %f5,%f2,%f3;", "div.approx.f32 %f5,%f2,%f3;", "rcp.rn.ftz.f32 %f5,%f2;",
    "rcp.approx.ftz.f32 %f5,%f2;", "sqrt.rn.f32 %f5,%f2;", "sqrt.approx.f32 %f5,%f2;", "rsqrt.approx.f32 %f5,%f2;",
    "ex2.approx.f32 %f5,%f2;", "div.rn.f64 %d2,%d1,0d4010000000000000;", "rcp.rn.f64 %d2,%d1;",
    "sqrt.rn.f64 %d2,%d1;", "rsqrt.approx.f64 %d2,%d1;", "rcp.approx.ftz.f64 %d2,%d1;", "fma.rn.f64 %d2,%d1,%d1,%d1;",
    "div.s32 %r2,%r1,7;", "rem.s32 %r2,%r1,%r3;", "div.u32 %r2,%r1,%r3;", "rem.u32 %r2,%r1,7;",
    "div.u64 %rd3,%rd1,%rd2;", "rem.s64 %rd3,%rd1,10;", "rem.u16 %h2,%h1,%h1;", "membar.gl;", "membar.cta;",
    "fence.acq_rel.cta;", "fence.proxy.async;", "bar.sync 0;", "bar.warp.sync -1;",
    "atom.global.add.u32 %r2,[%rd1],%r1;", "ld.acquire.gpu.global.u32 %r2,[%rd1];",
    "shfl.sync.bfly.b32 %r2,%r1,1,31,-1;", "mov.u32 %r2,%r1; @%p ld.global.u32 %r2,[%rd1];",
    "@%p st.global.u32 [%rd1],%r1;", "@%p red.global.add.u32 [%rd1],%r1;", "@%p bar.arrive 1,64;",
    "mov.u32 %r2,%r1; @%p add.s32 %r2,%r2,1;",
)  # fmt: skip


@pytest.mark.processes
@needs_nvdisasm
def test_blocks_end_where_ptxas_ends_them() -> None:
    """Instructions of which ptxas makes branches, before it fuses, and such of which it does not. Of the two
    products, one has a constant factor."""
    lines = HEAD.splitlines()[:3]
    additions = []
    for number, between in enumerate(BETWEEN):
        lines += [
            f".visible .entry k{number}(.param .u64 p) {{",
            ".reg .f32 %f<10>; .reg .f64 %d<3>; .reg .b64 %rd<4>; .reg .b32 %r<4>; .reg .b16 %h<3>; .reg .pred %p;",
            "ld.param.u64 %rd1,[p]; mov.u32 %r1,%tid.x; mul.wide.u32 %rd2,%r1,8; add.s64 %rd1,%rd1,%rd2;",
            "ld.global.u32 %r3,[%rd1]; setp.gt.s32 %p,%r3,5; ld.global.f64 %d1,[%rd1+512]; cvt.u16.u32 %h1,%r3;",
            *(f"ld.global.f32 %f{n},[%rd1+{1024 * n + 1024}];" for n in range(4)),
            f"mul.f32 %f4,%f0,%f1; mul.f32 %f7,%f2,0f3F5DB3D7; {between}",
            "add.f32 %f6,%f4,%f3;",
            "add.f32 %f8,%f7,%f3;",
            "st.global.f32 [%rd1],%f6; st.global.f32 [%rd1+256],%f8; st.global.f32 [%rd1+512],%f5;",
            "st.global.f64 [%rd1+1024],%d2; st.global.u32 [%rd1+1536],%r2; st.global.u64 [%rd1+2048],%rd3;",
            "st.global.u16 [%rd1+2560],%h2; ret; }",
        ]
        additions.append((len(lines) - 4, len(lines) - 3))
    text = "\n".join(lines)
    functions = parse(text).functions
    machine = disassembler.disassembled(assembler.run(text, "sm_90a", 60).image) or {}
    words = {"add.f32": "FADD", "fma.rn.f32": "FFMA"}
    for number, (between, places) in enumerate(zip(BETWEEN, additions, strict=True)):
        function = functions[f"k{number}"]
        contract(function)
        ours = [
            (i.places[0], words[i.opcode]) for i in function.body if isinstance(i, Instruction) and i.opcode in words
        ]
        theirs = [(i.line, i.root) for i in machine[f"k{number}"] if i.line in places and i.root in words.values()]
        assert len(ours) == 2 and sorted(ours) == sorted(theirs), between
