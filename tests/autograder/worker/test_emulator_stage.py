"""What the emulator's stage does before a case's time limit begins to count."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograder.own_work import capture_submission
from autograder.spec.lab import find_lab, solutions_folder
from autograder.worker import emulator_stage
from warplab.plan.archive import dumps
from warplab.plan.capture.submission import capture
from warplab.plan.model import EMULATED_ARCHITECTURE, ArrayArgument, HostCall, Role
from warplab.simt import compiled


def test_nothing_is_compiled_while_a_case_has_its_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = find_lab("08_hopper_hgemm").drawn(seed=1)
    case = lab.case("one tile")
    source = solutions_folder() / lab.name / "submission.py"
    captured = capture_submission(lab, source, [case, lab.task.profile], 1, EMULATED_ARCHITECTURE)
    plan = captured.plans[case.name]
    compiled._loaded.cache_clear()  # as in a process that has just started

    emulator_stage.warm_up(emulator_stage.parts_needed([plan]))

    def never(*_: object, **__: object) -> None:
        raise AssertionError("compiled during the case")

    monkeypatch.setattr(compiled, "_function", never)
    outcome = emulator_stage.run(dumps(plan), str(lab.folder), case.name, seed=1)
    assert outcome["status"] == "passed"


PLACES = '''
import cupy
import numpy as np

kernel = cupy.RawKernel(r"""
extern "C" __global__ void kernel(int* x, int* next, int n) {{
    __shared__ int own;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x == 0) own = 0;
    __syncthreads();
    if (i < n) {statement};
}}
""", "kernel")


def f(x, next):
    kernel(((x.size + 127) // 128,), (128,), (x, next, np.int32(x.size)))
'''


@pytest.mark.parametrize(
    ("statement", "matters"),
    [
        ("x[i] = atomicAdd(next, 1)", True),
        ("x[i] += 1", False),
        ("x[i] = atomicAdd(&own, 1)", False),
        ("x[i] = atomicCAS(next, 0, i)", True),
    ],
)
def test_order_may_matter_where_blocks_share_what_atomics_change(statement: str, matters: bool, tmp_path: Path) -> None:
    path = tmp_path / "places.py"
    path.write_text(PLACES.format(statement=statement))
    arrays = (ArrayArgument(name, "int32", (300,), Role.INOUT) for name in ("x", "next"))
    (plan,) = capture(path, [HostCall("f", tuple(arrays))])
    assert emulator_stage.order_may_matter(plan, EMULATED_ARCHITECTURE) is matters
