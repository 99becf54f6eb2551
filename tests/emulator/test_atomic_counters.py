"""Counts of atomics and matrix moves as Nsight Compute gave them for the same accesses on an H200."""

import numpy as np
import pytest

from tests.emulator.plans import cuda_plan
from warplab.emulator import execute
from warplab.plan.model import Role

pytestmark = pytest.mark.stored

LANE = np.arange(32)
SOURCE = """
typedef unsigned u32;
typedef unsigned long long u64;
#define KERNELS(name, type, reg, form, rest) \\
    extern "C" __global__ void shared_##name(const int* index, type* out) \\
    { \\
        __shared__ type tile[1056]; \\
        for (int i = threadIdx.x; i < 1056; i += 32) tile[i] = i; \\
        u32 place = (u32)__cvta_generic_to_shared(tile + index[threadIdx.x]); \\
        type value = threadIdx.x + 2; \\
        __syncwarp(); \\
        rest(form, "shared", "r", place) \\
        __syncwarp(); \\
        out[threadIdx.x] = tile[threadIdx.x]; \\
    } \\
    extern "C" __global__ void global_##name(const int* index, type* out) \\
    { \\
        type value = threadIdx.x + 2; \\
        rest(form, "global", "l", out + index[threadIdx.x]) \\
    }
#define PLAIN(form, space, pointer, place) \\
    asm volatile("red." space "." form " [%0], %1;" :: pointer(place), "r"(value) : "memory");
#define WIDE(form, space, pointer, place) \\
    asm volatile("red." space "." form " [%0], %1;" :: pointer(place), "l"(value) : "memory");
#define SWAP(form, space, pointer, place) \\
    asm volatile("atom." space "." form " %0, [%1], %0, %0;" : "+r"(value) : pointer(place) : "memory"); \\
    out[threadIdx.x] = value;
#define ONE(form, space, pointer, place) \\
    asm volatile("red." space "." form " [%0], 1;" :: pointer(place) : "memory");
#define WRAPPING(form, space, pointer, place) \\
    asm volatile("red." space "." form " [%0], -1;" :: pointer(place) : "memory");
#define UNREAD(form, space, pointer, place) \\
    asm volatile("{ .reg .u32 old; atom." space "." form " old, [%0], %1; }" :: pointer(place), "r"(value) : "memory");
KERNELS(add, u32, "r", "add.u32", PLAIN)
KERNELS(long, u64, "l", "add.u64", WIDE)
KERNELS(cas, u32, "r", "cas.b32", SWAP)
KERNELS(one, u32, "r", "add.u32", ONE)
KERNELS(increment, u32, "r", "inc.u32", WRAPPING)
KERNELS(unread, u32, "r", "add.u32", UNREAD)
KERNELS(exchange, u32, "r", "exch.b32", UNREAD)
KERNELS(acquire, u32, "r", "acquire.gpu.add.u32", UNREAD)
"""
PATTERNS = {
    "own": LANE, "alike": LANE * 0 + 9, "pairs": LANE // 2, "quads": LANE // 4, "halves": LANE % 16,
    "two": np.where(LANE == 7, 3, LANE), "alternating": LANE % 2, "stride_2": 2 * LANE, "stride_16": 16 * LANE,
    "pairs_in_a_bank": LANE // 2 * 32,
}  # fmt: skip


def counters(entry, pattern):
    dtype = "u8" if "long" in entry else "u4"
    arrays = {"index": (PATTERNS[pattern].astype("i4"), Role.INPUT), "out": (np.zeros(1056, dtype), Role.INOUT)}
    plan = cuda_plan(SOURCE, entry, arrays, ("index", "out"), (1,), (32,))
    return execute(plan, {k: a for k, (a, _) in arrays.items()}, sanitize=False).total


@pytest.mark.parametrize(
    ("pattern", "wavefronts"),
    [("own", 1), ("alike", 32), ("pairs", 2), ("quads", 4), ("halves", 2), ("two", 2), ("alternating", 16),
     ("stride_2", 2), ("stride_16", 16), ("pairs_in_a_bank", 32)],
)  # fmt: skip
def test_shared_memory_serves_a_lane_a_bank(pattern, wavefronts):
    total = counters("shared_add", pattern)
    assert total.shared_atomic_requests == 1
    assert total.shared_atomic_wavefronts == wavefronts
    assert total.shared_atomic_bank_conflicts == wavefronts - 1


@pytest.mark.parametrize(
    ("pattern", "wavefronts", "conflicts"), [("own", 2, 0), ("stride_2", 4, 1), ("stride_16", 32, 15)]
)
def test_compare_and_swap_takes_each_wavefront_twice(pattern, wavefronts, conflicts):
    total = counters("shared_cas", pattern)
    assert (total.shared_atomic_wavefronts, total.shared_atomic_bank_conflicts) == (wavefronts, conflicts)


@pytest.mark.parametrize(
    ("pattern", "wavefronts"), [("alike", 1), ("pairs", 1), ("stride_2", 2), ("pairs_in_a_bank", 16)]
)
def test_counting_serves_lanes_at_one_address_together(pattern, wavefronts):
    assert counters("shared_one", pattern).shared_atomic_wavefronts == wavefronts
    # Up to the greatest number an increment is the same instruction, ATOMS.POPC.INC.
    assert counters("shared_increment", pattern).shared_atomic_wavefronts == wavefronts


@pytest.mark.parametrize(
    ("entry", "pattern", "sectors"),
    [("add", "own", 4), ("add", "alike", 32), ("add", "pairs", 4), ("add", "quads", 4), ("add", "halves", 4),
     ("add", "two", 5), ("add", "alternating", 16), ("add", "stride_2", 8), ("add", "pairs_in_a_bank", 32),
     ("long", "own", 8), ("long", "pairs", 8), ("long", "two", 9)],
)  # fmt: skip
def test_global_memory_serves_the_lanes_of_an_address_in_rounds(entry, pattern, sectors):
    total = counters(f"global_{entry}", pattern)
    assert (total.global_reduction_requests, total.global_atomic_requests) == (1, 0)
    assert total.global_reduction_sectors == sectors


def test_an_atomic_whose_result_is_used_is_no_reduction():
    total = counters("global_cas", "own")
    assert (total.global_atomic_requests, total.global_atomic_sectors) == (1, 4)
    assert total.global_reduction_requests == 0


@pytest.mark.parametrize(("entry", "atomics"), [("unread", 0), ("exchange", 1), ("acquire", 1)])
def test_what_exchanges_or_acquires_is_no_reduction(entry, atomics):
    """The exchange by Nsight Compute on an H100 (corpus/control/ticket); the other by its machine code, ATOMG too."""
    total = counters(f"global_{entry}", "own")
    assert (total.global_atomic_requests, total.global_reduction_requests) == (atomics, 1 - atomics)
    assert (total.global_atomic_sectors, total.global_reduction_sectors) == (4 * atomics, 4 - 4 * atomics)
