"""Puts first what would fix most: of several findings of one mistake, the one to begin with."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from warplab.plan.execution import Extent, Finding, FindingKind

_EXTENTS = tuple(Extent)


def ranked(findings: Iterable[Finding]) -> list[Finding]:
    """The findings, those of one rank in the order in which they came.

    A barrier of the block orders the threads of each of its warps too, so a race between warps comes before one inside
    a warp. One in shared memory comes before one in global memory, whose indices it may have made, and before lanes
    that miss each other and loops without end, whose conditions it may have made, but after what needs an earlier
    launch. An index out of bounds or a misaligned address may be such a number too, and what was read before it was
    written is more often a consequence of the rest than its cause. An index that leaves an array meets the elements of
    others there: a race on the same line, in the same array, comes after it.
    """
    findings = list(findings)
    left = {(f.line, f.array) for f in findings if f.kind is FindingKind.OUT_OF_BOUNDS and f.array}
    return sorted(findings, key=lambda finding: _rank(finding, left))


def _rank(finding: Finding, left: Collection[tuple[int, str]]) -> tuple[int, int]:
    if finding.kind is FindingKind.ADVISORY:
        return 4, 0
    if finding.kind is FindingKind.UNINITIALISED:
        return 3, 0
    if finding.kind in (FindingKind.OUT_OF_BOUNDS, FindingKind.MISALIGNED):
        return 2, 0
    if finding.kind is FindingKind.RACE and (finding.line, finding.array) in left:
        return 2, 1
    if finding.kind is FindingKind.RACE:
        return 1, _EXTENTS.index(finding.extent)
    if finding.extent is Extent.WARP or finding.kind is FindingKind.ENDLESS:
        return 1, _EXTENTS.index(Extent.GRID)
    return 0, 0
