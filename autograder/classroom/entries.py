"""The files in a folder or an archive that a class has handed in, as bytes: whatever a stranger put there.

Nothing is written to disk and no link is followed. What cannot be taken is an entry with a sentence that says why.
"""

from __future__ import annotations

import io
import os
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import IO

from warplab.errors import WarplabError
from warplab.plan.capture.source_file import MAX_SOURCE

MOST_ENTRIES = 50_000
MOST_BYTES = 1 << 30  # of all files that are read
MOST_ARCHIVE = 256 << 20  # bytes of an archive inside of an archive or a folder
NOTEBOOK = ".ipynb"
_ARCHIVES = (".zip", ".tar.gz", ".tgz", ".tar")
_METADATA = ("submission_metadata.yml",)  # what an export says of itself; may be larger than a submission
_LARGEST_METADATA = 64 << 20
_LARGEST_NOTEBOOK = 16 << 20  # its outputs come with it
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
# Folders and files that operating systems and tools leave in archives.
_IGNORED = {"__MACOSX", "__pycache__", ".git", ".ipynb_checkpoints"}


class ClassError(WarplabError):
    """The class cannot be read, or its record cannot be used."""


@dataclass(frozen=True)
class Entry:
    """A file by its path below the place that was named; `problem` says in a sentence why there are no bytes."""

    path: PurePosixPath
    content: bytes = b""
    problem: str = ""


class _Budget:
    """How much may still be read of one class."""

    def __init__(self) -> None:
        self._entries, self._bytes = MOST_ENTRIES, MOST_BYTES

    def take(self, size: int, place: str) -> None:
        self._entries -= 1
        self._bytes -= size
        if self._entries < 0:
            raise ClassError(f"{place} holds more than {MOST_ENTRIES} files: is it the class's folder?")
        if self._bytes < 0:
            raise ClassError(f"The files in {place} take more than {MOST_BYTES >> 20} MiB: is it the class's folder?")


def read_entries(place: Path) -> list[Entry]:
    """The Python files, notebooks, metadata and problems in a folder or an archive, sorted by path; archives in a
    folder are read as folders of their names. Raises ClassError if there is no such place, or it holds too much."""
    budget = _Budget()
    if place.is_dir():
        found = list(_in_folder(place, budget))
    elif place.is_file():
        with place.open("rb") as opened:
            archive = _archive(opened, PurePosixPath(), budget, place.name)
        if archive is None:
            raise ClassError(f"{place} is neither a folder nor a zip or tar archive.")
        found = archive
    else:
        raise ClassError(f"There is no folder or archive {place}.")
    return sorted(found, key=lambda entry: entry.path)


def _in_folder(place: Path, budget: _Budget) -> Iterator[Entry]:
    for folder, folders, files in os.walk(place, followlinks=False):
        folders[:] = sorted(name for name in folders if name not in _IGNORED)
        here = PurePosixPath(Path(folder).relative_to(place).as_posix())
        for name in [*folders, *sorted(files)]:
            path, file = here / name, Path(folder) / name
            if file.is_symlink():
                if name in folders or _is_wanted(name):
                    yield Entry(path, problem=f"{path} is a symbolic link, which is not followed.")
            elif name not in folders:
                yield from _file(file, path, budget, str(place))


def _file(file: Path, path: PurePosixPath, budget: _Budget, place: str) -> Iterator[Entry]:
    if not _is_wanted(path.name) and not _is_archive(path.name):
        budget.take(0, place)
        return
    try:
        descriptor = os.open(file, os.O_RDONLY | _NO_LINK)
    except OSError as error:
        yield Entry(path, problem=f"{path} cannot be read: {error.strerror}.")
        return
    with open(descriptor, "rb") as opened:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            yield Entry(path, problem=f"{path} is no regular file.")
        elif _is_wanted(path.name):
            yield _bounded(path, opened, budget, place)
        elif os.fstat(descriptor).st_size > MOST_ARCHIVE:
            yield Entry(path, problem=f"{path} is larger than {MOST_ARCHIVE >> 20} MiB.")
        else:
            yield from _nested(path, opened, budget, place, 0)


def _nested(path: PurePosixPath, opened: IO[bytes], budget: _Budget, place: str, depth: int) -> Iterable[Entry]:
    """What an archive at `path` holds, as if it were a folder of its name without the ending."""
    name = path.name
    for ending in _ARCHIVES:
        name = name[: -len(ending)] if name.lower().endswith(ending) else name
    inside = _archive(opened, path.with_name(name or path.name), budget, place, depth)
    return [Entry(path, problem=f"{path} is no archive that can be read.")] if inside is None else inside


def _archive(opened: IO[bytes], root: PurePosixPath, budget: _Budget, place: str, depth: int = 0) -> list[Entry] | None:
    """What is in an archive, below `root`; None if it is none."""
    try:
        if zipfile.is_zipfile(opened):
            opened.seek(0)
            return list(_in_zip(opened, root, budget, place, depth))
        opened.seek(0)
        with tarfile.open(fileobj=opened, mode="r:*") as archive:
            return list(_in_tar(archive, root, budget, place, depth))
    except (zipfile.BadZipFile, tarfile.TarError, OSError, EOFError, ValueError, NotImplementedError):
        return None


def _in_zip(opened: IO[bytes], root: PurePosixPath, budget: _Budget, place: str, depth: int) -> Iterator[Entry]:
    with zipfile.ZipFile(opened) as archive:
        for info in archive.infolist():
            kind = info.external_attr >> 16
            if info.is_dir():
                continue

            def open_it(info: zipfile.ZipInfo = info) -> IO[bytes]:
                return archive.open(info)

            problem = "is encrypted" if info.flag_bits & 1 else ""
            problem = "is a link" if kind and stat.S_ISLNK(kind) else problem
            yield from _member(info.filename, problem, open_it, root, budget, place, depth)


def _in_tar(archive: tarfile.TarFile, root: PurePosixPath, budget: _Budget, place: str, depth: int) -> Iterator[Entry]:
    for info in archive:
        if info.isdir():
            continue

        def open_it(info: tarfile.TarInfo = info) -> IO[bytes]:
            return archive.extractfile(info) or io.BytesIO()

        yield from _member(
            info.name, "" if info.isreg() else "is a link or a device", open_it, root, budget, place, depth
        )


def _member(
    name: str,
    problem: str,
    open_it: Callable[[], IO[bytes]],
    root: PurePosixPath,
    budget: _Budget,
    place: str,
    depth: int,
) -> Iterator[Entry]:
    """The file of an archive called `name`, or what an archive in it holds."""
    inner = PurePosixPath(name.replace("\\", "/"))
    if inner.is_absolute() or ".." in inner.parts or not inner.parts:
        yield Entry(
            root / "_".join(p for p in inner.parts if p not in ("/", "..")),
            problem=f"{name!r} leads out of its archive.",
        )
        return
    if _IGNORED & set(inner.parts) or not (_is_wanted(inner.name) or _is_archive(inner.name)):
        budget.take(0, place)
        return
    path = root / inner
    if problem:
        yield Entry(path, problem=f"{path} {problem}.")
        return
    try:
        with open_it() as opened:
            if _is_wanted(inner.name):
                yield _bounded(path, opened, budget, place)
                return
            content = opened.read(MOST_ARCHIVE + 1)
    except (zipfile.BadZipFile, tarfile.TarError, OSError, EOFError, RuntimeError, ValueError, NotImplementedError):
        yield Entry(path, problem=f"{path} is damaged in its archive.")
        return
    budget.take(len(content), place)
    if depth or len(content) > MOST_ARCHIVE:
        words = "is an archive in an archive in an archive" if depth else f"is larger than {MOST_ARCHIVE >> 20} MiB"
        yield Entry(path, problem=f"{path} {words}.")
        return
    yield from _nested(path, io.BytesIO(content), budget, place, depth + 1)


def _bounded(path: PurePosixPath, opened: IO[bytes], budget: _Budget, place: str) -> Entry:
    """The entry of an open file that is wanted; a file that is too large is not read to its end."""
    most = _LARGEST_METADATA if path.name in _METADATA else MAX_SOURCE
    most = _LARGEST_NOTEBOOK if path.suffix == NOTEBOOK else most
    content = opened.read(most + 1)
    budget.take(len(content), place)
    entry = Entry(path, content)
    if len(content) > most:
        return replace(entry, content=b"", problem=f"{path} is larger than {most >> 20} MiB.")
    return entry if content else replace(entry, problem=f"{path} is empty.")


def _is_wanted(name: str) -> bool:
    return (name.lower().endswith((".py", NOTEBOOK)) and not name.startswith("._")) or name in _METADATA


def _is_archive(name: str) -> bool:
    return name.lower().endswith(_ARCHIVES) and not name.startswith("._")
