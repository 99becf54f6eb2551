"""A class graded in real jobs of Slurm; and what is said of settings that ask for nothing sensible."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from autograder.classroom.clusters import SlurmJobs, read_jobs
from autograder.classroom.entries import ClassError
from autograder.classroom.grade_line import GradeLine
from autograder.classroom.ledger import RECORD, Ledger
from autograder.spec.lab import CHECKOUT
from benchmarks import class_faults

LAB = "01_axpy"
CLASS = {
    "ada": CHECKOUT / "solutions" / LAB / "submission.py",
    "bob": CHECKOUT / "labs" / LAB / "submission.py",
}


def asked(folder: Path, **more: str) -> Path:
    settings = {"folder": f'"{folder / "jobs"}"', "jobs": "2", "processors": "1", "memory": '"6GB"', **more}
    path = folder / "slurm.toml"
    path.write_text("[slurm]\n" + "".join(f"{name} = {value}\n" for name, value in settings.items()))
    return path


def grade(folder: Path, settings: Path) -> subprocess.CompletedProcess[str]:
    assert shutil.which("sbatch"), "Slurm is not installed: sh scripts/slurm_node.sh COMMAND"
    for student, source in CLASS.items():
        (folder / "class" / student).mkdir(parents=True, exist_ok=True)
        shutil.copy(source, folder / "class" / student / "submission.py")
    command = [sys.executable, "-m", "autograder", "class", str(folder / "class"), "--out", str(folder / "out")]
    command += ["--lab", LAB, "--device", "emulator", "--slurm", str(settings)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(CHECKOUT), os.environ.get("PYTHONPATH", "")])}
    return subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, timeout=900)


def graded(folder: Path) -> dict[str, GradeLine]:
    with Ledger(folder / "out" / RECORD) as ledger:
        return {line.student: line for line in ledger.lines()}


@pytest.mark.instructor
def test_jobs_of_slurm_give_the_grades_that_this_machine_gives(tmp_path: Path) -> None:
    done = grade(tmp_path, asked(tmp_path, partition='"labs"', time='"00:20:00"'))
    assert done.returncode == 0, done.stdout + done.stderr
    lines = graded(tmp_path)
    assert {name: (line.status, line.score) for name, line in lines.items()} == {
        "ada": ("passed", 70),
        "bob": ("wrong answer", 0),
    }
    left = subprocess.run(["squeue", "--noheader", "--states", "running,pending"], capture_output=True, text=True)
    assert left.stdout == ""
    assert not list((tmp_path / "jobs").glob("*.pem"))  # the run's keys are gone with it


@pytest.mark.instructor
def test_a_job_that_slurm_refuses_is_one_sentence(tmp_path: Path) -> None:
    done = grade(tmp_path, asked(tmp_path, partition='"nowhere"'))
    assert done.returncode == 2 and "Slurm took no job" in done.stderr and "partition" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.instructor
def test_jobs_that_end_too_early_end_the_run(tmp_path: Path) -> None:
    done = grade(tmp_path, asked(tmp_path, partition='"labs"', time='"00:20:00"', prologue='["exit 1"]'))
    assert done.returncode == 2 and "All jobs have ended" in done.stderr, done.stdout + done.stderr
    assert not any(line.status for line in graded(tmp_path).values())


@pytest.mark.instructor
def test_jobs_that_can_never_start_end_the_run(tmp_path: Path) -> None:
    done = grade(tmp_path, asked(tmp_path, partition='"labs"', time='"99:00:00"'))
    assert done.returncode == 2 and "never start these jobs (PartitionTimeLimit)" in done.stderr, done.stderr


@pytest.mark.instructor
def test_killed_jobs_lose_nothing_and_leave_nothing(tmp_path: Path) -> None:
    done = class_faults.run(tmp_path, 6, dict(list(class_faults.tasks().items())[:8]), slurm=True)
    assert (done.lost, done.twice, done.different, done.left) == ([], [], [], 0)
    assert done.killed.total() >= 5 and set(done.killed) == set(class_faults.SORTS), done.killed


def test_settings_have_defaults(tmp_path: Path) -> None:
    path = tmp_path / "slurm.toml"
    path.write_text('[slurm]\nfolder = "/scratch/x"\ndirectives = ["--gres=gpu:1"]\n')
    assert read_jobs(path) == SlurmJobs(folder="/scratch/x", directives=["--gres=gpu:1"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[slurm]\nqueue = 1\n", "has no setting 'queue'"),
        ("[slurm]\njobs = 1\n", "missing required field `folder`"),
        ('[slurm]\nfolder = "x"\njobs = "many"\n', "Expected `int`"),
        ('[slurm]\nfolder = "x"\njobs = 0\n', "1 at least"),
        ("[other]\n", "has no table"),
        ("[slurm", "is no TOML"),
    ],
)
def test_a_setting_that_is_wrong_is_one_sentence(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "slurm.toml"
    path.write_text(text)
    with pytest.raises(ClassError, match=words):
        read_jobs(path)
    with pytest.raises(ClassError, match="cannot be read"):
        read_jobs(tmp_path / "nowhere.toml")
