"""The files in a folder or an archive that a class has handed in: listed by name, and read when they are asked for.

Nothing is written to disk and no link is followed. No archive of a student's is opened here: `unpacking` does that, in
a process of its own. A file that cannot be taken is listed with a sentence that says why.
"""

from __future__ import annotations

import io
import os
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import IO, Self

from warplab.errors import WarplabError

MOST_ENTRIES = 500_000  # of the class; `unpacking` bounds each student
MOST_ARCHIVE = 1 << 30  # bytes of an archive in a download's folder
ARCHIVES = (".zip", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar")
LITTER = frozenset({"__MACOSX", "__pycache__", ".git", ".ipynb_checkpoints", ".venv", "site-packages"})
LITTER_FILES = frozenset({".DS_Store", "Thumbs.db", "desktop.ini"})
DAMAGE = (zipfile.BadZipFile, tarfile.TarError, OSError, EOFError, RuntimeError, ValueError, NotImplementedError)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)

Read = Callable[[int], bytes]  # at most so many bytes of a file; raises what is in DAMAGE


class ClassError(WarplabError):
    """The class cannot be read, or its record cannot be used."""


@dataclass(frozen=True)
class Entry:
    """A file: `path` is where it counts, `place` its path below the place that was named; `problem` says in a sentence
    why it cannot be read."""

    path: PurePosixPath
    read: Read
    problem: str = ""
    place: str = ""


class Download:
    """The files of a folder or an archive, as a platform gives it. Use as a context manager: it keeps archives open.

    Raises ClassError if there is no such place, or it holds too much.
    """

    def __init__(self, place: Path) -> None:
        self.place = place
        self._stack = ExitStack()
        self._left = MOST_ENTRIES
        self.litter: set[PurePosixPath] = set()  # the folders and files that were passed over
        self.empty: set[PurePosixPath] = set()  # folders on disk with nothing in them

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def entries(self) -> list[Entry]:
        """Every file but what systems and tools leave behind, sorted by path."""
        if self.place.is_dir():
            found = self._in_folder()
        elif self.place.is_file():
            inside = self._members(self._stack.enter_context(self.place.open("rb")), PurePosixPath())
            if inside is None:
                raise ClassError(f"{self.place} is neither a folder nor a zip or tar archive.")
            found = inside
        else:
            raise ClassError(f"There is no folder or archive {self.place}.")
        return sorted((replace(entry, place=str(entry.path)) for entry in found), key=lambda entry: entry.path)

    def opened(self, entry: Entry) -> list[Entry]:
        """The files of an archive that is part of the download itself, in its place; or it, with a sentence."""
        try:
            whole = self._stack.enter_context(io.BytesIO(entry.read(MOST_ARCHIVE + 1)))
        except DAMAGE:
            return [replace(entry, problem=f"{entry.path} cannot be read.")]
        if whole.getbuffer().nbytes > MOST_ARCHIVE:
            return [replace(entry, problem=f"{entry.path} is larger than {MOST_ARCHIVE >> 20} MiB: unpack it.")]
        found = self._members(whole, entry.path.parent)
        if not found:
            words = "is no archive that can be read" if found is None else "has no file in it"
            return [replace(entry, problem=f"{entry.path} {words}.")]
        outer = PurePosixPath(entry.place)
        return [replace(one, place=str(outer / one.path.relative_to(entry.path.parent))) for one in found]

    def _members(self, file: IO[bytes], root: PurePosixPath) -> list[Entry] | None:
        """The files of an archive, below `root`; None if it is none."""
        found = []
        try:
            for entry in members(file, root, self._stack):
                self._count()
                found += [] if self._is_litter(entry.path.relative_to(root), root) else [entry]
        except DAMAGE:
            return None
        return found

    def _is_litter(self, path: PurePosixPath, root: PurePosixPath) -> bool:
        place = next((number for number in range(len(path.parts)) if is_litter(path.parts[number : number + 1])), None)
        if place is not None:
            self.litter.add(root.joinpath(*path.parts[: place + 1]))
        return place is not None

    def _count(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise ClassError(f"{self.place} holds more than {MOST_ENTRIES} files: is it the class's folder?")

    def _in_folder(self) -> list[Entry]:
        found = []
        for folder, folders, files in os.walk(self.place, followlinks=False):
            linked = [name for name in folders if (Path(folder) / name).is_symlink()]
            here = PurePosixPath(Path(folder).relative_to(self.place).as_posix())
            if not folders and not files and Path(folder) != self.place:
                self.empty.add(here)
            kept = (name for name in folders if name not in linked)
            folders[:] = sorted(name for name in kept if not self._is_litter(PurePosixPath(name), here))
            for name in [*linked, *files]:
                if not self._is_litter(PurePosixPath(name), here):
                    self._count()
                    found.append(_of_disk(Path(folder) / name, here / name))
        return found


def members(file: IO[bytes], root: PurePosixPath, keep: ExitStack) -> Iterator[Entry]:
    """The files of a zip or tar archive, below `root`; they can be read until `keep` is closed.

    Raises what is in DAMAGE."""
    if zipfile.is_zipfile(file):
        file.seek(0)
        archive = keep.enter_context(zipfile.ZipFile(file))
        for info in archive.infolist():

            def read(most: int, info: zipfile.ZipInfo = info) -> bytes:
                with archive.open(info) as opened:
                    return opened.read(most)

            kind = info.external_attr >> 16
            problem = "is a link" if kind and stat.S_ISLNK(kind) else "is encrypted" if info.flag_bits & 1 else ""
            if not info.is_dir():
                yield _member(info.filename, problem, read, root)
        return
    file.seek(0)
    tar = keep.enter_context(tarfile.open(fileobj=file, mode="r:*"))  # noqa: SIM115
    for one in tar:

        def read_tar(most: int, one: tarfile.TarInfo = one) -> bytes:
            opened = tar.extractfile(one)
            return opened.read(most) if opened else b""

        if not one.isdir():
            yield _member(one.name, "" if one.isreg() else "is a link or a device", read_tar, root)


def read_text(path: Path) -> str:
    """A text that an instructor names, in UTF-8. Raises ClassError with what is wrong."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ClassError(f"{path} is not in UTF-8: save it in UTF-8, a table as CSV.") from None
    except OSError as error:
        raise ClassError(f"{path} cannot be read: {error.strerror}.") from None


def is_archive(name: str) -> bool:
    """Whether a file is an archive by its name."""
    return name.lower().endswith(ARCHIVES)


def without_ending(name: str) -> str:
    """An archive's name without its ending."""
    ending = next((one for one in ARCHIVES if name.lower().endswith(one)), "")
    return name[: len(name) - len(ending)] or name


def is_litter(parts: Sequence[str]) -> bool:
    """Whether a file is one that systems and tools leave behind."""
    return bool(LITTER & set(parts)) or parts[-1] in LITTER_FILES or parts[-1].startswith("._")


def _member(name: str, problem: str, read: Read, root: PurePosixPath) -> Entry:
    inner = PurePosixPath(name.replace("\\", "/"))
    if inner.is_absolute() or ".." in inner.parts or not inner.parts:
        inside = "_".join(part for part in inner.parts if part not in ("/", "..")) or "_"
        return Entry(root / inside, read, f"{name!r} leads out of its archive.")
    return Entry(root / inner, read, f"{root / inner} {problem}." if problem else "")


def _of_disk(file: Path, path: PurePosixPath) -> Entry:
    def read(most: int) -> bytes:
        with open(os.open(file, os.O_RDONLY | _NO_LINK), "rb") as opened:
            return opened.read(most)

    problem = ""
    try:
        mode = file.lstat().st_mode
        if stat.S_ISLNK(mode):
            problem = f"{path} is a symbolic link, which is not followed."
        elif not stat.S_ISREG(mode):
            problem = f"{path} is no regular file."
    except OSError as error:
        problem = f"{path} cannot be read: {error.strerror}."
    return Entry(path, read, problem)
