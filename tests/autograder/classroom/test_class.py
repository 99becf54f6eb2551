"""A class, graded for real: everybody gets what they get alone, whoever else is in it."""

from __future__ import annotations

import platform
import re
import subprocess
from collections.abc import Collection
from pathlib import Path

import pytest

from autograder.classroom.table import TABLE
from autograder.records.status import Part, Status
from autograder.records.stored import report_of
from autograder.spec.lab import CHECKOUT, known_labs
from benchmarks import known_class
from benchmarks.known_class import Kind
from corpus.judge.entries import cases
from tests.sampling import only_whole
from warplab.hardware.device import alike

pytestmark = pytest.mark.processes

LAB = "01_axpy"
STARTER = CHECKOUT / "labs" / LAB / "submission.py"
# A class draws by a secret seed: what needs a certain one to be wrong is left out.
EXPLOITS = {f"{case.lab}/{case.name}": case for case in cases() if case.corpus == "exploit" and case.seed is None}
# Those that go for the machine that others are graded on, or for what is kept of others.
SAMPLE = ("01_axpy/fork_bomb", "01_axpy/cache_by_pointer", "01_axpy/escapes")
# What imports more than kernels need can reach for more than its own verdict.
REACHES_OUT = re.compile(r"^\s*(?:import|from) (?!__future__|cupy|math|numba|numpy|torch|warplab)", re.MULTILINE)


def grade(folder: Path, students: dict[str, Kind]) -> str:
    known_class.hand_in(folder / "class", students)
    command = known_class.command(folder / "class", folder / "out", "--processes", "2")
    done = subprocess.run(command, cwd=CHECKOUT, env=known_class.environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.multigpu
def test_a_class_uses_all_gpus_and_each_grade_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each GPU has a folder of turns once somebody has graded on it; a schedule is timed on all of them."""
    pytest.importorskip("torch")
    monkeypatch.setenv("WARPLAB_CACHE", str(tmp_path / "cache"))
    reference = known_class.references(LAB)[0]
    ring = known_class.references("12_collectives")[0]
    honest = {f"student_{number}": reference for number in range(6)} | {"ring": ring}
    known_class.hand_in(tmp_path / "class", honest)
    command = known_class.command(tmp_path / "class", tmp_path / "out", "--processes", "4", device="gpu")
    done = subprocess.run(command, cwd=CHECKOUT, env=known_class.environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    reports = {student: report_of(line.report) for student, line in known_class.lines(tmp_path / "out").items()}
    assert all(report.part(Part.EFFICIENCY).status is Status.PASSED for report in reports.values())
    assert "measured" in reports["ring"].part(Part.EFFICIENCY).cases[-1].name
    used = {folder.name for folder in (tmp_path / "cache" / "turns").glob(f"{platform.node()}-GPU-*")}
    assert len(used) == len(alike()) > 1


def hostile(folder: Path, exploits: Collection[str], honest: dict[str, Kind]) -> str:
    """Grade honest students among exploits: each gets what they get alone, and what the corpus says. Gives what the
    command says. A right submission gets full marks alone, and there is one way to have them."""
    cheating = {
        name.replace("/", "_"): known_class.kind("exploit", EXPLOITS[name].lab, EXPLOITS[name].source(folder))
        for name in exploits
    }
    said = grade(folder, honest | cheating)
    others = {student: one for student, one in honest.items() if one.sort != "correct"}
    assert known_class.differences(others, folder / "out") == []
    lines = known_class.lines(folder / "out")
    assert all(report_of(lines[s].report).full_marks for s, one in honest.items() if one.sort == "correct")
    wrong = {name: EXPLOITS[name].object(report_of(lines[name.replace("/", "_")].report)) for name in exploits}
    assert not {name: objections for name, objections in wrong.items() if objections}
    return said


@pytest.mark.parametrize("exploits", [pytest.param(SAMPLE[:1], marks=pytest.mark.smoke), SAMPLE[1:]], ids=len)
def test_honest_students_among_exploits_get_what_they_get_alone_and_the_table_holds_all(
    exploits: Collection[str], tmp_path: Path
) -> None:
    ada, bob = known_class.references(LAB)[-1], known_class.kind("starter", LAB, STARTER)
    said = hostile(tmp_path, exploits, {"ada": ada, "bob": bob})
    lines = known_class.lines(tmp_path / "out")
    assert (lines["ada"].status, lines["ada"].score, lines["ada"].max_score) == ("passed", 70, 70)
    assert (lines["bob"].status, lines["bob"].score) == ("wrong answer", 0)
    students = 2 + len(exploits)
    assert f"{students} handed in, {students} of them new or changed; {students} to grade." in said
    assert (tmp_path / "out" / TABLE).read_text().count("\n") == 1 + students
    assert not lines["ada"].report.get("source") and "seed" not in str(lines["ada"].report)


@pytest.mark.instructor
def test_honest_students_are_graded_among_those_who_reach_out(tmp_path: Path) -> None:
    reaching = [name for name, one in EXPLOITS.items() if REACHES_OUT.search(one.source(tmp_path).read_text("utf-8"))]
    assert len(reaching) > 40
    labs = {EXPLOITS[name].lab for name in reaching}
    hostile(tmp_path, reaching, {f"honest_{lab}": known_class.references(lab)[0] for lab in sorted(labs)})


@pytest.mark.slow
@only_whole
def test_honest_students_among_all_exploits_get_what_they_get_alone(tmp_path: Path) -> None:
    right = {lab: known_class.references(lab) for lab in known_labs()}
    honest = {f"honest_{lab}_{number}": one for lab, several in right.items() for number, one in enumerate(several)}
    hostile(tmp_path, list(EXPLOITS), honest)
