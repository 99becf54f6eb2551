"""Conversions and atomics against the modifiers that ptxas gives their machine code, for each target.

Every form of the table is assembled. What its machine code rounds, flushes and saturates is what the emulator's
operations do: their keys name it for conversions, and subnormal numbers show it for atomics.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest

from tests.emulator import alu
from tests.emulator.plans import buffer, plan_of
from tests.emulator.recorded import needs_nvdisasm
from warplab.emulator import execute
from warplab.emulator.core.state.layout import VECTOR_BASE
from warplab.emulator.lowering.coverage import FormProbe
from warplab.emulator.lowering.instructions.table import TABLE
from warplab.emulator.lowering.lowering import Lowering
from warplab.emulator.lowering.rows import expand
from warplab.isa.machine_code import MachineInstruction
from warplab.isa.parser import parse
from warplab.plan import assembler
from warplab.plan.assemble import assemble
from warplab.plan.disassembler import disassembled
from warplab.plan.model import Pointer, Role

TARGETS = ("sm_75", "sm_80", "sm_90a", "sm_100a", "sm_120a")
# The machine code's words for what PTX calls otherwise. To the nearest even is what no word says.
WORDS = {
    "RZ": "rz", "RM": "rm", "RP": "rp", "TRUNC": "rzi", "FLOOR": "rmi", "CEIL": "rpi", "FTZ": "ftz", "SAT": "sat",
    "RELU": "relu", "SATFINITE": "satfinite",
}  # fmt: skip
ROUNDS = re.compile(r"F2F|F2I|I2F|FRND|F2FP|F2IP|I2FP|HADD2|FADD|FMUL|I2I|I2IP")


def forms(*names: str) -> list[tuple[str, str]]:
    return [
        (opcode, operands)
        for row in TABLE.rows
        for form, operands in row.forms
        for opcode in expand(form)
        if opcode.split(".")[0] in names
    ]


def kernel(number: int, opcode: str, operands: str) -> str:
    """An entry whose registers come from memory and whose result goes there, so that nothing is optimised away."""
    probe = FormProbe(opcode, operands)
    kinds = {name: kind for kind, name in re.findall(r"\.reg \.(\w+) (%\w+);", " ".join(probe.declared))}
    result = re.findall(r"%o\d+", probe.operands[0]) if opcode.split(".")[0] != "red" else []
    lines = [f"ld.volatile.global.{kind} {name}, [%in+{16 * n}];" for n, (name, kind) in enumerate(kinds.items())]
    lines.append(f"{opcode} {', '.join(probe.operands)};")
    lines += [f"st.global.{kinds[name]} [%out+{16 * n}], {name};" for n, name in enumerate(result)]
    return "\n".join(
        [
            f".visible .entry k{number}(.param .b64 a, .param .b64 b, .param .b64 c) {{",
            ".reg .b64 %address, %in, %out;",
            *probe.declared,
            "ld.param.b64 %in, [a]; ld.param.b64 %out, [b]; ld.param.b64 %address, [c];",
            *lines,
            "ret; }\n",
        ]
    )


def machine_code(probes: list[tuple[str, str]], target: str) -> dict[str, tuple[MachineInstruction, ...]]:
    """The machine code of each form that ptxas takes for a target."""
    found: dict[str, tuple[MachineInstruction, ...]] = {}
    for start in range(0, len(probes), 250):
        part = dict(enumerate(probes[start : start + 250]))
        while part:
            text = f".version 9.0\n.target {target}\n.address_size 64\n"
            text += "".join(kernel(number, *form) for number, form in part.items())
            done = assembler.run(text, target, 120)
            if done.image:
                code = disassembled(done.image)
                assert code
                found |= {form[0]: code[f"k{number}"] for number, form in part.items()}
                break
            lines = text.split("\n")
            wrong = {owner(lines, int(line)) for line in re.findall(r"line (\d+); error", done.log)}
            assert wrong, done.log
            part = {number: form for number, form in part.items() if number not in wrong}
    return found


def owner(lines: list[str], line: int) -> int:
    """The number of the kernel that a line is in."""
    return next(int(m[1]) for text in reversed(lines[:line]) if (m := re.match(r"\.visible \.entry k(\d+)", text)))


def said(code: Iterable[MachineInstruction]) -> set[str]:
    """The modifiers, in PTX's words, of what rounds or clamps."""
    words = {WORDS[word] for i in code if ROUNDS.match(i.opcode) for word in i.opcode.split(".") if word in WORDS}
    # A float32 as an operand of sm_75's HADD2 is cut to a half: ptxas makes it of .rz only.
    return words | ({"rz"} if any(i.root == "HADD2" and ".F32," in i.operands for i in code) else set())


def done_by_the_emulator(opcode: str, operands: str) -> set[str]:
    """The modifiers of the operations that a form is lowered to."""
    lowering = Lowering(parse(FormProbe(opcode, operands).text("sm_100a")), "probe", TABLE)
    lowering.lower()
    names = {number: key for key, number in lowering.index.items()}
    keys = [names[r.op - VECTOR_BASE] for r in lowering.records if r.op - VECTOR_BASE in names]
    return {part for key in keys for part in key.split(".") if part in WORDS.values()}


def is_compared(opcode: str) -> bool:
    """Is the opcode one whose machine code says by modifiers what it does? Of the others, values are tested."""
    parts = opcode.split(".")
    to, of = parts[-2:]
    integers = to[0] in "us" and of[0] in "us"  # clamped by comparisons, or by I2I
    compared = "ftz" in parts and (to, of) == ("f32", "f64")  # below, by its values
    return not (integers or compared or "pack" in parts or "rna" in parts)


@pytest.mark.slow
@pytest.mark.processes
@needs_nvdisasm
@pytest.mark.parametrize("target", TARGETS)
def test_conversions_do_what_their_machine_code_says(target: str) -> None:
    wanted = [form for form in forms("cvt") if is_compared(form[0])]
    code = machine_code(wanted, target)
    assert len(code) > len(wanted) // 3
    for opcode, operands in wanted:
        if opcode not in code or not any(ROUNDS.match(i.opcode) for i in code[opcode]):
            continue  # a move, or arithmetic on bits
        ours = done_by_the_emulator(opcode, operands)
        if "f16" in opcode.split("."):
            ours -= {"ftz"}  # changes nothing, in the emulator either: float16 has no number that float32 flushes
        if opcode.split(".")[-1] == "f32" and opcode.split(".")[-2] in ("u64", "s64"):
            ours -= {"ftz"}  # a subnormal number and a zero both round to 0 by these two modes
        assert ours == said(code[opcode]), opcode


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_a_double_is_flushed_as_if_float32_had_more_exponents(mode: str) -> None:
    """ptxas compares the float64 with 2^-126 less what still rounds to it at 24 bits (0x380FFFFFF0000000 to nearest,
    0x380FFFFFE0000000 away from zero), for every target; rounding first and flushing then differs just below 2^-126."""
    least = 2.0**-126
    near = [least - k * 2.0**-153 for k in range(12)] + [least - 2.0**-151 - 2.0**-179, least + 2.0**-150, 2.0**-140]
    values = np.array([sign * x for x in (*near, 0.0, 1.5) for sign in (1, -1)])
    body = f".reg .f64 %x; .reg .f32 %y; mov.b64 %x, %a0; cvt.{mode}.ftz.f32.f64 %y, %x; mov.b32 %d, %y;"
    found = alu.run(body, 32, [values.view(np.uint64)]).view(np.float32)
    for value, result in zip(values, found, strict=True):
        # At 24 bits of significand and any exponent: an integer number of 2^-150 below 2^-126.
        steps = abs(value) / 2.0**-150
        away = (mode == "rp" and value > 0) or (mode == "rm" and value < 0)
        whole = np.ceil(steps) if away else np.rint(steps) if mode == "rn" else np.floor(steps)
        assert np.signbit(result) == np.signbit(value)
        if abs(value) < least:
            kept = whole * 2.0**-150 >= least  # an exact step below 2^-126 is a zero on an H200, too
            assert abs(result) == (np.float32(least) if kept else 0), (value.hex(), result)


@pytest.mark.parametrize(
    ("opcode", "width", "given", "expected"),
    [
        ("f64.f32", 32, 0x7FC00000, 0x7FF8000000000000),
        ("f64.f32", 32, 0xFF800001, 0xFFF8000020000000),
        ("f64.f16", 16, 0x7C01, 0x7FF8040000000000),
        ("f64.f16", 16, 0x7FFF, 0x7FFFFC0000000000),
        ("f64.bf16", 16, 0xFF81, 0xFFF8200000000000),
        ("f32.f32", 32, 0x7F800001, 0x7F800001),
        ("f32.f32", 32, 0xFFC00000, 0xFFC00000),
        ("ftz.f32.bf16", 16, 0x8002, 0x80000000),
        ("f32.bf16", 16, 0x8002, 0x80020000),
        ("ftz.f32.bf16", 16, 0x7F81, 0x7F810000),
        *((f"{mode}.bf16.f64", 64, 0xFFF8000000000000, 0xFFC0) for mode in ("rn", "rz", "rm", "rp")),
        ("rn.bf16.f64", 64, 0x7FF0000000000001, 0x7FC0),
    ],
)
def test_numbers_that_are_none_and_subnormal_ones_convert_as_on_an_h200(
    opcode: str, width: int, given: int, expected: int
) -> None:
    target, source = opcode.split(".")[-2:]
    bits = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}
    kind = {16: "b16", 32: "f32", 64: "f64"}
    put = f"cvt.u{width}.u64 %n, %a0;" if width < 64 else "mov.b64 %n, %a0;"
    get = f"mov.b{bits[target]} %m, %y; cvt.u64.u{bits[target]} %d, %m;" if bits[target] < 64 else "mov.b64 %d, %y;"
    body = (
        f".reg .b{width} %n; .reg .b{bits[target]} %m; .reg .{kind[width]} %x; .reg .{kind[bits[target]]} %y; {put} "
        f"mov.b{width} %x, %n; cvt.{opcode} %y, %x; {get}"
    )
    assert int(alu.run(body, 64, [np.array([given], np.uint64)])[0]) == expected, source


def additions() -> list[tuple[str, str]]:
    """Every addition of float32 in memory, without scopes and orders."""
    names = [form for form in forms("atom", "red") if {"add", "f32"} <= set(form[0].split("."))]
    return [form for form in names if len(form[0].replace(".global", "").replace(".shared", "").split(".")) <= 4]


def flushes(opcode: str) -> bool:
    """Is the sum of two subnormal numbers a zero in the emulator?"""
    count = int(next((p[1:] for p in opcode.split(".") if p in ("v2", "v4")), "1"))
    shared = ".shared" in opcode
    registers = [f"%f{n}" for n in range(count)]
    group = registers[0] if count == 1 else "{" + ", ".join(registers) + "}"
    old = "" if opcode.startswith("red") else group.replace("%f", "%g") + ", "
    place = "part" if shared else "%p"
    body = ["ld.param.b64 %p, [out];"]
    body += ["mov.b32 %f0, 0f000116C2; st.shared.f32 [part], %f0; bar.sync 0;"] if shared else []
    body += [f"mov.b32 {r}, 0f000116C2;" for r in registers]
    body += [f"{opcode} {old}[{place}], {group};"]
    body += ["ld.shared.f32 %f0, [part]; st.global.f32 [%p], %f0;"] if shared else []
    text = (
        ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .b64 out) {\n"
        ".reg .b64 %p; .reg .f32 %f<4>, %g<4>; .shared .align 16 .f32 part;\n" + "\n".join(body) + "\nret; }"
    )
    start = np.full(4, 1e-40, np.float32)
    plan = plan_of(text, "k", {"out": buffer("out", start, Role.INOUT)}, (Pointer("out"),), (1,), (1,))
    return bool(execute(plan, {"out": start}, workers=1).outputs["out"][0] == 0)


@pytest.mark.slow
@pytest.mark.processes
@needs_nvdisasm
@pytest.mark.parametrize("target", TARGETS)
def test_additions_in_memory_flush_where_their_machine_code_says(target: str) -> None:
    code = machine_code(additions(), target)
    assert code
    for opcode, instructions in code.items():
        global_ones = [i for i in instructions if re.match(r"(ATOMG?|REDG?)\.E\.ADD", i.opcode)]
        assert flushes(opcode) is any("FTZ" in i.opcode.split(".") for i in global_ones), opcode
    for opcode, instructions in machine_code([f for f in forms("atom", "red") if "f32" not in f[0]], target).items():
        assert not any("FTZ" in i.opcode for i in instructions), opcode


PRODUCT = """.version 9.0
.target {target}
.address_size 64
.visible .entry k(.param .b64 p) {{
.reg .b64 %p; .reg .b32 %a<4>, %b<2>, %c<4>;
ld.param.b64 %p, [p];
ld.global.v4.b32 {{%a0, %a1, %a2, %a3}}, [%p]; ld.global.v2.b32 {{%b0, %b1}}, [%p+16];
ld.global.v4.b32 {{%c0, %c1, %c2, %c3}}, [%p+32];
mma.sync.aligned.{shape}.row.col.s32.b1.b1.s32.{operation}.popc {{%c0, %c1, %c2, %c3}},
    {a}, {b}, {{%c0, %c1, %c2, %c3}};
st.global.v4.b32 [%p], {{%c0, %c1, %c2, %c3}};
ret; }}
"""
SHAPES = {"m16n8k256": ("{%a0, %a1, %a2, %a3}", "{%b0, %b1}"), "m16n8k128": ("{%a0, %a1}", "{%b0}")}


@pytest.mark.processes
@needs_nvdisasm
@pytest.mark.parametrize(
    ("target", "operation", "shape", "products"),
    [
        ("sm_90a", "and", "m16n8k256", 1),
        ("sm_90a", "xor", "m16n8k256", 2),
        *((target, "and", "m16n8k256", 8) for target in ("sm_100a", "sm_120a")),
        *((target, "xor", "m16n8k256", 16) for target in ("sm_100a", "sm_120a")),
        ("sm_100a", "and", "m16n8k128", 4),
        ("sm_120a", "xor", "m16n8k128", 8),
    ],
)
def test_products_of_single_bits_count_as_ptxas_makes_them(
    target: str, operation: str, shape: str, products: int
) -> None:
    """By calls in its machine code: a product by xor is two by and, in a subroutine that calls another."""
    a, b = SHAPES[shape]
    text = PRODUCT.format(target=target, operation=operation, shape=shape, a=a, b=b)
    start = np.zeros(16, np.uint32)
    plan = plan_of(text, "k", {"p": buffer("p", start, Role.INOUT)}, (Pointer("p"),), (1,), (32,))
    (kernel,) = plan.kernels.values()
    plan = replace(plan, kernels={"kernel": replace(kernel, ptx={target: text})})
    found = execute(assemble(plan, target), {"p": start}, architecture=target, workers=1)
    assert found.total.tensor_instructions == products


@pytest.mark.processes
@needs_nvdisasm
def test_an_instruction_spread_over_lines_counts_as_on_one() -> None:
    """As in inline assembly: ptxas names the line where a division ends, and the one where an addition begins."""
    counted = []
    for gap in (" ", "\n"):
        spread = "div.rn.f32 %f2, %f0, %f1; add.f32 %f2, %f2, %f1; ex2.approx.f32 %f2, %f2;".replace(", ", "," + gap)
        text = (
            ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .b64 p) {\n"
            ".reg .b64 %p; .reg .f32 %f<3>;\nld.param.b64 %p, [p]; ld.global.v2.f32 {%f0, %f1}, [%p];\n"
            + spread.replace("; ", ";\n")
            + "\nst.global.f32 [%p+8], %f2;\nret; }"
        )
        start = np.array([3, 7, 0, 0], np.float32)
        plan = plan_of(text, "k", {"p": buffer("p", start, Role.INOUT)}, (Pointer("p"),), (1,), (32,))
        counted.append(execute(assemble(plan, "sm_90a"), {"p": start}, workers=1).total)
    assert counted[0] == counted[1]
    assert counted[0].thread_ffma > 0
