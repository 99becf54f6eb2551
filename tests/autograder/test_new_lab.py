"""`autograder new-lab` writes a lab that grades, and that every test which iterates over labs finds by itself."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from autograder import cli, new_lab
from autograder.spec.lab import CHECKOUT, find_lab

NAME = "90_twice"
LEFT_OUT = (".*", "__pycache__", "*.egg-info", "build", "notebooks", "results")
MOST_FILES = 12
# Tests that go over all labs at once, and count what each has or say what all need.
COUNTING = (
    "test_every_lab_has_its_corpus",
    "test_every_lab_has_exploits",
    "test_every_lab_has_three_right_kernels_of_other_hands",
    "test_every_lab_has_right_and_wrong_submissions_and_names_are_distinct",
    "test_every_reference_has_five_mutants",
    "test_all_of_the_corpus_is_taken",
    "test_doctor_says_what_driver_toolkit_and_card_mean_for_each_lab",
)


def contents(root: Path) -> dict[str, bytes]:
    """Every file of a checkout but what Python keeps for itself."""
    files = (path for path in root.rglob("*") if path.is_file() and not {"__pycache__", "build"} & set(path.parts))
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def python(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What a Python says that runs in the checkout, and takes its modules from there."""
    environment = {**os.environ, "PYTHONPATH": str(checkout), "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "200"}
    environment.pop("WARPLAB_LABS", None)
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=checkout, capture_output=True, text=True, env=environment)


@pytest.mark.processes
def test_a_new_lab_grades_and_its_tests_pass(tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    shutil.copytree(CHECKOUT, checkout, ignore=shutil.ignore_patterns(*LEFT_OUT))
    before = contents(checkout)

    made = python(checkout, "-m", "autograder", "new-lab", NAME, "--title", 'Twice, "exactly"')
    assert made.returncode == 0, made.stderr
    after = contents(checkout)
    written = set(after) - set(before)
    assert {name: after[name] for name in before} == before
    assert len(written) <= MOST_FILES - 3  # a reference in CUDA C++, its starter and rungs.json are to come
    assert set(made.stdout.split("What is left")[0].split()) == {"written:"} | {str(checkout / one) for one in written}
    assert tomllib.loads(after[f"labs/{NAME}/lab.toml"].decode())["title"] == 'Twice, "exactly"'
    assert all(b"LAB_" not in after[name] for name in written)

    stale = python(checkout, "-m", "autograder", "starters", "--check")
    assert stale.returncode == 0, stale.stdout
    stale = python(checkout, "-m", "autograder", "handouts", "--check")
    assert stale.returncode == 0, stale.stdout
    right = python(checkout, "-m", "autograder", "check", f"solutions/{NAME}/submission.py", "--device", "emulator")
    assert right.returncode == 0, right.stdout + right.stderr
    starter = python(checkout, "-m", "autograder", "check", f"labs/{NAME}/submission.py", "--device", "emulator")
    assert starter.returncode == 1 and "never written" in starter.stdout, starter.stdout + starter.stderr

    every = ("submissions", "exploits", "mutants", "tasks", "sizes", "tolerances", "seeds")
    tests = [f"tests/labs/test_{name}.py" for name in every]
    tests += [f"tests/autograder/test_{name}.py" for name in ("threat_model", "judge_corpus", "cli")]
    of_this_lab = " or ".join((NAME, *COUNTING))
    tested = python(
        checkout, "-m", "pytest", "-v", "-p", "no:cacheprovider", "-m", "not gpu", "-k", of_this_lab, *tests
    )
    assert tested.returncode == 0, tested.stdout
    assert "SKIPPED" not in tested.stdout
    assert [name for name in COUNTING if not re.search(rf"::{name}(\[.*\])? PASSED", tested.stdout)] == []


@pytest.fixture
def labs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of labs."""
    (tmp_path / "labs").mkdir()
    monkeypatch.setenv("WARPLAB_LABS", str(tmp_path / "labs"))
    monkeypatch.setattr(cli, "BUILD", tmp_path / "build")
    return tmp_path / "labs"


def test_the_title_is_made_of_the_name(labs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["new-lab", "09_fp8_gemm"]) == 0
    lab = find_lab("09_fp8_gemm")
    assert lab.title == "Fp8 gemm" and lab.task.function == "fp8_gemm"
    handout = (lab.folder / "README.md").read_text()
    assert handout.startswith("# Lab 09: Fp8 gemm\n") and "| correctness | 30 |" in handout
    assert "What is left to do" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["twice", "9_twice", "09_Twice", "09_twice_", "../09_twice", "09_a" + 40 * "b", ""])
def test_a_name_that_is_none_is_refused(name: str, labs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["new-lab", name]) == cli.USAGE_ERROR
    assert "is not a lab's name: two digits" in capsys.readouterr().err
    assert not list(labs.iterdir())


@pytest.mark.parametrize("word", ["class", "cuda", "kernel"])
def test_a_name_that_no_function_can_have_is_refused(word: str, labs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["new-lab", f"09_{word}"]) == cli.USAGE_ERROR
    assert f"'{word}' cannot be the name of the lab's function" in capsys.readouterr().err


@pytest.mark.parametrize("part", ["lab", "solution", "corpus"])
def test_nothing_is_overwritten(part: str, labs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    there = new_lab.folders(NAME)[part]
    there.mkdir(parents=True)
    assert cli.main(["new-lab", NAME]) == cli.USAGE_ERROR
    assert f"{there} exists already" in capsys.readouterr().err
    assert not list(there.iterdir()) and sum(folder.exists() for folder in new_lab.folders(NAME).values()) == 1


@pytest.mark.parametrize("title", ["", " ", "two\nlines", "\x1b[1m"])
def test_a_title_is_a_line_of_text(title: str, labs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["new-lab", NAME, "--title", title]) == cli.USAGE_ERROR
    assert "is not one line of text" in capsys.readouterr().err


def test_outside_of_a_checkout_it_says_so(labs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labs.rmdir()
    assert cli.main(["new-lab", NAME]) == cli.USAGE_ERROR
    assert "run this in a checkout" in capsys.readouterr().err
