"""In which orders of blocks and warps a case is run on the emulator, beside its fixed one.

Hardware promises none. A kernel that is right only because block 0 comes first, or the first warp of a block, or
because a copy comes late, shows it when the last ones come first, or in an order that chance draws. All of a grade's
small cases are run so. Large ones are run a second time if something of theirs completes later than it is issued, or
may tell in which order blocks came along.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from warplab.emulator.orders import Order, further_orders
from warplab.plan.execution import Execution
from warplab.plan.model import Plan

SMALL = 300_000  # warp instructions, or what takes as long: 15 ms on one core
_MULTIPLY_ADDS = 16  # of tensor cores that take as long as a warp instruction
_DRAWN = 2
_SHUFFLED_BLOCKS = 64  # of a launch of a large case: what a random order shows, it shows on a few blocks

# In the PTX: what completes later than it is issued, and what may tell in which order blocks came along.
_ORDERED = re.compile(
    r"cp\.async|wgmma\.|mbarrier\.|\b(?:atom|(?:ld|st)\.(?:volatile|relaxed|acquire|release))\.(?!\S{0,40}shared)"
)


def in_orders(
    run: Callable[[Order], Execution], plan: Plan, architecture: str, seed: int
) -> list[tuple[Order, Execution]]:
    """The executions of a case's plan, the first in the fixed order; none follow one that has findings.

    `seed` is the case's, from which orders are drawn.
    """
    executions = [(Order(), run(Order()))]
    for order in _further(executions[0][1], plan, architecture, seed):
        if executions[-1][1].findings:
            break
        executions.append((order, run(order)))
    return executions


def order_may_matter(plan: Plan, architecture: str) -> bool:
    """Whether a large case is run in a random order too: it could be right by luck of the emulator's own."""
    few = all(math.prod(launch.grid) <= _SHUFFLED_BLOCKS for launch in plan.launches)
    return few and any(_ORDERED.search(kernel.ptx[architecture]) for kernel in plan.kernels.values())


def _further(first: Execution, plan: Plan, architecture: str, seed: int) -> list[Order]:
    total = first.total
    if total.warp_instructions + total.tensor_multiply_adds // _MULTIPLY_ADDS <= SMALL:
        return further_orders(seed, _DRAWN)
    return further_orders(seed, _DRAWN)[1:2] if order_may_matter(plan, architecture) else []
