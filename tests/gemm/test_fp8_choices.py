"""Lab 09's last rung on the emulator: every kind of choice is exact for whole numbers, and nothing is serialized."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autograder.spec.inputs import generate
from autograder.spec.lab import find_lab, solutions_folder
from autograder.spec.task import Case, Family
from benchmarks.fp8 import SHAPES, best_rung, call, name_of
from course import results
from tests.sampling import one_of_each
from warplab.emulator import execute
from warplab.plan import assembler
from warplab.plan.assemble import assemble
from warplab.plan.capture.submission import capture
from warplab.plan.model import EMULATED_ARCHITECTURE, Plan

pytestmark = pytest.mark.processes

LAB = find_lab("09_fp8_gemm")
PATH = solutions_folder() / LAB.name / "rung_5_any_shape.py"
# Rows and columns of a tile, blocks of a cluster, parts of k, accumulators; then m, n and k
CHOICES = [
    ((128, 192, 2, 1, "one"), (300, 456, 400)),
    ((128, 128, 1, 1, "one"), (200, 328, 640)),
    ((128, 144, 2, 1, "one"), (300, 576, 4496)),
    ((128, 160, 2, 1, "one"), (301, 456, 400)),
    ((128, 128, 1, 1, "two"), (200, 328, 1296)),
    ((128, 96, 2, 1, "two"), (301, 264, 656)),
    ((128, 256, 2, 1, "half"), (300, 648, 400)),
    ((128, 256, 1, 2, "half"), (200, 392, 784)),
    ((64, 192, 1, 1, "one"), (60, 392, 1040)),
    ((64, 112, 1, 1, "two"), (100, 328, 1040)),
    ((64, 32, 1, 4, "two"), (61, 64, 1152)),
    ((128, 96, 1, 2, "two"), (128, 392, 784)),
    ((64, 64, 1, 7, "one"), (33, 72, 2064)),
    ((64, 64, 1, 2, "one"), (61, 136, 8592)),
]
# One of each kind of accumulator, in one part of k and in several
CHOSEN = one_of_each(CHOICES, lambda one: one[0][4], lambda one: one[0][3] > 1)


def plan_of(choice: tuple[Any, ...], shape: tuple[int, int, int], folder: Path, one_sm: bool) -> Plan:
    text = PATH.read_text("utf-8")
    if one_sm:  # for several tiles, so that the ring goes on from tile to tile
        text += "\n\nCLUSTERS = {blocks: 1 for blocks in CLUSTERS}\n"
    text += f"\n\ndef chosen(*arrays):\n    multiply_by({choice!r}, *arrays)\n"
    path = folder / PATH.name
    path.write_text(text, "utf-8")
    return capture(path, [call("chosen", shape)], (EMULATED_ARCHITECTURE,))[0]


@pytest.mark.parametrize(("choice", "shape"), CHOSEN, ids=lambda value: "x".join(map(str, value)))
def test_a_choice_is_exact_and_safe(choice: tuple[Any, ...], shape: tuple[int, int, int], tmp_path: Path) -> None:
    exact_and_safe(choice, shape, tmp_path)


@pytest.mark.parametrize(
    ("choice", "shape"),
    [(choice, (m, n, 256)) for choice, (m, n, _) in CHOICES if choice[3] == 1 and choice[1] not in (64, 128)],
    ids=lambda value: "x".join(map(str, value)),
)
def test_every_column_has_its_own_scale(choice: tuple[Any, ...], shape: tuple[int, int, int], tmp_path: Path) -> None:
    """Tiles that have a part of two panels of w: scales differ where k is at most 256 (the lab's task.py)."""
    exact_and_safe(choice, shape, tmp_path)


def exact_and_safe(choice: tuple[Any, ...], shape: tuple[int, int, int], folder: Path) -> None:
    m, n, k = shape
    sizes = {"m": m, "n": n, "k": k, "blocks": -(-k // 128), "panels": -(-n // 128)}
    values = generate(np, LAB.task, Case("ragged", sizes, Family.INTEGERS), k)
    expected = LAB.task.expected(np, values)
    inputs = {"x8": expected["x8"], "x_scale": expected["x_scale"], "w8": values["w8"], "w_scale": values["w_scale"]}
    plan = plan_of(choice, shape, folder, one_sm=choice[3] == 1)
    run = execute(plan, inputs, architecture=EMULATED_ARCHITECTURE, seed=k)
    assert [finding.message for finding in run.findings] == []
    np.testing.assert_array_equal(run.outputs["y"], expected["y"].astype(np.float16))  # from 2,048 on not all are there


@pytest.mark.parametrize("choice", [choice for choice, _ in CHOSEN], ids=name_of)
def test_no_product_waits_for_the_one_before(choice: tuple[Any, ...], tmp_path: Path) -> None:
    (kernel,) = assemble(plan_of(choice, (256, 384, 512), tmp_path, False), EMULATED_ARCHITECTURE).kernels.values()
    log = assembler.run(kernel.ptx[EMULATED_ARCHITECTURE], EMULATED_ARCHITECTURE, 60.0).log
    assert "registers" in log and "serialized" not in log, log


def test_the_estimate_chooses_nearly_the_fastest_of_what_was_measured() -> None:
    """On an H200, at the shapes of the record: within a fifth at every one, within 6% in the mean."""
    module, times = best_rung(), {}
    for record in results.read(results.DIRECTORY / "fp8.json").records:
        if record.metric == "time":
            times[record.shape, record.variant.removeprefix("choice ")] = record.value
    losses = []
    for shape in SHAPES:
        measured = {c: times[shape, name_of(c)] for c in module.choices(*shape) if (shape, name_of(c)) in times}
        chosen = min(measured, key=lambda choice: module.estimate(*shape, *choice))
        losses.append(measured[chosen] / min(measured.values()))
    assert len(losses) == len(SHAPES) and max(losses) < 1.2 and sum(losses) / len(losses) < 1.06
