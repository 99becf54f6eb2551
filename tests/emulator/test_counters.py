"""Memory counters: known figures of the hardware, and brute-force counts from the addresses."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator import kernels
from tests.emulator.marks import line_of
from tests.emulator.one_access import access, patterns
from tests.emulator.plans import cuda_plan, numba_plan
from warplab.emulator import execute
from warplab.plan.execution import Counters
from warplab.plan.model import Role

pytestmark = pytest.mark.stored


def run(kernel, shape: tuple[int, int]) -> dict[int, Counters]:
    a, out = np.zeros(shape, np.float32), np.zeros(shape[::-1], np.float32)
    grid = (shape[1] // 32, shape[0] // 32)
    result = execute(numba_plan(kernel, {"a": a, "out": out}, {"out": Role.OUTPUT}, grid, (32, 8)), {"a": a})
    return result.lines | {0: result.total}


def test_column_reads_of_a_shared_tile() -> None:
    """Measured on an H200: a 32x32 tile read by columns takes 1024 wavefronts, 992 conflicts; padded, 32 and 0."""
    conflicted = run(kernels.transpose_unpadded, (32, 32))
    line = conflicted[line_of("conflicts")]
    assert (line.shared_load_wavefronts, line.shared_load_bank_conflicts) == (1024, 992)
    padded = run(kernels.transpose_padded, (32, 32))[0]
    assert (padded.shared_load_wavefronts, padded.shared_load_bank_conflicts) == (32, 0)
    assert (padded.shared_store_wavefronts, padded.shared_store_bank_conflicts) == (32, 0)


def test_global_traffic_of_a_transpose() -> None:
    total = run(kernels.transpose_padded, (64, 96))[0]
    requests = 64 * 96 // 32
    assert (total.global_load_requests, total.global_store_requests) == (requests, requests)
    assert (total.global_load_sectors, total.global_store_sectors) == (4 * requests, 4 * requests)
    assert total.barriers == 6 * 8


@pytest.mark.parametrize("kind", ["u8", "u16", "u32", "u64", "v2.u32", "v4.u32", "v2.u64"])
def test_sectors_are_the_distinct_ones(kind: str) -> None:
    size = int(kind[-2:].lstrip("u") or 8) // 8 * (int(kind[1]) if kind[0] == "v" else 1)
    registers = {1: "%h1", 2: "%h1", 4: "%r3", 8: "%rd7"}[size // (int(kind[1]) if kind[0] == "v" else 1)]
    if kind[0] == "v":
        stem, count = registers.rstrip("0123456789"), int(kind[1])
        registers = "{" + ", ".join(f"{stem}{7 + i}" for i in range(count)) + "}"
    for offsets in patterns(size):
        active = offsets[offsets != 65535]
        sectors = len({int(b) // 32 for o in active for b in range(o, o + size)})
        got = access(f"@%p1 ld.global.{kind} {registers}, [%rd5];", offsets)
        assert (got.global_load_requests, got.global_load_sectors) == (1, sectors)
        assert got.global_load_ideal_sectors - 4 == min(sectors, -(-size * len(active) // 32))
        got = access(f"@%p1 st.global.{kind} [%rd5], {registers};", offsets)
        assert (got.global_store_requests, got.global_store_sectors) == (1, sectors)


def test_wavefronts_of_words_are_the_worst_bank() -> None:
    for offsets in patterns(4):
        active = offsets[offsets != 65535]
        words = {int(o) // 4 for o in active}
        worst = max(sum(w % 32 == bank for w in words) for bank in range(32))
        got = access("@%p1 ld.shared.u32 %r3, [%rd6];", offsets)
        assert (got.shared_load_wavefronts, got.shared_load_bank_conflicts) == (worst, worst - 1)
        assert got.shared_load_requests == 1


@pytest.mark.parametrize(("kind", "registers", "size"), [
    ("u64", "%rd7", 8), ("v4.u32", "{%r3, %r4, %r5, %r6}", 16), ("v2.u32", "{%r3, %r4}", 8),
])  # fmt: skip
def test_wide_accesses_without_conflicts(kind: str, registers: str, size: int) -> None:
    """8 bytes a lane take two wavefronts and 16 bytes four, and that is no conflict; a broadcast takes half of that."""
    got = access(f"ld.shared.{kind} {registers}, [%rd6];", np.arange(32) * size)
    assert (got.shared_load_wavefronts, got.shared_load_bank_conflicts) == (size // 4, 0)
    got = access(f"ld.shared.{kind} {registers}, [%rd6];", np.full(32, 64))
    assert (got.shared_load_wavefronts, got.shared_load_bank_conflicts) == (size // 8, 0)


def test_local_memory_is_interleaved() -> None:
    source = """
    extern "C" __global__ void k(int* out, int n) {
        volatile int mine[16];
        for (int i = 0; i < 16; ++i) mine[i] = i;
        out[threadIdx.x] = mine[(threadIdx.x + n) & 15];
    }"""
    out = np.zeros(32, np.int32)
    plan = cuda_plan(source, "k", {"out": (out, Role.OUTPUT)}, ("out", np.int32(3)), (1,), (32,))
    result = execute(plan, {})
    assert np.array_equal(result.outputs["out"], (np.arange(32) + 3) % 16)
    assert (result.total.local_store_requests, result.total.local_store_sectors) == (16, 64)
    # Each of the 16 words is read by two lanes, 16 lanes apart: in two sectors.
    assert (result.total.local_load_requests, result.total.local_load_sectors) == (1, 32)


def test_lines_add_up_to_the_total() -> None:
    a = np.ones((32, 32), np.float32)
    plan = numba_plan(kernels.tiled_gemm, {"a": a, "b": a, "c": a}, {"c": Role.OUTPUT}, (2, 2), (16, 16))
    result = execute(plan, {"a": a, "b": a})
    total = Counters()
    for counters in result.lines.values():
        total += counters
    assert total == result.total
    assert total.global_load_requests == 2 * 4 * 2 * 8
    assert total.global_load_sectors == 4 * total.global_load_requests
