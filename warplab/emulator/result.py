"""What a run gives: arrays, findings, counters line by line, and the way to a profile."""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from warplab.emulator.clock.estimate import Estimate
from warplab.emulator.profiling.profile import AnnotatedSource, Profile, estimated, profile
from warplab.emulator.profiling.table import ProfileTable, table_of
from warplab.hardware.chips import H200
from warplab.hardware.records import Chip
from warplab.plan.execution import Counters, Execution, Finding
from warplab.plan.model import Dim3, Plan

_NEXT = (
    ".source(): each line with its costs; .table(): all counters; .profile(launch=0, block=(0, 0, 0)): what one block "
    "did, as pictures (docs/profiling.md)"
)
_NOTHING = "nothing: no race, no stray access, no missing wait"
MOST_FINDINGS = 20  # that are shown


@dataclass(frozen=True, eq=False)
class Result:
    """A run on the emulator, whose counters follow the hardware's rules (docs/counters.md).

    `outputs` has the arrays that were passed and that launches were given, as the kernels left them, by the host
    function's names for them (of `emulate`, the PTX's); `returned` is what a host function returned, with its arrays
    filled.
    """

    plan: Plan = field(repr=False)  # the kernels and their launches
    execution: Execution = field(repr=False)
    architecture: str
    seed: int | None
    inputs: dict[str, np.ndarray] = field(repr=False)  # what the plan's buffers started with
    given: dict[str, np.ndarray] = field(repr=False)  # the arrays that were passed, by the names of `outputs`
    outputs: dict[str, np.ndarray]
    returned: Any = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The faults that were found, with lines of the source."""
        return self.execution.findings

    @property
    def counters(self) -> Counters:
        """The counters of all launches together."""
        return self.execution.total

    @property
    def lines(self) -> dict[int, Counters]:
        """The counters of each line of the source."""
        return self.execution.lines

    @property
    def stdout(self) -> str:
        """What kernels printed."""
        return self.execution.stdout

    def table(self) -> ProfileTable:
        """The counters of each launch, with Nsight Compute's names."""
        return table_of(self.execution.launches)

    def estimate(self, chip: Chip = H200) -> Estimate:
        """How long the launches would take on a chip: modelled, not measured. Runs them once more, on the same arrays,
        with the chip's caches modelled. Raises PlanError for a chip whose clock or instruction rates are not known."""
        return estimated(self.plan, self.inputs, self.architecture, chip)

    def source(self) -> AnnotatedSource:
        """The source with counts and waste beside its lines."""
        return AnnotatedSource(self.plan.source, self.execution)

    def profile(self, launch: int = 0, block: Dim3 = (0, 0, 0)) -> Profile:
        """Run it again, recording what one block of one launch does. Raises ProfileError if there is none such."""
        architecture, seed = self.architecture, self.seed
        return profile(self.plan, self.inputs, launch=launch, block=block, architecture=architecture, seed=seed)

    def _launches(self) -> list[str]:
        plan = self.plan
        return [f"{plan.kernels[x.kernel].name}, grid {x.grid}, block {x.block}" for x in plan.launches]

    def _arrays(self) -> list[str]:
        lines = []
        for name, array in self.outputs.items():
            before = self.given.get(name)
            changed = before is None or before.tobytes() != array.tobytes()
            lines.append(f"{name}: {array.dtype}{list(array.shape)}{'' if changed else ', unchanged'}")
        returned = self.returned if isinstance(self.returned, tuple | list) else (self.returned,)
        kinds = [f"{a.dtype}{list(a.shape)}" if isinstance(a, np.ndarray) else repr(a) for a in returned]
        return lines if self.returned is None else [*lines, f"returned: {', '.join(kinds)}"]

    def _faults(self) -> list[str]:
        shown = [f"{f.kind}: {f.message}" for f in self.findings[:MOST_FINDINGS]]
        more = len(self.findings) - len(shown)
        return [*shown, *([f"and {more} more"] if more else [])] or [_NOTHING]

    def _parts(self) -> list[tuple[str, list[str]]]:
        printed = self.stdout.splitlines()[:MOST_FINDINGS]
        parts = [("Launches", _short(self._launches())), ("Arrays", self._arrays()), ("Found", self._faults())]
        notes = list(self.execution.notes.values())
        return [*parts, ("Notes", notes), ("Printed", printed)]

    def __str__(self) -> str:
        text = [f"{title}\n" + "\n".join(f"  {line}" for line in lines) for title, lines in self._parts() if lines]
        return "\n".join([*text, "Cost of each line (! marks what is mostly waste)", str(self.source()), _NEXT])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        parts = "".join(
            f"<b>{title}</b><ul style='margin:0'>{''.join(f'<li>{html.escape(line)}</li>' for line in lines)}</ul>"
            for title, lines in self._parts()
            if lines
        )
        cost = self.source()._repr_html_()
        title = "<b>Cost of each line</b> (the redder, the more of it is waste)"
        return f"<div>{parts}{title}{cost}{html.escape(_NEXT)}</div>"


def _short(lines: list[str], most: int = 8) -> list[str]:
    return lines if len(lines) <= most else [*lines[:most], f"and {len(lines) - most} more"]
