"""Reads downloads of Gradescope, Moodle, Canvas, GitHub Classroom and nbgrader, and plain folders.

`people` finds the student of a file, `hand_in` the file that counts. Every file gets a fate: what became of it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from autograder.classroom.clones import BESIDE, clones, sorted_out
from autograder.classroom.entries import DAMAGE, ClassError, Download, Entry, is_archive, without_ending
from autograder.classroom.hand_in import Fate, HandedIn, Piece, choose
from autograder.classroom.people import (
    ONLINE_TEXT,
    Identity,
    Owned,
    canvas,
    gradescope_identities,
    looks,
    moodle,
    owner,
)
from autograder.classroom.reader import Here, Unreadable
from autograder.classroom.unpacking import largest
from autograder.spec.lab import SUBMISSION_NAMES, known_labs, labs_folder

_METADATA = "submission_metadata.yml"
_LARGEST_METADATA = 64 << 20
_GRADESCOPE_EXPORT = re.compile(r"assignment_\d+_export")
_EXPORT = re.compile(rf"{_GRADESCOPE_EXPORT.pattern}|.+-submissions|submissions|submitted")
_GRADESCOPE_FOLDER = re.compile(r"submission_\d+")
_MOST_BYTES = 96 << 20  # of one student's files as they are in the download
_MOST_READ = 500  # files of one student


@dataclass(frozen=True)
class Intake:
    """The hand-ins of a class, one per student and lab, sorted; the fate of every file; warnings in sentences."""

    handed_in: list[HandedIn]
    fates: list[Fate] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def all_read(self) -> bool:
        """Whether every file could be read and every student has a hand-in that can be graded."""
        return all(fate.read for fate in self.fates) and not any(one.problem for one in self.handed_in)


@dataclass(frozen=True)
class _Student:
    """A student's files: whose they are, each with its path below the student and the file. `about` is the student
    where the download names one apart from the files."""

    about: Identity = Identity("")
    owned: list[tuple[Owned, Entry]] = field(default_factory=list)
    at: dict[str, str] = field(default_factory=dict)  # the latest time by lab, empty for that of all

    @property
    def identity(self) -> Identity:
        """The student, with the fullest of the names that the download gives."""
        return max((*(owned.who for owned, _ in self.owned), self.about), key=lambda one: len(one.name))

    def came(self, lab: str, at: str) -> None:
        self.at[lab] = max(self.at.get(lab, ""), at)


def read_class(place: Path, lab: str | None = None, reader: Here | None = None) -> Intake:
    """The hand-ins in a folder or an archive. `lab` is the lab of files that name none; `reader` opens archives and
    notebooks.

    Raises ClassError if there is nothing.
    """
    known = known_labs()
    if lab is not None and lab not in known:
        raise ClassError(f"There is no lab {lab!r} (known: {', '.join(known)}).")
    reader = reader or Here()
    with Download(place) as download:
        roots = [without_ending(download.place.name)]
        found = Intake([])
        entries = _with_downloads(download, known, roots, found)
        if not entries and not found.fates:
            raise ClassError(f"Nothing in {place} is a file: docs/hand-ins.md says what is read.")
        for name, student in _students(entries, known, roots, reader, found).items():
            if student.owned:
                one, more = _of_student(student, lab, known, reader)
                found.handed_in.extend(one)
                found.fates.extend(more)
            found.handed_in.extend(_without_files(name, student, lab))
        found.fates.extend(_passed_over(download, entries))
    found.handed_in.sort(key=lambda one: (one.student, one.lab))
    found.warnings.extend(_alike(found.handed_in))
    return found


def _without_files(name: str, student: _Student, asked: str | None) -> list[HandedIn]:
    """A student's rows for the labs that the download names without a file of theirs."""
    there = {owned.rest.parts[0] for owned, _ in student.owned}
    labs = {lab for lab in student.at if lab and asked in (None, lab)} - there
    if not student.owned and not labs:
        labs = {asked or ""}
    words, one = f"The download has no file of {name}.", student.identity
    at = student.at.get("", "")
    return [HandedIn(name, lab, "", b"", words, one.name, one.members, student.at.get(lab, at)) for lab in sorted(labs)]


def _passed_over(download: Download, entries: Sequence[Entry]) -> list[Fate]:
    """The fate of what systems and tools leave behind: not read where a folder holds nothing else."""
    folders = {parent for entry in entries for parent in PurePosixPath(entry.place).parents}
    fates = [Fate("", str(path), False, "is an empty folder") for path in sorted(download.empty)]
    for path in sorted(download.litter):
        alone = path.parent not in folders and path.parent.parts[:1] != ("__MACOSX",)
        words = "is left by a system or a tool" + (", and nothing else is in its folder" if alone else "")
        fates.append(Fate("", str(path), not alone, words))
    return fates


def read_one(place: Path, lab: str) -> HandedIn:
    """What one student handed in for `lab`: the file that counts in a folder or an archive. Raises ClassError."""
    with Download(place) as download:
        owned = [(Owned(Identity("You"), "folder", entry.path), entry) for entry in download.entries()]
        owned = [(own, entry) for own, entry in owned if largest(entry.path.name)]
        if not owned:
            raise ClassError(f"There is no Python file: hand in {SUBMISSION_NAMES[0]}.")
        (one,), _ = _of_student(_Student(owned=owned), lab, known_labs(), Here())
    return one


def _with_downloads(download: Download, known: Sequence[str], roots: list[str], told: Intake) -> list[Entry]:
    """The files of the place without folders around all of it, and with those of a platform's archives in the folder of
    a lab: one that is named like a lab, or one alone that is called or looks like a platform's. One that cannot be read
    goes to `told`."""
    entries = _without_root(download.entries(), known, roots)
    for entry in list(entries):
        *folders, name = entry.path.parts
        if entry.problem or not is_archive(name) or len(folders) > 1 or (folders and folders[0] not in known):
            continue
        beside = [one for one in entries if one is not entry and entry.path.parent in one.path.parents]
        alone = not any(largest(one.path.name) for one in beside)
        alone &= all(one.path.parent == entry.path.parent for one in entries if one.path.parts[0] in folders[:1])
        if not folders and without_ending(name) in known:
            inside = download.opened(entry)
            root = without_ending(name)
        elif alone and (folders or not _is_platforms(entry.path.parts)):
            inside = download.opened(entry)
            if not (folders and without_ending(name) == "submissions") and not _looks_like_a_platforms(
                inside, len(folders)
            ):
                continue
            root = ""
        else:
            continue
        entries.remove(entry)
        if inside[0].problem and inside[0].path == entry.path:
            told.fates.append(Fate("", entry.place, False, inside[0].problem.removeprefix(str(entry.path)).strip(" .")))
            continue
        entries += [replace(one, path=PurePosixPath(root) / one.path) for one in inside]
    return entries


def _looks_like_a_platforms(entries: Sequence[Entry], depth: int) -> bool:
    names = {entry.path.parts[depth] for entry in entries if len(entry.path.parts) > depth}
    return _are_platforms(names) or any(
        entry.path.name == _METADATA and len(entry.path.parts) <= depth + 2 for entry in entries
    )


def _are_platforms(names: Collection[str]) -> bool:
    """Whether Moodle or Canvas made the names in a folder: most of them, and all that can be a student's."""
    others = [name for name in names if not (moodle(name) or canvas(name))]
    return 2 * len(others) < len(names) and not any(largest(name) for name in others)


def _without_root(entries: Sequence[Entry], known: Sequence[str], roots: list[str]) -> list[Entry]:
    """The entries without folders that hold the whole class: `submissions/`. Their names are added to `roots`. Beside a
    folder with a platform's names an instructor's own files may lie."""
    entries = list(entries)
    while True:
        loose = [one for one in entries if len(one.path.parts) == 1 and not largest(one.path.name)]
        held = [one for one in entries if len(one.path.parts) > 1 or largest(one.path.name)]
        root = held[0].path.parts[0] if held else ""
        inside = [one.path.parts[1:] for one in held]
        if not root or root in known or moodle(root) or any(one.path.parts[0] != root for one in held):
            return entries
        if not _holds_a_class(root, inside, known):
            return entries
        if loose and not (_EXPORT.fullmatch(root) or _are_platforms({parts[0] for parts in inside if parts})):
            return entries
        roots.append(root)
        entries = [*(replace(one, path=PurePosixPath(*one.path.parts[1:])) for one in held), *loose]


def _holds_a_class(root: str, inside: Sequence[tuple[str, ...]], known: Sequence[str]) -> bool:
    """Whether a folder is no student's: a platform's names are in it, or folders and archives that are no lab's."""
    if (_METADATA,) in inside:
        if not _GRADESCOPE_EXPORT.fullmatch(root):  # it may be a student's
            return False
        if len(inside) == 1:  # nobody handed in a file
            return True
    paths = [parts for parts in inside if parts != (_METADATA,)]
    children = {parts[0] for parts in paths if parts}
    if _are_platforms(children):
        return True
    if _EXPORT.fullmatch(root):  # an instructor's own files may lie beside the students' folders
        paths = [parts for parts in paths if len(parts) > 1 or is_archive(parts[0])]
        children = {parts[0] for parts in paths}
    files = {parts[0] for parts in paths if len(parts) == 1}
    if not children or () in paths or children & {*known, "labs"} or not all(is_archive(name) for name in files):
        return False
    return not files or len(children) > 1


def _students(
    entries: Sequence[Entry], known: Sequence[str], outer: Sequence[str], reader: Here, told: Intake
) -> dict[str, _Student]:
    """The files by student. Each folder of a lab at the top, or of a platform's export, may hold a download of its
    own. What is nobody's goes to `told`."""
    parts: dict[str, list[Entry]] = defaultdict(list)
    exports = _exports(entries, known)
    for entry in entries:
        first, *others = entry.path.parts
        parts[first if others and (first in known or first in exports) else ""].append(entry)
    students: dict[str, _Student] = defaultdict(_Student)
    for front, group in parts.items():
        roots = [*outer, front]
        inner = [replace(one, path=one.path.relative_to(front)) if front else one for one in group]
        inner = _without_root(inner, known, roots)
        inner, people = _gradescope(inner, front, reader, told)
        identities = gradescope_identities(people)
        prefix = next((f"{root.removesuffix('-submissions')}-" for root in roots if root.endswith("-submissions")), "")
        there = {entry.path.parts[0] for entry in inner}
        for folder, who in identities.items():
            if folder not in there:
                students.setdefault(who.id, _Student(who)).came(front if front in known else "", _at(people[folder]))
                told.fates.append(Fate(who.id, str(PurePosixPath(front) / folder), False, "has no file in the export"))
        named = bool(people) or any(_is_platforms(entry.path.parts) for entry in inner)
        by_folder = (any(map(_EXPORT.fullmatch, roots)) or (not front and len(parts) > 1)) and not any(
            len(entry.path.parts) == 1 and largest(entry.path.name) and not is_archive(entry.path.name)
            for entry in inner
        )
        for entry in inner:
            if len(entry.path.parts) == 1 and not _is_platforms(entry.path.parts):
                if (named or by_folder) and not largest(entry.path.name):
                    told.fates.append(Fate("", entry.place, False, "is no file of a student's by its name"))
                    continue
                if named:
                    told.warnings.append(f"{entry.place} is not named as the platform names files: see whose it is.")
            found = owner(entry.path.parts, identities, prefix)
            student = students[found.who.id]
            if "submitted" in roots and entry.path.name == "timestamp.txt" and len(entry.path.parts) == 3:
                assignment = entry.path.parts[1]
                student.came(assignment if assignment in known else "", _nbgrader_time(entry))
                told.fates.append(Fate(found.who.id, entry.place, True, "gives the time"))
                continue
            if found.kind == "Gradescope":
                student.came(front if front in known else "", _at(people[entry.path.parts[0]]))
            rest = PurePosixPath(front) / found.rest
            student.owned.append((replace(found, rest=rest), entry))
    return students


def _is_platforms(parts: Sequence[str]) -> bool:
    """Whether Moodle or Canvas named the file, or the folder around it."""
    return bool(moodle(parts[0]) or (len(parts) == 1 and canvas(parts[0])))


def _exports(entries: Sequence[Entry], known: Sequence[str]) -> set[str]:
    """The top folders that are exports by a platform's own names, if no other folder lies beside them, which could be a
    student's."""
    inside: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    for entry in entries:
        if len(entry.path.parts) > 1:
            inside[entry.path.parts[0]].append(entry.path.parts[1:])
    exports = {name for name in inside if _EXPORT.fullmatch(name) and _holds_a_class(name, inside[name], known)}
    return exports if inside.keys() <= exports | set(known) else set()


def _gradescope(
    entries: list[Entry], front: str, reader: Here, told: Intake
) -> tuple[list[Entry], dict[str, dict[str, Any]]]:
    """The entries of an export without its metadata, and the people that these give. They count at the export's root
    alone, and only if their folders are those beside them; elsewhere they are a student's file."""
    at_root = [entry for entry in entries if entry.path.parts == (_METADATA,)]
    rest = [entry for entry in entries if entry.path.parts != (_METADATA,)]
    folders = {entry.path.parts[0] for entry in rest if len(entry.path.parts) > 1}
    only = bool(folders) and all(_GRADESCOPE_FOLDER.fullmatch(folder) for folder in folders)
    if not at_root:
        if only:
            told.warnings.append(
                f"{front or 'The download'} has no {_METADATA}, so students are called by their folders: export the "
                "submissions again."
            )
        return entries, {}
    (metadata,) = at_root
    try:
        people = reader.submitters(metadata.read(_LARGEST_METADATA))
    except (Unreadable, *DAMAGE) as error:
        if only:  # nothing else says whose they are
            words = f"{_METADATA} is not what Gradescope exports ({error}). Export the submissions again."
            raise ClassError(words) from None
        people = {}
    if not folders <= people.keys() or not all(_GRADESCOPE_FOLDER.fullmatch(folder) for folder in people):
        words = "does not name the folders beside it, and is not read: export the submissions again"
        told.fates.append(Fate("", metadata.place, False, words))
        return rest, {}
    told.fates.append(Fate("", metadata.place, True, "gives the students and the times"))
    return rest, people


def _of_student(
    student: _Student, asked: str | None, known: Sequence[str], reader: Here
) -> tuple[list[HandedIn], list[Fate]]:
    who = student.identity
    kinds = sorted({owned.kind for owned, _ in student.owned})
    at = student.at.get(asked or "", student.at.get("", ""))
    files = [(owned.rest, entry) for owned, entry in student.owned]

    def refused(words: str) -> tuple[list[HandedIn], list[Fate]]:
        fates = [Fate(who.id, entry.place, False, "is not read: see the student's row") for _, entry in files]
        problem = f"{who.id}: {words}."
        return [HandedIn(who.id, asked or "", files[0][0].name, b"", problem, who.name, who.members, at)], fates

    if len(kinds) > 1:
        return refused(
            f"two kinds of names ({' and '.join(kinds)}) give this ID, perhaps two people: grade them in two runs"
        )
    repositories = clones([path for path, _ in files], known)
    fates: list[Fate] = []
    if repositories:
        files, beside, others = sorted_out(files, repositories, known)
        fates += [Fate(who.id, entry.place, False, BESIDE) for entry in beside]
        fates.append(Fate(who.id, who.name or who.id, True, f"has {_others(others)} of the course's repository"))
    wanted = [(path, entry) for path, entry in files if largest(path.name) and not entry.problem]
    if len(wanted) > _MOST_READ:
        return refused(f"{len(wanted)} files are more than {_MOST_READ}: hand in submission.py alone")
    pieces = [_unread(path, entry) for path, entry in files if entry.problem or not largest(path.name)]
    raw, size = [], 0
    for path, entry in wanted:
        try:
            content = entry.read(largest(path.name) + 1)
        except DAMAGE as error:
            words = f"{entry.place} is damaged in its archive."
            words = f"{entry.place} cannot be read: {error.strerror}." if isinstance(error, OSError) else words
            pieces.append(Piece(path, entry.place, b"", words))
            continue
        size += len(content)
        if size > _MOST_BYTES:
            return refused(f"the files are more than {_MOST_BYTES >> 20} MiB: hand in submission.py alone")
        raw.append({"path": str(path), "content": content})
    try:
        opened = reader.unpack(raw)
    except Unreadable as error:
        return refused(f"the files cannot be opened ({error}): hand in submission.py alone")
    if opened and not opened[0]["path"]:
        return refused(f"the files are {opened[0]['problem']}")
    places = {str(path): entry.place for path, entry in wanted}
    unpacked = [_piece(one, places) for one in opened]
    inside = clones([piece.path for piece in unpacked], known)
    if inside and not repositories:  # in an archive
        repositories = inside
        kept, own, others = sorted_out([(piece.path, piece) for piece in unpacked], inside, known)
        fates += [Fate(who.id, piece.place, False, BESIDE) for piece in own]
        root = _place_inside(min(inside), places)
        fates.append(Fate(who.id, root, True, f"has {_others(others)} of the course"))
        unpacked = [piece for _, piece in kept]
    if len(unpacked) > _MOST_READ:
        return refused(f"{len(unpacked)} files are more than {_MOST_READ}: hand in submission.py alone")
    named_for = _named_for(piece.path for piece in unpacked) if kinds == ["folder"] else set()
    if len(named_for) > 1:
        return refused("the files are a platform's download of several students: give it to the command by itself")
    for one in unpacked:
        if repositories and asked is None and _is_starter(one.lab(known), one.content):
            fates.append(Fate(who.id, one.place, True, "is the unchanged starter"))
        else:
            pieces.append(one)
    if repositories and not pieces:
        problem = f"The repository of {who.id} has unchanged starters only."
        return [HandedIn(who.id, "", "", b"", problem, who.name, who.members, at)], fates
    found, more = choose(who, pieces, asked, known, _is_starter, at)
    marks = {owned.note for owned, _ in student.owned}
    marks |= {f"named as the file of {one} in a platform's download: see whose it is" for one in named_for}
    found = [
        replace(
            one,
            at=student.at.get(one.lab, one.at),
            note="; ".join(sorted({one.note, *marks} - {""})),
        )
        for one in found
    ]
    return found, fates + more


def _unread(path: PurePosixPath, entry: Entry) -> Piece:
    """A piece that says why a file is not read."""
    place = entry.place
    if entry.problem:
        return Piece(path, place, b"", entry.problem, python=bool(largest(path.name)))
    if path.name in (ONLINE_TEXT, "text.html", "link.html"):
        words = f"{place} is text typed into the platform, and is not read: ask for a file."
    elif path.suffix.lower() == ".txt":
        words = f"{place} is a text file: ask for it as submission.py."
    else:
        words = f"{place} is neither Python, a notebook, nor a zip or tar archive, and is not read."
    return Piece(path, place, b"", words, python=False)


def _piece(one: Mapping[str, Any], places: Mapping[str, str]) -> Piece:
    path = PurePosixPath(one["path"])
    place = places.get(one["path"]) or _place_inside(path, places)
    python = bool(largest(path.name))
    problem = one["problem"].replace(one["path"], place, 1)
    if not python and not problem:
        problem = f"{place} is neither Python nor a notebook, and is not read."
    return Piece(path, place, one["content"], problem, one["cell"], python)


def _place_inside(path: PurePosixPath, places: Mapping[str, str]) -> str:
    """The place in the download of a path below the student's folder; one inside an archive follows the archive's."""
    for inner, place in places.items():
        if path.is_relative_to(without_ending(inner)):
            return str(PurePosixPath(place) / path.relative_to(without_ending(inner)))
    return str(path)


def _named_for(paths: Iterable[PurePosixPath]) -> set[str]:
    """The students that the names of Python files give; none if a name is not one of a platform's downloads."""
    found = {_person_in(path) for path in paths if largest(path.name)}
    return set() if "" in found else found


def _person_in(path: PurePosixPath) -> str:
    """The student that a platform's names give a file to; empty where they name nobody."""
    for part in path.parts:
        if match := moodle(part):
            return match["id"]
        if _GRADESCOPE_FOLDER.fullmatch(part):
            return part
    found = canvas(path.name)
    return found["id"] if found else ""


@cache
def _starters(lab: str) -> frozenset[bytes]:
    files = (labs_folder() / lab / name for name in SUBMISSION_NAMES)
    return frozenset(_plain(file.read_bytes()) for file in files if file.is_file())


def _is_starter(lab: str, content: bytes) -> bool:
    return bool(lab) and _plain(content) in _starters(lab)


def _plain(content: bytes) -> bytes:
    return b"\n".join(line.rstrip() for line in content.removeprefix(b"\xef\xbb\xbf").splitlines()).strip()


def _alike(handed_in: Iterable[HandedIn]) -> list[str]:
    """A sentence for students whose IDs a reader takes for each other."""
    by_look: dict[str, set[str]] = defaultdict(set)
    for one in handed_in:
        by_look[looks(one.student)].add(one.student)
    return [
        f"{' and '.join(sorted(names))} look alike and are kept apart: check whether they are one student."
        for _, names in sorted(by_look.items())
        if len(names) > 1
    ]


def _at(person: Mapping[str, Any]) -> str:
    return _time(person["at"])


def _nbgrader_time(entry: Entry) -> str:
    try:
        return _time(entry.read(100).decode("utf-8", "replace").strip().removesuffix("UTC") + "+0000")
    except DAMAGE:
        return ""


def _time(text: str) -> str:
    """A platform's time as ISO 8601 in UTC; empty for what is none."""
    plain = re.sub(r"(\.\d{6})\d*", r"\1", text.strip()).replace(" Z", "+00:00").replace(" ", "T", 1).replace(" ", "")
    try:
        found = datetime.fromisoformat(plain)
    except ValueError:
        return ""
    return found.astimezone(UTC).isoformat(timespec="seconds") if found.tzinfo else ""


def _others(count: int) -> str:
    return "1 other file" if count == 1 else f"{count} other files"
