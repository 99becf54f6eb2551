"""Lanes of a warp that meet at several sites, masks without their own lane, and lanes that store to one element."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.plans import cuda_plan
from warplab.emulator import execute
from warplab.plan.execution import FindingKind
from warplab.plan.model import Role

pytestmark = pytest.mark.processes  # ptxas and, for CUDA C++, NVRTC

T = np.arange(32)
LOW = T < 16
FIRST, SECOND = 10 * T + 1, 10 * T + 2  # what the lanes of each side bring along
BROUGHT = np.where(LOW, FIRST, SECOND)
# An operation, how each side calls it, and its results in NumPy
MEETINGS = {
    "xor": ("__shfl_xor_sync(~0u, v, 16)", BROUGHT[T ^ 16]),
    "up": ("__shfl_up_sync(~0u, v, 8)", BROUGHT[np.where(T < 8, T, T - 8)]),
    "a lane each": ("__shfl_sync(~0u, v, 31 - t)", BROUGHT[31 - T]),
    "ballot": ("__ballot_sync(~0u, v % 3 == 0)", np.full(32, ((BROUGHT % 3 == 0) << T).sum())),
    "any": ("__any_sync(~0u, v == 11)", np.ones(32)),
    "all": ("__all_sync(~0u, v > 0)", np.ones(32)),
    "match": (
        "__match_any_sync(~0u, v / 40)",
        ((BROUGHT[:, None] // 40 == BROUGHT[None, :] // 40).astype(np.int64) << T).sum(axis=1),
    ),
    "match of 64 bits": (
        "__match_any_sync(~0u, (long long)(v / 40) << 40)",
        ((BROUGHT[:, None] // 40 == BROUGHT[None, :] // 40).astype(np.int64) << T).sum(axis=1),
    ),
    "sum": ("__reduce_add_sync(~0u, v)", np.full(32, BROUGHT.sum())),
    "largest": ("__reduce_max_sync(~0u, v)", np.full(32, BROUGHT.max())),
}
# Stores keep the compiler from making one instruction of the two sides.
SITES = """
extern "C" __global__ void k(unsigned* out, unsigned* other) {
    unsigned t = threadIdx.x, v = 10 * t, r;
    if (t < 16) { v += 1; r = %s; other[t] = 1; }
    else { v += 2; other[t] = 7; r = %s; other[t + 32] = r + 1; }
    out[t] = r;
}
"""


def run(source: str, arrays: dict[str, int], block: int = 32, grid: int = 1, dtype: type = np.uint32):
    """Arrays of zeros that the kernel `k` changes."""
    values = {name: np.zeros(size, dtype) for name, size in arrays.items()}
    plan = cuda_plan(source, "k", {n: (v, Role.INOUT) for n, v in values.items()}, tuple(values), (grid,), (block,))
    return execute(plan, values)


@pytest.mark.parametrize("what", list(MEETINGS))
def test_lanes_meet_at_two_sites(what: str) -> None:
    call, expected = MEETINGS[what]
    result = run(SITES % (call, call), {"out": 32, "other": 64})
    assert np.array_equal(result.outputs["out"], expected.astype(np.uint32))
    assert np.array_equal(result.outputs["other"][32:], np.where(LOW, 0, expected + 1).astype(np.uint32))
    assert result.findings == ()


def test_lanes_meet_at_three_sites_whatever_the_order() -> None:
    call = "__shfl_down_sync(~0u, v, 16)"
    source = """
extern "C" __global__ void k(unsigned* out) {
    unsigned t = threadIdx.x, v = t * t, r;
    if (t < 10) { r = CALL; out[t + 32] = 5; }
    else if (t < 20) { out[t + 32] = 6; r = CALL + 1; out[t + 32] = r; }
    else { v += 3; r = CALL + 2; out[t + 32] = r; }
    out[t] = r;
}
""".replace("CALL", call)
    brought = T * T + np.where(T >= 20, 3, 0)
    expected = brought[np.where(T < 16, T + 16, T)] + np.where(T < 10, 0, np.where(T < 20, 1, 2))
    plan = cuda_plan(source, "k", {"out": (np.zeros(64, np.uint32), Role.INOUT)}, ("out",), (1,), (32,))
    for seed in (None, 1, 2, 3):
        result = execute(plan, {"out": np.zeros(64, np.uint32)}, seed=seed)
        assert np.array_equal(result.outputs["out"][:32], expected) and result.findings == ()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("__shfl_xor_sync(~0u, v, 16)", "__shfl_down_sync(~0u, v, 16)"),
        ("__any_sync(~0u, v)", "__all_sync(~0u, v)"),
        ("__reduce_add_sync(~0u, v)", "__reduce_max_sync(~0u, v)"),
        ("__shfl_xor_sync(~0u, v, 16)", "__shfl_xor_sync(0xffff0000, v, 16)"),
    ],
)
def test_other_operations_and_other_masks_do_not_meet(one: str, other: str) -> None:
    result = run(SITES % (one, other), {"out": 32, "other": 64})
    assert {finding.kind for finding in result.findings} == {FindingKind.DIVERGENT_BARRIER}


@pytest.mark.parametrize(
    "call",
    [
        "__shfl_sync(0xffff, t, 3)",
        "__shfl_down_sync(0xffff, t, 1, 16)",
        "__ballot_sync(0xffff, t & 1)",
        "__all_sync(0xffff, t > 3)",
        "__match_any_sync(0xffff, t / 4)",
        "__reduce_add_sync(0xffff, t)",
        "(__syncwarp(0xffff), t)",
    ],
)
def test_a_mask_without_the_lanes_own_bit_is_found(call: str) -> None:
    source = 'extern "C" __global__ void k(unsigned* out) { unsigned t = threadIdx.x; out[t] = %s; }'
    (finding,) = run(source % call, {"out": 32}).findings
    assert finding.kind is FindingKind.DIVERGENT_BARRIER and finding.thread == (16, 0, 0)
    assert "mask 0x0000ffff, which lacks this thread's lane 16" in finding.message
    inside = source.replace("out[t] =", "if (t < 16) out[t] =") % call
    assert run(inside, {"out": 32}).findings == ()


# A reduction of half a warp, and of a block's last 20 threads. (threads, faulty body, right body and its out[0])
STRAYED = {
    "a lane that the mask does not name": (
        32,
        "if (t < 16) for (int d = 16; d; d /= 2) v += __shfl_down_sync(0xffff, v, d); out[t] = v;",
        "if (t < 16) for (int d = 8; d; d /= 2) v += __shfl_down_sync(0xffff, v, d); if (!t) out[t] = v;",
        136,
    ),
    "a lane that has ended": (
        32,
        "if (t >= 20) return; for (int d = 16; d; d /= 2) v += __shfl_down_sync(~0u, v, d); out[t] = v;",
        "if (t >= 20) v = 0; for (int d = 16; d; d /= 2) v += __shfl_down_sync(~0u, v, d); if (!t) out[t] = v;",
        210,
    ),
    "a lane that the block does not have": (
        20,
        "for (int d = 16; d; d /= 2) v += __shfl_down_sync(~0u, v, d); if (!t) out[t] = v;",
        "for (int d = 16; d; d /= 2) { unsigned x = __shfl_down_sync(0xfffff, v, d); if (t + d < 20) v += x; }"
        " if (!t) out[t] = v;",
        210,
    ),
    "a value that decides a branch": (
        32,
        "if (t < 16) { if (__shfl_down_sync(0xffff, v, 16) > 100) out[t] = 1; }",
        "if (t < 16) { if (__shfl_down_sync(0xffff, v, 15) > 100 && !t) out[t] = 1; }",
        0,
    ),
    "an address": (
        32,
        "if (t < 16) out[__shfl_xor_sync(0xffff, t, 16) % 64] = 1;",
        "if (t < 16) out[__shfl_xor_sync(0xffff, t, 8) % 64] = 1;",
        1,
    ),
    "the least value": (
        32,
        "if (t < 16) out[t] = min((int)v, (int)__shfl_down_sync(0xffff, v, 16));",
        "if (t < 16) { v = min((int)v, (int)__shfl_down_sync(0xffff, v, 8)); if (t < 8) out[t] = v; }",
        1,
    ),
    "at two sites": (
        32,
        "if (t < 8) { v = __shfl_down_sync(0xffff, v, 16); out[64] = 1; }"
        " else if (t < 16) { out[65] = 1; v = __shfl_down_sync(0xffff, v, 16); } out[t] = v;",
        "if (t < 8) { v = __shfl_down_sync(0xffff, v, 8); out[64] = 1; }"
        " else if (t < 16) { out[65] = 1; v = __shfl_down_sync(0xffff, v, 8); } if (t < 8) out[t] = v;",
        9,
    ),
}
STRAY = 'extern "C" __global__ void k(unsigned* out) { unsigned t = threadIdx.x, v = t + 1; %s }'


@pytest.mark.parametrize("what", list(STRAYED))
def test_a_shuffle_from_a_lane_that_takes_no_part_is_found_if_its_value_decides(what: str) -> None:
    """PTX ISA, shfl.sync: reading a register of an inactive thread, or of one outside the mask, is undefined."""
    threads, wrong, right, first = STRAYED[what]
    found = run(STRAY % wrong, {"out": 128}, block=threads).findings
    assert [finding.kind for finding in found] == [FindingKind.UNINITIALISED] * len(found) and found
    assert "takes no part in the shuffle" in found[0].message
    result = run(STRAY % right, {"out": 128}, block=threads)
    assert result.findings == () and result.outputs["out"][0] == first


STORES = {
    "every second": ("out[t / 2] = t;", (1, 0, 0), (0,)),
    "all at once": ("out[3] = t;", (1, 0, 0), (3,)),
    "backwards": ("out[(31 - t) / 2] = t;", (1, 0, 0), (15,)),
    "scattered": ("out[t * 7 % 31] = t;", (31, 0, 0), (0,)),
    "through a generic pointer": ("unsigned* p = t < 64 ? out : tile; p[t / 2] = t;", (1, 0, 0), (0,)),
    "volatile": ("((volatile unsigned*)out)[t / 2] = t;", (1, 0, 0), (0,)),
    "in shared memory": ("tile[t / 2] = t; __syncwarp(); out[t] = tile[t / 2];", (1, 0, 0), (0,)),
}
STORE = """
extern "C" __global__ void k(unsigned* out) {
    __shared__ unsigned tile[32];
    unsigned t = threadIdx.x;
    if (t > 31) tile[t - 32] = 0;
    %s
}
"""


@pytest.mark.parametrize("what", list(STORES))
def test_lanes_of_one_store_that_leave_different_values_are_found(what: str) -> None:
    statement, thread, index = STORES[what]
    (finding,) = run(STORE % statement, {"out": 32}).findings
    assert finding.kind is FindingKind.RACE and "by the same store, with another value" in finding.message
    assert finding.thread == thread and finding.index == index


@pytest.mark.parametrize(
    "statement",
    ["out[t / 2] = 5;", "out[t / 2] = t / 2;", "out[t * 7 % 32] = t;", "out[31 - t] = t;", "tile[t / 4] = t / 4;"],
)
def test_equal_values_and_elements_of_their_own_are_not(statement: str) -> None:
    assert run(STORE % statement, {"out": 32}).findings == ()


def test_float_atomics_in_global_memory_flush_subnormal_numbers() -> None:
    """Seen on an H100; ptxas makes RED and ATOM with .FTZ for every target, and FADD without it in shared memory."""
    source = """
extern "C" __global__ void k(float* out) {
    __shared__ float tile[1];
    __shared__ double wide[1];
    out[1] = 1.5e-38f; out[3] = -2.0e-38f; tile[0] = 0; wide[0] = 0;
    atomicAdd(out, 1e-40f);
    atomicAdd(out + 1, -1.4e-38f);
    out[2] = atomicAdd(out + 3, 1.3e-38f);
    atomicExch(out + 4, 1e-40f);
    atomicAdd(tile, 1e-40f);
    out[5] = tile[0];
    atomicAdd(wide, 1e-40);
    out[6] = wide[0] == 1e-40;
    float* p = out[4] > 0 ? tile : out;
    atomicAdd(p, 1e-40f);
    out[7] = tile[0];
}
"""
    out = run(source, {"out": 8}, block=1, dtype=np.float32).outputs["out"]
    small = np.float32(1e-40)
    assert out.tolist() == [0, 0, np.float32(-2e-38), 0, small, small, 1, small + small]
