"""Who handed in what: reads downloads of Gradescope, Moodle, Canvas and nbgrader, and plain folders or archives.

| download | how it looks |
|---|---|
| Gradescope, "Export submissions" | `submission_123/...` and `submission_metadata.yml` with the names |
| Moodle, "Download all submissions" | `Full Name_123_assignsubmission_file/...`, or so begins a file's name |
| Canvas, "Download submissions" | `name_123_456_file.py`, `name_LATE_123_456_file.py`, resubmitted: `file-1.py` |
| nbgrader | `submitted/student/assignment/file.py`, or a notebook whose cell writes submission.py |
| plain | a folder or an archive a student, or a file a student (`ada.py`), also below folders named like labs |
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

import yaml

from autograder.classroom.entries import NOTEBOOK, ClassError, Entry, read_entries
from autograder.classroom.notebook import without_notebook
from autograder.spec.lab import SUBMISSION_NAMES, known_labs

_MOODLE = re.compile(r"(?P<student>.+)_\d+_assignsubmission_(?:file|onlinetext)_?(?P<rest>.*)")
_CANVAS = re.compile(r"(?P<student>[^_]+)_(?:LATE_)?\d+_\d+_(?P<rest>.+)")
_RESUBMITTED = re.compile(r"(?P<stem>.+)-(?P<number>\d{1,3})\.py")
_METADATA = "submission_metadata.yml"


@dataclass(frozen=True)
class HandedIn:
    """What one student handed in for one lab: the file's name and bytes, or a sentence that says why there are none.

    `lab` is empty where nothing says which one it is for.
    """

    student: str
    lab: str
    name: str
    content: bytes = b""
    problem: str = ""


@dataclass(frozen=True)
class _Claim:
    """An entry with the student that it is from and its path below what names the student."""

    student: str
    rest: PurePosixPath
    entry: Entry


def read_class(place: Path, lab: str | None = None) -> list[HandedIn]:
    """What is handed in at a folder or an archive, one a student and lab, sorted. `lab` is the lab of all of it.

    Raises ClassError if there is nothing.
    """
    known = known_labs()
    if lab is not None and lab not in known:
        raise ClassError(f"There is no lab {lab!r} (known: {', '.join(known)}).")
    claims = _claims(_without_root([without_notebook(entry) for entry in read_entries(place)], known), known)
    groups: dict[tuple[str, str], list[_Claim]] = defaultdict(list)
    for claim in claims:
        groups[claim.student, lab or _lab_of(claim, known)].append(claim)
    if not groups:
        raise ClassError(f"Nothing in {place} is a Python file or a notebook: docs/instructors.md says what is read.")
    return [_chosen(student, name, group) for (student, name), group in sorted(groups.items())]


def read_one(place: Path, lab: str) -> HandedIn:
    """What one student handed in for `lab`: the file that counts in a folder or an archive. Raises ClassError."""
    entries = [without_notebook(entry) for entry in read_entries(place) if entry.path.name != _METADATA]
    if not entries:
        raise ClassError(f"There is no Python file: hand in {SUBMISSION_NAMES[0]}.")
    return _chosen("You", lab, [_Claim("You", entry.path, entry) for entry in entries])


def _without_root(entries: Sequence[Entry], known: Sequence[str]) -> list[Entry]:
    """The entries without folders that hold everything and name neither a student nor a lab: `submissions/`."""
    entries = list(entries)
    while entries:
        roots = {entry.path.parts[0] for entry in entries}
        root = next(iter(roots))
        files = [entry.path.parts for entry in entries if entry.path.name != _METADATA]
        deep = all(len(parts) > 2 and parts[1] not in known for parts in files)
        if len(roots) > 1 or not deep or root in known or _MOODLE.fullmatch(root):
            break
        entries = [replace(entry, path=PurePosixPath(*entry.path.parts[1:])) for entry in entries]
    return entries


def _claims(entries: Sequence[Entry], known: Sequence[str]) -> list[_Claim]:
    names = _gradescope_names(entries)
    claims = []
    for entry in entries:
        if entry.path.name == _METADATA:
            continue
        first, *others = entry.path.parts
        if first in known and others:
            first, *others = others
        rest = PurePosixPath(*others)
        if first in names:
            claims.append(_Claim(names[first], rest, entry))
        elif found := _MOODLE.fullmatch(first):
            path = rest if others else PurePosixPath(found["rest"] or first)
            claims.append(_Claim(found["student"], path, entry))
        elif not others and (found := _CANVAS.fullmatch(first)):
            claims.append(_Claim(found["student"], PurePosixPath(found["rest"]), entry))
        else:
            claims.append(_Claim(first if others else entry.path.stem, rest if others else entry.path, entry))
    return claims


def _gradescope_names(entries: Iterable[Entry]) -> dict[str, str]:
    """The students of Gradescope's folders; who shares one is named with the others. Raises ClassError."""
    names: dict[str, str] = {}
    for entry in entries:
        if entry.path.name != _METADATA:
            continue
        try:
            metadata = yaml.load(entry.content, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
            for folder, about in metadata.items():
                students = [str(s.get(":email") or s[":name"]) for s in about[":submitters"]]
                names[str(folder)] = " + ".join(sorted(students)) or str(folder)
        except (yaml.YAMLError, AttributeError, KeyError, TypeError, RecursionError, ValueError) as error:
            raise ClassError(f"{entry.path} is not what Gradescope exports. Export the submissions again.") from error
    return names


def _lab_of(claim: _Claim, known: Sequence[str]) -> str:
    """The lab that a folder or the file is named after; empty if none is."""
    places = [*claim.rest.parts[:-1], claim.rest.stem, *claim.entry.path.parts[:-1]]
    return next((place for place in places if place in known), "")


def _chosen(student: str, lab: str, claims: Sequence[_Claim]) -> HandedIn:
    """The one file of several that counts, or why none does."""
    whole = [claim for claim in claims if not claim.entry.problem]
    if not whole:
        return HandedIn(student, lab, claims[0].rest.name, problem=claims[0].entry.problem)
    candidates = _newest(whole)
    notebooks = [claim for claim in candidates if claim.rest.suffix == NOTEBOOK]
    named = [claim for claim in candidates if claim.rest.name in SUBMISSION_NAMES]
    if len(candidates) > 1:  # a notebook's submission.py is what its cell wrote when it was last run
        candidates = notebooks or named
    if len(candidates) != 1:
        files = ", ".join(str(claim.entry.path) for claim in whole[:4]) + (", ..." if len(whole) > 4 else "")
        words = f"{student} handed in {len(whole)} files ({files}): leave one, or name it submission.py."
        return HandedIn(student, lab, whole[0].rest.name, problem=words)
    claim = candidates[0]
    problem = "" if lab else f"Nothing says which lab {claim.entry.path} is for: name it with --lab."
    name = claim.rest.with_suffix(".py").name if claim.rest.suffix == NOTEBOOK else claim.rest.name
    return HandedIn(student, lab, name, claim.entry.content, problem)


def _newest(claims: Sequence[_Claim]) -> list[_Claim]:
    """The claims without those that Canvas has a later one of: `file-2.py` comes after `file-1.py` and `file.py`."""
    newest: dict[PurePosixPath, tuple[int, _Claim]] = {}
    for claim in claims:
        found = _RESUBMITTED.fullmatch(claim.rest.name)
        stem = claim.rest.with_name(found["stem"] + ".py") if found else claim.rest
        number = int(found["number"]) if found else 0
        if found is None or any(other.rest == stem for other in claims):
            if stem not in newest or newest[stem][0] < number:
                newest[stem] = number, claim
        else:
            newest[claim.rest] = 0, claim
    return [claim for _, claim in newest.values()]
