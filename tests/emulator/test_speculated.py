"""Loads that the compiler makes for all threads and the source for some: found are only faults of the source."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.plans import cuda_plan
from warplab.emulator import execute
from warplab.emulator.lowering.passes import speculation
from warplab.plan.execution import Execution, FindingKind
from warplab.plan.model import Role

pytestmark = pytest.mark.stored

DIGITS = "char digits[10]; int length = 0; do { digits[length++] = '0' + x % 10; x /= 10; } while (x);"
RIGHT = {
    "beside another predicate": "s[t] = x; __syncthreads(); if (t < 1) s[t] += s[t + 1];"
    " if (t == 0 && s[0]) y[0] = 7 * s[0];",
    "the other way round": "s[t] = x; __syncthreads(); if (t < 1) s[t] += s[t + 1];"
    " if (!(t > 0 || s[0] == 0)) y[0] = 7 * s[0];",
    "one side of a selection": "s[t] = x; __syncthreads(); if (t < 1) s[t] += s[t + 1]; y[t] = t == 0 ? s[0] : 5;",
    "digits that were not written": DIGITS
    + "for (int k = 0; k < 10; ++k) y[10 * t + k] = k < 10 - length ? 32 : digits[9 - k];",
}
WRONG = {
    "read by another thread": (
        "s[t] = x; __syncthreads(); if (t < 1) s[t] += s[t + 1]; if (t < 2 && s[0]) y[t] = 7 * s[0];",
        FindingKind.RACE,
    ),
    "selected by another warp": (
        "s[t] = x; __syncthreads(); if (t < 1) s[t] += s[t + 1]; y[t] = t == 40 ? s[0] : 5;",
        FindingKind.RACE,
    ),
    "one digit too early": (
        DIGITS + "for (int k = 0; k < 10; ++k) y[10 * t + k] = k < 9 - length ? 32 : digits[9 - k];",
        FindingKind.UNINITIALISED,
    ),
}


def run(body: str) -> Execution:
    source = f"""
    extern "C" __global__ void k(const unsigned* a, int* y)
    {{
        __shared__ int s[64];
        int t = threadIdx.x;
        unsigned x = a[t];
        {body}
        if (t < 0) y[t] = s[t];
    }}"""
    a, y = np.arange(3, 67, dtype=np.uint32) * 5, np.zeros(640, np.int32)
    buffers = {"a": (a, Role.INPUT), "y": (y, Role.OUTPUT)}
    return execute(cuda_plan(source, "k", buffers, ("a", "y"), (1,), (64,)), {"a": a})


@pytest.mark.parametrize("name", RIGHT)
def test_what_only_the_compiler_reads_is_no_finding(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    speculated, watched = [], speculation._watched
    monkeypatch.setattr(speculation, "_watched", lambda *load: speculated.append(load) or watched(*load))
    assert run(RIGHT[name]).findings == ()
    assert speculated, "the compiler reads for some threads only: write the kernel in another way"


@pytest.mark.parametrize("name", WRONG)
def test_what_the_source_reads_is_found(name: str) -> None:
    body, kind = WRONG[name]
    assert kind in {finding.kind for finding in run(body).findings}
