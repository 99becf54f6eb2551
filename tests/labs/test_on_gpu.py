"""What only a GPU can tell: that the references reach their targets, that they run outside the judge, and that a kernel
which breaks its device costs only itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from autograder.judge.confined_worker import WARM_UP_GPU, ConfinedWorker
from autograder.judge.pipeline import grade
from autograder.records.machine import choose_machine
from autograder.records.report import Report
from autograder.records.request import Request
from autograder.records.status import Part, Status
from autograder.spec.inputs import generate
from autograder.spec.lab import CHECKOUT, find_lab, kernel_labs, solutions_folder
from autograder.worker.compare import error_ratios, wrong_elements
from corpus.judge.mutants.mutant import Cause, Edit, Mutant
from course.loading import module_of
from warplab.folders import TRUSTED, cache_folder
from warplab.plan.model import Role

pytestmark = pytest.mark.gpu
BAD_INPUT = CHECKOUT / "corpus" / "judge" / "submissions" / "bad_input"
REFERENCES = [path for lab in kernel_labs() for path in sorted((solutions_folder() / lab).glob("submission*.py"))]


@pytest.fixture(scope="module")
def worker() -> Iterator[ConfinedWorker]:
    with ConfinedWorker(choose_machine("gpu"), own=False) as shared:
        yield shared


def judge(path: Path, lab: str, worker: ConfinedWorker) -> Report:
    return grade(Request(find_lab(lab), path, choose_machine("gpu"), seed=20), worker)


@pytest.mark.parametrize("path", REFERENCES, ids=lambda path: "/".join(path.parts[-2:]))
def test_references_earn_full_marks_with_efficiency(path: Path, worker: ConfinedWorker) -> None:
    report = judge(path, path.parent.name, worker)
    assert report.full_marks, report.message
    assert report.score == report.full_score == 100


@pytest.mark.parametrize("name", ["01_axpy", "03_transpose", "04_reduction", "06_tiled_gemm", "10_index_shuffle"])
def test_a_grade_compiles_none_of_our_kernels(name: str) -> None:
    """They are compiled once, ahead: what a confined process compiles is lost, and others wait meanwhile."""
    with ConfinedWorker(choose_machine("gpu"), own=False) as worker:
        worker.call(WARM_UP_GPU, timeout=600, task=str(find_lab(name).folder))
        folder = worker.call_on_gpu("os:getenv", timeout=60, key="CUPY_CACHE_DIR")
        assert worker.call_on_gpu("os:listdir", timeout=60, path=str(cache_folder() / TRUSTED))
        before = worker.call_on_gpu("os:listdir", timeout=60, path=folder)
        assert judge(solutions_folder() / name / "submission.py", name, worker).full_marks
        assert set(worker.call_on_gpu("os:listdir", timeout=60, path=folder)) == set(before) != set()


@pytest.mark.parametrize("name", ["endless_kernel.py", "illegal_address.py"])
def test_a_kernel_that_breaks_the_device_costs_only_itself(name: str, worker: ConfinedWorker) -> None:
    assert judge(BAD_INPUT / name, "01_axpy", worker).score == 0
    after = judge(solutions_folder() / "01_axpy" / "submission.py", "01_axpy", worker)
    assert after.part(Part.CORRECTNESS).status is Status.PASSED


def test_one_element_wrong_by_little_in_timed_launches_is_found(worker: ConfinedWorker, tmp_path: Path) -> None:
    """It passes the projections of a float product: only the audit on whole numbers sees it."""
    store = "uint64(j % 4 + j // 4 * 32)] = total[i, j]"
    wrong = (
        "float32(0.015625) if k > 2048 and i + j + cuda.blockIdx.x + cuda.blockIdx.y + cuda.threadIdx.x == 0 "
        "else float32(0)"
    )
    mistake = Mutant(
        "06_tiled_gemm/submission.py",
        "one_element",
        "one element of the timed product is too large by 1/64, where one would be eight times what is allowed",
        (Edit(store, f"{store} + ({wrong})"),),
        Cause(Part.EFFICIENCY, "wrong answer"),
    )
    report = judge(mistake.write(solutions_folder(), tmp_path), "06_tiled_gemm", worker)
    assert report.part(Part.CORRECTNESS).status is Status.PASSED
    part = report.part(Part.EFFICIENCY)
    assert (part.status, part.score) == (Status.WRONG_ANSWER, 0), part.message
    assert "whole numbers" in part.message


@pytest.mark.parametrize("name", kernel_labs())
def test_cupy_draws_and_expects_what_numpy_does(name: str) -> None:
    """Timed launches are judged by CuPy's expected values, all others by NumPy's."""
    import cupy

    lab = find_lab(name).drawn(20)
    for case in lab.task.correctness:
        if case.needs_gpu:
            continue
        ours, theirs = generate(np, lab.task, case, 20), generate(cupy, lab.task, case, 20)
        for argument, value in ours.items():
            if isinstance(value, np.ndarray):
                np.testing.assert_array_equal(cupy.asnumpy(theirs[argument]), value)
        bounds, expected = lab.task.bound(np, ours), lab.task.expected(np, ours)
        for output, value in lab.task.expected(cupy, theirs).items():
            bound = np.zeros(1) if value.dtype.kind in "iu" else 0.1 * np.asarray(bounds[output])
            ratios = error_ratios(np, cupy.asnumpy(value), expected[output], bound)
            assert not wrong_elements(ratios).any(), (case.name, output)


def poison(dtype: str) -> float:
    return np.nan if np.dtype(dtype).kind == "f" else np.iinfo(dtype).max


@pytest.mark.parametrize("path", REFERENCES, ids=lambda path: "/".join(path.parts[-2:]))
def test_the_same_file_runs_outside_the_judge(path: Path) -> None:
    import cupy

    task = find_lab(path.parent.name).task
    module = module_of(path)
    for case in task.correctness:
        values = generate(np, task, case, 1)
        outputs = {
            array.name: cupy.full(task.shape(array, case.dimensions), poison(array.dtype), array.dtype)
            for array in task.arrays(Role.OUTPUT)
        }
        inputs = {n: cupy.asarray(v) if isinstance(v, np.ndarray) else v for n, v in values.items()}
        arguments = [{**inputs, **outputs}[argument.name] for argument in task.arguments]
        getattr(module, task.function)(*arguments)
        cupy.cuda.Device().synchronize()
        expected, bound = task.expected(np, values), task.bound(np, values)
        for name, output in outputs.items():
            ratios = error_ratios(np, output.get(), expected[name], np.asarray(bound[name]))
            assert not wrong_elements(ratios).any(), (case.name, name)
