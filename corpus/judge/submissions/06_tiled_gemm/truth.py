"""What tests know of lab 06_tiled_gemm: mistakes in its reference, and sizes to try its tolerances with."""

from __future__ import annotations

from autograder.records.status import Part
from autograder.spec.task import Case, Family
from corpus.judge.mutants.mutant import Cause, Edit, Mutant

_NUMBA = "06_tiled_gemm/submission.py"
_WRONG, _FAULT, _TRAFFIC = "wrong answer", "out of bounds", "over budget"
_BARRIER = "        cuda.syncthreads()\n"
_SUM = "total[i, j] += tile_a[y + i * SIDE, p] * tile_b[p, x + j * SIDE]"
_IN_ONE_K_LOOP = "for p0 in range(0, k, DEPTH):"

TOLERANCES = (
    Case("ragged", {"m": 17, "n": 35, "k": 61}, Family.NORMAL),
    Case("whole", {"m": 128, "n": 128, "k": 32}, Family.WIDE),
)
MUTANTS = (
    Mutant(
        _NUMBA,
        "missing_first_barrier",
        "the tiles are read before they are full",
        (Edit(_BARRIER + "        for p in", "        for p in"),),
        Cause(Part.SAFETY, "race", at=_SUM, words="no barrier between"),
    ),
    Mutant(
        _NUMBA,
        "missing_second_barrier",
        "the next tiles overwrite what slower warps still read",
        (Edit(_SUM + "\n" + _BARRIER, _SUM + "\n"),),
        Cause(Part.SAFETY, "race", at="tile_a[r, x] = float32(a[row0 + r, p0 + x])", words="no barrier between"),
    ),
    Mutant(
        _NUMBA,
        "barrier_of_a_warp",
        "the barrier holds for a warp, the tiles belong to the block",
        (Edit(_BARRIER + "        for p in", "        cuda.syncwarp()\n        for p in"),),
        Cause(Part.SAFETY, "race", at=_SUM, words="no barrier between"),
    ),
    Mutant(
        _NUMBA,
        "missing_stage_barrier",
        "the double buffer is turned without a barrier",
        (Edit("cuda.syncthreads()  # one barrier a tile", "pass  # one barrier a tile"),),
        Cause(Part.SAFETY, "race", at="part_a[i + 4] = tile[p, row", words="in another thread of the same warp"),
    ),
    Mutant(
        _NUMBA,
        "stale_shared_memory",
        "the halves of the double buffer are not exchanged",
        (Edit("        stage ^= uint64(BLOCK_K)\n", ""),),
        Cause(Part.SAFETY, "race", words="no barrier between"),
    ),
    Mutant(
        _NUMBA,
        "one_tile_short",
        "the last tile along k is fetched and not used",
        (Edit("range(BLOCK_K, k + BLOCK_K, BLOCK_K)", "range(BLOCK_K, k, BLOCK_K)"),),
        Cause(Part.CORRECTNESS, _WRONG, words="Nearly every element is wrong"),
    ),
    Mutant(
        _NUMBA,
        "one_too_far",
        "<= in the guard of the store",
        (Edit("if row < m and col < n:", "if row <= m and col < n:"),),
        Cause(Part.SAFETY, _FAULT, at="c[row, col] = total[i, j]", words="writes c["),
    ),
    Mutant(
        _NUMBA,
        "no_bounds_check",
        "the depth of the last tile is not checked",
        (Edit("inside = row0 + r < m and p0 + x < k", "inside = row0 + r < m"),),
        Cause(Part.SAFETY, _FAULT, at="tile_a[r, x] = float32(a[row0 + r, p0 + x])", words="reads a["),
    ),
    Mutant(
        _NUMBA,
        "swapped_index",
        "row and column of the thread are exchanged in the store",
        (Edit("row0 + y + i * SIDE, col0 + x + j * SIDE", "row0 + x + i * SIDE, col0 + y + j * SIDE"),),
        Cause(Part.CORRECTNESS, _WRONG, words="elements of c are wrong"),
    ),
    Mutant(
        _NUMBA,
        "half_accumulator",
        "the sum is kept in float16",
        (
            Edit(
                "total = cuda.local.array((EACH, EACH), float32)", "total = cuda.local.array((EACH, EACH), np.float16)"
            ),
        ),
        Cause(Part.CORRECTNESS, _WRONG, words="lower precision"),
    ),
    Mutant(
        _NUMBA,
        "whole_tiles_only",
        "the grid is rounded down",
        (Edit("((n + TILE - 1) // TILE, (m + TILE - 1) // TILE)", "(max(1, n // TILE), max(1, m // TILE))"),),
        Cause(Part.CORRECTNESS, _WRONG, words="never written"),
    ),
    Mutant(
        _NUMBA,
        "wrong_dispatch",
        "the kernel for whole tiles is used whatever k is, so it drops what is left of k",
        (Edit(" and k % BLOCK_K == 0:", " and k % 4 == 0:"),),
        Cause(Part.CORRECTNESS, _WRONG, words="elements of c are wrong"),
    ),
    Mutant(
        _NUMBA,
        "non_atomic_update",
        "two blocks store their half of k into one element where they would have to add",
        (
            Edit(_IN_ONE_K_LOOP, "for p0 in range(cuda.blockIdx.z * DEPTH, k, 2 * DEPTH):"),
            Edit(
                "        gemm_kernel[blocks, THREADS](a, b, c)", "        gemm_kernel[(*blocks, 2), THREADS](a, b, c)"
            ),
        ),
        Cause(Part.CORRECTNESS, _WRONG, words="elements of c are wrong"),
    ),
    Mutant(
        _NUMBA,
        "constant_output",
        "the sums are not stored",
        (
            Edit("uint64(j % 4 + j // 4 * 32)] = total[i, j]", "uint64(j % 4 + j // 4 * 32)] = float32(0)"),
            Edit("c[row, col] = total[i, j]", "c[row, col] = float32(0)"),
        ),
        Cause(Part.CORRECTNESS, _WRONG, words="does not depend on the inputs"),
    ),
    Mutant(
        _NUMBA,
        "small_register_tiles",
        "the kernel for ragged sizes is used for whole tiles too",
        (Edit("if m % BLOCK_M == 0 and", "if m < 0 and"),),
        Cause(Part.TRAFFIC, _TRAFFIC, words="shared load wavefronts"),
    ),
)
