"""A course in real nbgrader: generated, handed in whole and damaged, autograded, and graded by the class's record."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autograder.classroom.ledger import RECORD, Ledger
from autograder.platforms.nbgrader_course import write_course
from autograder.platforms.nbgrader_gradebook import import_grades
from autograder.spec.lab import CHECKOUT, find_lab

pytestmark = pytest.mark.instructor

LAB = "01_axpy"
WRONG = CHECKOUT / "corpus" / "judge" / "submissions" / LAB / "wrong"
Notebook = dict[str, Any]


def nbgrader(folder: Path, *arguments: str) -> str:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(CHECKOUT), os.environ.get("PYTHONPATH", "")])}
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # it starts alembic
    done = subprocess.run(
        [sys.executable, "-m", "nbgrader", *arguments], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stderr


def with_code(notebook: Notebook, code: str) -> Notebook:
    cell = next(cell for cell in notebook["cells"] if cell["id"] == "submission")
    cell["source"] = "%%writefile submission.py\n" + code
    return notebook


def without_test(notebook: Notebook) -> Notebook:
    notebook["cells"] = [cell for cell in notebook["cells"] if cell["id"] != "safety"]
    return notebook


def with_test_twice(notebook: Notebook) -> Notebook:
    again = json.loads(json.dumps(next(cell for cell in notebook["cells"] if cell["id"] == "correctness")))
    notebook["cells"].append(again | {"id": "again"})
    return notebook


def with_forged_points(notebook: Notebook) -> Notebook:
    """The text of a locked cell changed to a number of points: nbgrader puts its own back."""
    for cell in notebook["cells"]:
        if cell["id"] in ("correctness", "traffic"):
            cell["source"] = "35.0"
    return notebook


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A course whose assignment is released and handed in by six students, autograded by nbgrader."""
    folder = tmp_path_factory.mktemp("course")
    write_course([find_lab(LAB)], folder)
    nbgrader(folder, "generate_assignment", LAB, "--create")
    released = json.loads((folder / "release" / LAB / f"{LAB}.ipynb").read_text())
    right = (CHECKOUT / "solutions" / LAB / "submission.py").read_text()
    wrong = (WRONG / "constant_output.py").read_text()
    wasteful = (WRONG / "blocks_overlap.py").read_text()
    hand_ins: dict[str, tuple[str, Callable[[Notebook], Notebook]]] = {
        "right": (right, lambda notebook: notebook),
        "wrong": (wrong, lambda notebook: notebook),
        "wasteful": (wasteful, lambda notebook: notebook),
        "missing": (right, without_test),
        "doubled": (right, with_test_twice),
        "forged": (wrong, with_forged_points),
    }
    for student, (code, damage) in hand_ins.items():
        place = folder / "submitted" / student / LAB
        place.mkdir(parents=True)
        notebook = damage(with_code(json.loads(json.dumps(released)), code))
        (place / f"{LAB}.ipynb").write_text(json.dumps(notebook))
    nbgrader(folder, "autograde", LAB, "--create")
    return folder


def scores(course: Path) -> dict[str, dict[str, float]]:
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as gradebook:
        return {
            submission.student.id: {g.name: g.score for notebook in submission.notebooks for g in notebook.grades}
            for submission in gradebook.assignment_submissions(LAB)
        }


def test_the_release_holds_the_starter_and_nothing_of_the_solution(course: Path) -> None:
    text = (course / "release" / LAB / f"{LAB}.ipynb").read_text()
    code = next(c for c in json.loads(text)["cells"] if c["id"] == "submission")["source"]
    code = code if isinstance(code, str) else "".join(code)
    starter = (CHECKOUT / "labs" / LAB / "submission.py").read_text().strip()
    assert starter in code and "SOLUTION" not in code and "NotImplementedError" not in code


def test_cells_score_as_meant_whatever_became_of_them(course: Path) -> None:
    found = scores(course)
    points = find_lab(LAB).points
    full = {"correctness": points.correctness, "safety": points.safety, "traffic": points.traffic}
    assert found["right"] == found["missing"] == found["doubled"] == full
    assert found["wasteful"] == full | {"traffic": 0.0}
    assert found["wrong"] == found["forged"] == dict.fromkeys(full, 0.0)


def test_the_class_grades_the_same_notebooks_into_the_gradebook(course: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "autograder", "class", str(course / "submitted"), "--out", str(tmp_path)]
    done = subprocess.run([*command, "--device", "emulator"], cwd=CHECKOUT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    before = scores(course)
    with Ledger(tmp_path / RECORD) as ledger:
        lines = list(ledger.lines())
    assert {line.student for line in lines} == set(before)
    _forget(course)
    assert import_grades(lines, course / "gradebook.db") == len(lines)
    assert scores(course) == before


def _forget(course: Path) -> None:
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as gradebook:
        for submission in gradebook.assignment_submissions(LAB):
            for notebook in submission.notebooks:
                for grade in notebook.grades:
                    grade.auto_score = 7.0
        gradebook.db.commit()
