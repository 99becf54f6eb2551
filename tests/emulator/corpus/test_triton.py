"""PTX that Triton made of our programs, with the outputs of an H200, on the emulator.

corpus/triton/data was written by `python -m corpus.triton.record` on that GPU.
"""

from __future__ import annotations

import numpy as np
import pytest

from autograder.spec.lab import CHECKOUT
from corpus.emulator.compare import compare, elements_apart
from corpus.triton.cases import CASES, INDUCTOR, Case
from corpus.triton.recorded import plan_of
from warplab.emulator import execute
from warplab.plan.execution import FindingKind

DATA = CHECKOUT / "corpus" / "triton" / "data"
# Every warp clears the whole histogram, with the same zeros: a race in name, which Triton allows itself.
KNOWN = {"triton/integers": {FindingKind.RACE}}


@pytest.mark.parametrize("case", [pytest.param(c, id=c.name.split("/")[1]) for c in (*CASES, INDUCTOR)])
def test_kernel_of_triton(case: Case) -> None:
    inputs = case.entry.draw()
    execution = execute(plan_of(case, DATA), inputs)
    assert [f.message for f in execution.findings if f.kind not in KNOWN.get(case.name, ())] == []
    assert compare(case.entry, inputs, execution.outputs) == ""
    with np.load(DATA / f"{case.name.split('/')[1]}.npz", allow_pickle=False) as recorded:
        apart = {n: elements_apart(execution.outputs[n], recorded[n], case.entry.approximate) for n in recorded.files}
    assert not any(apart.values()), apart
