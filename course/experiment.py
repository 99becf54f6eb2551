"""Several calls of a notebook's `%%kernel` cell on the emulator, captured in one go: sweeps over sizes and strides."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from course.captures import captured
from course.kernel_cell import KernelCell
from warplab.emulator import Profile, execute, profile
from warplab.emulator.profiling.profile import BUDGET
from warplab.emulator.profiling.reach import Reach
from warplab.emulator.profiling.reach import reach as reach_of
from warplab.hardware import Chip
from warplab.plan.assemble import with_machine_code
from warplab.plan.execution import Execution
from warplab.plan.model import ArrayArgument, HostCall, Plan, Role, ScalarArgument

OUTPUT = "out"  # the argument of this name is what a host function writes; all other arrays are inputs


def emulate(
    cell: KernelCell,
    cases: Sequence[dict[str, Any]],
    function: str = "",
    caches: Chip | None = None,
    budget: int = BUDGET,
    seed: int | None = None,
) -> list[Execution]:
    """Outputs, counters and findings of a call for each case; with a chip, its caches are modelled.

    A case has the host function's arguments by name, in order: NumPy arrays and numbers; `out` is written. `function`
    is another host function of the cell than the one it is named after; a launch that has not ended after `budget` warp
    instructions is taken to be endless; a seed draws the order of warps and of what completes. Raises what `captured`
    raises.
    """
    plans = _plans(cell, cases, function)
    return [
        execute(
            plan,
            _inputs(plan, case),
            architecture=cell.architecture,
            caches=caches,
            instruction_budget=budget,
            seed=seed,
        )
        for plan, case in zip(plans, cases, strict=True)
    ]


def observe(cell: KernelCell, case: dict[str, Any]) -> Profile:
    """One call, with what its first block did: accesses, timeline."""
    (plan,) = _plans(cell, [case], "")
    return profile(plan, _inputs(plan, case), architecture=cell.architecture)


def reach(cell: KernelCell, case: dict[str, Any], array: str = OUTPUT) -> Reach:
    """Which elements of `array` each thread of the call's last launch touches; `array` is the kernel's name for it."""
    (plan,) = _plans(cell, [case], "")
    return reach_of(plan, _inputs(plan, case), array, architecture=cell.architecture)


def _plans(cell: KernelCell, cases: Sequence[dict[str, Any]], function: str) -> list[Plan]:
    calls = tuple(HostCall(function or cell.name, _described(case)) for case in cases)
    return list(_captured(cell.path, cell.path.read_bytes(), cell.architecture, calls))


@lru_cache(maxsize=16)
def _captured(path: Path, _text: bytes, architecture: str, calls: tuple[HostCall, ...]) -> tuple[Plan, ...]:
    """As `captured`, once for each text: a notebook runs a cell for its result, then again for a picture."""
    return tuple(with_machine_code(plan, architecture) for plan in captured(path, calls, architecture))


def _described(case: dict[str, Any]) -> tuple[ArrayArgument | ScalarArgument, ...]:
    return tuple(
        ArrayArgument(name, value.dtype.name, value.shape, Role.OUTPUT if name == OUTPUT else Role.INPUT)
        if isinstance(value, np.ndarray)
        else ScalarArgument(name, value)
        for name, value in case.items()
    )


def _inputs(plan: Plan, case: dict[str, Any]) -> dict[str, np.ndarray]:
    return {name: case[name] for name in plan.arguments(Role.INPUT)}
