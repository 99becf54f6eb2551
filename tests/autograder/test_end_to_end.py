"""Grading on the emulator, in a real worker process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from autograder import own_work
from autograder.judge import runner
from autograder.judge.pipeline import grade
from autograder.records.report import Report
from autograder.records.status import Executor, Part, Status
from autograder.spec.lab import Lab
from tests.autograder.handmade import make_lab, request
from tests.autograder.numpy_worker import GOOD
from warplab.emulator.lowering.instructions.table import TABLE
from warplab.emulator.lowering.rows import Opcode
from warplab.emulator.profiling.microscope import MOST_BYTES
from warplab.worker.process import Worker, WorkerError, WorkerFault

pytestmark = pytest.mark.processes

CUDA = '''
import cupy

kernel = cupy.RawKernel(r"""
extern "C" __global__ void twice(float factor, const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = factor * x[i];
}
""", "twice")

def twice(factor, x, out):
    kernel(((x.size + 127) // 128,), (128,), (cupy.float32(factor), x, out, cupy.int32(x.size)))
'''
NO_EDGE = GOOD.replace("    if i < x.size:\n        out[i]", "    if i <= x.size:\n        out[i]")
STRIDED = GOOD.replace("i = cuda.grid(1)", "i = cuda.threadIdx.x * cuda.gridDim.x + cuda.blockIdx.x")
ENDLESS = GOOD.replace("    if i < x.size:", "    while x[0] == x[0]:\n        out[0] = 1\n    if i < x.size:")
WRONG = GOOD.replace("factor * x[i]", "factor + x[i]")
INPLACE = GOOD.replace("out[i] = factor * x[i]", "out[i] = factor * x[i]\n        x[i] = 0")


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker() as worker:
        worker.call("autograder.worker.emulator_stage:warm_up", timeout=600)
        yield worker


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return make_lab(tmp_path)


def graded(lab: Lab, worker: Worker, source: str) -> Report:
    (lab.folder / "submission.py").write_text(source)
    return grade(request(lab), worker)


class _Here:
    """A worker without a process of its own, so that what it runs can be broken."""

    def call(self, target: str, *, timeout: float, **payload: Any) -> Any:
        module, function = target.split(":")
        try:
            return getattr(import_module(module), function)(**payload)
        except Exception as error:
            raise WorkerError(WorkerFault.ERROR, str(error), type(error).__name__) from error


def test_an_emitter_that_fails_is_the_emulators_fault(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("typo")

    def look_up(opcode: str) -> Opcode:
        found = looked_up(opcode)
        return replace(found, row=replace(found.row, emitter=broken)) if opcode.startswith("mul.") else found

    looked_up = TABLE.look_up

    (lab.folder / "submission.py").write_text(GOOD)
    monkeypatch.setattr(TABLE, "look_up", look_up)
    report = grade(request(lab), _Here())
    assert (report.status, report.max_score) == (Status.JUDGE_ERROR, 0)
    assert "'mul." in report.message and "by a fault of its own (KeyError: 'typo')" in report.message


@pytest.mark.cold_captures
@pytest.mark.parametrize("source", [pytest.param(GOOD, marks=pytest.mark.smoke), CUDA], ids=["numba", "cuda"])
def test_a_good_kernel_gets_full_marks_in_both_languages(lab: Lab, worker: Worker, source: str) -> None:
    report = graded(lab, worker, source)
    assert report.full_marks, report.message
    assert report.max_score == 70
    assert report.profile is not None
    store = next(n for n, text in enumerate(source.splitlines(), start=1) if "out[i] =" in text)
    assert report.profile.lines[store].global_store_sectors == 128


@pytest.mark.parametrize(
    ("source", "part", "status", "words"),
    [
        (WRONG, Part.CORRECTNESS, Status.WRONG_ANSWER, "elements of out are wrong"),
        (INPLACE, Part.CORRECTNESS, Status.INPUT_MODIFIED, "x"),
        (NO_EDGE, Part.SAFETY, Status.OUT_OF_BOUNDS, "x"),
        (STRIDED, Part.TRAFFIC, Status.OVER_BUDGET, "global load sectors where 128 are allowed"),
        (ENDLESS, Part.CORRECTNESS, Status.ENDLESS, ""),
    ],
    ids=["wrong", "input modified", "out of bounds", "strided", "endless"],
)
def test_bad_kernels_fail_for_their_reason_and_the_next_is_graded(
    lab: Lab, worker: Worker, source: str, part: Part, status: Status, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as impatient:  # for what never ends
        if source is ENDLESS:
            impatient.setattr(runner, "CASE_SECONDS", dict.fromkeys(Executor, 3.0))
        report = graded(lab, worker, source)
    assert report.part(part).status is status, report.message
    assert words in report.part(part).message
    assert not report.full_marks
    assert graded(lab, worker, CUDA).full_marks


def test_an_emulator_that_is_killed_is_asked_again(lab: Lab) -> None:
    """Killed while it is asked for a case, twice; the verdict is what it would have been."""
    killed = []

    class Unlucky(Worker):
        def call(self, target: str, *, timeout: float, **payload: object) -> object:
            if payload.get("case") == "ragged" and len(killed) < 2:
                killed.append(self._running().pid)
                target, payload = "os:abort", {}  # it ends while it is asked, not before
            return super().call(target, timeout=timeout, **payload)

    with Unlucky() as unlucky:
        unlucky.call("autograder.worker.emulator_stage:warm_up", timeout=600)
        assert graded(lab, unlucky, GOOD).full_marks
    assert len(set(killed)) == 2


def test_a_request_of_the_worst_line_is_kept_for_its_picture(lab: Lab, worker: Worker) -> None:
    report = graded(lab, worker, STRIDED)
    assert report.worst_request is not None and report.wasted
    assert report.worst_request.line == report.wasted[0].line
    addresses = [address for address in report.worst_request.addresses if address is not None]
    assert len({address // 32 for address in addresses}) == len(addresses) > 8  # each lane has a sector of its own
    assert graded(lab, worker, GOOD).worst_request is None


def test_the_microscope_shows_the_profile_case_and_a_bad_file_has_none(lab: Lab, tmp_path: Path) -> None:
    source, page = lab.folder / "submission.py", tmp_path / "page.html"
    source.write_text(GOOD)
    assert own_work.save_microscope(lab, source, 1, page)
    text = page.read_text("utf-8")
    assert "<title>" in text and len(text) <= MOST_BYTES
    source.write_text("def twice(:")
    assert not own_work.save_microscope(lab, source, 1, tmp_path / "none.html")
