"""The operator that PyTorch and lab 05 are raced at is the same one, and its record says who is faster."""

from __future__ import annotations

import numpy as np
import pytest

from autograder.spec.inputs import generate
from autograder.spec.lab import find_lab
from benchmarks.search.fusion import EAGER, LAB, masked_softmax, records_of

TASK = find_lab(LAB).drawn(20).task


@pytest.mark.parametrize("case", [c for c in TASK.correctness if not c.needs_gpu], ids=lambda case: case.name)
def test_pytorchs_operators_compute_what_the_lab_asks_for(case) -> None:  # noqa: ANN001
    torch = pytest.importorskip("torch")
    values = generate(np, TASK, case, 20)
    x, mask = torch.from_numpy(values["x"]), torch.from_numpy(values["mask"])
    out = masked_softmax(float(values["scale"]), x, mask).numpy()
    expected, bound = TASK.expected(np, values)["out"], TASK.bound(np, values)["out"]
    assert (np.abs(out - expected) <= bound).all()


def test_a_way_that_takes_longer_has_a_ratio_below_one() -> None:
    found = {"low": 1.0, "high": 9.0, "turns": 12}
    said = {"device time": {"ours": found | {"us": 2.0}, EAGER: found | {"us": 8.0}}}
    ours, eager = records_of((4, 5), said)
    assert (ours.ratio, ours.baseline) == (None, None)
    assert (eager.ratio, eager.baseline, eager.baseline_value, eager.shape) == (0.25, "ours", 2.0, (4, 5))
