"""NVIDIA's compute-sanitizer over the launches of a plan: a second opinion beside the emulator's findings.

The tool watches a process of its own, the `main` of this module, in which every buffer is an allocation of
its exact size that nothing fills beforehand unless it is an input: redzones and poison would hide faults from the tool.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from warplab.plan.archive import load, save
from warplab.plan.execution import FindingKind
from warplab.plan.model import Buffer, Plan, Role
from warplab.sandbox.isolation import Program, python_command

SECONDS = 60.0  # for one plan under one tool
TOOLS: Mapping[str, frozenset[FindingKind]] = {  # what each can see of our kinds
    "memcheck": frozenset({FindingKind.OUT_OF_BOUNDS, FindingKind.MISALIGNED, FindingKind.NULL_POINTER}),
    "racecheck": frozenset({FindingKind.RACE}),
    "initcheck": frozenset({FindingKind.UNINITIALISED}),
    "synccheck": frozenset({FindingKind.DIVERGENT_BARRIER}),
}
_SUMMARY = re.compile(r"ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard")
_SITE = re.compile(r"=========     (?:at|and) .* in ([^\s:]+):(\d+)")
_MESSAGE = re.compile(
    r"========= ((?:Invalid|Misaligned|Uninitialized|Barrier|Error: |Potential|Divergent|Program hit|Access|Unaligned"
    r"|Stack|Address|Missing|Device|Warp)[^\n]*)"
)


@dataclass(frozen=True)
class Opinion:
    """What a tool said: the number of errors (-1: it gave no report in time), its first words, the lines it named."""

    tool: str
    errors: int
    words: str
    lines: tuple[int, ...]


def find() -> str | None:
    """The path of compute-sanitizer, or None where CUDA's toolkit is not installed."""
    toolkit = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "bin" / "compute-sanitizer"
    return shutil.which("compute-sanitizer") or (str(toolkit) if toolkit.exists() else None)


def ask(tool: str, program: str, plan: Path, source: str, seconds: float = SECONDS) -> Opinion:
    """Run the plan in the file `plan`, with the inputs beside it, under one tool of the `program`.

    It gets `seconds` of time. Only lines of the file called `source` are given.
    """
    command = [program, "--tool", tool, "--report-api-errors", "no", "--print-limit", "200"]
    command += python_command(Program("warplab.gpu.sanitizer", "warplab-sanitizer", (str(plan),), keeps_project=True))
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True, cwd=plan.parent
    ) as process:
        try:
            text, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            text, _ = process.communicate()
    return read(tool, text, source)


def read(tool: str, text: str, source: str) -> Opinion:
    """The opinion in a tool's output."""
    counts = [int(errors or hazards) for errors, hazards in _SUMMARY.findall(text)]
    messages = _MESSAGE.findall(text)
    lines = sorted({int(line) for file, line in _SITE.findall(text) if Path(file).name == source})
    errors = max(counts) if counts else (len(messages) or -1)
    return Opinion(tool, errors, messages[0].strip() if messages else "", tuple(lines))


def keep(plan: Plan, inputs: Mapping[str, np.ndarray], path: Path) -> None:
    """Write the plan to `path`, and its inputs beside it, for `ask`."""
    save(plan, path)
    np.savez(path.with_suffix(".npz"), **inputs)  # type: ignore[arg-type]


def run(path: Path) -> None:
    """The process that a tool watches: the launches of one plan, once. Raises what the executor raises."""
    from cuda.core import Device, Stream

    from warplab.gpu.executor import LoadedPlan
    from warplab.hardware.device import architecture_of, present

    class Bare(LoadedPlan):
        """A plan on the device as a careless program would have it."""

        def __init__(self, plan: Plan, architecture: str, stream: Stream, inputs: Mapping[str, np.ndarray]) -> None:
            self._inputs = inputs
            super().__init__(plan, architecture, stream)

        def _allocated(self, spec: Buffer) -> Any:
            return _Allocation(spec, self._inputs.get(spec.name))

    device = present()
    assert device is not None
    Device().set_current()
    with np.load(path.with_suffix(".npz"), allow_pickle=False) as inputs:
        loaded = Bare(load(path), architecture_of(device), Device().create_stream(), dict(inputs))
    loaded.launch()
    loaded.synchronize()


class _Allocation:
    """One cuMemAlloc, filled only if it is an input or was asked for as zeros."""

    def __init__(self, spec: Buffer, value: np.ndarray | None) -> None:
        from cuda.bindings import driver

        from warplab.gpu.executor import checked

        status, address = driver.cuMemAlloc(max(spec.nbytes, 1))
        checked((status,))
        self.address = int(address)
        if spec.role in (Role.INPUT, Role.INOUT) and value is not None and spec.nbytes:
            value = np.ascontiguousarray(value)
            checked(driver.cuMemcpyHtoD(address, value.ctypes.data, value.nbytes))
        elif spec.content and spec.nbytes:
            content = np.tile(np.frombuffer(spec.content, np.uint8), spec.nbytes // len(spec.content))
            checked(driver.cuMemcpyHtoD(address, content.ctypes.data, content.nbytes))
        elif spec.zeroed:
            checked(driver.cuMemsetD8(address, 0, spec.nbytes))


def main() -> None:
    """The program that a tool watches: its argument is the plan's file."""
    run(Path(sys.argv[1]))
