"""Feedback for Canvas: the zip for "Upload Submissions" ("Re-upload Submissions" in the gradebook).

Its CSV of the gradebook takes points and no comments. The zip makes each file in it an attachment of a comment, for the
student whose submission has the file that its name names: app/models/abstract_assignment.rb of canvas-lms,
`infer_comment_context_from_filename`, reads the user's and the file's number from the names of "Download Submissions".
The student sees the attachment under the name of the file that was handed in, so each kind of file has feedback of its
own kind.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePosixPath

from autograder.classroom.entries import ClassError
from autograder.classroom.grade_line import GradeLine
from autograder.classroom.people import canvas
from autograder.platforms.gradebook import account, graded
from autograder.platforms.judged import headline, judged_parts


def comments(
    lines: Iterable[GradeLine],
    downloaded: Iterable[str],
    known: Callable[[str], str],
    page: Callable[[GradeLine], str],
    skipped: list[str] | None = None,
) -> bytes:
    """The zip, of the lines of one lab. `downloaded` are the names of the files in Canvas's download, `known` gives the
    record's ID for a user's number of Canvas, `page` the page (HTML) of a line. Raises ClassError."""
    files: dict[str, list[str]] = {}
    for name in sorted(downloaded):
        if (found := canvas(name)) and found["rest"]:
            files.setdefault(known(found["id"]), []).append(name)
    if not files:
        raise ClassError('The download has no file with a name of Canvas\'s: give that of "Download Submissions".')
    out, unknown = io.BytesIO(), []
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for line in graded(lines):
            names = [name for name in files.get(line.student, []) if PurePosixPath(name).suffix.lower() in _KINDS]
            if not names:
                unknown.append(line.student)
                continue
            name = _counting(names, line.file)
            archive.writestr(name, _KINDS[PurePosixPath(name).suffix.lower()](line, page))
    account(unknown, skipped, "Canvas's download has no Python file, notebook or zip archive of")
    return out.getvalue()


def _counting(names: Sequence[str], file: str) -> str:
    """The name that Canvas gave the file that counts, else to one that it may be in."""

    def rank(name: str) -> int:
        found = canvas(name)
        handed_in = PurePosixPath(found["rest"] if found else name)
        return 0 if handed_in.name == file else 1 if handed_in.stem == PurePosixPath(file).stem else 2

    return min(names, key=rank)


def _words(line: GradeLine) -> str:
    """The grade that counts, and the words about each part."""
    text = f"{line.lab}: {line.points:g} points count."
    text += f" {line.why}" if line.why else ""
    if report := line.graded():
        text += f"\n\n{headline(report)}\n"
        for part in judged_parts(report):
            text += f"\n{part.name}: {part.score:g} of {part.most:g} points\n{part.text}\n"
    return text


def _in_python(line: GradeLine, page: Callable[[GradeLine], str]) -> bytes:
    comment = "\n".join(f"# {row}".rstrip() for row in _words(line).splitlines())
    return f"{comment}\n\n{line.content.decode('utf-8', 'replace')}".encode()


def _in_notebook(line: GradeLine, page: Callable[[GradeLine], str]) -> bytes:
    fence = "`" * 8  # longer than any in the words
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": f"{fence}\n{_words(line)}\n{fence}"},
        {
            "cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [],
            "source": line.content.decode("utf-8", "replace"),
        },
    ]  # fmt: skip
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}, indent=1).encode()


def _in_archive(line: GradeLine, page: Callable[[GradeLine], str]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("feedback.html", page(line))
    return out.getvalue()


_KINDS = {".py": _in_python, ".ipynb": _in_notebook, ".zip": _in_archive}
