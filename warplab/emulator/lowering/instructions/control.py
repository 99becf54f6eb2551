"""Branches, calls and ends."""

from __future__ import annotations

from warplab.emulator.lowering import calls, control
from warplab.emulator.lowering.rows import Row
from warplab.emulator.program import Work

TITLE = "Control flow"
ROWS = (
    Row(
        (("bra{,.uni}", "@"),), control.branch, Work.CONTROL, writes=False, leaves=True, tested="tests/emulator/alu.py"
    ),
    Row((("brx.idx{,.uni}", "u32 table"),), control.indexed_branch, Work.CONTROL, writes=False, leaves=True),
    Row(
        (("call{,.uni}", "callee"), ("call", "u64 , callprototype")),
        calls.call,
        Work.CONTROL,
        writes=False,
        tested="tests/emulator/test_calls.py",
    ),
    Row((("ret", ""),), control.leave, Work.CONTROL, writes=False, leaves=True, tested="tests/emulator/alu.py"),
    Row((("exit", ""),), control.leave, Work.CONTROL, writes=False, leaves=True),
    Row(
        (("trap", ""),), control.trap, Work.CONTROL, writes=False, leaves=True, tested="tests/emulator/test_findings.py"
    ),
    Row((("brkpt", ""),), control.trap, Work.CONTROL, writes=False),
    Row((("nanosleep.u32", "u32"), ("pmevent", "1")), control.nothing, Work.MOVE, writes=False),
    Row(
        (("griddepcontrol{.wait,.launch_dependents}", ""),),
        control.dependent_launch,
        Work.MOVE,
        since={"": 90},
        writes=False,
        tested="tests/emulator/test_forms.py",
    ),
    Row(
        (("setmaxnreg{.inc,.dec}.sync.aligned.u32", "64"),),
        control.register_limit,
        Work.MOVE,
        since={"": 90},
        writes=False,
        tested="tests/emulator/test_calls.py",
    ),
)
