"""Counters for the budgets of a lab of two ranks: sectors over the link, launches, and signals of too narrow a scope.

The ranks are the two halves of one launch on one GPU, where a signal of GPU scope suffices and a launch waits for all
earlier blocks. Neither holds between two GPUs, so signals of GPU scope and launches are counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

from autograder.spec.task import Task
from warplab.emulator.model.ranks import RANKS
from warplab.hardware.chips import H200
from warplab.isa.parser import parse
from warplab.isa.syntax import Instruction
from warplab.plan.execution import Counters, Execution
from warplab.plan.model import Launch, Plan

LINK = ("link_read_sectors", "link_written_sectors")
_SECTORS_OF_A_WAVEFRONT, _SECTOR = 4, 32


def counted(task: Task, execution: Execution, plan: Plan, run: Callable[..., Execution]) -> Counters:
    """The execution's counters with those of two ranks; `run` runs the plan again, on the same values."""
    again = run(caches=H200, copied=frozenset(task.copied))
    caches = [launch.caches for launch in again.launches if launch.caches]
    read, written = (sum(getattr(one, name) for one in caches) for name in LINK)
    unseen = sum(one.dropped_requests for one in caches)  # each may have crossed
    through = sum(
        _SECTORS_OF_A_WAVEFRONT * (one.total.cluster_load_wavefronts + one.total.cluster_store_wavefronts)
        + one.total.bulk_cluster_bytes // _SECTOR
        for one, launch in zip(execution.launches, plan.launches, strict=False)
        if _joins_ranks(launch)
    )
    return replace(
        execution.total,
        launches=len(plan.launches),
        link_read_sectors=read,
        link_written_sectors=written + through + unseen,
        narrow_signals=narrow_signals(plan),
    )


def _joins_ranks(launch: Launch) -> bool:
    """Whether a cluster may have blocks of both ranks, whose shared memory would then bypass the link."""
    (width, height, depth), (x, y, z) = launch.grid, launch.cluster
    return (y, z) != (1, 1) or x > 1 and width * height * depth // RANKS % x != 0


def narrow_signals(plan: Plan) -> int:
    """Instructions that order or signal between blocks of one GPU only, in launched kernels and their device functions.

    A module may have other kernels, which do not count.
    """
    launched: dict[str, set[str]] = defaultdict(set)  # entries by PTX
    for launch in plan.launches:
        kernel = plan.kernels[launch.kernel]
        for text in kernel.ptx.values():
            launched[text].add(kernel.entry)
    functions = (
        function
        for text, entries in launched.items()
        for function in parse(text).functions.values()
        if not function.entry or function.name in entries
    )
    return sum(_is_narrow(one) for function in functions for one in function.body if isinstance(one, Instruction))


def _is_narrow(instruction: Instruction) -> bool:
    """Whether an instruction's scope is the GPU. The search for races checks narrower scopes."""
    parts = instruction.opcode.split(".")
    if any(part.startswith("shared") for part in parts) or {"sys", "cta", "cluster"} & set(parts):
        return False
    if parts[0] in ("atom", "red"):
        return True  # of GPU scope if none is said
    return parts[0] in ("ld", "st", "fence") and "gpu" in parts or parts[:2] == ["membar", "gl"]
