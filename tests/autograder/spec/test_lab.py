from __future__ import annotations

from pathlib import Path

import pytest

from autograder.spec.lab import LabError, find_lab, known_labs, lab_of, load_any, load_lab
from autograder.spec.lab_names import meant
from tests.autograder.handmade import LAB_TOML, TASK_PY, make_lab
from warplab.plan.model import Language


def test_a_lab_is_loaded_with_its_points_and_task(tmp_path: Path) -> None:
    lab = make_lab(tmp_path)
    assert (lab.name, lab.title, lab.task.function) == ("90_twice", "Twice", "twice")
    assert (lab.points.correctness, lab.points.efficiency) == (30, 30)
    assert lab.languages == {Language.NUMBA, Language.CUDA_CPP}
    assert lab.case("secret size").hidden
    assert lab.case("profile") is lab.task.profile


def test_the_lab_is_found_by_the_folder_a_submission_lies_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_lab(tmp_path)
    monkeypatch.setenv("WARPLAB_LABS", str(tmp_path / "labs"))
    assert known_labs() == ["90_twice"]
    assert lab_of(tmp_path / "tests" / "90_twice" / "wrong" / "mine.py").name == "90_twice"
    with pytest.raises(LabError, match=r"--lab \(known: 90_twice\)"):
        lab_of(tmp_path / "mine.py")


def test_an_unknown_lab_is_answered_with_the_known_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_lab(tmp_path)
    monkeypatch.setenv("WARPLAB_LABS", str(tmp_path / "labs"))
    with pytest.raises(LabError, match="no lab named '../etc': the labs are 90_twice"):
        find_lab("../etc")
    monkeypatch.setenv("WARPLAB_LABS", str(tmp_path / "nowhere"))
    with pytest.raises(LabError, match="there are no labs in"):
        find_lab("90_twice")


@pytest.mark.parametrize(
    ("toml", "task", "words"),
    [
        (LAB_TOML.replace("floor = 0.1", "floor = 0.95"), TASK_PY, "floor < target"),
        (LAB_TOML.replace("safety = 20", "style = 20"), TASK_PY, "efficiency, and no 'style'"),
        (LAB_TOML.replace("safety = 20", ""), TASK_PY, "does not say `safety`"),
        (LAB_TOML.replace('"numba"', '"fortran"'), TASK_PY, "fortran"),
        ("points = [", TASK_PY, "not a valid lab description"),
        (LAB_TOML, "TASK = 3", "does not say what a lab of kernels asks for"),
        (f'kind = "pipelines"\n{LAB_TOML}', TASK_PY, "does not say what a lab of pipelines asks for"),
        (f'kind = "poems"\n{LAB_TOML}', TASK_PY, "kind is kernels, schedules"),
        (LAB_TOML.replace("languages", "tongues"), TASK_PY, "does not say `languages`"),
        (LAB_TOML, "import nothing_of_that_name", "does not load: ModuleNotFoundError"),
        (LAB_TOML, TASK_PY.replace('Case("tiny"', 'Case("profile"'), "two different cases the name 'profile'"),
    ],
)
def test_a_damaged_lab_is_one_sentence(tmp_path: Path, toml: str, task: str, words: str) -> None:
    (tmp_path / "lab.toml").write_text(toml)
    (tmp_path / "task.py").write_text(task)
    with pytest.raises(LabError, match=words):
        load_any(tmp_path)


def test_a_folder_without_a_lab(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="no readable lab.toml"):
        load_lab(tmp_path)


@pytest.mark.parametrize(
    ("name", "labs"),
    [
        ("axpy", ("01_axpy",)),
        ("1", ("01_axpy",)),
        ("lab 03", ("03_transpose",)),
        ("01-axpi", ("01_axpy",)),
        ("hgemm", ("07_tensor_core_hgemm", "08_hopper_hgemm")),
        ("quicksort", ()),
    ],
)
def test_a_name_that_is_none_means_the_nearest_lab(name: str, labs: tuple[str, ...]) -> None:
    assert meant(name, ["01_axpy", "03_transpose", "07_tensor_core_hgemm", "08_hopper_hgemm"]) == labs
