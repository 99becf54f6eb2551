"""Whether the undefined values that shuffles get decide anything.

A shuffle from a lane that takes no part in it gets an undefined value (PTX ISA, `shfl.sync`). Real code does that and
never uses the value: in a reduction of half a warp the upper lanes read beyond it. So a plan in which it happens is run
again with other values in that place. If the results stay the same, nothing depends on it, and there is no finding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from warplab.emulator.core.state.layout import FILL_HIGH, FILL_LOW
from warplab.plan.execution import Execution, Finding

MAX_SITES = 8  # instructions that are tried one by one


@dataclass(frozen=True)
class Fill:
    """What shuffles get of lanes that take no part: `bits`, at one instruction of a kernel; without a kernel at all."""

    bits: int
    kernel: str = ""
    at: int = -1

    def of(self, kernel: str) -> Fill | None:
        """What holds in a launch of a kernel."""
        return self if self.kernel in ("", kernel) else None


@dataclass(frozen=True)
class Doubt:
    """A shuffle from a lane that takes no part, and the finding that it is if results depend on what it gets."""

    finding: Finding
    at: int


def that_decide(doubts: Sequence[Doubt], run: Callable[[Fill], Execution]) -> list[Finding]:
    """The findings of those shuffles on whose undefined values the results of a plan depend."""
    plain = _results(run(Fill(0)))

    def decides(kernel: str, at: int) -> bool:
        return any(_results(run(Fill(bits, kernel, at))) != plain for bits in (FILL_HIGH, FILL_LOW))

    if not decides("", -1):
        return []
    if len(doubts) == 1:
        return [doubts[0].finding]
    alone = [doubt.finding for doubt in doubts[:MAX_SITES] if decides(doubt.finding.kernel, doubt.at)]
    return alone or [doubts[0].finding]


def _results(execution: Execution) -> tuple[object, ...]:
    """What a caller sees of an execution, the undefined values themselves aside."""
    found = sorted((finding.kind.value, finding.kernel, finding.line) for finding in execution.findings)
    return {name: array.tobytes() for name, array in execution.outputs.items()}, found, execution.stdout
