"""`profile`: run a plan on the emulator and keep what one block of it did."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from warplab.emulator.clock.estimate import Estimate, check_chip, estimate
from warplab.emulator.executor import Session, execute, shared_limit_of
from warplab.emulator.profiling.accesses import Resolver, Space, WarpAccess, accesses_of
from warplab.emulator.profiling.flights import flights_of
from warplab.emulator.profiling.schedule import SECTORS_A_CYCLE, schedule
from warplab.emulator.profiling.table import ProfileTable, table_of
from warplab.emulator.profiling.timeline import Timeline, timeline_of
from warplab.emulator.recorder import Recorder, Trace
from warplab.emulator.report.places import Places
from warplab.errors import WarplabError
from warplab.hardware.chips import H200
from warplab.hardware.records import Chip
from warplab.plan.execution import Execution, Finding
from warplab.plan.model import Dim3, Launch, Plan

if TYPE_CHECKING:
    from warplab.emulator.profiling.microscope import Page

BUDGET = 1_000_000_000  # warp instructions of a launch


class ProfileError(WarplabError):
    """There is no such launch, block, line or access in a profile."""


def estimated(plan: Plan, inputs: dict[str, np.ndarray], architecture: str, chip: Chip) -> Estimate:
    """The modelled time of a plan on a chip, whose caches it is run with. Raises PlanError as `check_chip` does."""
    check_chip(chip)
    return estimate(execute(plan, inputs, architecture=architecture, sanitize=False, caches=chip), chip)


@dataclass(frozen=True)
class AnnotatedSource:
    """The submission's text with what each line costs beside it."""

    text: str = field(repr=False)
    execution: Execution = field(repr=False)

    def __str__(self) -> str:
        from warplab.figures.annotated import source_text

        return source_text(self.text, self.execution.lines)

    def _repr_html_(self) -> str:
        from warplab.figures.source import source_html

        return source_html(self.text, self.execution.lines)


@dataclass(frozen=True, eq=False)
class Profile:
    """What a plan cost, and what one block of one launch did.

    Everything in it is the emulator's: counts follow the hardware's rules (docs/counters.md), times are a model.
    """

    plan: Plan = field(repr=False)
    execution: Execution = field(repr=False)
    launch: int  # which launch of the plan was traced
    block: Dim3  # which of its blocks
    trace: Trace = field(repr=False)
    resolver: Resolver = field(repr=False)
    inputs: dict[str, np.ndarray] = field(repr=False)
    architecture: str

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The faults that were found."""
        return self.execution.findings

    @property
    def warps(self) -> int:
        """Warps of the block."""
        width, height, depth = self.plan.launches[self.launch].block
        return -(-width * height * depth // 32)

    def table(self, chip: Chip | None = None) -> ProfileTable:
        """The counters of every launch; with a chip, the modelled time on it too (see `estimate`)."""
        return table_of(self.execution.launches, "" if chip is None else repr(self.estimate(chip)))

    def estimate(self, chip: Chip = H200) -> Estimate:
        """How long the plan would take on a chip, and what bounds each launch: modelled, not measured.

        Runs the plan once more, on the same arrays, with the chip's caches modelled. Raises PlanError for a chip
        whose clock or instruction rates are not known.
        """
        return estimated(self.plan, self.inputs, self.architecture, chip)

    def source(self) -> AnnotatedSource:
        """The submission with counts and waste beside its lines."""
        return AnnotatedSource(self.plan.source, self.execution)

    def timeline(self, *, modelled: bool = False) -> Timeline:
        """What the warps of the block issued when: in the emulator's order, or `modelled` by a simple scheduler."""
        program = self.resolver.program
        chart = timeline_of(self.trace, program, self.block, self.warps)
        chart = replace(chart, flights=flights_of(chart, program, self.trace))
        if not modelled:
            return chart
        return self.modelled(chart, accesses_of(self.trace, self.resolver, None, None))

    def modelled(self, chart: Timeline, accesses: Iterable[WarpAccess]) -> Timeline:
        """The timeline in the emulator's order, with all accesses of the block, at the times of a simple scheduler."""
        costs: dict[int, int] = {}
        for access in accesses:
            busy = access.cost if access.space is Space.SHARED else -(-access.cost // SECTORS_A_CYCLE)
            costs[access.row] = costs.get(access.row, 0) + busy
        return schedule(chart, self.resolver.program, costs, self.trace)

    def microscope(self) -> Page:
        """One page of HTML, at most 2 MB, to scrub and step through what the warps did: docs/profiling.md."""
        from warplab.emulator.profiling.microscope import microscope

        return microscope(self)

    def lines(self) -> tuple[int, ...]:
        """The lines of the submission on which the block accessed memory."""
        return tuple(sorted({access.line for access in accesses_of(self.trace, self.resolver, None, None)}))

    def accesses(self, line: int, warp: int = 0) -> tuple[WarpAccess, ...]:
        """The first execution of each access that a warp makes on a line, in the order in which they came."""
        return tuple(group[0] for group in self._groups(line, warp))

    def access(self, line: int, occurrence: int = 0, warp: int = 0, index: int | None = None) -> WarpAccess:
        """One access: the `occurrence`-th time that a warp made it.

        `index` picks one where the line makes several (see `accesses`). Raises ProfileError if there is none such.
        """
        groups = self._groups(line, warp)
        if not groups:
            raise ProfileError(self._no_access(line, warp))
        if index is None and len(groups) > 1:
            listing = "; ".join(f"{n}: {g[0].space} {g[0].verb}, {g[0].arrays}" for n, g in enumerate(groups))
            raise ProfileError(f"Line {line} makes {len(groups)} accesses ({listing}): pick one with index=.")
        number = index or 0
        if not -len(groups) <= number < len(groups):
            raise ProfileError(f"Line {line} makes {len(groups)} accesses: there is no index {index}.")
        group = groups[number]
        if not -len(group) <= occurrence < len(group):
            raise ProfileError(
                f"Warp {warp} of block {self.block} made this access of line {line} {len(group)} times: "
                f"there is no occurrence {occurrence}."
            )
        return group[occurrence]

    def _groups(self, line: int, warp: int) -> list[list[WarpAccess]]:
        """The accesses of a line, those alike together: of one kind, space, width and array."""
        groups: dict[tuple, list[WarpAccess]] = {}
        for access in accesses_of(self.trace, self.resolver, line, warp):
            groups.setdefault((access.verb, access.space, access.size, access.arrays), []).append(access)
        return [_numbered(group) for group in groups.values()]

    def _no_access(self, line: int, warp: int) -> str:
        if not 0 <= warp < self.warps:
            return f"Block {self.block} has warps 0 to {self.warps - 1}: there is no warp {warp}."
        if self.trace.lost_events or self.trace.lost_accesses:
            return f"The recorded part of block {self.block} has no memory access of line {line} by warp {warp}."
        known = ", ".join(map(str, self.lines())) or "none"
        return f"Warp {warp} of block {self.block} accesses no memory on line {line}; lines that do: {known}."

    def __str__(self) -> str:
        launch = self.plan.launches[self.launch]
        head = f"{launch.kernel}, grid {launch.grid}, block {launch.block}; traced: block {self.block}"
        faults = [f"  {finding.message}" for finding in self.findings]
        return "\n".join([head, *faults, str(self.table())])


def _numbered(group: list[WarpAccess]) -> list[WarpAccess]:
    return [replace(access, occurrence=n, occurrences=len(group)) for n, access in enumerate(group)]


def profile(
    plan: Plan,
    inputs: dict[str, np.ndarray],
    *,
    launch: int = 0,
    block: Dim3 = (0, 0, 0),
    architecture: str = "sm_90a",
    seed: int | None = None,
    sanitize: bool = True,
) -> Profile:
    """Run a plan on the emulator as `execute` does, and record what one block of one launch does.

    `launch` is the place of a launch in the plan, from 0; `block` the block's index (x, y, z). The trace is bounded: of
    a block that runs longer, its beginning is kept. `seed` and `sanitize` as for `execute`. Raises ProfileError
    if there is no such launch or block or if the plan never gets there, and PlanError as `execute` does.
    """
    _check(plan, launch, block)
    recorder = Recorder(launch, block)
    limit = shared_limit_of(architecture)
    session = Session(plan, architecture, BUDGET, sanitize, limit, os.cpu_count() or 1, seed, recorder)
    execution = session.execute(inputs)
    if recorder.running is None:
        reason = f" {execution.findings[-1].message}" if execution.findings else ""
        raise ProfileError(f"The plan stopped before its launch {launch} ran.{reason}")
    resolver = _resolver(session, recorder.running)
    return Profile(plan, execution, launch, block, recorder.trace(), resolver, dict(inputs), architecture)


def _check(plan: Plan, launch: int, block: Dim3) -> None:
    """Raises ProfileError if the plan has no such block."""
    if not 0 <= launch < len(plan.launches):
        raise ProfileError(f"The plan has {len(plan.launches)} launches, numbered from 0: there is no launch {launch}.")
    grid = plan.launches[launch].grid
    if any(not 0 <= place < extent for place, extent in zip(block, grid, strict=True)):
        raise ProfileError(f"Launch {launch} has a grid of {grid} blocks: there is no block {block}.")


def _resolver(session: Session, launch: Launch) -> Resolver:
    """What names the addresses of a launch, without the contents of the memory."""
    program = session.load(launch.kernel).program
    space = session.space.outline()
    sizes = tuple(r.data.size for r in session.space.regions)
    shared = program.dynamic_start + launch.shared_bytes if launch.shared_bytes else program.static_shared
    return Resolver(program, space, sizes, Places(program, space, launch, session.plan), shared)
