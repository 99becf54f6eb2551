"""The student of each file in a download: the ID that the platform gives, beside the name that it shows.

| platform | ID | how a download looks |
|---|---|---|
| Gradescope | e-mail, else student ID, else name | `submission_123/...` beside `submission_metadata.yml` |
| Moodle | participant's number | `Full Name_123_assignsubmission_file/...`, or so begins a file's name |
| Canvas | user's number | `name_LATE_123_456_file.py`: user 123; `anon_x1Yz9_456_file.py` |
| GitHub Classroom | login | `assignment-submissions/assignment-login/labs/...` |
| nbgrader, plain | the folder's name | `submitted/student/...`, a folder or an archive a student, or a file a student |

No file inside a hand-in changes its student.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from autograder.classroom.entries import is_archive, without_ending

# Platforms take underscores out of names, and students choose what comes behind: the first match is the platform's.
_MOODLE = re.compile(r"(?P<name>.+?)_(?P<id>\d+)_assignsubmission_(?P<kind>file|onlinetext)_?(?P<rest>.*)", re.DOTALL)
_CANVAS = re.compile(
    r"(?:(?P<name>.*?)_)??(?P<late>LATE_)?(?P<id>\d+|anon_[A-Za-z0-9]+)_(?:\d+_(?P<rest>.+)|(?P<online>text|link)\.html)",
    re.DOTALL,
)
ONLINE_TEXT = "onlinetext.html"  # what a student typed into Moodle
_LONGEST = 200  # letters of an ID that are shown
_UNSEEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


@dataclass(frozen=True, order=True)
class Identity:
    """A student: the platform's ID, the name that it shows, and of a group the identities of its members."""

    id: str
    name: str = ""
    members: tuple[Identity, ...] = ()


@dataclass(frozen=True, order=True)
class Person:
    """Somebody on the class's roster: the ID, the name, and what else a platform calls them by."""

    id: str
    name: str = ""
    aliases: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Owned:
    """The student of a path, the kind of naming that gives it, and the path below the part that names the student."""

    who: Identity
    kind: str
    rest: PurePosixPath
    note: str = ""  # what the platform's name says besides


def moodle(first: str) -> re.Match[str] | None:
    """The parts of a folder's or file's name that Moodle made; None for other names."""
    return _MOODLE.fullmatch(first)


def canvas(first: str) -> re.Match[str] | None:
    """The parts of a file's name that Canvas made; None for other names."""
    return _CANVAS.fullmatch(first)


def owner(parts: Sequence[str], gradescope: Mapping[str, Identity], prefix: str = "") -> Owned:
    """The student of the file at `parts` of an export. `gradescope` has the identities of an export's folders; `prefix`
    stands before a login in GitHub Classroom."""
    first, *others = parts
    rest = PurePosixPath(*others)
    if first in gradescope:
        return Owned(gradescope[first], "Gradescope", rest if others else PurePosixPath(first))
    if found := moodle(first):
        inside = rest if others else PurePosixPath(_inner(found["rest"] or first))
        if found["kind"] == "onlinetext" and inside.suffix == ".html":  # its name is in the student's language
            inside = PurePosixPath(ONLINE_TEXT)
        return Owned(Identity(found["id"], found["name"]), "Moodle", inside)
    if not others and (found := canvas(first)):
        inside = PurePosixPath(_inner(found["rest"] or f"{found['online']}.html"))
        note = "Canvas marks it late" if found["late"] else ""
        return Owned(Identity(found["id"], found["name"] or ""), "Canvas", inside, note)
    if others:
        login = first.removeprefix(prefix)
        return Owned(Identity(spelled(login or first), first if login != first else ""), "folder", rest)
    stem = without_ending(first) if is_archive(first) else PurePosixPath(first).stem
    return Owned(Identity(spelled(stem)), "folder", PurePosixPath(_inner(first)))


def gradescope_identities(people: Mapping[str, Any]) -> dict[str, Identity]:
    """The identities of a Gradescope export's folders, from `unpacking.submitters`. People without e-mail address and
    student ID are told apart by their folders where they share a name."""
    names = Counter(one["name"] for about in people.values() for one in about["students"])

    def identity(folder: str, one: Mapping[str, str]) -> Identity:
        alone = one["name"] if names[one["name"]] == 1 else f"{one['name']} {folder}".strip()
        return Identity(spelled(one["email"] or one["sid"] or alone), spelled(one["name"]))

    found = {}
    for folder, about in people.items():
        members = tuple(sorted({identity(folder, one) for one in about["students"]}))
        if len(members) == 1:
            found[folder] = members[0]
        elif members:
            shown = " + ".join(member.name for member in members)
            found[folder] = Identity(" + ".join(member.id for member in members), shown, members)
        else:
            found[folder] = Identity(folder)
    return found


def spelled(text: str) -> str:
    """A name with everything that cannot be seen written out, so that two names that differ never look the same:
    invisible letters and controls as `\\u200b`, spaces at the ends and doubled ones as `\\x20`."""
    shown = []
    for place, letter in enumerate(text):
        after = text[place + 1] if place + 1 < len(text) else " "
        seen = unicodedata.category(letter) not in _UNSEEN and (letter == " " or not letter.isspace())
        if letter == " " and (place == 0 or after == " "):
            shown.append("\\x20")
        elif seen and letter != "\\":
            shown.append(letter)
        else:
            shown.append("\\\\" if letter == "\\" else f"\\u{ord(letter):04x}")
    whole = "".join(shown)
    if len(whole) <= _LONGEST:
        return whole
    return f"{whole[:_LONGEST]}...{hashlib.sha256(whole.encode()).hexdigest()[:8]}"


def looks(text: str) -> str:
    """A key that names share if a reader takes them for each other."""
    plain = unicodedata.normalize("NFKC", re.sub(r"\\(?:u[0-9a-f]{4,6}|x20)", "", text)).casefold()
    return "".join(letter for letter in plain if not letter.isspace())


def _inner(name: str) -> str:
    """A file's name below its student, which may be anything but a path."""
    return name.replace("/", "_") if name not in ("", ".", "..") else "_"
