"""The orders of blocks and warps in which a plan is run, and what several of them found together."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from warplab.errors import WarplabError
from warplab.plan.execution import Execution
from warplab.plan.ranking import ranked

ORDERS_NOTE = "orders"


@dataclass(frozen=True)
class Order:
    """What `warplab.emulator.execute` is told; neither: its fixed order, from the first to the last."""

    reverse: bool = False
    seed: int | None = None

    def __str__(self) -> str:
        """What comes first, in words."""
        if self.seed is not None:
            return "with blocks and warps in an order drawn by chance"
        return f"with the {'last' if self.reverse else 'first'} blocks and warps first"


def further_orders(seed: int, drawn: int) -> list[Order]:
    """The reverse order, and so many that `seed` draws."""
    return [Order(reverse=True), *(Order(seed=number) for number in random.Random(seed).sample(range(1 << 16), drawn))]


def in_several_orders(run: Callable[[Order], Execution], first: Order, count: int) -> Execution:
    """The execution in one order, with the findings of `count` in all: the first, the reverse one, drawn ones.

    Of further orders only what the first did not find on the same line is added. A note says where they leave other
    arrays. Raises WarplabError for fewer than one.
    """
    if count < 1:
        raise WarplabError(f"orders is {count}: give the number of orders to run, 1 or more.")
    execution = run(first)
    further = [order for order in further_orders(first.seed or 0, count - 1) if order != first][: count - 1]
    for order in further:
        execution = _joined(execution, run(order), order)
    return execution


def _joined(first: Execution, other: Execution, order: Order) -> Execution:
    known = {(finding.kind, finding.kernel, finding.line) for finding in first.findings}
    new = [finding for finding in other.findings if (finding.kind, finding.kernel, finding.line) not in known]
    notes = first.notes
    if ORDERS_NOTE not in notes and any(
        array.tobytes() != other.outputs[name].tobytes() for name, array in first.outputs.items()
    ):
        note = f"The arrays differ {order}: they depend on the order of blocks or warps, if only by rounding."
        notes = notes | {ORDERS_NOTE: note}
    return replace(first, findings=tuple(ranked((*first.findings, *new))), notes=notes)
