"""A product by tcgen05 in Numba, the first rung of lab 19's ladder, against float64, and what the functions refuse."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda
from numba.cuda import types

from tests.emulator.plans import numba_plan
from warplab import ptx
from warplab.emulator import execute
from warplab.plan.execution import Execution
from warplab.plan.model import Role

M, N, DEPTH = 128, 64, 64  # a tile of sums, and k of a stage
A_WORDS, WORDS = M * DEPTH // 2, (M + N) * DEPTH // 2
COLUMNS = 64
COUNT = 32
INSTRUCTION = ptx.tensor_instruction("f16", M, N)
multiply = ptx.tensor_multiply("f16")
load_sums = ptx.tensor_load(COUNT)
store_words, load_words = ptx.tensor_store(8), ptx.tensor_load(8)


@cuda.jit(device=True, inline="always")
def put(tile, start, rows, matrix, first, step):
    """Without a swizzle: pieces of eight rows of 16 bytes, those of neighbouring k as far apart as all rows take."""
    for i in range(cuda.threadIdx.x, rows * DEPTH // 2, 128):
        row, pair = i // (DEPTH // 2), i % (DEPTH // 2)
        word = matrix[first + row, step * (DEPTH // 2) + pair]
        tile[start + pair // 4 * rows * 4 + row * 4 + pair % 4] = word


def gemm(a, b, c):
    """c = a b.T: a and b hold two float16 in a word, c is float32; a block for each tile of 128 x 64."""
    tile = cuda.shared.array(WORDS, types.uint32, alignment=128)
    done = cuda.shared.array(1, types.uint64)
    place = cuda.shared.array(1, types.uint32)
    warp, barrier = cuda.threadIdx.x // 32, ptx.shared_address(done, 0)
    left, right = ptx.shared_address(tile, 0), ptx.shared_address(tile, A_WORDS)
    if cuda.threadIdx.x == 0:
        ptx.mbarrier_init(barrier, 1)
    if warp == 0:
        ptx.tensor_alloc(ptx.shared_address(place, 0), COLUMNS)
        ptx.tensor_relinquish()
    ptx.tensor_fence_before()
    cuda.syncthreads()
    ptx.tensor_fence_after()
    sums = place[0]
    for step in range(a.shape[1] // (DEPTH // 2)):
        put(tile, 0, M, a, cuda.blockIdx.y * M, step)
        put(tile, A_WORDS, N, b, cuda.blockIdx.x * N, step)
        ptx.fence_proxy_async()
        cuda.syncthreads()
        if cuda.threadIdx.x == 0:
            for i in range(DEPTH // 16):
                from_a = ptx.tensor_descriptor(left + i * 2 * 16 * M, 16 * M, 128, ptx.TENSOR_SWIZZLE_NONE)
                from_b = ptx.tensor_descriptor(right + i * 2 * 16 * N, 16 * N, 128, ptx.TENSOR_SWIZZLE_NONE)
                multiply(sums, from_a, from_b, INSTRUCTION, step + i > 0)
            ptx.tensor_commit(barrier)
        ptx.mbarrier_wait(barrier, step & 1)
    ptx.tensor_fence_after()
    row, lanes = cuda.blockIdx.y * M + cuda.threadIdx.x, warp * 32 << 16
    words = cuda.local.array(COUNT, types.uint32)
    for part in range(N // COUNT):
        loaded = load_sums(sums + lanes + part * COUNT)
        ptx.tensor_wait_load()
        ptx.to_array(loaded, words)
        for i in range(COUNT):
            c[row, cuda.blockIdx.x * N + part * COUNT + i] = words[i]
    ptx.tensor_fence_before()
    cuda.syncthreads()
    if warp == 0:
        ptx.tensor_dealloc(sums, COLUMNS)


def swapped(words, out):
    """Eight words of each thread to tensor memory and back."""
    place = cuda.shared.array(1, types.uint32)
    warp = cuda.threadIdx.x // 32
    if warp == 0:
        ptx.tensor_alloc(ptx.shared_address(place, 0), 32)
    cuda.syncthreads()
    own = place[0] + (warp * 32 << 16)
    t = cuda.threadIdx.x
    store_words(own, (words[0, t], words[1, t], words[2, t], words[3, t],
                      words[4, t], words[5, t], words[6, t], words[7, t]))  # fmt: skip
    ptx.tensor_wait_store()
    loaded = load_words(own)
    ptx.tensor_wait_load()
    kept = cuda.local.array(8, types.uint32)
    ptx.to_array(loaded, kept)
    for i in range(8):
        out[i, t] = kept[7 - i]
    cuda.syncthreads()
    if warp == 0:
        ptx.tensor_dealloc(place[0], 32)


def run(function, inputs: dict[str, np.ndarray], output: np.ndarray, grid: tuple[int, int] = (1, 1)) -> Execution:
    values = {**inputs, "out": output}
    plan = numba_plan(function, values, {"out": Role.OUTPUT}, grid, (128,), target=(10, 0, "a"))
    return execute(plan, inputs, architecture="sm_100a")


@pytest.mark.stored
@pytest.mark.parametrize("shape", [(128, 64, 64), (256, 128, 192)], ids=str)
def test_a_product_in_numba(shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(m, k)).astype(np.float16), rng.normal(size=(n, k)).astype(np.float16)
    result = run(gemm, {"a": a.view(np.uint32), "b": b.view(np.uint32)}, np.zeros((m, n), np.uint32), (n // N, m // M))
    assert result.findings == (), result.findings
    got = result.outputs["out"].view(np.float32)
    np.testing.assert_allclose(got, a.astype(np.float64) @ b.astype(np.float64).T, rtol=0, atol=2e-6 * k)
    assert result.total.tensor_multiply_adds == m * n * k


@pytest.mark.stored
def test_words_go_to_tensor_memory_and_back() -> None:
    words = np.arange(1024, dtype=np.uint32).reshape(8, 128)
    result = run(swapped, {"words": words}, np.zeros_like(words))
    assert result.findings == (), result.findings
    assert np.array_equal(result.outputs["out"], words[::-1])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ptx.tensor_load(3), "3 columns"),
        (lambda: ptx.tensor_store(256), "256 columns"),
        (lambda: ptx.tensor_multiply("f32"), "not 'f32'"),
        (lambda: ptx.tensor_instruction("f16", 128, 24), "128 x 24"),
        (lambda: ptx.tensor_instruction("bf16", 128, 64, sums="f16"), "sums of f16"),
        (lambda: ptx.tensor_instruction("s8", 96, 64), "96 x 64"),
        (lambda: ptx.tensor_instruction("s8", 64, 40), "64 x 40"),
        (lambda: ptx.tensor_instruction("e4m3", 64, 24, b_transposed=True), "64 x 24"),
    ],
)
def test_forms_that_are_none(make, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()


def test_the_instruction_descriptor() -> None:
    """Bits of the PTX ISA's table: sums of float32 are 1 at bit 4, n / 8 at bit 17, m / 16 at bit 24."""
    assert ptx.tensor_instruction("f16", 128, 64) == 1 << 4 | 8 << 17 | 8 << 24
    assert ptx.tensor_instruction("u8", 64, 24) == 2 << 4 | 3 << 17 | 4 << 24
    assert (
        ptx.tensor_instruction("tf32", 64, 8, b_transposed=True)
        == 1 << 4 | 2 << 7 | 2 << 10 | 1 << 16 | 1 << 17 | 4 << 24
    )
    assert ptx.tensor_instruction("e5m2", 128, 256, sums="f16") == 1 << 7 | 1 << 10 | 32 << 17 | 8 << 24
