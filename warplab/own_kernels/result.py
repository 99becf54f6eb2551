"""What a run gives: arrays, findings, counters line by line, and the way to a profile."""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from warplab.emulator.profiling.profile import AnnotatedSource, Profile, profile
from warplab.emulator.profiling.table import ProfileTable, table_of
from warplab.own_kernels.messages import Recorded, View
from warplab.plan.execution import Counters, Execution, Finding
from warplab.plan.model import Buffer, Dim3, Plan

_NEXT = (
    ".source(): each line with its costs; .table(): all counters; .profile(launch=0, block=(0, 0, 0)): what one block "
    "did, as pictures (docs/profiling.md)"
)
_NOTHING = "nothing: no race, no stray access, no missing wait"
MOST_FINDINGS = 20  # that are shown


@dataclass(frozen=True, eq=False)
class Result:
    """A run on the emulator, whose counters follow the hardware's rules (docs/emulator.md).

    `outputs` has the arrays that were passed and that launches were given, by the host function's names for them, as
    the kernels left them; `returned` is what the host function returned, with its arrays filled.
    """

    recorded: Recorded = field(repr=False)
    execution: Execution = field(repr=False)
    given: dict[str, np.ndarray] = field(repr=False)
    architecture: str
    seed: int | None
    outputs: dict[str, np.ndarray] = field(init=False)
    returned: Any = field(init=False)

    def __post_init__(self) -> None:
        outputs = {name: self._filled(view) for name, view in self.recorded.arguments.items()}
        object.__setattr__(self, "outputs", outputs)
        object.__setattr__(self, "returned", self._filled(self.recorded.returned))

    @property
    def plan(self) -> Plan:
        """The kernels and launches that were recorded."""
        return self.recorded.plan

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

    def source(self) -> AnnotatedSource:
        """The source with counts and waste beside its lines."""
        return AnnotatedSource(self.plan.source, self.execution)

    def profile(self, launch: int = 0, block: Dim3 = (0, 0, 0)) -> Profile:
        """Run it again, recording what one block of one launch does. Raises ProfileError if there is none such."""
        return profile(self.plan, {}, launch=launch, block=block, architecture=self.architecture, seed=self.seed)

    def _filled(self, value: Any) -> Any:
        if isinstance(value, View):
            return _array(value, self.plan.buffers[value.buffer], self.execution.outputs[value.buffer])
        if isinstance(value, dict):
            return {key: self._filled(item) for key, item in value.items()}
        return type(value)(self._filled(item) for item in value) if isinstance(value, list | tuple) else value

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


def _array(view: View, buffer: Buffer, content: np.ndarray) -> np.ndarray:
    """A view of a buffer's contents after the run, as an array of its own."""
    raw = np.empty(buffer.nbytes, np.uint8)
    if buffer.nbytes:
        np.ndarray(buffer.shape, buffer.dtype, raw, strides=buffer.strides)[...] = content
    if 0 in view.shape:
        return np.empty(view.shape, view.dtype)
    return np.ndarray(view.shape, view.dtype, raw, view.offset, view.strides).copy()
