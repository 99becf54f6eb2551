"""The emulator says which thread stored an element last."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.plans import cuda_plan
from warplab.emulator import execute
from warplab.plan.execution import Writer
from warplab.plan.model import Plan, Role

pytestmark = pytest.mark.stored

SOURCE = """
extern "C" __global__ void fill(float* out, int n) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    int i = y * gridDim.x * blockDim.x + x;
    if (i < n) out[i] = 1.f;
    if (i == 7) out[n - 1] = 2.f;
    if (i < n / 4 && i % 5 == 0) reinterpret_cast<float4*>(out)[i] = make_float4(3.f, 3.f, 3.f, 3.f);
}
"""
N = 16 * 3 * 4 * 2
GRID, BLOCK = (3, 2), (16, 4)


def plan(role: Role = Role.OUTPUT) -> Plan:
    out = np.zeros(N + 64, np.float32)
    return cuda_plan(SOURCE, "fill", {"out": (out, role)}, ("out", np.int32(N)), GRID, BLOCK)


def who(element: int, role: Role = Role.OUTPUT) -> Writer | None:
    inputs = {"out": np.zeros(N + 64, np.float32)} if role is Role.INOUT else {}
    return execute(plan(role), inputs, watch=("out", 4 * element + 2)).writer


def owner(i: int) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """(block, thread) of the thread whose number is i."""
    x, y = i % 48, i // 48
    return (x // 16, y // 4, 0), (x % 16, y % 4, 0)


@pytest.mark.parametrize("role", [Role.OUTPUT, Role.INOUT])
@pytest.mark.parametrize("element", [N - 2, N - 20, 300])
def test_the_thread_of_a_plain_store(element: int, role: Role) -> None:
    found = who(element, role)
    assert found is not None
    assert (found.block, found.thread) == owner(element)
    assert (found.kernel, found.line) == ("kernel", 5)


def test_a_vector_store_and_the_last_of_several() -> None:
    found = who(4 * 85 + 3)  # stored by thread 343 and by thread 85, whose block comes first: 343 is the last
    assert found is not None
    assert (found.block, found.thread, found.line) in ((*owner(343), 5), (*owner(85), 7))
    result = execute(plan(), {}, watch=("out", 4 * 343))
    assert result.outputs["out"][343] == (1 if result.writer.line == 5 else 3)  # type: ignore[union-attr]
    lone = who(N - 1)
    assert lone is not None


def test_nobody() -> None:
    assert who(N + 5) is None
    assert execute(plan(), {}).writer is None
