"""Chooses the hand-in for a lab among a student's files, and says what becomes of the others: docs/hand-ins.md.

1. The lab is the one that `%%submit` names, else the nearest folder or file that is named like one, else `--lab`.
2. Unchanged starters, the same file twice and earlier uploads (`file.py` beside `file-1.py`) are set aside.
3. Of the remaining files counts a notebook whose cell writes the `submission.py` beside it, else `submission.py`, else
   `submission_cuda.py`, else a notebook with `%%submit`, else the one file that there is. Two that are equally good are
   refused.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from autograder.classroom.notebook import NOTEBOOK, WRITEFILE
from autograder.classroom.people import Identity
from autograder.spec.lab import SUBMISSION_NAMES

_RESUBMITTED = re.compile(r"(?P<stem>.+?)(?:-(?P<number>\d{1,3})| \((?P<copy>\d{1,3})\))\.(?P<suffix>py|ipynb)")

IsStarter = Callable[[str, bytes], bool]  # whether the content is what everybody was given for a lab


@dataclass(frozen=True)
class HandedIn:
    """What one student handed in for one lab: the file's name and bytes, or a sentence that says why there are none.

    `student` is the platform's ID. `lab` is empty where nothing says which one it is for. `called` is the name that the
    platform shows, `members` are a group's, `at` is the time (ISO 8601) if the download has it.
    """

    student: str
    lab: str
    name: str
    content: bytes = b""
    problem: str = ""
    called: str = ""
    members: tuple[Identity, ...] = ()
    at: str = ""
    note: str = ""


@dataclass(frozen=True)
class Fate:
    """What became of a file: `read` says whether it could be read, `words` are a sentence about it."""

    student: str
    path: str
    read: bool
    words: str


@dataclass(frozen=True)
class Piece:
    """One submission in a student's files: `path` is below the student, `place` what the download calls it, `cell` the
    lab or file that a notebook's cell names."""

    path: PurePosixPath
    place: str
    content: bytes
    problem: str = ""
    cell: str = ""
    python: bool = True

    def lab(self, known: Sequence[str]) -> str:
        """The lab that the piece names; empty if it names none."""
        if self.cell in known:
            return self.cell
        places = [self.path.stem, *reversed(self.path.parts[:-1])]
        return next((place for place in places if place in known), "")


def choose(
    who: Identity, pieces: Iterable[Piece], asked: str | None, known: Sequence[str], is_starter: IsStarter, at: str = ""
) -> tuple[list[HandedIn], list[Fate]]:
    """The hand-ins of one student, one a lab, and the fate of every other piece. `asked` is `--lab`."""
    groups: dict[str, list[Piece]] = defaultdict(list)
    fates: list[Fate] = []
    for piece in pieces:
        named = piece.lab(known)
        if asked and named not in ("", asked):
            fates.append(Fate(who.id, piece.place, True, f"is for {named}, and --lab asks for {asked}"))
        elif piece.cell not in ("", WRITEFILE, *known):
            fates.append(Fate(who.id, piece.place, False, f"has %%submit {piece.cell}, and there is no such lab"))
        else:
            groups[named or asked or ""].append(piece)
    found: list[HandedIn] = []
    for lab, group in sorted(groups.items(), reverse=True):  # that without a lab comes last
        one, more = _chosen(who, lab, group, is_starter, at)
        fates += more
        if one is not None and (one.content or lab or not found):
            found.append(one)
    if not found:
        why = f": {fates[0].path} {fates[0].words}" if fates else ""
        words = f"No file of {who.id} counts{why}."
        found.append(HandedIn(who.id, asked or "", "", b"", words, who.name, who.members, at))
    return sorted(found, key=lambda one: one.lab), fates


def _chosen(
    who: Identity, lab: str, group: Sequence[Piece], is_starter: IsStarter, at: str
) -> tuple[HandedIn | None, list[Fate]]:
    """The piece that counts for a lab, or why none does; and the fate of the others."""

    def made(piece: Piece, problem: str = "", note: str = "") -> HandedIn:
        name = piece.path.with_suffix(".py").name if _is_notebook(piece) else piece.path.name
        content = b"" if problem and lab else piece.content
        return HandedIn(who.id, lab, name, content, problem, who.name, who.members, at, note)

    fates = [Fate(who.id, piece.place, False, _words(piece)) for piece in group if piece.problem]
    whole = [piece for piece in group if not piece.problem]
    if not whole:
        python = [piece for piece in group if piece.python] or list(group)
        return made(python[0], python[0].problem), fates

    def aside(gone: Sequence[Piece], words: str) -> None:
        nonlocal whole
        fates.extend(Fate(who.id, piece.place, True, words) for piece in gone)
        names = {id(piece) for piece in gone}
        whole = [piece for piece in whole if id(piece) not in names]

    starters = [piece for piece in whole if lab and is_starter(lab, piece.content)]
    if len(starters) < len(whole):
        aside(starters, "is the unchanged starter")
    aside(_older(whole), "is an earlier upload of the same file")
    ranks = {id(piece): _rank(piece, whole) for piece in whole}
    best = min(ranks.values())
    candidates = [piece for piece in whole if ranks[id(piece)] == best]
    first = candidates[0]
    if any(piece.content != first.content for piece in candidates) and not _one_notebook(candidates):
        files = ", ".join(piece.place for piece in candidates[:4]) + (", ..." if len(candidates) > 4 else "")
        words = f"{who.id} handed in {len(candidates)} files ({files}): leave one, or name it submission.py."
        fates += [Fate(who.id, piece.place, False, "could be meant as well as another") for piece in candidates]
        return made(first, words), fates
    for piece in whole:
        if piece is not first:
            same = piece.content == first.content
            fates.append(
                Fate(who.id, piece.place, True, f"is {'the same as' if same else 'set aside for'} {first.place}")
            )
    fates.append(Fate(who.id, first.place, True, f"counts for {lab}" if lab else "names no lab"))
    if not lab:
        return made(first, f"Nothing says which lab {first.place} is for: name it with --lab."), fates
    return made(first, note=f"{first.place} is the unchanged starter" if first in starters else ""), fates


def _is_notebook(piece: Piece) -> bool:
    return piece.path.suffix.lower() == NOTEBOOK


def _words(piece: Piece) -> str:
    return piece.problem.removeprefix(piece.place).strip().rstrip(".") or "cannot be read"


def _rank(piece: Piece, all_of_them: Sequence[Piece]) -> int:
    name = _called(piece.path)
    if _is_notebook(piece):
        elsewhere = (one for one in all_of_them if _called(one.path) in SUBMISSION_NAMES)
        beside = all(one.path.parent == piece.path.parent for one in elsewhere)
        return 0 if piece.cell == WRITEFILE and beside else 3
    return SUBMISSION_NAMES.index(name) + 1 if name in SUBMISSION_NAMES else 4


def _called(path: PurePosixPath) -> str:
    """A file's name without what Canvas and browsers add when it is handed in again."""
    found = _RESUBMITTED.fullmatch(path.name)
    return f"{found['stem']}.{found['suffix']}" if found else path.name


def _older(pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces that there is a later upload of: `file-2.py` comes after `file-1.py` and `file.py`."""
    uploads: Mapping[PurePosixPath, list[tuple[int, Piece]]] = defaultdict(list)
    for piece in pieces:
        found = _RESUBMITTED.fullmatch(piece.path.name)
        number = int(found["number"] or found["copy"]) if found else 0
        uploads[piece.path.with_name(_called(piece.path))].append((number, piece))
    older = []
    for path, several in uploads.items():
        first = any(number == 0 for number, _ in several) or path.name in SUBMISSION_NAMES
        newest = max(number for number, _ in several)
        older += [piece for number, piece in several if first and number < newest]
    return older


def _one_notebook(candidates: Sequence[Piece]) -> bool:
    """Whether all are cells of one notebook; the last cell is the first of them."""
    return (
        len({piece.place for piece in candidates}) == 1
        and _is_notebook(candidates[0])
        and all(piece.cell for piece in candidates)
    )
