"""Finds out whether results depend on undefined values that shuffles get.

A shuffle from a lane that takes no part in it gets an undefined value (PTX ISA, `shfl.sync`). Real code does that and
never uses the value: in a reduction of half a warp the upper lanes read beyond it. Such a plan runs again with other
values in that place. If the results stay the same, nothing depends on the value, and there is no finding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from warplab.emulator.core.state.layout import FILL_HIGH, FILL_LOW
from warplab.plan.execution import Execution, Finding

MAX_SITES = 8  # instructions that are tried one by one


@dataclass(frozen=True)
class Fill:
    """The `bits` that shuffles get from lanes that take no part: at one instruction of a kernel, or everywhere."""

    bits: int
    kernel: str = ""
    at: int = -1

    def of(self, kernel: str) -> Fill | None:
        """The fill for a launch of a kernel; None where it is for another kernel."""
        return self if self.kernel in ("", kernel) else None


@dataclass(frozen=True)
class Doubt:
    """A shuffle from a lane that takes no part, and its finding in case results depend on the value."""

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
    """An execution's outputs, findings and printed text, to compare."""
    found = sorted((finding.kind.value, finding.kernel, finding.line) for finding in execution.findings)
    return {name: array.tobytes() for name, array in execution.outputs.items()}, found, execution.stdout
