"""The students' repository: it works, it holds no answers, and it would be noticed if it did."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from autograder.release import ReleaseError, leaks, write_release
from autograder.spec.lab import CHECKOUT, find_any, find_lab, known_labs
from autograder.starter import make_starter, solution_lines

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("release") / "students"
    write_release(folder, [find_any(name) for name in known_labs()])
    return folder


def test_there_are_no_solutions_and_nothing_for_instructors(release: Path) -> None:
    names = [path.relative_to(release).as_posix() for path in release.rglob("*") if path.is_file()]
    assert not [n for n in names if n.startswith(("solutions", "corpus", "tests", "docker", ".github"))]
    assert "docs/threat-model.md" not in names and "docs/instructors.md" not in names
    assert {"AGENTS.md", "README.md", "Makefile", "labs/03_transpose/task.py", "autograder/cli.py"} <= set(names)
    assert "labs/03_transpose/rungs.json" in names  # what the judge compares with, and no line of a solution
    assert not [n for n in names if "BEGIN SOLUTION" in _text(release / n) and not n.startswith("autograder/")]


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def test_the_only_texts_with_answers_are_those_that_are_known(release: Path) -> None:
    """Labs 09 and 11 begin with the pipeline that lab 08 asks for, in parts the same: docs/instructors.md says so.

    Chapter 06 teaches a rung of its lab.
    """
    assert {(leak.file.as_posix(), leak.solution) for leak in leaks(release)} == {
        ("labs/09_fp8_gemm/submission.py", "08_hopper_hgemm/submission.py"),
        ("labs/09_fp8_gemm/submission.py", "11_grouped_gemm/submission.py"),
        ("labs/11_grouped_gemm/submission.py", "08_hopper_hgemm/submission.py"),
        ("labs/11_grouped_gemm/submission.py", "09_fp8_gemm/submission.py"),
        ("labs/11_k_grouped_gemm/submission.py", "08_hopper_hgemm/submission.py"),
        ("labs/11_k_grouped_gemm/submission.py", "11_grouped_gemm/submission.py"),
        ("notebooks/06_tiled_gemm.ipynb", "06_tiled_gemm/rung_3_shared_tile.py"),
        ("notebooks/source/06_tiled_gemm.md", "06_tiled_gemm/rung_3_shared_tile.py"),
    }


def _cells(path: Path, kind: str) -> list[str]:
    return ["".join(cell["source"]) for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == kind]


def test_its_links_lead_somewhere_and_its_code_is_the_chapters(release: Path) -> None:
    lost = []
    for path in release.rglob("*"):
        texts = [path.read_text()] if path.suffix == ".md" else []
        if path.suffix == ".ipynb":
            texts = _cells(path, "markdown")
            assert _cells(path, "code") == _cells(CHECKOUT / path.relative_to(release), "code")
        base = path.parent.parent if path.parent.name == "source" else path.parent
        for text in texts:
            prose = re.sub(r"^```.*?^```|`[^`\n]*`", "", text, flags=re.DOTALL | re.MULTILINE)
            for target in re.findall(r"\]\(([^)\s#]+)", prose):
                if "://" not in target and not (base / target).exists():
                    lost.append(f"{path.relative_to(release)}: {target}")
    assert lost == []
    assert (release / "docs" / "glossary.md").exists()


def test_a_solution_that_got_out_is_found(release: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(release, tmp_path / "copy")
    solution = (CHECKOUT / "solutions" / "03_transpose" / "submission.py").read_text()
    (copy / "docs" / "hints.md").write_text(solution.replace("    ", "  "))
    assert "docs/hints.md" in {leak.file.as_posix() for leak in leaks(copy)}


def test_its_starters_are_the_labs(release: Path) -> None:
    for name in known_labs():
        for path in (release / "labs" / name).glob("submission*.py"):
            solution = (CHECKOUT / "solutions" / name / path.name).read_text()
            assert path.read_text() == make_starter(solution)


def test_the_judge_in_it_grades(release: Path) -> None:
    command = [sys.executable, "-m", "autograder", "check", "labs/01_axpy/submission.py", "--device", "emulator"]
    environment = os.environ | {"PYTHONPATH": str(release)}
    done = subprocess.run(command, cwd=release, env=environment, capture_output=True, text=True)
    assert done.returncode == 1 and "wrong answer" in done.stdout, done.stdout + done.stderr


def test_nothing_in_it_writes_a_submission_that_earns_points(release: Path, tmp_path: Path) -> None:
    """The search's templates are answers of labs 07, 08 and 17 until all of these are closed."""
    code = (
        "from systems.search.half_product import CHOICES, TemplateError, code_of\n"
        "for choice in CHOICES:\n"
        "    try: print(len(code_of(choice)))\n"
        "    except TemplateError: pass\n"
    )

    def written(folder: Path) -> int:
        environment = os.environ | {"PYTHONPATH": str(folder)}
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
        return len(done.stdout.splitlines())

    assert written(release) == 0
    closed = ["07_tensor_core_hgemm", "08_hopper_hgemm"]
    write_release(tmp_path / "two", [find_lab("01_axpy")], closed)
    assert written(tmp_path / "two") == 0
    write_release(tmp_path / "three", [find_lab("01_axpy")], [*closed, "17_beat_the_library"])
    assert written(tmp_path / "three") > 300


def test_it_has_no_hidden_cases(release: Path) -> None:
    """A student's judge grades the cases that are left; the instructor's has all."""
    for name in known_labs():
        text = (release / "labs" / name / "task.py").read_text()
        assert "hidden=True" not in text
    assert "wide and ragged" in (CHECKOUT / "labs" / "03_transpose" / "task.py").read_text()
    assert "wide and ragged" not in (release / "labs" / "03_transpose" / "task.py").read_text()


def test_its_git_leaves_out_what_the_setup_makes(release: Path) -> None:
    for made in (".venv/bin/python", "build/setup.log", "warplab/__pycache__/x.pyc"):
        (release / made).parent.mkdir(parents=True, exist_ok=True)
        (release / made).write_text("")
    subprocess.run(["git", "init", "-q"], cwd=release, check=True)
    added = subprocess.run(["git", "add", "-An", "."], cwd=release, capture_output=True, text=True, check=True).stdout
    shutil.rmtree(release / ".git")
    assert "labs/01_axpy/submission.py" in added and ".venv" not in added
    assert "setup.log" not in added and "__pycache__" not in added


def test_a_lab_is_reset_in_it(release: Path) -> None:
    mine = release / "labs" / "03_transpose" / "submission.py"
    starter = mine.read_text()
    mine.write_text("# my attempt\n")
    command = [sys.executable, "-m", "autograder", "reset", "03_transpose"]
    environment = os.environ | {"PYTHONPATH": str(release)}
    subprocess.run(command, cwd=release, env=environment, capture_output=True, check=True)
    assert mine.read_text() == starter
    kept = mine.with_name("submission.1.py")
    assert kept.read_text() == "# my attempt\n"
    kept.unlink()


def test_a_new_lab_is_refused_in_it(release: Path) -> None:
    command = [sys.executable, "-m", "autograder", "new-lab", "30_mine"]
    environment = os.environ | {"PYTHONPATH": str(release)}
    done = subprocess.run(command, cwd=release, env=environment, capture_output=True, text=True)
    assert done.returncode == 2 and "run this in Warplab's own" in done.stderr + done.stdout
    assert not (release / "solutions").exists()


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    with pytest.raises(ReleaseError, match="not an empty folder"):
        write_release(tmp_path, [])
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize("there", [False, True])
def test_nothing_is_left_of_a_release_that_was_stopped(
    there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C when all but the texts are there."""
    folder = tmp_path / "students"
    if there:
        folder.mkdir()

    def stopped(*_: object) -> None:
        assert (folder / "labs" / "01_axpy" / "task.py").is_file()
        raise KeyboardInterrupt

    monkeypatch.setattr("autograder.release._unlink", stopped)
    with pytest.raises(KeyboardInterrupt):
        write_release(folder, [find_lab("01_axpy")])
    assert folder.exists() == there and (not there or not any(folder.iterdir()))


def test_closed_labs_come_with_their_rungs_and_not_their_solutions(tmp_path: Path) -> None:
    write_release(tmp_path / "new", [find_lab("06_tiled_gemm")], ["06_tiled_gemm"])
    names = {path.name for path in (tmp_path / "new" / "solutions" / "06_tiled_gemm").iterdir()}
    assert "rung_1_naive.py" in names and not [name for name in names if name.startswith("submission")]
    assert {path.name for path in (tmp_path / "new" / "labs").iterdir()} == {"06_tiled_gemm"}


def test_solution_lines_are_what_the_starter_leaves_out() -> None:
    text = "a = 1\n# BEGIN SOLUTION\nb = 2\n# STARTER: pass\n# END SOLUTION\nc = 3\n"
    assert solution_lines(text) == ["b = 2"]
