"""A page with the best submissions of a lab, under pseudonyms unless names are asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from autograder.classroom.grade_line import GradeLine
from autograder.records.report import Profile
from autograder.records.status import NOT_JUDGED, Part, Status
from autograder.report.html_page import table_page


@dataclass(frozen=True)
class LeaderboardRow:
    """One line of a leaderboard: `efficiency` is a share of the roofline, `sectors` 32 bytes of global memory each."""

    student: str
    efficiency: float | None
    sectors: int
    instructions: int


def places(lines: Iterable[GradeLine], lab: str) -> list[LeaderboardRow]:
    """The right and safe submissions for `lab`, the best first: by efficiency where it was measured, else by the
    global memory that the profile case moves, then by the warp instructions that it issues. Raises ClassError."""
    profiles = [(line, _right_profile(line)) for line in lines if line.lab == lab]
    found = [_place(line, profile) for line, profile in profiles if profile is not None]
    return sorted(found, key=_rank)


def _rank(place: LeaderboardRow) -> tuple[bool, float, int, int]:
    return place.efficiency is None, -(place.efficiency or 0.0), place.sectors, place.instructions


def leaderboard_page(lab: str, best: Iterable[LeaderboardRow], pseudonyms: Mapping[str, str] | None) -> str:
    """The page, with pseudonyms, which each student finds in their feedback; with None, with names."""
    columns = ("place", "who", "share of the roofline", "sectors moved", "warp instructions")
    shown = [(_rank(p), p.student if pseudonyms is None else pseudonyms[p.student], p) for p in best]
    shown.sort(key=lambda one: one[:2])  # equals stand by what is shown: the order of real names would undo pseudonyms
    rows = [
        (
            str(1 + sum(other < rank for other, _, _ in shown)),
            name,
            "-" if place.efficiency is None else f"{place.efficiency:.1%}",
            f"{place.sectors:,}",
            f"{place.instructions:,}",
        )
        for rank, name, place in shown
    ]
    words = (
        "Right and safe submissions. Sectors (32 bytes of global memory) and instructions are the emulator's counts of "
        "the profile case; the share of the roofline was measured on a GPU."
    )
    return table_page(f"Leaderboard of {lab}", words, columns, rows)


def _right_profile(line: GradeLine) -> Profile | None:
    """What was counted on the profile case of a right and safe submission; None for others."""
    report = line.graded()
    if report is None or report.status in NOT_JUDGED:
        return None
    right = all(report.part(part).status is Status.PASSED for part in (Part.CORRECTNESS, Part.SAFETY))
    return report.profile if right else None


def _place(line: GradeLine, profile: Profile) -> LeaderboardRow:
    total = profile.total
    moved = total.amount("global_read_sectors") + total.amount("global_written_sectors")
    return LeaderboardRow(line.student, line.efficiency, moved, total.warp_instructions)
