"""A few lines of kernel, run in the emulator amid a notebook: `%%kernel NAME`, then `emulate(NAME, ...)`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from autograder.lab import CHECKOUT
from autograder.report_json import write_atomically
from warplab.hardware import Chip
from warplab.plan.capture import capture
from warplab.plan.execution import Execution
from warplab.plan.model import ArrayArgument, Dim3, HostCall, Plan, Role, ScalarArgument
from warplab.simt import Profile, execute, profile

ARCHITECTURE = "sm_90a"
FOLDER = CHECKOUT / "build" / "kernels"


def plans_of(source: Path, function: str, writes: Sequence[str], cases: Sequence[dict[str, Any]]) -> list[Plan]:
    """A plan for each call of a host function of a file, all captured in one go.

    The arguments of a case are NumPy arrays and scalars by the function's names for them, in order; arrays named in
    `writes` are outputs. Raises what `capture` raises: CompileError, CaptureFailure.
    """
    return capture(source, [HostCall(function, _described(case, writes)) for case in cases], (ARCHITECTURE,))


def _described(case: dict[str, Any], writes: Sequence[str]) -> tuple[ArrayArgument | ScalarArgument, ...]:
    return tuple(
        ArrayArgument(name, value.dtype.name, value.shape, Role.OUTPUT if name in writes else Role.INPUT)
        if isinstance(value, np.ndarray)
        else ScalarArgument(name, value)
        for name, value in case.items()
    )


def _inputs(plan: Plan, case: dict[str, Any]) -> dict[str, np.ndarray]:
    names = plan.arguments(Role.INPUT)
    return {name: value for name, value in case.items() if name in names and isinstance(value, np.ndarray)}


def emulate(
    source: Path,
    function: str,
    cases: Sequence[dict[str, Any]],
    writes: Sequence[str] = ("out",),
    caches: Chip | None = None,
) -> list[Execution]:
    """Outputs, counters and findings of calls of a host function, on the emulator; with a chip, its caches modelled."""
    plans = plans_of(source, function, writes, cases)
    return [
        execute(plan, _inputs(plan, case), architecture=ARCHITECTURE, caches=caches)
        for plan, case in zip(plans, cases, strict=True)
    ]


def observe(
    source: Path, function: str, case: dict[str, Any], writes: Sequence[str] = ("out",), block: Dim3 = (0, 0, 0)
) -> Profile:
    """One call, with what one of its blocks did: accesses, timeline."""
    (plan,) = plans_of(source, function, writes, [case])
    return profile(plan, _inputs(plan, case), block=block, architecture=ARCHITECTURE)


def load_ipython_extension(shell) -> None:
    """Called by `%load_ext autograder.experiment`: adds the cell magic `%%kernel NAME`."""

    def kernel(line: str, cell: str) -> None:
        """`%%kernel NAME`: keep the cell as a file and put its path into the variable NAME, for `emulate`."""
        name = line.strip()
        if not name.isidentifier():
            print("Write a name for the file after %%kernel, for example: %%kernel mine")
            return
        path = FOLDER / f"{name}.py"
        write_atomically(path, cell)
        shell.user_ns[name] = path

    shell.register_magic_function(kernel, magic_kind="cell", magic_name="kernel")
