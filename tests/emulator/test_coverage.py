"""The table of instructions: what it says of an opcode, and the page that is made of it."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from warplab.emulator.lowering import coverage
from warplab.emulator.lowering.instructions.table import TABLE
from warplab.emulator.lowering.lowering import LoweringError
from warplab.emulator.lowering.passes.liveness import live_after
from warplab.emulator.lowering.rows import InstructionTable, Row, expand
from warplab.emulator.program import Work, WorkKind
from warplab.isa.parser import parse
from warplab.plan import assembler

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.pages
def test_the_page_has_a_row_for_every_form() -> None:
    page = coverage.page()
    assert page.count("\n| `") > 200 and "fma{.rn,.rz,.rm,.rp}" in page


def test_emitters_take_the_forms_of_their_rows_and_no_refused_ones() -> None:
    """An operation that an emitter asks for and the table of operations on rows lacks shows here."""
    for row in TABLE.rows:
        assert bool(row.forms) == (row.emitter is not None)
        for forms, taken in ((row.forms, True), (row.refused, False)):
            for form, operands in forms:
                assert [o for o in expand(form) if coverage.takes(o, operands) is not taken] == [], form


TARGETS = (75, 80, 86, 89, 90, 100, 120)  # those that ptxas 13 knows and a row names
NOT_OF_ALL = {"wgmma", "setmaxnreg"}  # of sm_90a, or of families of targets that came later


@pytest.mark.processes
def test_ptxas_has_instructions_from_the_targets_that_their_rows_name() -> None:
    """One opcode for each target of each row: assembled for it, and refused for the one before."""
    samples: dict[tuple[int, int], tuple[str, str]] = {}
    for number, row in enumerate(TABLE.rows):
        for form, operands in row.forms:
            for opcode in expand(form):
                samples.setdefault((number, coverage.architecture_of(opcode)), (opcode, operands))
    for (_, first), (opcode, operands) in samples.items():
        if first and opcode.split(".")[0] not in NOT_OF_ALL:
            before = TARGETS[TARGETS.index(first) - 1]
            for architecture, taken in ((first, True), (before, False)):
                target = f"sm_{architecture}{'a' if architecture >= 100 else ''}"
                done = assembler.run(coverage.FormProbe(opcode, operands).text(target), target, 20)
                assert bool(done.image) is taken, f"{opcode} for {target}: {done.log}"


def test_a_form_that_no_row_has_is_taken_or_refused_and_no_fault() -> None:
    """Opcodes with a modifier too few, too many or of another form, and the operands of one that is taken."""
    rng = random.Random(1)
    for row in TABLE.rows:
        words = sorted({part for opcode in row.opcodes for part in opcode.split(".")[1:]}) + ["e4m3", "b1", "rna"]
        for form, operands in row.forms * 3:
            opcode = rng.choice(expand(form))
            probe, parts = coverage.FormProbe(opcode, operands), opcode.split(".")
            for _ in range(rng.randint(1, 2)):
                place = rng.randint(row.name_parts, len(parts))
                parts[place : place + rng.randint(0, 1)] = [rng.choice(words)] if rng.random() < 0.7 else []
            probe.opcode = ".".join(parts)
            if probe.opcode not in row.taken:
                probe.handled()


def test_a_row_is_tested_where_it_says() -> None:
    for row in TABLE.rows:
        if row.tested:
            text = (REPOSITORY / row.tested).read_text()
            # The video instructions have their number of elements appended where they are tested.
            missing = [
                n for n in row.names if not re.search(rf"(?<![\w.%]){re.escape(n.rstrip('24'))}[\d.\"{{' ;]", text)
            ]
            assert not missing, row.tested


def test_two_rows_may_share_a_name_and_no_opcode() -> None:
    with pytest.raises(ValueError, match=r"Two rows have add with the type u32"):
        InstructionTable([Row((("add.u32", "T T T"),)), Row((("add{.sat,}{.u32,.s32}", "T T T"),))])
    integers, floats = TABLE.find("add.sat.s32"), TABLE.find("add.rn.ftz.sat.f32")
    assert integers is not None and floats is not None and integers is not floats
    assert TABLE.find("add.rn.e4m3") is None and TABLE.find("frobnicate.u32") is None
    store, later = TABLE.find("st.global.u32"), TABLE.find("st.async.weak.shared::cluster.u32")
    assert store is not None and later is not None and store is not later


@pytest.mark.parametrize(
    ("opcode", "kind"),
    [
        ("add.s64", WorkKind(Work.INTEGER, wide=True)),
        ("mul.wide.u32", WorkKind(Work.INTEGER)),
        ("fma.rn.ftz.f32", WorkKind(Work.FP32, operation="ffma")),
        ("sub.f16x2", WorkKind(Work.FP16, operation="hadd")),
        ("div.rn.f64", WorkKind(Work.FP64)),
        ("sin.approx.f32", WorkKind(Work.SPECIAL, operation="fmul")),
        ("cvt.u64.u32", WorkKind(Work.MOVE)),
        ("cvt.rn.f32.u8", WorkKind(Work.CONVERSION)),
        ("ld.param.u64", WorkKind(Work.MOVE)),
        ("ld.shared.u32", WorkKind(Work.MEMORY)),
        ("bar.sync", WorkKind(Work.CONTROL)),
    ],
)
def test_what_an_instruction_counts_as(opcode: str, kind: WorkKind) -> None:
    assert TABLE.look_up(opcode).kind == kind


def test_the_registers_that_are_live_after_an_instruction() -> None:
    """Written over by one that writes its first operand, read by a store, and kept by one that may not be executed."""
    text = """.version 9.0
    .target sm_90a
    .address_size 64
    .visible .entry k() {
    .reg .b32 %r<4>; .reg .b64 %a; .reg .pred %p;
    mov.u32 %r0, 1;
    dp4a.u32.u32 %r1, %r0, %r0, %r0;
    elect.sync %r2|%p, %r1;
    @%p redux.sync.add.u32 %r2, %r1, -1;
    st.global.u32 [%a], %r2;
    ret;
    }"""
    function = parse(text).functions["k"]
    names = {name: 1 << i for i, name in enumerate(("%r0", "%r1", "%r2", "%r3", "%a", "%p"))}
    live = [{name for name, bit in names.items() if word & bit} for word in live_after(function, TABLE)]
    assert live == [
        {"%r0", "%a"}, {"%r1", "%a"}, {"%r1", "%r2", "%p", "%a"}, {"%r2", "%a"}, set(), set(),
    ]  # fmt: skip


def test_the_emitters_are_really_asked() -> None:
    assert coverage.takes("add.rn.f32", "f32 f32 f32")
    assert not coverage.takes("add.rx.f32", "f32 f32 f32")
    assert not coverage.takes("frobnicate.u32", "u32 u32")
    assert expand("a{.x,.y}{,.z}") == ["a.x", "a.x.z", "a.y", "a.y.z"]


def test_an_emitter_that_fails_is_not_an_instruction_that_is_refused() -> None:
    """Every form of the table is taken or refused by name; a fault of an emitter's own is neither."""
    assert not coverage.takes("mov.foo", "b32 b32")
    assert not coverage.takes("mov.u32", "b32")
    with pytest.raises(LoweringError, match="'wgmma.wait_group.*' by a fault of its own"):
        coverage.takes("wgmma.wait_group.sync.aligned", "")
