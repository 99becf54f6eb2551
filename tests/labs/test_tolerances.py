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
from autograder.spec.lab import find_lab, known_labs, solutions_folder
from autograder.spec.task import Case, ScalarSpec
from autograder.worker.compare import worst_ratio
from corpus.judge.entries import further_tests
from corpus.judge.truth import SUBMISSIONS, truth_of
from warplab import simt
from warplab.plan.model import EMULATED_ARCHITECTURE, Role

SEEDS = int(os.environ.get("WARPLAB_SEEDS", "4"))  # right kernels: half of them for each of a lab's two cases
DRAWS = 25  # of the arrays, for one draw of the scalars: a plan has those compiled in
LESS_PRECISE = [
    path for path in sorted(SUBMISSIONS.glob("*/wrong/*.py")) if "tolerances" in further_tests(path.read_text("utf-8"))
]


def right_ones() -> list[Path]:
    return [path for lab in known_labs() for path in (*references(lab), *of_other_hands(lab))]


def references(lab: str) -> list[Path]:
    return sorted((solutions_folder() / lab).glob("submission*.py"))


def of_other_hands(lab: str) -> list[Path]:
    return sorted((SUBMISSIONS / lab / "correct").glob("*.py"))


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
    for case in truth_of(lab_name(path)).tolerances:
        ratios = list(worst_ratios(path, case, SEEDS // 2))
        assert len(ratios) == SEEDS // 2 > 0
        assert max(ratios) <= 1, (case.name, max(ratios))


@pytest.mark.parametrize("path", LESS_PRECISE, ids=name)
def test_half_precision_fails_for_every_seed(path: Path) -> None:
    """A seed fails if one of its two cases does, as a grade of more cases: errors of a single sum can cancel."""
    first, second = (list(worst_ratios(path, case, SEEDS)) for case in truth_of(lab_name(path)).tolerances)
    assert len(first) == len(second) == SEEDS > 0
    assert min(map(max, first, second)) > 1


def test_every_lab_has_three_right_kernels_of_other_hands() -> None:
    for lab in known_labs():
        assert len(of_other_hands(lab)) >= 3
        assert any(lab_name(path) == lab for path in LESS_PRECISE)
