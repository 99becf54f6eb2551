"""Grading from file to report: capture is real, the kernels' work is done by NumPy."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autograder.judge.capture_stage import Submission
from autograder.judge.kinds import kernels
from autograder.judge.pipeline import grade
from autograder.records.machine import Machine
from autograder.records.prepared import Answer
from autograder.records.report import Report
from autograder.records.status import Executor, Part, Status
from autograder.spec.lab import Lab
from autograder.spec.recorded import FILE
from autograder.spec.task import Case
from tests.autograder.handmade import EMULATOR, GPU, LAB_TOML, make_lab, measurement, request
from tests.autograder.numpy_worker import GOOD, SEED, NumPyWorker
from warplab.plan.execution import Counters, Finding, FindingKind
from warplab.worker.process import WorkerError, WorkerFault

pytestmark = pytest.mark.processes


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    lab = make_lab(tmp_path)
    (lab.folder / "submission.py").write_text(GOOD)
    return lab


_ANSWERS: dict[Any, Any] = {}
_capture = kernels.capture_cases


@pytest.fixture(autouse=True)
def captured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most tests grade the same kernel, and what they try comes after its capture."""

    def captured(lab: Lab, submission: Submission, cases: Sequence[Case], seed: int, *how: Any) -> list[Answer]:
        key = submission.text, tuple((case.name, *case.dimensions.items()) for case in cases), seed, how
        if key not in _ANSWERS:
            _ANSWERS[key] = _capture(lab, submission, cases, seed, *how)
        return _ANSWERS[key]

    monkeypatch.setattr(kernels, "capture_cases", captured)


def graded(lab: Lab, worker: NumPyWorker | None = None, **more: Any) -> Report:
    return grade(request(lab, seed=SEED, **more), worker or NumPyWorker(lab))


def statuses(report: Report) -> list[Status]:
    return [part.status for part in report.parts]


def test_full_marks_without_a_gpu_leave_efficiency_out(lab: Lab) -> None:
    report = graded(lab)
    assert statuses(report) == [Status.PASSED, Status.PASSED, Status.PASSED, Status.NOT_MEASURED]
    assert (report.status, report.score, report.max_score, report.full_score) == (Status.PASSED, 70, 70, 100)
    assert report.full_marks and report.efficiency is None
    assert report.language == "numba"
    assert report.kernels[0].registers > 0 and report.kernels[0].occupancy > 0
    assert [case.status for case in report.part(Part.CORRECTNESS).cases].count(Status.SKIPPED) == 1


def test_full_marks_with_a_gpu(lab: Lab) -> None:
    worker = NumPyWorker(lab)
    report = graded(lab, worker, machine=GPU)
    assert (report.status, report.score, report.max_score) == (Status.PASSED, 100, 100)
    assert report.efficiency == 0.95
    on_gpu = [case for target, case in worker.calls if target == "autograder.worker.gpu_stage:correctness"]
    emulated = [case for target, case in worker.calls if target == "autograder.worker.emulator_stage:run"]
    assert on_gpu == ["tiny", "ragged", "secret size", "huge"]
    assert emulated == ["tiny", "ragged", "secret size", "profile"]
    assert worker.calls[-1] == ("autograder.worker.gpu_stage:efficiency", "timing")


_OF_AMPERE = GOOD.replace("i < x.size", "ptx.redux_add(types.uint32(1)) > 0 and i < x.size").replace(
    "from numba import cuda", "from numba import cuda\nfrom numba.cuda import types\n\nfrom warplab import ptx"
)
_T4 = Machine(Executor.GPU, "sm_75", "Tesla T4", instead=replace(EMULATOR, hardware="emulator. Not taken"))


def test_what_a_card_does_not_take_is_emulated_and_the_report_says_why(lab: Lab) -> None:
    (lab.folder / "submission.py").write_text(_OF_AMPERE)
    worker = NumPyWorker(lab)
    report = graded(lab, worker, machine=_T4)
    assert statuses(report) == [Status.PASSED, Status.PASSED, Status.PASSED, Status.NOT_MEASURED]
    assert report.hardware.startswith("emulator. Not taken: The kernel 'kernel' does not assemble for sm_75")
    assert "sm_80" in report.hardware and {case for target, case in worker.calls if "gpu_stage" in target} == set()


def test_what_no_emulator_stands_by_for_is_refused(lab: Lab) -> None:
    (lab.folder / "submission.py").write_text(_OF_AMPERE)
    report = graded(lab, machine=replace(_T4, instead=None))
    assert (report.status, report.score) == (Status.COMPILE_ERROR, 0) and "sm_80" in report.message


def test_a_mistake_that_is_one_everywhere_stays_the_cards(lab: Lab) -> None:
    (lab.folder / "submission.py").write_text(GOOD.replace("factor * x[i]", "factor * y[i]"))
    report = graded(lab, machine=_T4)
    assert (report.status, report.hardware) == (Status.COMPILE_ERROR, "Tesla T4") and "y" in report.message


def test_the_quick_check_leaves_hidden_cases_out(lab: Lab) -> None:
    worker = NumPyWorker(lab)
    assert graded(lab, worker, quick=True).full_marks
    assert [case for _, case in worker.calls] == ["tiny", "ragged", "profile"]


def test_no_report_knows_the_seed(lab: Lab) -> None:
    text = json.dumps(graded(lab).to_json(), allow_nan=False)
    assert str(SEED) not in text
    assert "secret size" not in text
    assert json.loads(text)["schema_version"] == 4


def test_secret_seeds_differ_between_grades(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = []
    real = kernels.capture_cases
    monkeypatch.setattr(kernels, "capture_cases", lambda *a: seeds.append(a[3]) or real(*a))
    for _ in range(2):
        assert grade(request(lab), NumPyWorker(lab)).full_marks
    assert seeds[0] != seeds[1]


def test_an_endless_case_is_not_waited_for_again(lab: Lab) -> None:
    worker = NumPyWorker(lab, ragged=WorkerError(WorkerFault.TIMEOUT, "no answer"))
    report = graded(lab, worker)
    assert [case for _, case in worker.calls] == ["tiny", "ragged"]
    assert statuses(report)[:3] == [Status.ENDLESS] * 3
    assert report.score == 0
    assert "did not finish within" in report.message


def test_cases_share_the_processor_seconds_of_a_submission(lab: Lab) -> None:
    class Slow(NumPyWorker):
        def call(self, target: str, *, timeout: float, **payload: Any) -> Any:
            answer = super().call(target, timeout=timeout, **payload)
            return answer | {"processor_seconds": 40.0} if target.endswith("emulator_stage:run") else answer

    worker = Slow(lab)
    report = graded(lab, worker)
    assert [case for _, case in worker.calls] == ["tiny", "ragged"]
    assert statuses(report)[0] is Status.RESOURCES


def test_what_never_ends_on_the_emulator_does_not_keep_a_gpu(lab: Lab) -> None:
    worker = NumPyWorker(lab, ragged=WorkerError(WorkerFault.TIMEOUT, "no answer"))
    report = graded(lab, worker, machine=GPU)
    assert not any("gpu_stage" in target for target, _ in worker.calls)
    assert statuses(report)[:2] == [Status.ENDLESS] * 2 and report.score == 0


def test_the_gpu_gets_ready_while_the_emulator_runs(lab: Lab) -> None:
    emulated, seen = threading.Event(), []

    class GetsReadySlowly(NumPyWorker):
        def call(self, target: str, *, timeout: float, **payload: Any) -> Any:
            if target.endswith(":take"):
                seen.append(emulated.wait(120))
            answer = super().call(target, timeout=timeout, **payload)
            if target.endswith("emulator_stage:run") and payload["case"] == "profile":
                emulated.set()
            return answer

    assert graded(lab, GetsReadySlowly(lab), machine=GPU).full_marks
    assert seen and all(seen)


def test_a_host_that_is_slow_is_not_an_endless_kernel(lab: Lab) -> None:
    report = graded(lab, NumPyWorker(lab, huge=WorkerError(WorkerFault.TIMEOUT, "no answer")), machine=GPU)
    assert statuses(report)[0] is Status.RESOURCES
    assert "Drawing the inputs" in report.message


def test_a_device_fault_is_a_verdict(lab: Lab) -> None:
    fault = WorkerError(WorkerFault.DEVICE_FAULT, "out of bounds: the kernel accessed an illegal address")
    report = graded(lab, NumPyWorker(lab, huge=fault), machine=GPU)
    assert statuses(report) == [Status.OUT_OF_BOUNDS, Status.OUT_OF_BOUNDS, Status.WITHHELD, Status.WITHHELD]
    assert report.score == 0


@pytest.mark.parametrize(
    ("factor", "on_gpu", "status"),
    [
        ("factor * 2", ["tiny", "huge"], Status.WRONG_ANSWER),  # wrong on the emulator: one fault on the GPU is enough
        ("factor", ["tiny", "ragged", "secret size", "huge"], Status.PASSED),
    ],
)
def test_after_a_fault_on_the_gpu_it_runs_what_the_emulator_found_right(
    lab: Lab, factor: str, on_gpu: list[str], status: Status
) -> None:
    class FaultsOnTheGPU(NumPyWorker):
        def call(self, target: str, *, timeout: float, **payload: Any) -> Any:
            answer = super().call(target, timeout=timeout, **payload)
            if target.endswith("gpu_stage:correctness") and payload["case"] in ("tiny", "huge"):
                raise WorkerError(WorkerFault.DEVICE_FAULT, "out of bounds: the kernel accessed an illegal address")
            return answer

    worker = FaultsOnTheGPU(lab)
    (lab.folder / "submission.py").write_text(GOOD.replace("](factor,", f"]({factor},"))
    report = graded(lab, worker, machine=GPU)
    assert [case for target, case in worker.calls if target.endswith("gpu_stage:correctness")] == on_gpu
    ended = {case.name: case.status for case in report.parts[0].cases}
    assert (ended["tiny"], ended["ragged"], ended["huge"]) == (Status.OUT_OF_BOUNDS, status, Status.OUT_OF_BOUNDS)


@pytest.mark.parametrize("fault", [WorkerFault.NOT_STARTED, WorkerFault.ERROR])
def test_a_fault_of_the_judge_is_never_a_zero(lab: Lab, fault: WorkerFault) -> None:
    report = graded(lab, NumPyWorker(lab, ragged=WorkerError(fault, "boom", "KeyError")))
    assert (report.status, report.score, report.max_score) == (Status.JUDGE_ERROR, 0, 0)
    assert report.message.startswith("The judge failed, not the submission: ")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (WorkerError(WorkerFault.CRASHED, "the worker died (signal SIGSEGV)"), Status.WORKER_CRASHED),
        (WorkerError(WorkerFault.MEMORY, "too much"), Status.RESOURCES),
        (WorkerError(WorkerFault.ERROR, "", "MemoryError"), Status.RESOURCES),
        (WorkerError(WorkerFault.ERROR, "it uses 1+2*3.", "PlanError"), Status.UNSUPPORTED),
    ],
)
@pytest.mark.parametrize("case", ["ragged", "profile"])
def test_what_a_submission_does_to_the_worker_is_its_own_fault(
    lab: Lab, error: WorkerError, status: Status, case: str
) -> None:
    """Whatever it is and wherever it happens: points are lost, none leave the maximum, and a sentence says why."""
    report = graded(lab, NumPyWorker(lab, **{case: error}))
    assert report.max_score == 70 and not report.full_marks
    assert report.part(Part.SAFETY).status is status and report.part(Part.SAFETY).score == 0
    assert report.score == (0 if case == "ragged" else 30)
    assert "submission failed" in report.message


def test_an_unsupported_instruction_in_the_profile_case_is_not_full_marks(lab: Lab) -> None:
    """It used to take the points of safety and traffic out of the maximum: 50 of 75 became 35 of 35."""
    finding = Finding(FindingKind.UNSUPPORTED, "Line 7: fns.b32 is not supported.")
    report = graded(lab, NumPyWorker(lab, profiled=finding))
    assert statuses(report)[:3] == [Status.PASSED, Status.UNSUPPORTED, Status.UNSUPPORTED]
    assert (report.score, report.max_score, report.full_marks) == (30, 70, False)


def test_an_answer_of_another_form_is_no_answer(lab: Lab) -> None:
    """A worker that a kernel has taken over may say anything."""
    for forged in ({"case": "ragged", "status": "passed", "wrong": "0"}, {"case": "ragged", "status": "splendid"}, []):
        report = graded(lab, NumPyWorker(lab, forged=forged))
        assert (report.status, report.score) == (Status.WORKER_CRASHED, 0), forged


def test_a_time_of_another_form_is_no_time(lab: Lab) -> None:
    good = measurement().to_wire()
    for forged in (
        [],
        {"status": "ok"},
        good | {"status": "splendid"},
        good | {"status": "impossible"},
        good | {"efficiency": float("inf")},
        good | {"low_ms": 0.0},
        good | {"ceilings": {"copy": float("nan"), "fp32_fma": 1.0}},
        good | {"work": {}},
    ):
        report = graded(lab, NumPyWorker(lab, timing=forged), machine=GPU)
        assert (report.part(Part.EFFICIENCY).status, report.score) == (Status.WORKER_CRASHED, 70), forged
        assert report.efficiency is None


def test_an_unexpected_exception_is_a_judge_error(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "kernel_safety", lambda *a: 1 / 0)
    report = graded(lab)
    assert report.status is Status.JUDGE_ERROR
    assert "ZeroDivisionError" in report.message


def test_a_kernel_over_budget_keeps_its_other_points(lab: Lab) -> None:
    report = graded(lab, NumPyWorker(lab, Counters(global_load_sectors=4096, global_store_sectors=128)))
    assert (report.status, report.score, report.max_score) == (Status.PARTIAL, 50, 70)
    assert "4,096 global load sectors" in report.message


BAD_INPUT = [
    (b"\x00\xff\xfe\x01", Status.NOT_PYTHON),
    (b"def twice(:\n", Status.SYNTAX_ERROR),
    (b"import no_such_module\n", Status.IMPORT_ERROR),
    (b"x = 1\n", Status.NO_FUNCTION),
    (b"def twice(a):\n    pass\n", Status.ARGUMENT_MISMATCH),
    (b"def twice(factor, x, out):\n    return 1 / 0\n", Status.HOST_ERROR),
    (b"def twice(factor, x, out):\n    pass\n", Status.NO_LAUNCH),
    (GOOD.replace("factor * x[i]", "undefined_name").encode(), Status.COMPILE_ERROR),
    (GOOD.replace("128](", "4096](").encode(), Status.LAUNCH_ERROR),
    (GOOD.replace("128](factor, ", "128](").encode(), Status.LAUNCH_ERROR),
]


@pytest.mark.parametrize(("source", "status"), BAD_INPUT, ids=[status.name for _, status in BAD_INPUT])
def test_bad_input_is_a_verdict_with_one_sentence(lab: Lab, source: bytes, status: Status) -> None:
    (lab.folder / "submission.py").write_bytes(source)
    report = graded(lab)
    assert report.status is status
    assert statuses(report) == [status, Status.WITHHELD, Status.WITHHELD, Status.NOT_MEASURED]
    assert (report.score, report.max_score) == (0, 70)
    assert report.message and "Traceback" not in report.message
    (lab.folder / "submission.py").write_text(GOOD)
    assert graded(lab).full_marks


def test_endless_host_code_is_ended(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autograder.judge.capture_stage.CAPTURE_SECONDS", 3.0)
    (lab.folder / "submission.py").write_text("def twice(factor, x, out):\n    while True:\n        pass\n")
    assert graded(lab).status is Status.HOST_TIMEOUT


OTHER = """

@cuda.jit
def other_kernel(factor, x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = x[i] * factor + 0

def twice(factor, x, out):
    ({choice})[(x.size + 127) // 128, 128](factor, x, out)
"""


def test_a_kernel_for_what_is_counted_and_another_for_what_is_timed(lab: Lab) -> None:
    choice = "kernel if x.size <= 1024 else other_kernel"
    (lab.folder / "submission.py").write_text(GOOD + OTHER.format(choice=choice))
    for machine in (EMULATOR, GPU):
        report = graded(lab, machine=machine)
        lost = [part for part in report.parts if part.status is Status.OTHER_KERNELS]
        assert [part.part for part in lost] == [Part.TRAFFIC, Part.EFFICIENCY][: 1 + (machine is GPU)]
        assert report.score == 50
        assert "the timed case launches other_kernel, the profile case kernel" in report.message


def test_where_nothing_was_timed_a_report_says_what_a_right_submission_resembles(lab: Lab) -> None:
    counters = {"global_load_sectors": 1.0, "global_store_sectors": 1.0, "warp_instructions": 3.0}
    counted = [{"size": {"n": 1024}, "counters": counters}]
    rungs = [{"name": "rung_1_naive", "what": "an element a thread", "share": 0.25, "counted": counted}]
    data = {"gpu": "NVIDIA H200", "of": "the roofline", "rungs": rungs, "left_out": []}
    (lab.folder / FILE).write_text(json.dumps(data))
    own = Counters(global_load_sectors=128, global_store_sectors=128, warp_instructions=864)
    found = graded(lab, NumPyWorker(lab, counters=own)).resemblance
    assert found is not None and [rung.name for rung in found.alike] == ["rung_1_naive"]
    assert 'rung 1 ("an element a thread"), which reached 25% of the roofline' in found.words
    assert graded(lab, NumPyWorker(lab, counters=own), machine=GPU).resemblance is None


def test_a_kernel_for_edges_costs_nothing(lab: Lab) -> None:
    choice = "kernel if x.size == 133 or x.size % 1024 == 0 else other_kernel"
    (lab.folder / "submission.py").write_text(GOOD + OTHER.format(choice=choice))
    assert graded(lab, machine=GPU).full_marks


def test_a_kernel_that_no_case_that_is_shown_has_judged(lab: Lab) -> None:
    choice = "kernel if x.size % 1024 == 0 else other_kernel"
    text = GOOD + OTHER.format(choice=choice)
    (lab.folder / "submission.py").write_text(text)
    assert graded(lab, machine=GPU).full_marks  # "huge" has judged it on the GPU
    report = graded(lab, machine=EMULATOR)
    assert report.part(Part.TRAFFIC).status is Status.OTHER_KERNELS
    assert "no correctness case that is shown launches kernel" in report.message


def test_a_language_that_the_lab_does_not_take(tmp_path: Path) -> None:
    lab = make_lab(tmp_path, toml=LAB_TOML.replace('"numba", ', ""))
    (lab.folder / "submission.py").write_text(GOOD)
    report = graded(lab, machine=EMULATOR)
    assert report.status is Status.WRONG_LANGUAGE
    assert "Kernel kernel is written in numba; this lab asks for cuda-c++" in report.message
