"""The references of lab 02 do most of their work in batches that the lab's small cases never fill."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from autograder.own_work import capture_submission
from autograder.records.status import Status
from autograder.spec.inputs import generate
from autograder.spec.lab import find_lab, solutions_folder
from autograder.spec.task import Case, Family
from autograder.worker.judge_case import Run, judge_case
from tests.sampling import WHOLE
from warplab import emulator
from warplab.plan.model import EMULATED_ARCHITECTURE, Plan

pytestmark = pytest.mark.processes

LAB = find_lab("02_divergence")
BATCHES = Case("batches", {"n": 250_007}, Family.NORMAL)  # on one block: a first, a full and a small batch a warp


def on_one_block(file: str, folder: Path) -> Path:
    source = (solutions_folder() / LAB.name / file).read_text(encoding="utf-8")
    changed, times = re.subn(r"^BLOCKS = \d+", "BLOCKS = 1", source, flags=re.MULTILINE)
    assert times == 1
    path = folder / file
    path.write_text(changed, encoding="utf-8")
    return path


# That in Numba, which takes six seconds to compile, has the same batches: `make test-long` runs it.
@pytest.mark.parametrize("file", ["submission_cuda.py", "submission.py"] if WHOLE else ["submission_cuda.py"])
def test_full_batches_are_right_and_free_of_races(file: str, tmp_path: Path) -> None:
    path = on_one_block(file, tmp_path)
    plans = capture_submission(LAB, path, [BATCHES, LAB.task.profile], 1, EMULATED_ARCHITECTURE).plans

    def execute(plan: Plan, inputs: dict[str, np.ndarray]) -> list[Run]:
        return [Run(emulator.execute(plan, inputs, architecture=EMULATED_ARCHITECTURE))]

    outcome = judge_case(LAB.task, BATCHES, generate(np, LAB.task, BATCHES, 1), plans[BATCHES.name], execute)
    assert outcome.status is Status.PASSED, outcome.message
    assert not outcome.findings
