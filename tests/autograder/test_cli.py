from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from autograder import cli, doctor
from autograder.doctor import Check, State
from autograder.records import machine
from autograder.records.machine import Machine, choose_machine
from autograder.records.status import Executor
from autograder.spec.lab import CHECKOUT
from tests.autograder.handmade import make_lab
from tests.autograder.numpy_worker import GOOD, NumPyWorker
from tests.autograder.report.example_reports import measured, report
from warplab.errors import DeviceError
from warplab.hardware import device
from warplab.hardware.toolkit import LEAST_DRIVER
from warplab.sandbox.isolation import Isolation

# Labs of every need, whose numbers `autograder doctor` is to name: one that is added changes no word of it.
KERNEL_LABS = [
    "01_axpy",
    "02_divergence",
    "03_transpose",
    "04_reduction",
    "05_softmax",
    "06_tiled_gemm",
    "07_tensor_core_hgemm",
    "08_hopper_hgemm",
    "09_fp8_gemm",
    "10_index_shuffle",
    "11_grouped_gemm",
    "11_k_grouped_gemm",
    "16_megakernel",
    "17_beat_the_library",
]


@pytest.fixture
def submission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A submission of a hand-made lab, graded by a command whose worker is NumPy."""
    lab = make_lab(tmp_path)
    solutions = tmp_path / "solutions" / lab.name
    solutions.mkdir(parents=True)
    for folder in (lab.folder, solutions):
        (folder / "submission.py").write_text(GOOD)

    class Worker(NumPyWorker):
        isolation = Isolation.BUBBLEWRAP

        def __init__(self, machine: Machine, own: bool) -> None:
            super().__init__(lab)

        def start(self) -> None:
            pass

        def __enter__(self):
            return self

        def __exit__(self, *exception: object) -> None:
            pass

    monkeypatch.setattr(cli, "ConfinedWorker", Worker)
    monkeypatch.setattr(cli, "BUILD", tmp_path / "build")
    monkeypatch.setenv("WARPLAB_LABS", str(tmp_path / "labs"))
    return lab.folder / "submission.py"


def run(*arguments: object) -> int:
    return cli.main([str(argument) for argument in arguments])


@pytest.mark.processes
def test_full_marks_exit_with_0_and_write_reports(submission: Path, tmp_path: Path, capsys) -> None:
    json_file, html_file = tmp_path / "r.json", tmp_path / "r.html"
    arguments = ("grade", submission.parent, "--device", "emulator", "--json", json_file, "--html", html_file)
    assert run(*arguments) == 0
    assert "70 of 70 points" in capsys.readouterr().out
    assert json.loads(json_file.read_text())["reports"][0]["score"] == 70
    assert html_file.read_text().startswith("<!DOCTYPE html>")


@pytest.mark.processes
def test_less_than_full_marks_exit_with_1_and_the_next_is_graded(submission: Path, tmp_path: Path, capsys) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("def twice(:")
    assert run("grade", bad, submission, "--lab", "90_twice", "--device", "emulator") == 1
    out = capsys.readouterr().out
    assert "syntax error" in out and "70 of 70 points" in out
    assert run("check", bad, "--lab", "90_twice", "--device", "emulator") == 1


@pytest.mark.processes
def test_a_submission_that_cannot_be_read_stops_no_other(submission: Path, capsys) -> None:
    unreadable = submission.parent / "mine"
    (unreadable / "submission.py").mkdir(parents=True)
    assert run("grade", unreadable, submission, "--lab", "90_twice", "--device", "emulator") == 1
    out = capsys.readouterr().out
    assert "is a folder, not a Python file" in out and "70 of 70 points" in out


@pytest.mark.processes
def test_check_is_terse(submission: Path, capsys) -> None:
    assert run("check", submission, "--device", "emulator") == 0
    assert len(capsys.readouterr().out.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["grade", "{tmp}/nowhere.py"], "There is no file"),
        (["grade", "{tmp}/labs"], "holds no submission.py"),
        (["grade", "{tmp}/loose.py"], "say which with --lab"),
        (["grade", "{tmp}/loose.py", "--lab", "99_none"], "There is no lab named '99_none': the labs are 90_twice."),
    ],
)
def test_wrong_paths_exit_with_2_and_one_sentence(submission: Path, tmp_path: Path, capsys, arguments, words) -> None:
    (tmp_path / "loose.py").write_text("")
    assert run(*(argument.format(tmp=tmp_path) for argument in arguments)) == 2
    error = capsys.readouterr().err
    assert words in error
    assert len(error.strip().splitlines()) == 1


def test_wrong_options_exit_with_2() -> None:
    for arguments in ([], ["grade"], ["grade", "x", "--device", "tpu"]):
        with pytest.raises(SystemExit) as ended:
            cli.main(arguments)
        assert ended.value.code == 2


@pytest.mark.processes
def test_a_report_that_cannot_be_written_is_one_sentence(submission: Path, tmp_path: Path, capsys) -> None:
    (tmp_path / "file").write_text("")
    assert run("grade", submission, "--device", "emulator", "--json", tmp_path / "file" / "r.json") == 2
    assert "cannot write" in capsys.readouterr().err


@pytest.mark.processes
def test_reference_grades_every_solution_into_build(submission: Path, tmp_path: Path, capsys) -> None:
    assert run("reference", "--device", "emulator") == 0
    (grade,) = json.loads((tmp_path / "build" / "report" / "grades.json").read_text())
    assert (grade["lab"], grade["score"], grade["max_score"], grade["efficiency"]) == ("90_twice", 70, 70, None)
    assert "<h2>90_twice" in (tmp_path / "build" / "report" / "index.html").read_text()


def test_starters_are_written_and_checked(submission: Path, tmp_path: Path, capsys) -> None:
    solution = tmp_path / "solutions" / "90_twice" / "submission.py"
    solution.write_text("# BEGIN SOLUTION\nsecret = 1\n# END SOLUTION\npublic = 2\n")
    assert run("starters", "--check") == 1
    assert run("starters") == 0
    assert submission.read_text() == "public = 2\n"
    assert run("starters", "--check") == 0


def test_exit_codes_of_reports() -> None:
    from autograder.records.status import Status

    assert cli.exit_code([report()]) == cli.NOT_FULL_MARKS
    assert cli.exit_code([measured(1.0), report(status=Status.JUDGE_ERROR)]) == cli.CANNOT_GRADE


def graphics_card(name: str, capability: tuple[int, int], driver: str, mps: bool = False) -> SimpleNamespace:
    return SimpleNamespace(
        name=name, compute_capability=capability, driver=driver, cuda="12.8", sms=40, memory=1 << 34, mps=mps
    )


def test_doctor_names_what_is_broken_and_how_to_mend_it(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    checks = [Check("numba", State.BROKEN, "not installed", "Run `make venv`."), Check("GPU", State.LIMITED, "none")]
    monkeypatch.setattr(doctor, "examine", lambda: checks)
    assert run("doctor") == 3
    out = capsys.readouterr().out
    assert "numba: Run `make venv`." in out
    assert "cannot grade yet" in out
    monkeypatch.setattr(doctor, "examine", lambda: checks[1:])
    assert run("doctor") == 0


@pytest.mark.parametrize(
    ("name", "capability", "driver", "major", "words"),
    [
        (
            "Tesla T4",
            (7, 5),
            "550.54.15",
            12,
            "01, 02, 03, 04, 05, 06, 07 in its form for sm_75 on this GPU (sm_75); 08, 09, 11 on the emulator (needs",
        ),
        (
            "NVIDIA L4",
            (8, 9),
            "550.54.15",
            12,
            "07, 16, 17 on this GPU (sm_89); 08, 09, 11 on the emulator (needs sm_90a); 10 on the emulator (needs",
        ),
        ("NVIDIA H200", (9, 0), "580.65.06", 13, "07, 08, 09, 10, 11, 16, 17 on this GPU (sm_90a)"),
        ("Tesla T4", (7, 5), "550.54.15", 13, f"all {len(KERNEL_LABS)} of kernels on the emulator"),
    ],
)
def test_doctor_says_what_driver_toolkit_and_card_mean_for_each_lab(
    monkeypatch: pytest.MonkeyPatch, name: str, capability: tuple[int, int], driver: str, major: int, words: str
) -> None:
    gpu = graphics_card(name, capability, driver)
    monkeypatch.setattr(device, "present", lambda index=0: gpu)
    monkeypatch.setattr(doctor, "toolkit", lambda: major)
    monkeypatch.setattr(doctor, "kernel_labs", lambda: KERNEL_LABS)
    assert words in doctor._where_labs_run().detail
    assert f"CUDA {major}, for drivers from {LEAST_DRIVER[major]} on" == doctor._toolkit().detail
    summary = doctor._summary([doctor._gpu(), doctor._where_labs_run()])
    everything = "on the emulator" not in words
    assert ("grades everything" in summary) is everything
    assert everything or "on the emulator" in summary


def test_a_gpu_shared_through_mps_times_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = graphics_card("NVIDIA H200", (9, 0), "580.65.06", mps=True)
    monkeypatch.setattr(device, "present", lambda index=0: gpu)
    for module in (doctor, machine):
        monkeypatch.setattr(module, "toolkit", lambda: 13)
    chosen = choose_machine("auto")
    assert chosen.device is Executor.EMULATOR and "shared through MPS" in chosen.hardware
    with pytest.raises(DeviceError, match=r"shared through MPS.*set CUDA_MPS_PIPE_DIRECTORY.*--device emulator\.$"):
        choose_machine("gpu")
    checks = [doctor._gpu(), doctor._where_labs_run()]
    assert {check.state for check in checks} == {State.LIMITED} and "MPS" in checks[0].detail
    gpu.mps = False
    assert choose_machine("gpu").device is Executor.GPU


@pytest.mark.processes
def test_help_documents_the_exit_codes() -> None:
    done = subprocess.run([sys.executable, "-m", "autograder", "grade", "--help"], capture_output=True, text=True)
    assert done.returncode == 0
    assert "exit codes:" in done.stdout


@pytest.mark.processes
def test_the_module_imports_nothing_from_the_folder_it_is_started_in(tmp_path: Path) -> None:
    """A folder of downloads may hold a json.py, and whoever grades stands in it."""
    for name in ("json.py", "numpy.py", "rich.py"):
        (tmp_path / name).write_text("raise SystemExit('shadowed')")
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    for command in ([sys.executable, "-m", "autograder"], [sys.executable, "-P", "-m", "autograder"]):
        done = subprocess.run(
            [*command, "grade", "none.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert (done.returncode, "There is no file none.py" in done.stderr) == (2, True), done.stderr


@pytest.mark.processes
def test_a_verifier_is_asked_and_written_down(submission: Path, tmp_path: Path, capsys) -> None:
    said = tmp_path / "said.py"
    written = tmp_path / "transcript.json"
    for word, code in (("right", 0), ("wrong", 1)):
        said.write_text(f"print('{word}')")
        command = f"{sys.executable} {said}"
        assert run("verify", submission, "--device", "emulator", "--with", command, "--transcript", written) == code
        assert f"verifier {word}, judge right, emulator right" in capsys.readouterr().out
        (record,) = json.loads(written.read_text())["records"]
        assert "twice" in record["prompt"] and record["verifier"] == word
