"""Which attempt counts, and for how much: a course's rules, in a TOML file that the class's record keeps.

    attempt = "best"                  # or "newest", or "on-time": the last one before the deadline
    zone = "Europe/Berlin"            # of every time without one of its own

    [deadlines]
    03_transpose = 2026-11-20T23:59:00

    [extensions."ada@x.edu"]
    03_transpose = 1.5                # days, or a time

    [late]
    free = 3                          # days of each student, over all labs
    penalty = 10                      # percent of the points, each further day
    step = 0.5                        # what a day that has begun counts as: 1 or 0.5
    most = 50                         # percent

    [quota]
    gpu_seconds = 300                 # of each student, over all labs and attempts; no limit without it
    seconds = 3600                    # of the judge, GPU or not

An extension of days moves the deadline by the clock on the wall, also where clocks change meanwhile.
"""

from __future__ import annotations

import math
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from autograder.classroom.entries import ClassError
from autograder.classroom.grade_line import GradeLine
from autograder.classroom.late import Late, without_late_points
from autograder.classroom.roster import read_rows
from autograder.records.status import NOT_JUDGED
from autograder.spec.lab import known_labs

ATTEMPTS = ("newest", "best", "on-time")
_DAY = 86400.0  # seconds


class LateRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Days are days; `penalty` and `most` are percent of the points."""

    free: float = 0.0
    penalty: float = 10.0
    step: float = 1.0
    most: float = 100.0


@dataclass(frozen=True)
class Used:
    """Seconds that a student's submissions took: of the judge, and of them with a GPU."""

    seconds: float
    gpu_seconds: float


NOTHING_USED = Used(0.0, 0.0)


class Quota(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The seconds that a student may use; what begins before they are used up is graded."""

    gpu_seconds: float = math.inf
    seconds: float = math.inf

    def exceeded(self, used: Used) -> str:
        """Why nothing more is graded, in a sentence; empty if it is."""
        if used.gpu_seconds >= self.gpu_seconds:
            return f"Not graded: the {self.gpu_seconds:g} s on a GPU that a student has are used up."
        if used.seconds >= self.seconds:
            return f"Not graded: the {self.seconds:g} s of grading that a student has are used up."
        return ""


class Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The rules; times as in the file, read in `zone`."""

    attempt: str = "newest"
    zone: str = "UTC"
    deadlines: Mapping[str, datetime] = {}
    extensions: Mapping[str, Mapping[str, float | datetime]] = {}
    late: LateRules = LateRules()
    quota: Quota = Quota()

    def due(self, line: GradeLine) -> datetime | None:
        """The deadline for a line; the latest of its members, of a group; None where the lab has none."""
        if line.lab not in self.deadlines:
            return None
        students = [one.id for one in line.members] or [line.student]
        return max(self._due(student, line.lab) for student in students)

    def _due(self, student: str, lab: str) -> datetime:
        extension = self.extensions.get(student, {}).get(lab, 0.0)
        if isinstance(extension, datetime):
            return self.placed(extension)
        return self.placed(self.deadlines[lab] + timedelta(days=extension))

    def placed(self, time: datetime) -> datetime:
        """A time in UTC. Of an hour that a clock shows twice it is the later one."""
        placed = time if time.tzinfo else time.replace(tzinfo=ZoneInfo(self.zone), fold=1)
        return placed.astimezone(UTC)

    def days_late(self, line: GradeLine) -> float:
        """How late a line's attempt was, in steps of `late.step`; 0 where no time or no deadline is known."""
        due = self.due(line)
        if due is None or not line.at:
            return 0.0
        seconds = (datetime.fromisoformat(line.at) - due).total_seconds()
        return max(0.0, math.ceil(seconds / (self.late.step * _DAY)) * self.late.step)


def read_policy(text: str, name: str) -> Policy:
    """The rules in a TOML text that lies in the file `name`. Raises ClassError with what is wrong in it."""
    try:
        policy = msgspec.convert(tomllib.loads(text), Policy)
        ZoneInfo(policy.zone)
    except tomllib.TOMLDecodeError as error:
        raise ClassError(f"{name} is no TOML: {error}.") from None
    except msgspec.ValidationError as error:
        raise ClassError(f"{name}: {error}.") from None
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ClassError(f"{name}: there is no time zone {policy.zone!r}; Europe/Berlin is one.") from None
    if policy.attempt not in ATTEMPTS:
        raise ClassError(f"{name}: attempt is one of {', '.join(ATTEMPTS)}.")
    labs = {*policy.deadlines, *(lab for one in policy.extensions.values() for lab in one)}
    if unknown := labs - set(known_labs()):
        raise ClassError(f"{name}: there is no lab {min(unknown)!r}.")
    if policy.attempt == "on-time" and not policy.deadlines:
        raise ClassError(f'{name}: attempt = "on-time" needs [deadlines].')
    late = policy.late
    if late.step not in (0.5, 1.0) or late.free < 0 or not 0 <= late.penalty <= 100 or not 0 <= late.most <= 100:
        raise ClassError(f"{name}: in [late], step is 1 or 0.5, free 0 or more, penalty and most are 0 to 100 percent.")
    if not (policy.quota.gpu_seconds > 0 and policy.quota.seconds > 0):
        raise ClassError(f"{name}: in [quota], gpu_seconds and seconds are above 0.")
    for student, of_student in policy.extensions.items():
        for lab, extension in of_student.items():
            if lab not in policy.deadlines:
                raise ClassError(f"{name}: {student} has an extension for {lab}, and {lab} has no deadline.")
            if isinstance(extension, float) and not (math.isfinite(extension) and extension >= 0):
                raise ClassError(f"{name}: the extension of {student} for {lab} is 0 days or more.")
    return policy


def what_counts(
    attempts: Iterable[GradeLine], policy: Policy, overrides: Mapping[tuple[str, str], tuple[float, str]]
) -> list[GradeLine]:
    """The attempt of each student and lab that counts, with its points after lateness and overrides (by student and
    lab: points and reason)."""
    by_key: dict[tuple[str, str], list[GradeLine]] = defaultdict(list)
    for line in attempts:
        by_key[line.student, line.lab].append(line)
    chosen = [_chosen(several, policy) for several in by_key.values()]
    days = {(line.student, line.lab): late for line in chosen if (late := policy.days_late(line))}
    rules = policy.late
    lines = without_late_points(chosen, Late(days, rules.free, rules.penalty, rules.most))
    parted = [one for line in lines for one in _parted(line, overrides)]
    there = {(line.student, line.lab) for line in parted}
    parted += [nothing(student, lab) for student, lab in overrides if (student, lab) not in there]
    return sorted(
        (_overridden(line, overrides.get((line.student, line.lab))) for line in parted),
        key=lambda line: (line.student, line.lab),
    )


def nothing(student: str, lab: str) -> GradeLine:
    """The line of a student who handed in nothing for a lab."""
    return GradeLine(student, lab, "", "", "", 0.0, 0.0, 0.0, None, "", 0.0, "", {}, attempt=0)


def _parted(line: GradeLine, overrides: Mapping[tuple[str, str], tuple[float, str]]) -> list[GradeLine]:
    """A group's line, or its members' where one of them has points of their own."""
    return line.each() if any((one.id, line.lab) in overrides for one in line.members) else [line]


def read_times(path: Path, policy: Policy) -> dict[tuple[str, str], str]:
    """When each student handed in each lab, as ISO 8601 in UTC: a table with the columns `student`, `lab` and `time`.
    Times without a zone of their own are in the policy's. Raises ClassError with what is wrong in it."""
    rows = read_rows(path)
    heading = [title.strip().lower() for title in rows[0]] if rows else []
    if not {"student", "lab", "time"} <= set(heading):
        raise ClassError(f"{path} has not the columns student, lab and time.")
    found: dict[tuple[str, str], str] = {}
    for number, row in enumerate(rows[1:], start=2):
        values = {title: text.strip() for title, text in zip(heading, row, strict=False)}
        if not any(values.values()):
            continue
        key = values.get("student", ""), values.get("lab", "")
        try:
            time = policy.placed(datetime.fromisoformat(values.get("time", "")))
        except ValueError:
            raise ClassError(f"{path}, line {number}: the time is none like 2026-11-20T23:59:00+01:00.") from None
        if key in found:
            raise ClassError(f"{path}, line {number}: {key[0]} is there twice for {key[1]}.")
        found[key] = time.isoformat(timespec="seconds")
    return found


def _chosen(several: Sequence[GradeLine], policy: Policy) -> GradeLine:
    if all(one.at for one in several):  # downloads may have come in another order
        several = sorted(several, key=lambda one: one.at)
    newest = several[-1]
    if policy.attempt == "best":
        graded = [one for one in several if one.status and one.status not in NOT_JUDGED]
        return max(graded, key=lambda one: _alone(one, policy)) if graded else newest
    if policy.attempt == "on-time":
        on_time = [one for one in several if not policy.days_late(one)]
        if not on_time:
            return replace(newest, counts=0.0, why="every attempt came after the deadline")
        return on_time[-1]
    return newest


def _alone(line: GradeLine, policy: Policy) -> float:
    """The points of an attempt without free days."""
    return line.score * (1 - min(policy.late.most, 100.0, policy.days_late(line) * policy.late.penalty) / 100)


def _overridden(line: GradeLine, override: tuple[float, str] | None) -> GradeLine:
    if override is None:
        return line
    score, reason = override
    return replace(line, counts=score, why=f"set by hand: {reason}", by_hand=True)
