"""The rungs of lab 09 on the emulator: exact for whole numbers at ragged sizes, no findings, and nothing serialized."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from autograder.spec.inputs import generate
from autograder.spec.lab import find_lab, solutions_folder
from autograder.spec.task import Case, Family
from tests.labs.judging import judge, show
from tests.sampling import only_whole, part_of
from warplab.emulator import execute
from warplab.plan import assembler
from warplab.plan.assemble import assemble
from warplab.plan.capture.submission import capture
from warplab.plan.model import EMULATED_ARCHITECTURE, Plan
from warplab.worker.process import Worker

pytestmark = pytest.mark.processes

LAB = find_lab("09_fp8_gemm")
CHOOSES = "rung_5_any_shape"  # in test_fp8_choices.py
FILES = sorted(path for path in (solutions_folder() / LAB.name).glob("*.py") if path.stem != CHOOSES)
FIRST_THAT_STAYS = "rung_3"
FEW = re.compile(r"^((?:BLOCKS|SMS)(?:, THREADS)? = )132\b", re.MULTILINE)
# 2 x 2 tiles, eight blocks of k of which the last is short, and edges in all directions
RAGGED = Case("ragged", {"m": 200, "n": 248, "k": 912, "blocks": 8, "panels": 2}, Family.INTEGERS)


def name(path: Path) -> str:
    return path.stem


def plan_of(path: Path) -> Plan:
    return capture(path, [LAB.task.host_call(RAGGED.dimensions, {})], (EMULATED_ARCHITECTURE,))[0]


@pytest.mark.parametrize("path", part_of(FILES, 2), ids=name)
def test_any_number_of_blocks_and_several_tiles_each(path: Path, tmp_path: Path) -> None:
    """One SM for four tiles, so that the ring goes on from tile to tile; one to eight blocks of k, odd and even."""
    text, changed = FEW.subn(r"\g<1>1", path.read_text("utf-8"))
    assert changed == (not path.stem.startswith("rung_") or path.stem >= FIRST_THAT_STAYS)
    few = tmp_path / path.name
    few.write_text(text, "utf-8")
    cases = [
        Case("ragged", {**RAGGED.dimensions, "k": k, "blocks": -(-k // 128)}, Family.INTEGERS)
        for k in (16, 144, 272, 912)
    ]
    calls = [LAB.task.host_call(case.dimensions, {}) for case in cases]
    for case, plan in zip(cases, capture(few, calls, (EMULATED_ARCHITECTURE,)), strict=True):
        values = generate(np, LAB.task, case, 0)
        run = execute(plan, dict(values), architecture=EMULATED_ARCHITECTURE)
        assert [finding.message for finding in run.findings] == [], case.dimensions
        for output, expected in LAB.task.expected(np, values).items():
            message = f"{output} of {case.dimensions}"
            np.testing.assert_array_equal(run.outputs[output].astype(np.float64), expected, message)


@pytest.mark.parametrize("path", part_of(FILES, 2), ids=name)
def test_nothing_spills_and_no_product_waits_for_the_one_before(path: Path) -> None:
    plan = plan_of(path)
    for kernel in assemble(plan, EMULATED_ARCHITECTURE).kernels.values():
        code = kernel.cubins[EMULATED_ARCHITECTURE]
        assert code.spill_stores == code.spill_loads == code.stack == 0
        log = assembler.run(kernel.ptx[EMULATED_ARCHITECTURE], EMULATED_ARCHITECTURE, 60.0).log
        assert "registers" in log and "serialized" not in log, log


def test_the_assembler_says_so_if_products_are_serialized(tmp_path: Path) -> None:
    """Else the test above could not fail: promotion of sums that the tensor core still has."""
    (path,) = (path for path in FILES if path.stem.startswith("rung_4"))
    text = path.read_text("utf-8")
    assert text.count("wait_products<1>();\n") == 3
    early = tmp_path / path.name
    early.write_text(text.replace("wait_products<1>();\n", "\n"), "utf-8")
    (kernel,) = (kernel for kernel in plan_of(early).kernels.values() if kernel.name == "fp8_gemm")
    assert "serialized" in assembler.run(kernel.ptx[EMULATED_ARCHITECTURE], EMULATED_ARCHITECTURE, 60.0).log


@only_whole
@pytest.mark.parametrize("rung", ["numba_1_two_kernels", "numba_2_products_ahead"])
def test_kernels_in_numba_earn_full_marks(rung: str) -> None:
    with Worker() as worker:
        report = judge(solutions_folder() / LAB.name / f"{rung}.py", LAB.name, worker)
    assert report.full_marks, show(report)
