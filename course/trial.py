"""One try of a `%%kernel` cell on the emulator, as a learner sees it: is it right, and what does the emulator say?"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from course.experiment import OUTPUT, emulate
from course.kernel_cell import KernelCell
from warplab.emulator.profiling.profile import BUDGET
from warplab.errors import WarplabError
from warplab.figures import style
from warplab.plan.execution import Counters, Finding

_SHOWN = 4  # findings; one mistake often makes several
_BOX = f"background:{style.PANEL};color:{style.INK};padding:6px 12px;margin:2px 0;"


@dataclass(frozen=True)
class Trial:
    """What came of it. `problem` is a sentence if the cell did not run at all; there are no counters then."""

    verdict: str
    right: bool
    findings: tuple[Finding, ...] = ()
    output: np.ndarray | None = field(default=None, repr=False)
    total: Counters = field(default_factory=Counters, repr=False)
    source: str = field(default="", repr=False)
    problem: str = ""

    @property
    def clean(self) -> bool:
        """Right, and without a finding."""
        return self.right and not self.findings

    def _repr_html_(self) -> str:
        if self.problem:
            return _box(style.ORANGE, [f"<b>It did not run.</b> {html.escape(self.problem)}"])
        parts = [f"<b>{html.escape(self.verdict)}</b>"]
        times: dict[tuple[str, str], int] = {}  # a loop that the compiler unrolled gives one sentence several times
        for finding in self.findings:
            said = finding.kind.value, finding.message
            times[said] = times.get(said, 0) + finding.count
        if not times:
            parts.append("The emulator found no fault.")
        else:
            parts.append(f"The emulator found {'one fault' if len(times) == 1 else f'{len(times)} faults'}:")
            parts += [self._said(kind, message, count) for (kind, message), count in list(times.items())[:_SHOWN]]
            if len(times) > _SHOWN:
                parts.append(f"and {len(times) - _SHOWN} more.")
        return _box(style.GREEN if self.clean else style.ORANGE, parts)

    def _said(self, kind: str, message: str, count: int) -> str:
        """The emulator's words, and the lines that they name."""
        rows = self.source.splitlines()
        numbers = dict.fromkeys(int(n) for n in re.findall(r"\b[Ll]ine (\d+)", message))
        lines = "".join(
            f"<br><code>{n:>4}&nbsp; {html.escape(rows[n - 1].strip())}</code>" for n in numbers if 1 <= n <= len(rows)
        )
        often = f", {count:,} times" if count > 1 else ""
        return f"<i>{kind}</i>{often}: {html.escape(message)}{lines}"


def attempt(
    cell: KernelCell,
    case: dict[str, Any],
    expected: np.ndarray | None = None,
    function: str = "",
    budget: int = BUDGET,
    seed: int | None = None,
) -> Trial:
    """Run a cell as `emulate` does and compare `out`, element by element, with `expected`, if that is given.

    A cell that does not compile or cannot be captured is a Trial too, whose `problem` says why.
    """
    try:
        (run,) = emulate(cell, [case], function, budget=budget, seed=seed)
    except WarplabError as error:
        return Trial("", False, problem=str(error))
    output, source = run.outputs[OUTPUT], cell.path.read_text(encoding="utf-8")
    if expected is None:
        return Trial("It ran.", True, run.findings, output, run.total, source)
    wrong = np.argwhere(output != np.asarray(expected, output.dtype).reshape(output.shape))
    if not len(wrong):
        verdict = (
            f"Right: {'the one element is' if output.size == 1 else f'all {output.size:,} elements are'} as expected."
        )
    else:
        place = tuple(int(n) for n in wrong[0])
        at = f"{OUTPUT}[{', '.join(map(str, place))}] is {output[place]}, not {expected.reshape(output.shape)[place]}"
        verdict = f"Wrong: {len(wrong):,} of {output.size:,} elements; {at}."
    return Trial(verdict, not len(wrong), run.findings, output, run.total, source)


def _box(colour: str, parts: list[str]) -> str:
    body = "".join(f'<p style="margin:4px 0">{part}</p>' for part in parts)
    return f'<div style="{_BOX}border-left:4px solid {colour}">{body}</div>'
