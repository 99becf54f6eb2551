"""warplab.ptx in Numba kernels: bit by bit what NumPy says, on the emulator and on a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.emulator.plans import ARCHITECTURE
from tests.ptx.kernels import CASES, Case
from warplab import ptx
from warplab.emulator import execute
from warplab.plan.archive import save
from warplab.plan.assemble import assemble
from warplab.worker.process import Worker

pytestmark = pytest.mark.stored


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_emulator_gives_what_numpy_says(case: Case) -> None:
    execution = execute(case.plan(), case.inputs)
    assert execution.findings == ()
    for name, expected in case.outputs.items():
        np.testing.assert_array_equal(_bits(execution.outputs[name]), _bits(expected), err_msg=name)


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker() as worker:
        yield worker


@pytest.mark.gpu
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_gpu_gives_what_numpy_says(case: Case, worker: Worker, tmp_path: Path) -> None:
    path = tmp_path / "case.plan"
    save(assemble(case.plan(), ARCHITECTURE), path)
    answer = worker.call("tests.gpu.gpu_targets:execute", timeout=60, plan=str(path), inputs=case.inputs)
    assert answer["findings"] == []
    for name, expected in case.outputs.items():
        np.testing.assert_array_equal(_bits(answer["outputs"][name]), _bits(expected), err_msg=name)


def _bits(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).view(f"u{array.itemsize}")


@pytest.mark.parametrize(
    "form", [{"a": "f16", "k": 32}, {"a": "f16", "b": "bf16", "k": 16}, {"a": "s8", "k": 32, "sums": "f32"}]
)
def test_a_form_that_ptx_does_not_have_is_refused(form: dict) -> None:
    with pytest.raises(ValueError, match="PTX has no mma.sync"):
        ptx.mma(**form)


def test_setmaxnreg_names_its_range() -> None:
    with pytest.raises(ValueError, match="multiple of 8 from 24 to 256 registers, not 100"):
        ptx.setmaxnreg(100, more=True)
