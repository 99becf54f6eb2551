"""Slips that a submission's text shows are named by their line, and right texts are left alone."""

from __future__ import annotations

import time

import pytest

from autograder.records.outcome import FirstWrong
from autograder.records.report import CaseResult, PartResult
from autograder.records.status import Part, Status
from autograder.report.source_slips import same_in_every_block
from warplab.plan.execution import Extent, Finding, FindingKind

NUMBA = """\
from numba import cuda

@cuda.jit
def one(x, out):
    i = {index}
    if i < out.size:
        out[i] = x[i]

def host(x, out):
    one[{blocks}, 256](x, out)
"""
CUDA = """\
extern "C" __global__ void one(const float* x, float* out, int n)
{{
    int i = {index};
    if (i < n) out[i] = x[i];
}}
"""


def wrong(unwritten: bool) -> PartResult:
    first = FirstWrong("out", (256,), 0.0, 1.0, 0.0, unwritten)
    return PartResult(
        Part.CORRECTNESS, Status.WRONG_ANSWER, 0, 10, cases=(CaseResult("a", Status.WRONG_ANSWER, first_wrong=first),)
    )


def finding(extent: Extent) -> Finding:
    return Finding(FindingKind.RACE, "race", line=5, extent=extent)


@pytest.mark.parametrize(
    "found", [None, finding(Extent.GRID), finding(Extent.LAUNCH)], ids=["nothing", "grid", "launch"]
)
def test_an_index_without_the_block_is_named(found: Finding | None) -> None:
    text = NUMBA.format(index="cuda.threadIdx.x", blocks="blocks")
    said = same_in_every_block(text.split("\n"), wrong(found is None), found)
    assert said.startswith("Line 5: threadIdx counts from 0 in every block") and "cuda.grid(1)" in said
    text = CUDA.format(index="threadIdx.x")
    said = same_in_every_block(text.split("\n"), wrong(found is None), found)
    assert said.startswith("Line 3: ") and said.endswith("use blockIdx.x * blockDim.x + threadIdx.x.")


def test_an_index_with_the_block_or_of_one_block_is_left_alone() -> None:
    texts = [
        NUMBA.format(index="cuda.grid(1)", blocks="blocks"),
        NUMBA.format(index="cuda.threadIdx.x", blocks="1"),
        NUMBA.format(index="cuda.threadIdx.x", blocks="blocks").replace("x[i]", "x[i + cuda.blockIdx.x * 256]"),
        NUMBA.format(index="cuda.threadIdx.x", blocks="blocks").replace("x[i]", "x[place(i)]")
        + "\n@cuda.jit(device=True)\ndef place(i):\n    return i + 256 * cuda.blockIdx.x\n",
        CUDA.format(index="blockIdx.x * blockDim.x + threadIdx.x"),
    ]
    for text in texts:
        assert same_in_every_block(text.split("\n"), wrong(True), None) == "", text


def test_a_function_for_the_device_and_a_named_number_of_blocks_are_left_alone() -> None:
    numba = NUMBA.format(index="cuda.threadIdx.x", blocks="blocks")
    cuda = CUDA.format(index="threadIdx.x")
    launch = 'last = module.get_function("one")\nlast((1,), (256,), (x, out, n))\n'
    texts = [
        numba.replace("@cuda.jit", "@cuda.jit(device=True)"),
        numba.replace("@cuda.jit", "@cuda.jit(\n    inline=True,\n    device = True,\n)"),
        numba.replace("    one[", "    blocks = 1  # for all\n    one["),
        numba.replace("one[blocks", "one[(1, 1)"),
        cuda.replace('extern "C" __global__', "__device__"),
        cuda + launch,
        cuda + 'module.get_function("one")((1,), (256,), (x, out, n))\n',
    ]
    for text in texts:
        assert same_in_every_block(text.split("\n"), wrong(True), None) == "", text
    several = cuda + launch.replace("(1,)", "(blocks,)")
    assert same_in_every_block(several.split("\n"), wrong(True), None).startswith("Line 3: ")


def test_many_functions_are_looked_through_once() -> None:
    """It takes less than a second; looking for each helper in each kernel takes minutes."""
    helpers = "".join(f"def help{n}():\n    blockIdx.x\n" for n in range(15000))
    kernels = "".join(f"def kernel{n}():\n    i = threadIdx.x\n    help14999()\n" for n in range(15000))
    begin = time.process_time()
    assert same_in_every_block((helpers + kernels).split("\n"), wrong(True), None) == ""
    assert time.process_time() - begin < 60


def test_a_race_inside_a_block_has_another_cause() -> None:
    text = NUMBA.format(index="cuda.threadIdx.x", blocks="blocks")
    assert same_in_every_block(text.split("\n"), wrong(False), finding(Extent.SHARED)) == ""
