"""What a lab asks for whose submissions plan checkpoints: which operators' results are kept, of all that could be.

A submission's functions are called with a table of operators, and most with a budget in bytes, and return records
(block, name). What is kept is taken from its store in the backward pass; what is not is computed again, as every
operator's inputs are there either way (`systems.training.planner`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar

from autograder.spec.records import AskedFunction, Limit, RecordCase, RecordTask
from autograder.spec.task import Dimensions
from systems.training.planner import Operator, Plan, plan
from systems.training.sizes import Sizes
from warplab.plan.capture import operator_table
from warplab.plan.capture.records import RecordForm
from warplab.plan.model import HostCall, ScalarArgument

MOVED = "bytes_moved_again"
_MEGA = 1e6


class Aim(StrEnum):
    """What a function is asked for."""

    NOTHING_AGAIN = "no FLOP again, for the fewest bytes"
    KEPT = "the fewest FLOP again, for what may be kept between the passes"
    PEAK = "the same, for what the peak may be above that of a full checkpoint"


@dataclass(frozen=True)
class Checkpoint(AskedFunction):
    """One function of the submission. `table` gives the operators of a size, block after block.

    `percent` among a size's dimensions is the budget, of all that would count against it if every result were kept.
    For Aim.PEAK blocks are alike. `reason` says what a plan does that moves more again than the best one.
    """

    measured: ClassVar[str] = "plan"

    table: Callable[[Dimensions], list[Operator]]
    aim: Aim
    reason: str = ""

    def host_call(self, case: RecordCase) -> HostCall:
        """The call: the table, of which it has the number of rows, and the budget where there is one."""
        named = [ScalarArgument("operators", len(self.table(case.dimensions)))]
        if self.aim is not Aim.NOTHING_AGAIN:
            named.append(ScalarArgument("budget", self.budget(case.dimensions)))
        return HostCall(self.function, tuple(named))

    def content(self, case: RecordCase) -> str:
        """The table."""
        return operator_table.encode(self.table(case.dimensions))

    def budget(self, size: Dimensions) -> int:
        """The most bytes that `taken` may give."""
        return self.taken(self.table(size), size) * size["percent"] // 100

    def taken(self, kept: Collection[Operator], size: Dimensions) -> int:
        """Bytes of what is kept that count against the budget."""
        return taken(kept, self.table(size), self.aim)

    def best(self, size: Dimensions) -> Plan:
        """The best plan that there is, among equal ones the one that moves the fewest bytes again."""
        return best(self.table(size), self.aim, 0 if self.aim is Aim.NOTHING_AGAIN else self.budget(size))

    def cost(self, made: Plan) -> float:
        """What is held against the best plan's: MB kept, or MFLOP again."""
        return (made.bytes if self.aim is Aim.NOTHING_AGAIN else made.flops) / _MEGA

    def words(self, cost: float) -> str:
        """What a cost is."""
        return f"{cost:,.3f} MB kept" if self.aim is Aim.NOTHING_AGAIN else f"{cost:,.3f} MFLOP again"

    def all_limits(self) -> tuple[Limit, ...]:
        """The budget of what is moved again; none where no budget of memory is given."""
        if self.aim is Aim.NOTHING_AGAIN:
            return ()
        return (Limit(MOVED, self.best(self.modelled.dimensions).moved, self.reason),)


def taken(kept: Collection[Operator], table: Collection[Operator], aim: Aim) -> int:
    """Bytes of what is kept of a table that count against a budget.

    At the peak the last block is on its way back: all of its results are there, kept or made again, whatever a plan
    says of them. So of equal blocks it is those before the last that a plan adds to the peak.
    """
    last = max(one.block for one in table) if aim is Aim.PEAK else -1
    return sum(one.bytes for one in kept if one.block != last)


def best(table: Sequence[Operator], aim: Aim, budget: int) -> Plan:
    """The best plan for a table; Aim.NOTHING_AGAIN has no budget."""
    if aim is Aim.NOTHING_AGAIN:
        return planned([one for one in table if one.flops], table)
    free = [one for one in table if not taken([one], table, aim)]
    before = plan([one for one in table if taken([one], table, aim)], budget)
    return planned([*before.kept, *free], table)


def planned(kept: Sequence[Operator], table: Sequence[Operator]) -> Plan:
    """The plan that keeps these operators of a table."""
    names = {(one.block, one.name) for one in kept}
    left = [one for one in table if (one.block, one.name) not in names]
    again = sum(one.flops for one in left), sum(one.moved for one in left)
    return Plan(tuple(kept), sum(one.bytes for one in kept), *again)


@dataclass(frozen=True)
class CheckpointTask(RecordTask[Checkpoint]):
    """What `labs/<lab>/task.py` defines as TASK where lab.toml has `kind = "checkpoints"`.

    `model` gives the sizes of the GPT that a case which is `run` is carried out on: its table is that model's.
    """

    kind: ClassVar = "checkpoints"
    form: ClassVar = RecordForm.KEPT
    noun: ClassVar = "plan"
    judged_on: ClassVar = "tables of operators, and a small GPT on this machine's processor"

    model: Callable[[Dimensions], Sizes] = field(kw_only=True)
