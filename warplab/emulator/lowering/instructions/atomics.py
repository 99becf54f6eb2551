"""Atomics, with and without a result."""

from __future__ import annotations

from warplab.emulator.lowering import memory
from warplab.emulator.lowering.instructions.alternatives import HALVES
from warplab.emulator.lowering.rows import Row
from warplab.emulator.program import Work

TITLE = "Atomics"
_SCOPE = "{,.cta,.cluster,.gpu,.sys}"
_ORDER = "{,.relaxed,.acquire,.release,.acq_rel}" + _SCOPE
_SPACE = "{,.global,.shared}"
_SINCE = dict.fromkeys(("v2", "v4", "v8", "cluster", "bf16", "bf16x2", "b128"), 90)

ROWS = (
    Row(
        (
            ("atom" + _ORDER + _SPACE + ".add{.u32,.s32,.u64,.f32,.f64}", "T [] T"),
            ("atom" + _SPACE + "{.min,.max}{.u32,.s32,.u64,.s64}", "T [] T"),
            ("atom" + _SPACE + "{.and,.or,.xor,.exch}{.b32,.b64}", "T [] T"),
            ("atom" + _SPACE + ".cas{.b16,.b32,.b64}", "T [] T T"),
            ("atom" + _SPACE + "{.inc,.dec}.u32", "T [] T"),
            ("atom" + _SPACE + ".add.noftz" + HALVES, "T [] T"),
            ("atom.global{.add}{.v2,.v4}.f32", "VT [] VT"),
            ("atom.global{.add,.min,.max}.noftz{.v2,.v4,.v8}{.f16,.bf16}", "VT [] VT"),
            ("atom.global{.add,.min,.max}.noftz{.v2,.v4}{.f16x2,.bf16x2}", "VT [] VT"),
        ),
        memory.atomic,
        Work.MEMORY,
        stores=True,
        refused=(("atom" + _SPACE + ".exch.b128", "T [] T"), ("atom" + _SPACE + ".cas.b128", "T [] T T")),
        since=_SINCE,
        tested="tests/emulator/test_vector_atomics.py",
    ),
    Row(
        (
            ("red{,.relaxed,.release}" + _SCOPE + _SPACE + ".add{.u32,.s32,.u64,.f32,.f64}", "[] T"),
            ("red" + _SPACE + "{.min,.max}{.u32,.s32,.u64,.s64}", "[] T"),
            ("red" + _SPACE + "{.and,.or,.xor}{.b32,.b64}", "[] T"),
            ("red" + _SPACE + "{.inc,.dec}.u32", "[] T"),
            ("red" + _SPACE + ".add.noftz" + HALVES, "[] T"),
            ("red.global{.add}{.v2,.v4}.f32", "[] VT"),
            ("red.global{.add,.min,.max}.noftz{.v2,.v4,.v8}{.f16,.bf16}", "[] VT"),
            ("red.global{.add,.min,.max}.noftz{.v2,.v4}{.f16x2,.bf16x2}", "[] VT"),
        ),
        memory.atomic,
        Work.MEMORY,
        stores=True,
        writes=False,
        since=_SINCE,
        tested="tests/emulator/test_vector_atomics.py",
    ),
)
