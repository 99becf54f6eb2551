"""A lab in real otter-grader, run without a container, over right, wrong and broken submissions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from autograder.platforms.bundle import otter
from autograder.spec.lab import CHECKOUT, find_lab

pytestmark = pytest.mark.instructor

LAB = "01_axpy"
WRONG = CHECKOUT / "corpus" / "judge" / "submissions" / LAB / "wrong"
POINTS = find_lab(LAB).points
NONE = {"correctness": 0.0, "safety": 0.0, "traffic": 0.0}
ALL = {name: getattr(POINTS, name) for name in NONE}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ((CHECKOUT / "solutions" / LAB / "submission.py").read_text(), ALL),
        ((WRONG / "blocks_overlap.py").read_text(), ALL | {"traffic": 0.0}),
        ((WRONG / "constant_output.py").read_text(), NONE),
        ("def axpy(:\n", NONE),
    ],
    ids=["right", "wasteful", "wrong", "no Python"],
)
def test_each_part_gives_its_points(tmp_path: Path, text: str, wanted: dict[str, float]) -> None:
    (tmp_path / "autograder.zip").write_bytes(otter(find_lab(LAB)))
    (tmp_path / "submission.py").write_text(text)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(CHECKOUT), os.environ.get("PYTHONPATH", "")])}
    code = "import sys; from otter.cli import cli; sys.exit(cli())"
    command = [sys.executable, "-c", code, "run", "submission.py", "-a", "autograder.zip", "-o", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    tests = json.loads((tmp_path / "results.json").read_text())["tests"]
    found = {test["name"].split(" ")[0]: test["score"] for test in tests if "score" in test}
    assert {name: found[name] for name in NONE} == wanted, tests
