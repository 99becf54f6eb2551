"""Exchanges between the lanes of a warp."""

from __future__ import annotations

from warplab.emulator.lowering import control
from warplab.emulator.lowering.instructions.alternatives import RANDOM
from warplab.emulator.lowering.rows import Row
from warplab.emulator.program import Work

TITLE = "Lanes of a warp"
ROWS = (
    Row(
        (
            ("shfl.sync{.up,.down,.bfly,.idx}.b32", "b32|pred b32 b32 b32 b32"),
            ("shfl{.up,.down,.bfly,.idx}.b32", "b32 b32 b32 b32"),
        ),
        control.shuffle,
        Work.EXCHANGE,
        tested=RANDOM,
    ),
    Row(
        (("vote.sync{.all,.any,.uni}.pred", "pred pred b32"), ("vote.sync.ballot.b32", "b32 pred b32")),
        control.vote,
        Work.EXCHANGE,
        tested=RANDOM,
    ),
    Row(
        (("match.any.sync{.b32,.b64}", "b32 T b32"), ("match.all.sync{.b32,.b64}", "b32|pred T b32")),
        control.match,
        Work.EXCHANGE,
        tested=RANDOM,
    ),
    Row(
        (
            ("redux.sync{.add,.min,.max}{.u32,.s32}", "T T b32"),
            ("redux.sync{.and,.or,.xor}.b32", "T T b32"),
            ("redux.sync{.min,.max}{,.abs}{,.NaN}.f32", "T T b32"),
        ),
        control.redux,
        Work.EXCHANGE,
        since={"": 80, "f32": 100},
        tested=RANDOM,
    ),
    Row((("activemask.b32", "T"),), control.active_mask, Work.EXCHANGE, tested="tests/emulator/test_forms.py"),
    Row(
        (("elect.sync", "b32|pred b32"),),
        control.elect,
        Work.EXCHANGE,
        since={"": 90},
        tested="tests/emulator/test_forms.py",
    ),
)
