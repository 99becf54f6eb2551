"""One request of the line that wastes most: which addresses the 32 lanes of a warp ask for, to be drawn in a report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice

import numpy as np

from autograder.records.outcome import LaneRequest
from autograder.report.waste import wasted_lines
from warplab.errors import WarplabError
from warplab.plan.execution import Counters, Execution
from warplab.plan.model import Plan

_LOOKED_AT = 64  # requests of a warp on that line; a loop repeats them


def worst_request(
    plan: Plan, draw: Callable[[], Mapping[str, np.ndarray]], execution: Execution, total: Counters, architecture: str
) -> LaneRequest | None:
    """The request of the worst line of `execution` that costs most beyond what it must; None if no line wastes much.

    Runs the plan once more, on inputs that `draw` gives, to record its first block. What cannot be run so is not drawn.
    """
    from warplab.emulator.profiling.accesses import accesses_of
    from warplab.emulator.profiling.profile import profile

    wasted = wasted_lines(total, execution.lines)
    if not wasted:
        return None
    line = wasted[0].line
    launch = next((n for n, one in enumerate(execution.launches) if line in one.lines), 0)
    try:
        traced = profile(plan, dict(draw()), launch=launch, architecture=architecture, sanitize=False)
    except WarplabError:
        return None
    requests = list(islice(accesses_of(traced.trace, traced.resolver, line, 0), _LOOKED_AT))
    worst = max(requests, key=lambda request: request.cost - request.ideal, default=None)
    if worst is None or worst.cost == worst.ideal and worst.space != "local":
        return None
    size = min(worst.size, 4) if worst.space == "local" else worst.size
    return LaneRequest(line, worst.space.value, worst.verb, worst.arrays, size, worst.addresses)
