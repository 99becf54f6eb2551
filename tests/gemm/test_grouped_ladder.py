"""The rungs of lab 11 on the emulator: any counts by one plan, no findings, nothing of other rows touched or read."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autograder.spec.inputs import generate
from autograder.spec.lab import find_lab, solutions_folder
from autograder.spec.task import Case, Family, Values
from benchmarks.moe import grouped
from tests.labs.judging import judge, show
from tests.sampling import only_whole, part_of
from warplab.emulator import execute
from warplab.plan import assembler
from warplab.plan.assemble import assemble
from warplab.plan.capture.submission import capture
from warplab.plan.execution import Execution
from warplab.plan.model import EMULATED_ARCHITECTURE, Plan
from warplab.worker.process import Worker

pytestmark = pytest.mark.processes

LAB = find_lab("11_grouped_gemm")
FILES = sorted((solutions_folder() / LAB.name).glob("*.py"))
FEW = re.compile(r"^(SMS(?:, THREADS)? = )132\b", re.MULTILINE)
EXPERTS, SLOTS, N, K = 5, 420, 200, 272  # two columns of tiles, three blocks of k, of which the last is short
SIZES = {"slots": SLOTS, "experts": EXPERTS, "n": N, "k": K, "blocks": 3, "panels": 2}
COUNTS = (
    (84, 84, 84, 84, 84),
    (0, 300, 0, 1, 119),
    (420, 0, 0, 0, 0),
    (0, 0, 0, 0, 420),
    (0, 0, 0, 0, 0),
    (0, 64, 65, 0, 0),
)


def name(path: Path) -> str:
    return path.stem


def values_of(counts: tuple[int, ...], family: Family) -> Values:
    """Inputs whose groups follow each other; what is left behind the last one is nobody's."""
    values: Any = generate(np, LAB.task, Case("ragged", {**SIZES, "most": SLOTS}, family), 3)
    values["count"][...] = counts
    values["first"][...] = np.cumsum(counts) - counts
    left = sum(counts)
    values["x8"][left:] = 0x7F
    values["x_scale"][:, left:] = np.nan
    values["y"].view(np.uint16)[:left] = 0xFFFF
    values["y"][left:] = 7
    return values


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("few")


@cache
def plan_of(path: Path, folder: Path, choice: tuple | None = None) -> Plan:
    """On three SMs, so that blocks take tile after tile; pairs of blocks have one."""
    text, changed = FEW.subn(r"\g<1>3", path.read_text("utf-8"))
    assert changed == (not path.stem.startswith("rung_1"))
    function = "grouped_gemm"
    if choice:
        function, parameters = "chosen", ", ".join(argument.name for argument in LAB.task.arguments)
        text += f"\n\ndef chosen({parameters}):\n    multiply_by({choice!r}, {parameters})\n"
    few = folder / path.name
    few.write_text(text, "utf-8")
    call = LAB.task.host_call({**SIZES, "most": SLOTS}, {"most": SLOTS})
    return capture(few, [type(call)(function, call.arguments)], (EMULATED_ARCHITECTURE,))[0]


def run(plan: Plan, values: Values) -> Execution:
    return execute(plan, {n: v for n, v in values.items() if n != "most"}, architecture=EMULATED_ARCHITECTURE, seed=1)


def must_be_right(plan: Plan) -> None:
    """One plan, many counts, as a graph that is replayed: no launch depends on them."""
    for counts in COUNTS:
        values = values_of(counts, Family.INTEGERS)
        done = run(plan, values)
        assert [finding.message for finding in done.findings] == []
        np.testing.assert_array_equal(
            done.outputs["y"].astype(np.float64), LAB.task.expected(np, values)["y"], str(counts)
        )


@pytest.mark.parametrize("path", part_of(FILES, 2), ids=name)
def test_one_plan_for_all_counts(path: Path, folder: Path) -> None:
    must_be_right(plan_of(path, folder))


CHOICES = sorted({choice for setting in grouped.SETTINGS for choice in grouped.best_rung().choices(setting.most)})


@pytest.mark.parametrize("choice", part_of(CHOICES, 3, type), ids=grouped.name_of)
def test_every_choice_that_is_raced_is_right(choice: tuple, folder: Path) -> None:
    (path,) = (path for path in FILES if path.stem == grouped.BEST)
    plan = plan_of(path, folder, choice)
    must_be_right(plan)
    for kernel in assemble(plan, EMULATED_ARCHITECTURE).kernels.values():
        log = assembler.run(kernel.ptx[EMULATED_ARCHITECTURE], EMULATED_ARCHITECTURE, 60.0).log
        assert "registers" in log and "serialized" not in log, log


@pytest.mark.parametrize("path", part_of(FILES, 2), ids=name)
def test_nothing_spills_and_no_product_waits_for_the_one_before(path: Path, folder: Path) -> None:
    for kernel in assemble(plan_of(path, folder), EMULATED_ARCHITECTURE).kernels.values():
        code = kernel.cubins[EMULATED_ARCHITECTURE]
        assert code.spill_stores == code.spill_loads == code.stack == 0
        log = assembler.run(kernel.ptx[EMULATED_ARCHITECTURE], EMULATED_ARCHITECTURE, 60.0).log
        assert "registers" in log and "serialized" not in log, log


@only_whole
def test_the_numba_kernel_earns_full_marks() -> None:
    with Worker() as worker:
        report = judge(solutions_folder() / LAB.name / "numba_1_blocks_stay.py", LAB.name, worker)
    assert report.full_marks, show(report)
