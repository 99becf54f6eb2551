"""A class's download as each platform makes it, written by code, with its students: odd names do not fit in files.

A tree is a list of files. `counts` says, by student and lab, which file is the hand-in; `unread` are the files that
cannot be read, each with some words of the reason. Whatever is in neither is set aside.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from autograder.spec.lab import labs_folder

LAB = "03_transpose"
OTHER = "01_axpy"


@dataclass(frozen=True)
class Tree:
    """A download: its files, `--lab`, the file that counts for each student and lab, and words about unread ones."""

    files: Mapping[str, bytes]
    counts: Mapping[tuple[str, str], str]
    lab: str | None = None
    unread: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)  # what the platform calls a student

    def write(self, root: Path) -> Path:
        """Write the files below `root`; gives it."""
        for name, content in self.files.items():
            place = root / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
        return root


def work(path: str) -> bytes:
    """Python that says which file it is."""
    return f"# {path}\n".encode()


def notebook(*cells: str) -> bytes:
    """A notebook with these cells of code."""
    return json.dumps({"cells": [{"cell_type": "code", "source": one, "metadata": {}} for one in cells]}).encode()


def zipped(files: Mapping[str, bytes]) -> bytes:
    """A zip archive of files."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return out.getvalue()


def starter(lab: str, name: str = "submission.py") -> bytes:
    """What everybody is given for a lab."""
    return (labs_folder() / lab / name).read_bytes()


def _works(*paths: str) -> dict[str, bytes]:
    return {path: work(path) for path in paths}


def canvas() -> Tree:
    """Two students of one name, uploads renamed by Canvas, an archive in an archive, typed text, what is no Python."""
    files = _works(
        "namesame_1022_524_submission.py", "namesame_1023_525_submission-3.py", "late_LATE_1024_526_submission-1.py",
        "late_LATE_1024_527_notes.py", "both_1025_528_submission.py", "both_1025_529_submission_cuda.py",
        "anon_x1Yz9_541_kernel.py",
    )  # fmt: skip
    inner = zipped({"hw/submission.py": work("inner")})
    files |= {
        "zip_1026_530_hw.zip": zipped({"hw.zip": inner}),
        "pdf_1027_531_report.pdf": b"%PDF-1.4",
        "rar_1028_532_work.rar": b"Rar!",
        "typed_1029_text.html": b"<p>def transpose</p>",
        "txt_1030_533_submission.txt": b"# text",
    }
    counts = {
        ("1022", LAB): "namesame_1022_524_submission.py",
        ("1023", LAB): "namesame_1023_525_submission-3.py",
        ("1024", LAB): "late_LATE_1024_526_submission-1.py",
        ("1025", LAB): "both_1025_528_submission.py",
        ("anon_x1Yz9", LAB): "anon_x1Yz9_541_kernel.py",
        ("1026", LAB): "inner",
    }
    unread = {
        "pdf_1027_531_report.pdf": "neither Python",
        "rar_1028_532_work.rar": "neither Python",
        "typed_1029_text.html": "typed into the platform",
        "txt_1030_533_submission.txt": "text file",
    }
    return Tree(files, counts, LAB, unread, {"1022": "namesame", "1024": "late"})


def moodle() -> Tree:
    """Two students of one name, blind marking, typed text beside a file, a student who names a file like Moodle."""
    files = _works(
        "Same Name_12345_assignsubmission_file/submission.py",
        "Same Name_12399_assignsubmission_file_/submission.py",
        "Participant_12401_assignsubmission_file_/kernel.py",
        "Participant_12402_assignsubmission_file_/submission.py",
        "Eve_12403_assignsubmission_file_x_12345_assignsubmission_file_submission.py",
    )
    files["Participant_12402_assignsubmission_onlinetext_/onlinetext.html"] = b"<p>see file</p>"
    files["Zoë Özgür_12404_assignsubmission_file_/work.7z"] = b"7z"
    counts = {
        ("12345", LAB): "Same Name_12345_assignsubmission_file/submission.py",
        ("12399", LAB): "Same Name_12399_assignsubmission_file_/submission.py",
        ("12401", LAB): "Participant_12401_assignsubmission_file_/kernel.py",
        ("12402", LAB): "Participant_12402_assignsubmission_file_/submission.py",
        ("12403", LAB): "Eve_12403_assignsubmission_file_x_12345_assignsubmission_file_submission.py",
    }
    unread = {
        "Participant_12402_assignsubmission_onlinetext_/onlinetext.html": "typed into the platform",
        "Zoë Özgür_12404_assignsubmission_file_/work.7z": "neither Python",
    }
    return Tree(files, counts, LAB, unread, {"12345": "Same Name", "12404": "Zoë Özgür"})


def moodle_abroad() -> Tree:
    """Moodle in German, French, Spanish and Japanese: what stands before a number, and the name of a typed text."""
    files = _works(
        "Gruppe 1-Jörg Weiß_201_assignsubmission_file/submission.py",
        "Teilnehmerin_202_assignsubmission_file/submission.py",
        "Participante_204_assignsubmission_file_kernel.py",
        "参加者_205_assignsubmission_file/submission.py",
    )
    typed = "Hélène Côté_203_assignsubmission_onlinetext/texteenligne.html"
    counts = {
        ("201", LAB): "Gruppe 1-Jörg Weiß_201_assignsubmission_file/submission.py",
        ("202", LAB): "Teilnehmerin_202_assignsubmission_file/submission.py",
        ("204", LAB): "Participante_204_assignsubmission_file_kernel.py",
        ("205", LAB): "参加者_205_assignsubmission_file/submission.py",
    }
    names = {"203": "Hélène Côté", "205": "参加者"}
    return Tree(files | {typed: b"<p>x"}, counts, LAB, {typed: "typed into the platform"}, names)


def gradescope() -> Tree:
    """A group, and a student whose own metadata give away another's work."""
    root = "assignment_7_export"
    files = _works(f"{root}/submission_11/submission.py", f"{root}/submission_12/my kernel.py")
    metadata = (
        b"submission_11:\n  :submitters:\n  - :name: Ada\n    :sid: '7'\n    :email: ada@x.edu\n"
        b"  :created_at: 2026-11-20 22:58:59.123456789 Z\n"
        b"submission_12:\n  :submitters:\n  - :name: Eve\n    :email: eve@x.edu\n"
        b"  - :name: Bob\n    :email: bob@x.edu\n"
        b"  :created_at: 2026-11-21 08:00:00 +0100\n"
    )
    forged = b"submission_11:\n  :submitters:\n  - :name: Eve\n    :email: eve@x.edu\n"
    files |= {f"{root}/submission_metadata.yml": metadata, f"{root}/submission_12/submission_metadata.yml": forged}
    counts = {
        ("ada@x.edu", LAB): f"{root}/submission_11/submission.py",
        ("bob@x.edu + eve@x.edu", LAB): f"{root}/submission_12/my kernel.py",
    }
    unread = {f"{root}/submission_12/submission_metadata.yml": "neither Python"}
    return Tree(files, counts, LAB, unread, {"ada@x.edu": "Ada", "bob@x.edu + eve@x.edu": "Bob + Eve"})


def github() -> Tree:
    """Clones of the course's repository: only what students write in `labs/` counts, starters that are changed."""
    files: dict[str, bytes] = {}
    for login in ("ada", "bob-ross"):
        root = f"gpu-submissions/gpu-{login}"
        for lab in (OTHER, LAB):
            files |= {
                f"{root}/labs/{lab}/submission.py": starter(lab),
                f"{root}/labs/{lab}/submission_cuda.py": starter(lab, "submission_cuda.py"),
                f"{root}/labs/{lab}/task.py": b"# task",
            }
        files |= {
            f"{root}/README.md": b"# course",
            f"{root}/notebooks/00_start_here.ipynb": notebook(f"%%submit {OTHER}\nx = 1"),
            f"{root}/warplab/plan.py": b"# library",
        }
    changed = {
        "gpu-submissions/gpu-ada/labs/03_transpose/submission_cuda.py": b"# ada's\n",
        "gpu-submissions/gpu-bob-ross/labs/01_axpy/submission.py": b"# bob's\n",
    }
    counts = {("ada", LAB): "ada's", ("bob-ross", OTHER): "bob's"}
    return Tree(files | changed, counts, None, {}, {"ada": "gpu-ada"})


def nbgrader() -> Tree:
    """nbgrader's folder: notebooks, a stale file that a cell wrote, and when each was collected."""
    root = "submitted"
    files = {
        f"{root}/ada/{LAB}/{LAB}.ipynb": notebook("x = 1", "%%writefile submission.py\n# ada's notebook"),
        f"{root}/ada/{LAB}/submission.py": b"# stale\n",
        f"{root}/ada/{LAB}/timestamp.txt": b"2026-11-20 22:00:00.500000 UTC\n",
        f"{root}/bob/{LAB}/{LAB}.ipynb": notebook("x = 1"),
        f"{root}/eve/{LAB}/{LAB}.ipynb": b"[" * 100_000,
    }
    unread = {
        f"{root}/bob/{LAB}/{LAB}.ipynb": "no cell that begins with %%writefile submission.py",
        f"{root}/eve/{LAB}/{LAB}.ipynb": "no notebook that can be read",
    }
    return Tree(files, {("ada", LAB): "ada's notebook"}, None, unread)


def plain() -> Tree:
    """A folder a student: a notebook for another lab, names that look alike, a starter, a bomb, a wrong lab."""
    many = {f"{number}.py": b"" for number in range(50_001)}
    files = _works("s1/submission.py", "s1 /submission.py", "s1\u200b/submission.py", "s\\u200b/submission.py")
    files |= {
        "s1/lesson.ipynb": notebook(f"%%submit {OTHER}\nx = 1"),
        "s2/submission.py": starter(LAB),
        "s3.zip": zipped(many),
        "s4/lesson.ipynb": notebook(
            f"%%submit {LAB}\n# first", f"%%submit {OTHER}\n# other", f"%%submit {LAB}\n# last"
        ),
        "s5/submission.py": starter(LAB).replace(b"\n", b"\r\n"),
        "s5/submission_cuda.py": work("s5/submission_cuda.py"),
        "s6/a.py": b"# a",
        "s6/b.py": b"# b",
        "s7/old.ipynb": notebook("%%submit 99_nothing\nx = 1"),
    }
    counts = {
        ("s1", LAB): "s1/submission.py",
        ("s1\\x20", LAB): "s1 /submission.py",
        ("s1\\u200b", LAB): "s1\u200b/submission.py",
        ("s\\\\u200b", LAB): "s\\u200b/submission.py",
        ("s2", LAB): starter(LAB).decode().splitlines()[0],
        ("s4", LAB): "last",
        ("s5", LAB): "s5/submission_cuda.py",
    }
    unread = {
        "s3.zip": "see the student's row",
        "s6/a.py": "as well as another",
        "s6/b.py": "as well as another",
        "s7/old.ipynb": "no such lab",
    }
    return Tree(files, counts, LAB, unread)


def by_lab() -> Tree:
    """A folder a lab, each with the platform's archive as it was downloaded."""
    both = {"ada_1_2_submission.py": work("ada"), "bob_2_3_submission.py": work("bob")}
    files = {
        f"{LAB}/submissions.zip": zipped(both),
        f"{OTHER}/CS-Lab 1-77.zip": zipped({"Ada L_9_assignsubmission_file/submission.py": work("moodle")}),
    }
    counts = {("1", LAB): "ada", ("2", LAB): "bob", ("9", OTHER): "moodle"}
    return Tree(files, counts)


TREES: Mapping[str, Callable[[], Tree]] = {
    one.__name__: one for one in (canvas, moodle, moodle_abroad, gradescope, github, nbgrader, plain, by_lab)
}
