"""Writes what a platform is given to grade a lab itself: Gradescope's zip, otter's zip, PrairieLearn's question.

Gradescope's has two forms. "inside" grades in Gradescope's container, on the emulator. "delivered" holds the grades of
a class's record, made on a machine with a GPU, say, and hands each out to who has handed in that very file.
"""

from __future__ import annotations

import hashlib
import io
import json
import tomllib
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from autograder.classroom.grade_line import GradeLine
from autograder.judge.kinds import kind_of
from autograder.platforms import gradescope
from autograder.platforms.files.gradescope import deliver
from autograder.platforms.judged import is_judged
from autograder.spec.lab import AnyLab, checkout
from warplab.files import write_whole

FILES = Path(__file__).parent / "files"
PRAIRIELEARN_SECONDS = 600  # the most that PrairieLearn allows
_PACKAGES = ("warplab", "systems", "autograder")
_DATE = (2026, 1, 1, 0, 0, 0)  # of every file, so that the same checkout gives the same archive
_SCRIPTS = ("setup.sh", "run_autograder")


def gradescope_inside(lab: AnyLab) -> bytes:
    """The zip for Gradescope that grades `lab` in Gradescope's container. Raises LabError outside of a checkout."""
    files = dict(_judge_and(lab))
    files |= {path.name: path.read_bytes() for path in sorted((FILES / "gradescope").iterdir()) if path.is_file()}
    files["requirements.txt"] = ("\n".join(requirements("class", "cu13", *kind_of(lab).extras)) + "\n").encode()
    files |= {name: (checkout() / name).read_bytes() for name in ("constraints.txt", "constraints-cu13.txt")}
    files["settings"] = f"mode=inside lab={lab.name}\n".encode()
    return _zip(files)


def gradescope_delivered(lines: Iterable[GradeLine], attempts: Iterable[GradeLine] = ()) -> bytes:
    """The zip for Gradescope that hands out the grades of a class; it holds nobody's work and no name.

    `lines` are what counts. A student who hands in the file of any of their `attempts` gets what counts for them.
    Raises ClassError.
    """
    by_digest: dict[str, Any] = {}
    by_person: dict[str, Any] = {}
    earlier = list(attempts)
    for line in lines:
        if found := line.graded():
            plain = results = gradescope.results(found)
            if line.counts is not None and is_judged(found):
                results = plain | {"score": max(0.0, line.points), "output": f"{line.why}\n{results['output']}"}
            digest = deliver.digest(line.content)
            by_digest[digest] = plain if digest in by_digest else results  # of several students' file nobody's own
            texts = [digest, *(deliver.digest(one.content) for one in earlier if one.student == line.student)]
            by_person |= {deliver.key(one.student, file): results for one in line.each() for file in texts}
    known = {"waiting": gradescope.waiting(), "by_digest": by_digest, "by_person": by_person}
    folder = FILES / "gradescope"
    files = {name: (folder / name).read_bytes() for name in (*_SCRIPTS, "deliver.py")}
    files["settings"] = b"mode=delivered\n"
    files["graded.json"] = (json.dumps(known, indent=1, allow_nan=False) + "\n").encode()
    return _zip(files)


def otter(lab: AnyLab) -> bytes:
    """The zip of otter's autograder for `lab`: a test a part, each of which gives all of its points or none."""
    template = (FILES / "otter" / "test.py.in").read_text(encoding="utf-8")
    files = {}
    for part in lab.task.judged_without_gpu:
        text = template.format(part=part, lab=lab.name, points=lab.points_without_gpus(part))
        files[f"tests/{part}.py"] = text.encode()
    files["otter_config.json"] = json.dumps({"lang": "python", "pdf": False, "show_stdout": False}).encode()
    return _zip(files)


def write_prairielearn(lab: AnyLab, folder: Path) -> list[Path]:
    """Write a question's info.json, question.html and tests/run.sh for `lab` into `folder`; gives them.

    Its image is `prairielearn` of docker/Dockerfile, in a registry of the course. Raises OSError.
    """
    info = {
        "uuid": _uuid(lab.name),
        "title": lab.title,
        "topic": "GPU",
        "type": "v3",
        "gradingMethod": "External",
        "externalGradingOptions": {
            "enabled": True,
            "image": "warplab-prairielearn",
            "entrypoint": "/grade/tests/run.sh",
            "timeout": PRAIRIELEARN_SECONDS,
            "enableNetworking": False,
            "environment": {"WARPLAB_LAB": lab.name, "WARPLAB_SECONDS": str(PRAIRIELEARN_SECONDS - 30)},
        },
    }
    texts = {
        "info.json": json.dumps(info, indent=1) + "\n",
        "question.html": _QUESTION.format(title=lab.title),
        "tests/run.sh": (FILES / "prairielearn" / "run.sh").read_text(encoding="utf-8"),
    }
    for name, text in texts.items():
        write_whole(folder / name, text)
    (folder / "tests" / "run.sh").chmod(0o755)
    return [folder / name for name in texts]


_QUESTION = """\
<pl-question-panel>
  <p>{title}: see the handout of the lab.</p>
  <pl-file-upload file-names="submission.py"></pl-file-upload>
</pl-question-panel>
<pl-submission-panel>
  <pl-external-grader-results></pl-external-grader-results>
  <pl-file-preview></pl-file-preview>
</pl-submission-panel>
"""


def requirements(*extras: str) -> list[str]:
    """What the project needs to grade: its dependencies and those of extras, as pip takes them."""
    project = tomllib.loads((checkout() / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted, asked = list(project["dependencies"]), list(extras)
    while asked:
        for row in project["optional-dependencies"][asked.pop()]:
            if row.startswith("warplab["):  # other extras of the project's own
                asked += row.removeprefix("warplab[").removesuffix("]").split(",")
            else:
                wanted.append(row)
    return list(dict.fromkeys(wanted))


def _judge_and(lab: AnyLab) -> Iterator[tuple[str, bytes]]:
    """The judge and one lab, by their places below the checkout; neither solutions nor the corpus."""
    places = {Path(package): checkout() / package for package in _PACKAGES} | {Path("labs") / lab.name: lab.folder}
    for name, place in places.items():
        for path in sorted(place.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield (name / path.relative_to(place)).as_posix(), path.read_bytes()


def _zip(files: Mapping[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(files.items()):
            info = zipfile.ZipInfo(name, _DATE)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (0o755 if name in _SCRIPTS else 0o644) << 16
            archive.writestr(info, content)
    return out.getvalue()


def _uuid(name: str) -> str:
    digest = hashlib.sha256(f"warplab {name}".encode()).hexdigest()
    return "-".join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:32]))
