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

from autograder.spec.inputs import generate, host_calls
from autograder.spec.lab import Lab, find_lab, kernel_labs, solutions_folder
from autograder.spec.task import Case, ScalarSpec
from autograder.worker.compare import worst_ratio
from corpus.judge.entries import further_tests
from corpus.judge.submission_files import submissions
from corpus.judge.truth import truth_of
from tests.sampling import part_of
from warplab import emulator
from warplab.plan.capture.submission import capture
from warplab.plan.model import Plan, Role

pytestmark = pytest.mark.processes

SEEDS = int(os.environ.get("WARPLAB_SEEDS", "2"))  # right kernels: half of them for each of a lab's two cases
LABS = kernel_labs()
DRAWS = 25  # of the arrays, for one draw of the scalars: a plan has those compiled in
LESS_PRECISE = [path for path in submissions("wrong") if "tolerances" in further_tests(path.read_text("utf-8"))]


def right_ones() -> list[Path]:
    return [path for lab in LABS for path in (*references(lab), *of_other_hands(lab))]


def references(lab: str) -> list[Path]:
    """That in CUDA C++ first, if there are two: it compiles sooner."""
    return sorted((solutions_folder() / lab).glob("submission*.py"), reverse=True)


def of_other_hands(lab: str) -> list[Path]:
    return submissions("correct", lab)


def lab_name(path: Path) -> str:
    return next(name for name in LABS if name in path.parts)


def name(path: Path) -> str:
    return "/".join(path.parts[-3:])


def worst_ratios(path: Path, seeds: int) -> Iterator[list[float]]:
    """For each of a lab's two cases the largest errors over the allowed ones, a run on the emulator a seed."""
    lab = find_lab(lab_name(path))
    task, cases = lab.task, truth_of(lab.name).tolerances
    for case in cases:
        assert case.name != task.profile.name
    drawn = any(isinstance(spec, ScalarSpec) and spec.name not in cases[0].dimensions for spec in task.arguments)
    draws = DRAWS if drawn else seeds
    # Not assembled: what a kernel computes is its PTX, and only counters ask for machine code.
    plans = {
        first: capture(path, host_calls(task, cases, first), (lab.emulated,), timeout=300.0)
        for first in range(0, seeds, draws)
    }
    for number, case in enumerate(cases):
        yield [
            worst_of_a_run(lab, case, plans[first][number], first, draw)
            for first in plans
            for draw in range(min(draws, seeds - first))
        ]


def worst_of_a_run(lab: Lab, case: Case, plan: Plan, seed: int, draw: int) -> float:
    task = lab.task
    values = generate(np, task, case, seed, iteration=draw)
    arrays = {spec.name: values[spec.name] for spec in task.arrays(Role.INPUT, Role.INOUT)}
    outputs = emulator.execute(plan, arrays, architecture=lab.emulated, sanitize=False, workers=1).outputs
    expected, bound = task.expected(np, values), task.bound(np, values)
    return max(worst_ratio(np, outputs[name], np.asarray(expected[name]), bound[name]) for name in expected)


@pytest.mark.parametrize("path", part_of(right_ones(), 8, lab_name), ids=name)
def test_right_kernels_pass_for_every_seed(path: Path) -> None:
    for ratios in worst_ratios(path, SEEDS // 2):
        assert len(ratios) == SEEDS // 2 > 0
        assert max(ratios) <= 1, max(ratios)


@pytest.mark.parametrize("path", part_of(LESS_PRECISE, 5, lab_name), ids=name)
def test_half_precision_fails_for_every_seed(path: Path) -> None:
    """A seed fails if one of its two cases does, as a grade of more cases: errors of a single sum can cancel."""
    first, second = worst_ratios(path, SEEDS)
    assert len(first) == len(second) == SEEDS > 0
    assert min(map(max, first, second)) > 1


def test_every_lab_has_three_right_kernels_of_other_hands() -> None:
    for lab in LABS:
        assert len(of_other_hands(lab)) >= 3
        assert any(lab_name(path) == lab for path in LESS_PRECISE)
