"""How a class did: per lab the distribution of points, the hardest case, what went wrong, and the time it took."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from autograder.classroom.grade_line import GradeLine
from autograder.records.status import NOT_JUDGED, Part, Status

BINS = 10  # of the distribution: tenths of what could be earned


@dataclass(frozen=True)
class CaseRate:
    """One correctness case: how many of those that it was run for failed."""

    name: str
    failed: int
    ran: int


@dataclass(frozen=True)
class LabStats:
    """One lab of a class.

    Scores are shares (0 to 1) of what could be judged; `bins` counts them in tenths, the last with full marks in it.
    Times are seconds of the judge for one submission. `hardest` is None where no case failed.
    """

    lab: str
    handed_in: int
    graded: int
    full_marks: int
    mean: float
    quartiles: tuple[float, float, float]
    bins: tuple[int, ...]
    hardest: CaseRate | None
    statuses: tuple[tuple[str, int], ...]  # the most frequent first
    median_seconds: float
    total_seconds: float


def lab_stats(lines: Iterable[GradeLine]) -> list[LabStats]:
    """The statistics of each lab of a class, in the order of their names. Raises ClassError."""
    everything = [line for line in lines if line.lab and line.attempt]  # also points may be set for nothing
    return [_of_lab(lab, [one for one in everything if one.lab == lab]) for lab in sorted({o.lab for o in everything})]


def _of_lab(lab: str, lines: Sequence[GradeLine]) -> LabStats:
    graded = [line for line in lines if line.status and line.status not in NOT_JUDGED and line.max_score > 0]
    shares = [line.score / line.max_score for line in graded]
    bins = Counter(min(int(share * BINS), BINS - 1) for share in shares)
    seconds = [line.seconds for line in graded]
    return LabStats(
        lab=lab,
        handed_in=len(lines),
        graded=len(graded),
        full_marks=sum(share >= 1 for share in shares),
        mean=statistics.fmean(shares) if shares else 0.0,
        quartiles=_quartiles(shares),
        bins=tuple(bins[number] for number in range(BINS)),
        hardest=_hardest(graded),
        statuses=tuple(Counter(line.status for line in graded).most_common()),
        median_seconds=statistics.median(seconds) if seconds else 0.0,
        total_seconds=sum(seconds),
    )


def _quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """The quartiles, interpolated between order statistics as NumPy's default does."""
    if len(values) < 2:
        return (values[0],) * 3 if values else (0.0, 0.0, 0.0)
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def _hardest(graded: Sequence[GradeLine]) -> CaseRate | None:
    """The correctness case that fails most often, of equal ones the first by name."""
    failed: Counter[str] = Counter()
    ran: Counter[str] = Counter()
    for line in graded:
        report = line.graded()
        for case in report.part(Part.CORRECTNESS).cases if report else ():
            if case.status is not Status.SKIPPED:
                ran[case.name] += 1
                failed[case.name] += case.status is not Status.PASSED
    rates = [CaseRate(name, failed[name], ran[name]) for name in sorted(ran) if failed[name]]
    return max(rates, key=lambda rate: rate.failed / rate.ran, default=None)


def words(found: LabStats) -> list[str]:
    """The statistics of a lab as lines for a terminal."""
    lines = [f"{found.lab}: {found.handed_in} handed in, {found.graded} graded, {found.full_marks} with full marks"]
    if not found.graded:
        return lines
    low, middle, high = found.quartiles
    lines.append(f"  points: mean {found.mean:.0%}, quartiles {low:.0%}, {middle:.0%}, {high:.0%} of what is judged")
    most = max(found.bins)
    for number, count in enumerate(found.bins):
        bar = "#" * round(40 * count / most)
        lines.append(f"  {number / BINS:4.0%} to {(number + 1) / BINS:4.0%}  {count:4d}  {bar}".rstrip())
    if found.hardest:
        lines.append(f"  hardest case: {found.hardest.name}, failed by {found.hardest.failed} of {found.hardest.ran}")
    lines.append("  outcomes: " + ", ".join(f"{count} {status}" for status, count in found.statuses))
    lines.append(f"  time: {found.median_seconds:.0f} s a submission (median), {found.total_seconds:.0f} s in all")
    return lines
