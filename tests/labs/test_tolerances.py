"""The bounds hold both ways: every right kernel of the corpus passes for every seed, half precision for none.

The kernels run on the emulator, whose float32 and float16 are the hardware's bit for bit. A handful of seeds here;
WARPLAB_SEEDS=200, as `make test-long` sets it, for the whole.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from autograder.own_work import capture_submission
from autograder.spec.inputs import generate
from autograder.spec.lab import CHECKOUT, find_lab, known_labs, solutions_folder
from autograder.spec.task import Case, Family, ScalarSpec
from autograder.worker.compare import worst_ratio
from warplab import simt
from warplab.plan.model import EMULATED_ARCHITECTURE, Role

CORPUS = CHECKOUT / "corpus" / "judge" / "submissions"
SEEDS = int(os.environ.get("WARPLAB_SEEDS", "4"))  # right kernels: half of them for each of a lab's two cases
DRAWS = 25  # of the arrays, for one draw of the scalars: a plan has those compiled in
# Ragged and small, and for the reference's other path whole tiles. Families differ in how errors cancel.
CASES = {
    "01_axpy": (Case("ragged", {"n": 1501}, Family.NORMAL), Case("wide", {"n": 1024}, Family.WIDE)),
    "02_divergence": (Case("ragged", {"n": 165}, Family.NORMAL), Case("wide", {"n": 128}, Family.WIDE)),
    "03_transpose": (
        Case("ragged", {"m": 33, "n": 70}, Family.NORMAL),
        Case("whole", {"m": 64, "n": 64}, Family.WIDE),
    ),
    "04_reduction": (Case("ragged", {"n": 1501}, Family.NORMAL), Case("whole", {"n": 8192}, Family.WIDE)),
    "05_softmax": (
        Case("ragged", {"m": 3, "n": 333}, Family.NORMAL),
        Case("vectors", {"m": 2, "n": 512}, Family.INTEGERS),
    ),
    "06_tiled_gemm": (
        Case("ragged", {"m": 17, "n": 35, "k": 61}, Family.NORMAL),
        Case("whole", {"m": 128, "n": 128, "k": 32}, Family.WIDE),
    ),
    "07_tensor_core_hgemm": (
        Case("ragged", {"m": 17, "n": 35, "k": 201}, Family.NORMAL),
        Case("whole", {"m": 128, "n": 256, "k": 256}, Family.NORMAL),
    ),
    "08_hopper_hgemm": (
        Case("ragged", {"m": 17, "n": 40, "k": 200}, Family.NORMAL),
        Case("wide", {"m": 72, "n": 264, "k": 72}, Family.WIDE),  # some sums are too large for float16
    ),
}
LESS_PRECISE = (
    "01_axpy/wrong/half_precision.py",
    "02_divergence/wrong/half_precision.py",
    "03_transpose/wrong/through_half.py",
    "04_reduction/wrong/half_accumulation.py",
    "05_softmax/wrong/rounded_to_half.py",
    "06_tiled_gemm/wrong/half_accumulation.py",
    "06_tiled_gemm/wrong/half_accumulation_in_blocks.py",
    "06_tiled_gemm/wrong/half_products.py",
    "06_tiled_gemm/wrong/half_sums_of_16.py",
    "06_tiled_gemm/wrong/half_sums_of_4.py",
    "06_tiled_gemm/wrong/rounded_to_bfloat16.py",
    "06_tiled_gemm/wrong/result_rounded_to_half.py",
    "07_tensor_core_hgemm/wrong/half_accumulation.py",
    "07_tensor_core_hgemm/wrong/half_sums_of_mma.py",
    "07_tensor_core_hgemm/wrong/rounded_every_step.py",
    "08_hopper_hgemm/wrong/half_accumulation.py",
    "08_hopper_hgemm/wrong/half_sums_of_wgmma.py",
    "08_hopper_hgemm/wrong/rounded_every_step.py",
)


def right_ones() -> list[Path]:
    return [
        path for lab in known_labs() for path in (*references(lab), *sorted((CORPUS / lab / "correct").glob("*.py")))
    ]


def references(lab: str) -> list[Path]:
    return sorted((solutions_folder() / lab).glob("submission*.py"))


def lab_name(path: Path) -> str:
    return next(name for name in known_labs() if name in path.parts)


def name(path: Path) -> str:
    return "/".join(path.parts[-3:])


def worst_ratios(path: Path, case: Case, seeds: int) -> Iterator[float]:
    """The largest error over the allowed one of one run a seed, on the emulator."""
    lab = find_lab(lab_name(path))
    task = lab.task
    scalars = any(isinstance(spec, ScalarSpec) and spec.name not in case.dimensions for spec in task.arguments)
    draws = DRAWS if scalars else seeds
    for first in range(0, seeds, draws):
        plan = capture_submission(lab, path, [task.profile, case], first, EMULATED_ARCHITECTURE).plans[case.name]
        for draw in range(min(draws, seeds - first)):
            values = generate(np, task, case, first, iteration=draw)
            arrays = {spec.name: values[spec.name] for spec in task.arrays(Role.INPUT, Role.INOUT)}
            outputs = simt.execute(plan, arrays, architecture=EMULATED_ARCHITECTURE, sanitize=False, workers=1).outputs
            expected, bound = task.expected(np, values), task.bound(np, values)
            yield max(worst_ratio(np, outputs[out], np.asarray(expected[out]), bound[out]) for out in expected)


@pytest.mark.parametrize("path", right_ones(), ids=name)
def test_right_kernels_pass_for_every_seed(path: Path) -> None:
    for case in CASES[lab_name(path)]:
        ratios = list(worst_ratios(path, case, SEEDS // 2))
        assert len(ratios) == SEEDS // 2 > 0
        assert max(ratios) <= 1, (case.name, max(ratios))


@pytest.mark.parametrize("submission", LESS_PRECISE)
def test_half_precision_fails_for_every_seed(submission: str) -> None:
    """A seed fails if one of its two cases does, as a grade of more cases: errors of a single sum can cancel."""
    path = CORPUS / submission
    first, second = (list(worst_ratios(path, case, SEEDS)) for case in CASES[lab_name(path)])
    assert len(first) == len(second) == SEEDS > 0
    assert min(map(max, first, second)) > 1


def test_every_lab_has_three_right_kernels_of_other_hands() -> None:
    for lab in known_labs():
        assert len(list((CORPUS / lab / "correct").glob("*.py"))) >= 3
        assert any(submission.startswith(f"{lab}/") for submission in LESS_PRECISE)
