"""State that a kernel keeps is found, and what a plan takes of a device's memory is counted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autograder.records.status import Status
from autograder.spec.inputs import scalars
from autograder.worker.judge_case import Run
from autograder.worker.module_variables import ModuleVariable, device_bytes, keeps_state, variables
from autograder.worker.second_call import OtherSize, in_a_row, later_calls
from tests.autograder.handmade import make_lab
from warplab import emulator
from warplab.isa.text import PtxError
from warplab.plan.capture.submission import capture
from warplab.plan.model import Plan, Role, TensorMap

pytestmark = pytest.mark.stored

CUDA = '''
import cupy

kernel = cupy.RawKernel(r"""
VARIABLES
extern "C" __global__ void twice(float factor, const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    BODY
}
""", "twice")

def twice(factor, x, out):
    kernel(((x.size + 127) // 128,), (128,), (cupy.float32(factor), x, out, cupy.int32(x.size)))
'''
RIGHT = "if (i < n) out[i] = factor * x[i];"
SMALL = "ragged"
SEED = 5


def captured(tmp_path: Path, variables: str, body: str = RIGHT) -> tuple:
    lab = make_lab(tmp_path)
    case = lab.case(SMALL)
    path = tmp_path / "submission.py"
    path.write_text(CUDA.replace("VARIABLES", variables).replace("BODY", body))
    (plan,) = capture(path, [lab.task.host_call(case.dimensions, scalars(lab.task, case, SEED))])
    return lab.task, case, plan


def execute(plan: Plan, inputs: dict[str, np.ndarray]) -> list[Run]:
    return [Run(emulator.execute(plan, inputs))]


@pytest.mark.parametrize(
    ("variables", "body", "state", "own_bytes"),
    [
        ("", RIGHT, False, 0),
        ("__constant__ float table[10];", RIGHT + " if (i < 0) out[0] = table[n];", False, 40),
        ("__device__ int calls;", "if (i == 0) calls++; " + RIGHT, True, 4),
        ("__device__ double kept[3][1000];", "kept[1][i] = factor; " + RIGHT, True, 24_000),
        ("__device__ unsigned char flag = 1;", "flag = 0; " + RIGHT, True, 1),
    ],
)
def test_variables_of_a_module_are_seen(tmp_path: Path, variables: str, body: str, state: bool, own_bytes: int) -> None:
    _, case, plan = captured(tmp_path, variables, body)
    assert keeps_state(plan) is state
    assert device_bytes(plan) == 2 * 4 * case.dimensions["n"] + own_bytes


@pytest.mark.parametrize(
    ("ptx", "size", "writable"),
    [
        (".visible .global .align 4 .b8 v[16];", 16, True),
        (".global/* */.align 8\n.u64 // x\n v;", 8, True),
        (".const .align 4 .b8 v[8] = {1, 2};", 8, False),
        (".weak .global .attribute(.managed) .align 16 .v4 .f32 v[0x10][2];", 512, True),
    ],
)
def test_declarations_are_read_however_they_are_written(ptx: str, size: float, writable: bool) -> None:
    assert list(variables(ptx)) == [ModuleVariable("v", size, writable)]


@pytest.mark.parametrize("ptx", [".global .b32 v[1<<30];", ".global .texref v;", ".global .b32 v"])
def test_declarations_of_unknown_size_are_refused(ptx: str) -> None:
    with pytest.raises(PtxError):
        list(variables(ptx))


def test_variables_behind_an_initialiser_count() -> None:
    names = [v.name for v in variables(".global .b32 a = 1, hoard[1000];")]
    assert names == ["a", "hoard"]


def test_several_variables_in_one_declaration_and_none_in_instructions() -> None:
    code = ".global .u32 a, b[4];\n.visible .entry k() {\n ld.global.u32 %r1, [a];\n"
    code += " st.global.v2.u32 [b+8], {%r1, %r2};\n}"
    assert list(variables(code)) == [ModuleVariable("a", 4, True), ModuleVariable("b", 16, True)]


def test_a_name_of_the_compilers_own_is_no_disguise(tmp_path: Path) -> None:
    name = "_ZN08NumbaEnvStr"
    _, _, plan = captured(tmp_path, f"__device__ int {name};", f"if (i == 0) {name}++; " + RIGHT)
    assert keeps_state(plan)


def test_a_second_call_has_launches_and_buffers_of_its_own(tmp_path: Path) -> None:
    _, _, plan = captured(tmp_path, "")
    both = in_a_row([plan, plan])
    assert len(both.launches) == 2 * len(plan.launches) and len(both.buffers) == 2 * len(plan.buffers)
    assert len(both.arguments(Role.OUTPUT)) == 2
    named = [{a.buffer for a in launch.arguments if hasattr(a, "buffer")} for launch in both.launches]
    assert not named[0] & named[1]


def test_a_tensor_map_of_the_second_call_is_of_its_own_buffer(tmp_path: Path) -> None:
    _, _, plan = captured(tmp_path, "")
    tensor = TensorMap("x", 0, "float32", (64,), (), (32,), (1,))
    with_map = replace(plan, launches=(replace(plan.launches[0], arguments=(tensor,)),))
    first, second = (launch.arguments[0] for launch in in_a_row([with_map] * 2).launches)
    assert first == tensor and second != tensor and second.buffer in in_a_row([with_map] * 2).buffers


# A counter that its last block sets back to zero is how many right kernels find that they are the last block.
TURNS = "__shared__ int turn; if (threadIdx.x == 0) turn = atomicAdd(&calls, 1); __syncthreads(); "


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (TURNS + RIGHT + " if (turn == gridDim.x - 1 && threadIdx.x == 0) calls = 0;", Status.PASSED),
        (TURNS + "if (turn < gridDim.x) { " + RIGHT + " }", Status.RUNS_DISAGREE),
        (TURNS + "if (turn >= gridDim.x) factor += 1; " + RIGHT, Status.RUNS_DISAGREE),
    ],
    ids=["sets it back", "does nothing", "does something else"],
)
def test_what_the_second_call_does_is_judged(tmp_path: Path, body: str, status: Status) -> None:
    task, case, plan = captured(tmp_path, "__device__ int calls;", body)
    outcome = later_calls(task, case, SEED, plan, execute)
    assert outcome.status is status, outcome.message
    if status is Status.RUNS_DISAGREE:
        assert "the first of two calls" in outcome.message.lower() and "variables" in outcome.cause


@pytest.mark.parametrize(
    ("body", "statuses"),
    [
        (TURNS + RIGHT + " if (turn == gridDim.x - 1 && threadIdx.x == 0) calls = 0;", {Status.PASSED}),
        # Never set to zero: the count fits as long as all calls have as many blocks.
        (TURNS + "if (turn % gridDim.x == blockIdx.x) { " + RIGHT + " }", {Status.RUNS_DISAGREE}),
        ("if (calls == 0 && i == 0) calls = n; if (calls && i < calls) " + RIGHT, {Status.RUNS_DISAGREE}),
    ],
    ids=["sets it back", "counts on", "keeps the first size"],
)
def test_what_is_left_must_fit_another_size(tmp_path: Path, body: str, statuses: set[Status]) -> None:
    """From the smaller to the larger case or the other way: one of the two tells."""
    lab = make_lab(tmp_path)
    cases = [case for case in lab.task.correctness if not (case.hidden or case.needs_gpu)]
    path = tmp_path / "submission.py"
    path.write_text(CUDA.replace("VARIABLES", "__device__ int calls;").replace("BODY", body))
    plans = capture(path, [lab.task.host_call(case.dimensions, scalars(lab.task, case, SEED)) for case in cases])
    (one, first), (two, second) = list(zip(cases, plans, strict=True))[:2]
    assert one.dimensions != two.dimensions
    found = {
        later_calls(lab.task, one, SEED, first, execute, OtherSize(two, second)).status,
        later_calls(lab.task, two, SEED, second, execute, OtherSize(one, first)).status,
    }
    assert max(found, key=lambda status: status is not Status.PASSED) in statuses, found
