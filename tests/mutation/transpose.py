"""Mistakes in the references of lab 03_transpose."""

from __future__ import annotations

from autograder.verdict import Part
from tests.mutation.mutant import Cause, Edit, Mutant

_NUMBA, _CUDA = "03_transpose/submission.py", "03_transpose/submission_cuda.py"
_WRONG, _FAULT, _TRAFFIC = "wrong answer", "out of bounds", "over budget"

MUTANTS = (
    Mutant(
        _NUMBA,
        "missing_barrier",
        "a whole tile is read before it is full",
        (Edit("        cuda.syncthreads()\n", "", times=2, only=0),),
        Cause(Part.SAFETY, "race", at="out[col0 + y + r, row0 + x + half] = tile", words="no barrier between"),
    ),
    Mutant(
        _NUMBA,
        "missing_barrier_at_the_edge",
        "a tile over the edge is read before it is full",
        (Edit("        cuda.syncthreads()\n", "", times=2, only=1),),
        Cause(Part.SAFETY, "race", at="out[col0 + r, row0 + s] = tile[s, r]", words="no barrier between"),
    ),
    Mutant(
        _NUMBA,
        "barrier_of_a_warp",
        "the barrier holds for a warp, the tile belongs to the block",
        (Edit("cuda.syncthreads()", "cuda.syncwarp()", times=2),),
        Cause(Part.SAFETY, "race", at="out[col0 + y + r, row0 + x + half] = tile", words="no barrier between"),
    ),
    Mutant(
        _NUMBA,
        "one_too_far",
        "<= lets one row of a too many through",
        (Edit("if row0 + r < m and col0 + s < n:", "if row0 + r <= m and col0 + s < n:"),),
        Cause(Part.SAFETY, _FAULT, at="tile[r, s] = a[row0 + r, col0 + s]", words="has shape"),
    ),
    Mutant(
        _NUMBA,
        "no_bounds_check",
        "nothing stops the threads beyond the edge from storing",
        (Edit("if col0 + r < n and row0 + s < m:", "if n > 0:"),),
        Cause(Part.SAFETY, _FAULT, at="out[col0 + r, row0 + s] = tile[s, r]", words="writes out["),
    ),
    Mutant(
        _NUMBA,
        "swapped_index",
        "the tile is not turned",
        (Edit("tile[x + half, y + r]", "tile[y + r, x + half]"),),
        Cause(Part.CORRECTNESS, _WRONG, words="elements of out are wrong"),
    ),
    Mutant(
        _NUMBA,
        "swapped_blocks",
        "the tile is stored where it came from",
        (Edit("out[col0 + y + r, row0 + x + half]", "out[row0 % n + y + r, col0 % m + x + half]"),),
        Cause(Part.CORRECTNESS, _WRONG, words="never written"),
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
        "half_tile",
        "the tile in shared memory is float16",
        (
            Edit("from numba import cuda, float32\n", "import numpy as np\nfrom numba import cuda, float32\n"),
            Edit("(TILE, PADDED), float32)", "(TILE, PADDED), np.float16)"),
        ),
        Cause(Part.CORRECTNESS, _WRONG, words="lower precision"),
    ),
    Mutant(
        _NUMBA,
        "constant_output",
        "the tile is not used",
        (Edit("= tile[x + half, y + r]", "= float32(0)"), Edit("= tile[s, r]", "= float32(0)")),
        Cause(Part.CORRECTNESS, _WRONG, words="does not depend on the inputs"),
    ),
    Mutant(
        _NUMBA,
        "unpadded_tile",
        "a column of the tile lies in one bank",
        (Edit("PADDED = TILE + 1", "PADDED = TILE"),),
        Cause(Part.TRAFFIC, _TRAFFIC, words="shared load bank conflicts"),
    ),
    Mutant(
        _CUDA,
        "missing_barrier",
        "the tile is read before it is full",
        (Edit("    __syncthreads();\n", ""),),
        Cause(Part.SAFETY, "race", at="out[(long long)j * m + i] = tile", words="no barrier between"),
    ),
    Mutant(
        _CUDA,
        "barrier_of_a_warp",
        "the barrier holds for a warp, the tile belongs to the block",
        (Edit("__syncthreads();", "__syncwarp();"),),
        Cause(Part.SAFETY, "race", at="out[(long long)j * m + i] = tile", words="no barrier between"),
    ),
    Mutant(
        _CUDA,
        "barrier_in_a_branch",
        "only threads inside the matrix reach the barrier",
        (Edit("__syncthreads();", "if (col0 + x < n) __syncthreads();"),),
        Cause(Part.SAFETY, "divergent barrier", at="if (col0 + x < n) __syncthreads();"),
    ),
    Mutant(
        _CUDA,
        "one_too_far",
        "<= lets one column too many through",
        (Edit("(j < n && i < m)", "(j < n && i <= m)"),),
        Cause(Part.CORRECTNESS, _WRONG, words="elements of out are wrong"),
    ),
    Mutant(
        _CUDA,
        "no_bounds_check",
        "every tile is taken for a whole one",
        (Edit("bool whole = row0 + TILE <= m && col0 + TILE <= n;", "bool whole = true;"),),
        Cause(Part.SAFETY, _FAULT, at="tile[y + r][x + s] = a[", words="reads a["),
    ),
    Mutant(
        _CUDA,
        "swapped_width",
        "the rows of out are taken to be as long as those of a",
        (Edit("out[(long long)j * m + i]", "out[(long long)j * n + i]"),),
        Cause(Part.SAFETY, _FAULT, at="out[(long long)j * n + i]", words="writes out["),
    ),
    Mutant(
        _CUDA,
        "stale_shared_memory",
        "half of the tile is never filled",
        (Edit("for (int r = 0; r < TILE; r += ROWS)", "for (int r = 0; r < TILE / 2; r += ROWS)", times=2, only=0),),
        Cause(Part.SAFETY, "uninitialised read", at="out[(long long)j * m + i] = tile", words="nothing has written"),
    ),
    Mutant(
        _CUDA,
        "unpadded_tile",
        "a column of the tile lies in one bank",
        (Edit("tile[TILE][TILE + 1]", "tile[TILE][TILE]"),),
        Cause(Part.TRAFFIC, _TRAFFIC, words="shared load bank conflicts"),
    ),
)
