"""PTX that Triton made of our programs, with the outputs of an H200, on the emulator.

tests/simt/data/triton was written by `python -m benchmarks.triton_corpus.record` on that GPU.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.corpus.compare import compare, elements_apart
from benchmarks.triton_corpus.cases import CASES, Case
from benchmarks.triton_corpus.recorded import plan_of
from warplab.plan.execution import FindingKind
from warplab.simt import execute

DATA = Path(__file__).parent / "data" / "triton"
# Every warp clears the whole histogram, with the same zeros: a race in name, which Triton allows itself.
KNOWN = {"triton/integers": {FindingKind.RACE}}
# Instructions that the emulator lacks.
GAPS = {"matmul_tma": "tensor maps"}


def _parameter(case: Case):
    name = case.name.split("/")[1]
    marks = [pytest.mark.xfail(reason=GAPS[name], strict=True)] if name in GAPS else []
    return pytest.param(case, id=name, marks=marks)


@pytest.mark.parametrize("case", [_parameter(c) for c in CASES])
def test_kernel_of_triton(case: Case) -> None:
    inputs = case.entry.draw()
    execution = execute(plan_of(case, DATA), inputs)
    assert [f.message for f in execution.findings if f.kind not in KNOWN.get(case.name, ())] == []
    assert compare(case.entry, inputs, execution.outputs) == ""
    with np.load(DATA / f"{case.name.split('/')[1]}.npz", allow_pickle=False) as recorded:
        apart = {n: elements_apart(execution.outputs[n], recorded[n], case.entry.approximate) for n in recorded.files}
    assert not any(apart.values()), apart
