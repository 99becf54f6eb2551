"""Writes how long each chapter takes: the line below its title, docs/map.md and the tables of docs/syllabi.

A chapter's minutes follow from its source by one rule (RULE). A section whose heading ends with " · optional" is
optional, with all that is below it; an appendix is optional as a whole. The front matter of a source names the chapters
that it needs and its lab: `warplab: {before: ["04_memory_hierarchy"], lab: "05_softmax"}`. A lab that no front matter
names belongs to the notebook of its lab.toml.
"""

from __future__ import annotations

import re
import sys
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jupytext

from warplab.files import write_whole

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "notebooks" / "source"
MAP = ROOT / "docs" / "map.md"
SYLLABI = ROOT / "docs" / "syllabi"
WEEKS = 10
HOURS = 6  # of a week
# The chapters of each week of the first term, and the labs that belong to its core path: all that is core is in it.
TERM: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("00", "01"), ("01_axpy",)),
    (("02", "03"), ("02_divergence",)),
    (("04",), ("03_transpose", "04_reduction")),
    (("05",), ("05_softmax",)),
    (("06",), ("06_tiled_gemm",)),
    (("07",), ("07_tensor_core_hgemm",)),
    (("08",), ()),
    (("09", "10"), ()),
    (("11", "12"), ("12_collectives",)),
    (("13", "14", "15", "16", "17"), ()),
)
RULE = """\
One rule gives the minutes: 150 words per minute, 1 minute per code cell, 3 per prediction or short question, 10 per
exercise and per quiz, rounded to 5 per chapter. No class has been timed yet, so take them as a plan and not as a
measurement. The reading list at the end of a chapter is not counted."""
_WORDS, _CELL, _PREDICTION, _EXERCISE = 150, 1, 3, 10
_LINE = re.compile(r"^\*\*(?:Core|Optional)\*\* \d+ minutes.*\n\n?", re.MULTILINE)
_PIECE = re.compile(r"^```.*?^```[ \t]*$|^#{1,6} [^\n]*$|^\+\+\+$", re.DOTALL | re.MULTILINE)
_HIDDEN = re.compile(r"<!--.*?-->|\]\([^)]*\)", re.DOTALL)
_TABLE = "<!-- made by scripts/course_map.py -->"


class MapError(Exception):
    """A chapter's front matter names something that is not there."""


@dataclass(frozen=True)
class Chapter:
    """A notebook, its minutes rounded to 5, the notebooks that it needs, and the labs that follow it."""

    name: str
    title: str
    core: int
    optional: int
    before: tuple[str, ...]
    labs: tuple[str, ...]
    is_appendix: bool

    @property
    def number(self) -> str:
        """The number of the chapter, of an appendix that of its chapter: "05"."""
        return number_of(self.name)

    def line(self) -> str:
        """What stands below the title."""
        first = f"**Optional** {self.optional} minutes" if self.is_appendix else f"**Core** {self.core} minutes"
        parts = [first]
        if self.optional and not self.is_appendix:
            parts.append(f"**optional** {self.optional}")
        if self.before:
            parts.append("**before** " + ", ".join(f"[{number_of(name)}]({name}.ipynb)" for name in self.before))
        if self.labs:
            parts.append("**lab** " + ", ".join(f"[{_short(lab)}](../labs/{lab}/README.md)" for lab in self.labs))
        return " · ".join(parts)


def number_of(name: str) -> str:
    """The number that a notebook's or a lab's name carries: "08b", "01"."""
    return next(part for part in name.split("_") if part[:1].isdigit())


def read(path: Path) -> Chapter:
    """A chapter from its source. Raises MapError where its front matter names no chapter or lab."""
    text = path.read_text(encoding="utf-8").split("---\n", 2)[2]
    own = jupytext.read(path).metadata.get("warplab", {})
    for name in own.get("before", ()):
        if not (SOURCES / f"{name}.md").is_file():
            raise MapError(f"{path.name} comes after {name!r}, and there is no such chapter: correct `before`.")
    lab = own.get("lab", "")
    if lab and not (ROOT / "labs" / lab / "lab.toml").is_file():
        raise MapError(f"{path.name} leads to lab {lab!r}, and there is no such lab: correct `lab`.")
    title = next(line[2:].strip() for line in text.splitlines() if line.startswith("# "))
    appendix = bool(own.get("appendix"))
    core, optional = minutes(text, appendix)
    before = tuple(own.get("before", ()))
    return Chapter(path.stem, title, _rounded(core), _rounded(optional), before, (lab,) if lab else (), appendix)


def minutes(text: str, appendix: bool = False) -> tuple[float, float]:
    """The minutes of a source's core and of its optional sections, by RULE; of an `appendix` all are optional."""
    spent = {False: 0.0, True: 0.0}
    optional_from = 0  # the level of the heading that makes what follows optional; 0 is none
    skipped = False
    place = 0
    for piece in [*_PIECE.finditer(_LINE.sub("", text)), None]:
        end = piece.start() if piece else None
        prose = _HIDDEN.sub("", _LINE.sub("", text)[place:end])
        optional = appendix or bool(optional_from)
        if not skipped:
            spent[optional] += len(re.findall(r"\w[\w'’.,-]*", prose)) / _WORDS
            spent[optional] += _PREDICTION * len(re.findall(r"^\*\*\d+\.\*\*", prose, re.MULTILINE))
        if piece is None:
            break
        place = piece.end()
        found = piece.group()
        if found.startswith("#"):
            level = len(found) - len(found.lstrip("#"))
            if level <= optional_from or not optional_from:
                optional_from = level if found.endswith("· optional") else 0
            skipped = found.startswith("## Who built on this")
            if re.search(r"\bExercise \d", found):
                spent[appendix or bool(optional_from)] += _EXERCISE
        elif found.startswith("```{code-cell}"):
            spent[optional] += _CELL + _PREDICTION * len(re.findall(r"\bpredict\(", found))
            spent[optional] += _EXERCISE * len(re.findall(r"^quiz\(", found, re.MULTILINE))
    return spent[False], spent[True]


def with_line(text: str, chapter: Chapter) -> str:
    """The source with the chapter's line below its title."""
    bare = _LINE.sub("", text)
    return re.sub(r"^(# [^\n]*\n\n)", lambda match: f"{match.group()}{chapter.line()}\n\n", bare, count=1, flags=re.M)


def chapters() -> list[Chapter]:
    """All of them in order, appendices last. Raises MapError."""
    found = [read(path) for path in SOURCES.glob("*.md")]
    named = {lab for chapter in found for lab in chapter.labs}
    others: dict[str, list[str]] = {}
    for lab in labs():
        if lab not in named:
            others.setdefault(str(_toml(lab).get("notebook")), []).append(lab)
    complete = [replace(one, labs=tuple(sorted([*one.labs, *others.get(one.name, [])]))) for one in found]
    return sorted(complete, key=lambda chapter: (chapter.is_appendix, chapter.name))


def hours_of(lab: str) -> tuple[float, float] | None:
    """The least and most hours that lab.toml expects of a student; None where it does not say."""
    hours = _toml(lab).get("hours")
    return (float(hours[0]), float(hours[1])) if hours else None


def labs() -> list[str]:
    """All labs in order."""
    return sorted(path.parent.name for path in (ROOT / "labs").glob("*/lab.toml"))


def term(known: list[Chapter]) -> list[tuple[list[Chapter], list[str], float]]:
    """The first term: of each week its chapters, its labs and its hours, of a lab the middle of what it expects."""
    weeks = []
    for numbers, own in TERM:
        taught = [chapter for chapter in known if not chapter.is_appendix and chapter.number[:2] in numbers]
        spent = sum(chapter.core for chapter in taught) / 60 + sum(_middle(lab) for lab in own)
        weeks.append((taught, list(own), spent))
    return weeks


def page(known: list[Chapter]) -> str:
    """The text of docs/map.md."""
    weeks = term(known)
    core_labs = [lab for _, own, _ in weeks for lab in own]
    text = [f"# Map of the course\n\nThis page is made by `make pages`.\n\n{RULE}\n"]
    text.append("| chapter | core, minutes | optional, minutes | before | lab | hours of the lab |")
    text.append("|---|---:|---:|---|---|---|")
    text += [_row(chapter) for chapter in known]
    core, optional = sum(chapter.core for chapter in known), sum(chapter.optional for chapter in known)
    rest = [lab for lab in labs() if lab not in core_labs]
    whole = sum(spent for _, _, spent in weeks)
    text.append(f"| **all** | **{core}** | **{optional}** | | | |\n")
    text.append("## The core path\n")
    text.append(
        f"The core sections of all chapters take {core / 60:.0f} hours, and {len(core_labs)} labs belong to the core "
        f"path: {', '.join(map(_lab, core_labs))}. Together they are {whole:.0f} hours; ten weeks of six hours are "
        f"{WEEKS * HOURS}. [Ten weeks](syllabi/ten-weeks.md) is a plan for them.\n"
    )
    text.append(
        f"[A second term](syllabi/second-term.md) has the remainder: {optional / 60:.0f} hours of optional sections "
        f"and appendices, and the labs {', '.join(map(_lab, rest))}.\n"
    )
    text.append("The hours of a lab are those that its `lab.toml` states for a student; a plan counts their middle.")
    if silent := [lab for lab in labs() if hours_of(lab) is None]:
        text.append(f"No hours are stated, and none counted, for {', '.join(map(_lab, silent))}.")
    return "\n".join(text) + "\n"


def table_of_weeks(known: list[Chapter]) -> str:
    """The table of docs/syllabi/ten-weeks.md."""
    rows = ["| week | core of chapter | lab given out | hours |", "|---|---|---|---:|"]
    for week, (taught, own, spent) in enumerate(term(known), 1):
        lessons = ", ".join(_chapter(chapter, "../../") for chapter in taught)
        rows.append(f"| {week} | {lessons} | {', '.join(_lab(lab, '../../') for lab in own)} | {spent:.1f} |")
    whole = sum(spent for _, _, spent in term(known))
    return "\n".join([*rows, f"| | | **in all** | **{whole:.0f}** |"])


def table_of_the_rest(known: list[Chapter]) -> str:
    """The table of docs/syllabi/second-term.md: what is optional, and the labs outside the core path."""
    taken = {lab for _, own in TERM for lab in own}
    rows = ["| optional sections of | minutes | labs | hours |", "|---|---:|---|---|"]
    left = [lab for lab in labs() if lab not in taken]
    for chapter in known:
        own = [lab for lab in left if lab in chapter.labs]
        left = [lab for lab in left if lab not in own]
        if chapter.optional or own:
            names, hours = ", ".join(_lab(lab, "../../") for lab in own), ", ".join(map(_hours, own))
            rows.append(f"| {_chapter(chapter, '../../')} | {chapter.optional} | {names} | {hours} |")
    rows += [f"| | | {_lab(lab, '../../')} | {_hours(lab)} |" for lab in left]
    return "\n".join(rows)


def table_of_steps(known: list[Chapter]) -> str:
    """The table of docs/syllabi/self-paced.md."""
    rows = [
        "| chapter | core, minutes | optional, minutes | then write | hours of the lab |",
        "|---|---:|---:|---|---|",
    ]
    for chapter in known:
        names, hours = ", ".join(_lab(lab, "../../") for lab in chapter.labs), ", ".join(map(_hours, chapter.labs))
        rows.append(f"| {_chapter(chapter, '../../')} | {chapter.core} | {chapter.optional} | {names} | {hours} |")
    return "\n".join(rows)


def written() -> dict[Path, str]:
    """What each file that carries the map should hold. Raises MapError."""
    known = chapters()
    files = {MAP: page(known)}
    for chapter in known:
        path = SOURCES / f"{chapter.name}.md"
        files[path] = with_line(path.read_text(encoding="utf-8"), chapter)
    tables = {"ten-weeks": table_of_weeks, "second-term": table_of_the_rest, "self-paced": table_of_steps}
    for name, table in tables.items():
        path = SYLLABI / f"{name}.md"
        head, _, tail = path.read_text(encoding="utf-8").split(_TABLE)
        files[path] = f"{head}{_TABLE}\n\n{table(known)}\n\n{_TABLE}{tail}"
    return files


def main() -> int:
    """Exit code 0; 1 where a front matter names what is not there."""
    try:
        files = written()
    except MapError as error:
        print(error, file=sys.stderr)
        return 1
    for path, text in files.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            write_whole(path, text)
    return 0


def _toml(lab: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / "labs" / lab / "lab.toml").read_text(encoding="utf-8"))


def _short(lab: str) -> str:
    """The number of a lab, with the letter that a second lab of that number has: "11_k"."""
    return re.match(r"\d+(?:_[a-z](?=_))?", lab)[0]  # type: ignore[index]


def _rounded(spent: float) -> int:
    return 5 * round(spent / 5)


def _middle(lab: str) -> float:
    hours = hours_of(lab)
    return sum(hours) / 2 if hours else 0.0


def _hours(lab: str) -> str:
    hours = hours_of(lab)
    return f"{hours[0]:g} to {hours[1]:g}" if hours else ""


def _lab(lab: str, up: str = "../") -> str:
    return f"[{lab}]({up}labs/{lab}/README.md)"


def _chapter(chapter: Chapter, up: str = "../") -> str:
    return f"[{chapter.title}]({up}notebooks/{chapter.name}.ipynb)"


def _row(chapter: Chapter) -> str:
    before = ", ".join(number_of(name) for name in chapter.before)
    names, hours = ", ".join(map(_lab, chapter.labs)), ", ".join(map(_hours, chapter.labs))
    return f"| {_chapter(chapter)} | {chapter.core} | {chapter.optional} | {before} | {names} | {hours} |"


if __name__ == "__main__":
    sys.exit(main())
