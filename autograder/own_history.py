"""A learner's own grades, kept on their machine and nowhere else, and how far they are: `autograder progress`."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import platformdirs

from autograder.records.report import Report
from autograder.spec.lab import CHECKOUT, known_labs
from warplab.files import write_whole

NOT_BEGUN, NO_QUESTION = "not begun", "no question solved yet"
_SHOWN = 6  # grades in a sentence
_QUESTION = re.compile(r'^id = "([^"]+)"', re.MULTILINE)  # in a bank of questions


@dataclass(frozen=True)
class Attempt:
    """One grade of one's own work. `most` leaves out what the machine could not judge."""

    date: str  # UTC
    lab: str
    file: str
    points: float
    most: float
    device: str

    @property
    def share(self) -> float:
        """Points of those that the machine could judge, 0 to 1."""
        return self.points / self.most if self.most else 0.0


def data_folder() -> Path:
    """Where a learner's own files are kept: $WARPLAB_DATA, else the user data folder of the platform."""
    if chosen := os.environ.get("WARPLAB_DATA"):
        return Path(chosen)
    return platformdirs.user_data_path("warplab", appauthor=False)


def keep(report: Report) -> None:
    """Add a grade to the history. A folder that cannot be written costs the history, never the grade."""
    date = datetime.now(UTC).isoformat(timespec="seconds")
    attempt = Attempt(date, report.lab, report.submission, report.score, report.max_score, report.device.value)
    try:
        file = data_folder() / "grades.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(asdict(attempt)) + "\n")  # one write: two graders at once keep both lines
    except OSError:
        return


def attempts() -> list[Attempt]:
    """All grades so far, the oldest first. Lines that are none, of a newer version for example, are left out."""
    return list(_read(data_folder() / "grades.jsonl"))


def _read(file: Path) -> Iterator[Attempt]:
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    for line in text.splitlines():
        try:
            attempt = Attempt(**json.loads(line))
            float(attempt.points), float(attempt.most)
        except (ValueError, TypeError):
            continue
        yield attempt


def best(done: list[Attempt]) -> Mapping[str, Attempt]:
    """The best attempt of each lab, the first of equals."""
    found: dict[str, Attempt] = {}
    for attempt in done:
        if attempt.lab not in found or attempt.share > found[attempt.lab].share:
            found[attempt.lab] = attempt
    return found


def questions() -> Mapping[str, tuple[int, int]]:
    """How many questions of each chapter's quiz are solved, and how many it has, by the chapter's number.

    Without the course's files those that were solved are all that is known.
    """
    solved = _solved()
    found = {}
    for bank in sorted((CHECKOUT / "course" / "quiz" / "bank").glob("[0-9]*.toml")):
        names = _QUESTION.findall(bank.read_text("utf-8"))
        found[bank.name.partition("_")[0]] = len(solved.intersection(names)), len(names)
    chapters = [name.partition("-")[0] for name in sorted(solved)]
    return found or {chapter: (chapters.count(chapter),) * 2 for chapter in chapters}


def _solved() -> set[str]:
    """The names of the questions that are solved, of whatever seed."""
    try:
        answers = json.loads((data_folder() / "quiz.json").read_text(encoding="utf-8"))["answers"]
        return {name for states in answers.values() for name, state in states.items() if state["solved"]}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return set()


def progress() -> list[tuple[str, str]]:
    """The lines of `autograder progress`: each lab and chapter, and what was done."""
    done = attempts()
    top = best(done)
    rows = []
    for lab in known_labs():
        if lab not in top:
            rows.append((lab, NOT_BEGUN))
            continue
        times = sum(attempt.lab == lab for attempt in done)
        kept = top[lab]
        rows.append((lab, f"{kept.points:g} of {kept.most:g} on {kept.date[:10]}, {times} grade{'s' * (times > 1)}"))
    totals: dict[str, tuple[int, int]] = {}
    for chapter, (solved, count) in questions().items():  # those of 01b count with 01
        before = totals.get(chapter[:2], (0, 0))
        totals[chapter[:2]] = before[0] + solved, before[1] + count
    for chapter, (solved, count) in totals.items():
        words = f"{solved} of {count} questions solved" if solved else NO_QUESTION
        rows.append((f"chapter {chapter}", words))
    return rows


def begun() -> list[tuple[str, str]]:
    """Those of them of which something is done."""
    return [row for row in progress() if row[1] not in (NOT_BEGUN, NO_QUESTION)]


def words_about(lab: str) -> str:
    """A sentence about one's grades of a lab so far, the latest last; empty before the second."""
    done = [attempt for attempt in attempts() if attempt.lab == lab]
    if len(done) < 2:
        return ""
    points = ", ".join(f"{attempt.points:g}" for attempt in done[-_SHOWN:])
    return f"Your latest grades of this lab: {points} of {done[-1].most:g} points."


def write_page() -> Path | None:
    """Write all grades, the latest first, as a page beside them; None where that cannot be."""
    from autograder.report.html_page import table_page  # its templates take longer to import than a short answer takes

    rows = [(a.date, a.lab, a.file, f"{a.points:g} of {a.most:g}", a.device) for a in reversed(attempts())]
    text = "Your own grades. They are kept on this machine and nowhere else; autograder progress lists the best ones."
    path = data_folder() / "grades.html"
    try:
        write_whole(path, table_page("Your grades", text, ("time (UTC)", "lab", "file", "points", "on"), rows))
    except OSError:
        return None
    return path
