"""A plan of checkpoints of the reader's own, as lab 15 asks for it: what the check says of it, and a picture."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from matplotlib.figure import Figure

from autograder.spec.checkpoints import Aim, best, planned, taken
from course.figures.kept_operators import kept_operators
from systems.training.planner import Operator
from warplab.plan.capture import operator_table
from warplab.plan.capture.failure import CaptureFailure
from warplab.plan.capture.records import RecordForm, to_json


def as_in_the_lab(operators: Iterable[Operator]) -> list[operator_table.Operator]:
    """A table as a submission of lab 15 gets it."""
    return operator_table.decode(operator_table.encode(operators))


def own_checkpoint(
    records: Iterable[Sequence[Any]], operators: Sequence[Operator], budget: int | None = None, at_peak: bool = False,
    title: str = "Your plan",
) -> Figure | None:  # fmt: skip
    """Draw what records (block, name) keep of a table, and say what it costs beside the best plan; or what is wrong.

    Without a budget it is a policy, which computes no FLOP again. `at_peak`: the budget is that of the step's peak.
    """
    aim = Aim.NOTHING_AGAIN if budget is None else Aim.PEAK if at_peak else Aim.KEPT
    try:
        rows = json.loads(to_json(records, RecordForm.KEPT, "your function"))
    except CaptureFailure as failure:
        print(failure.message)
        return None
    names = [(block, name) for block, name in rows]
    known = {(one.block, one.name) for one in operators}
    wrong = next((record for record in names if record not in known or names.count(record) > 1), None)
    if wrong:
        print(f"{wrong[1]!r} of block {wrong[0]} is {'kept more than once' if wrong in known else 'not in the table'}.")
        return None
    made = planned([one for one in operators if (one.block, one.name) in set(names)], operators)
    least = best(operators, aim, budget or 0)
    counted = taken(made.kept, operators, aim)
    for what, mine, theirs in (
        ("bytes kept", made.bytes, least.bytes),
        ("FLOP again", made.flops, least.flops),
        ("bytes moved again", made.moved, least.moved),
    ):
        print(f"{what}: {mine:,}; the best plan: {theirs:,}")
    if budget is not None and counted > budget:
        print(f"That is {counted:,} bytes{' more at the peak' if at_peak else ''}, where the budget is {budget:,}.")
    if budget is None and made.flops:
        print("A policy computes no FLOP again.")
    room = f", {counted / budget:.0%} of the budget" if budget else ""
    return kept_operators(
        operators,
        set(names),
        title=title,
        subtitle=f"{made.bytes / 1e6:.2f} MB kept{room}; {made.flops / 1e6:.1f} MFLOP again",
    )
