"""What tests know of lab 03_transpose: mistakes in its references, and sizes to try its tolerances with."""

from __future__ import annotations

from autograder.records.status import Part
from autograder.spec.task import Case, Family
from corpus.judge.mutants.mutant import Cause, Edit, Mutant

_NUMBA, _CUDA = "03_transpose/submission.py", "03_transpose/submission_cuda.py"
_WRONG, _FAULT, _TRAFFIC = "wrong answer", "out of bounds", "over budget"

TOLERANCES = (Case("ragged", {"m": 33, "n": 70}, Family.NORMAL), Case("whole", {"m": 64, "n": 64}, Family.WIDE))
MUTANTS = (
    Mutant(
        _NUMBA,
        "missing_barrier",
        "a whole tile is read before it is full",
        (Edit("        cuda.syncthreads()\n", "", times=2, only=0),),
        Cause(Part.SAFETY, "race", at="out[col0 + j, row0 + i] = tile", words="no barrier between"),
    ),
    Mutant(
        _NUMBA,
        "missing_barrier_at_the_edge",
        "a tile over the edge is read before it is full",
        (Edit("        cuda.syncthreads()\n", "", times=2, only=1),),
        Cause(Part.SAFETY, "race", at="out[col0 + j, row0 + i] = tile", words="no barrier between"),
    ),
    Mutant(
        _NUMBA,
        "barrier_of_a_warp",
        "the barrier holds for a warp, the tile belongs to the block",
        (Edit("cuda.syncthreads()", "cuda.syncwarp()", times=2),),
        Cause(Part.SAFETY, "race", at="out[col0 + j, row0 + i] = tile", words="no barrier between"),
    ),
    Mutant(
        _NUMBA,
        "one_too_far",
        "<= lets one row of a too many through",
        (Edit("if row0 + i < m and col0 + j < n:", "if row0 + i <= m and col0 + j < n:"),),
        Cause(Part.SAFETY, _FAULT, at="tile[i, place(i, j)] = a[row0 + i, col0 + j]", words="has shape"),
    ),
    Mutant(
        _NUMBA,
        "no_bounds_check",
        "nothing stops the threads beyond the edge from storing",
        (Edit("if col0 + j < n and row0 + i < m:", "if n > uint64(0):"),),
        Cause(Part.SAFETY, _FAULT, at="out[col0 + j, row0 + i] = tile", words="writes out["),
    ),
    Mutant(
        _NUMBA,
        "swapped_index",
        "the tile is not turned",
        (Edit("= tile[i, place(i, j)]", "= tile[j, place(j, i)]", times=2),),
        Cause(Part.CORRECTNESS, _WRONG, words="elements of out are wrong"),
    ),
    Mutant(
        _NUMBA,
        "swapped_blocks",
        "the tile is stored where it came from",
        (Edit("out[col0 + j, row0 + i]", "out[row0 % n + j, col0 % m + i]", times=2, only=0),),
        Cause(Part.CORRECTNESS, _WRONG, words="elements of out are wrong"),
    ),
    Mutant(
        _NUMBA,
        "whole_tiles_only",
        "the grid is rounded down",
        (
            Edit(
                "blocks = ((m + TILE - 1) // TILE, (n + TILE - 1) // TILE)",
                "blocks = (max(1, m // TILE), max(1, n // TILE))",
            ),
        ),
        Cause(Part.CORRECTNESS, _WRONG, words="never written"),
    ),
    Mutant(
        _NUMBA,
        "half_tile",
        "the tile in shared memory is float16",
        (
            Edit(
                "from numba import cuda, float32, uint64\n",
                "import numpy as np\nfrom numba import cuda, float32, uint64\n",
            ),
            Edit("(TILE, TILE), float32)", "(TILE, TILE), np.float16)"),
        ),
        Cause(Part.CORRECTNESS, _WRONG, words="lower precision"),
    ),
    Mutant(
        _NUMBA,
        "constant_output",
        "the tile is not used",
        (Edit("= tile[i, place(i, j)]", "= float32(0)", times=2),),
        Cause(Part.CORRECTNESS, _WRONG, words="does not depend on the inputs"),
    ),
    Mutant(
        _NUMBA,
        "straight_tile",
        "a column of the tile lies in one bank",
        (Edit("return column ^ (row & uint64(31))", "return column"),),
        Cause(Part.TRAFFIC, _TRAFFIC, words="shared load bank conflicts"),
    ),
    Mutant(
        _CUDA,
        "missing_barrier",
        "the tile is read before it is full",
        (Edit("    __syncthreads();\n", ""),),
        Cause(
            Part.SAFETY,
            "race",
            at="if (inside) out[(long long)(col0 + j) * m + row0 + i] = tile",
            words="no barrier between",
        ),
    ),
    Mutant(
        _CUDA,
        "barrier_of_a_warp",
        "the barrier holds for a warp, the tile belongs to the block",
        (Edit("__syncthreads();", "__syncwarp();"),),
        Cause(
            Part.SAFETY,
            "race",
            at="if (inside) out[(long long)(col0 + j) * m + row0 + i] = tile",
            words="no barrier between",
        ),
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
        (Edit("(col0 + j < n && row0 + i < m)", "(col0 + j < n && row0 + i <= m)"),),
        Cause(Part.CORRECTNESS, _WRONG, words="elements of out are wrong"),
    ),
    Mutant(
        _CUDA,
        "no_bounds_check",
        "every tile is taken for a whole one",
        (Edit("bool whole = row0 + TILE <= m && col0 + TILE <= n;", "bool whole = true;"),),
        Cause(Part.SAFETY, _FAULT, at="if (inside) tile[i][j ^ (i % 32)] = a[", words="reads a["),
    ),
    Mutant(
        _CUDA,
        "swapped_width",
        "the rows of out are taken to be as long as those of a",
        (Edit("out[(long long)(col0 + j) * m + row0 + i]", "out[(long long)(col0 + j) * n + row0 + i]"),),
        Cause(Part.SAFETY, _FAULT, at="out[(long long)(col0 + j) * n + row0 + i]", words="writes out["),
    ),
    Mutant(
        _CUDA,
        "stale_shared_memory",
        "half of the tile is never filled",
        (Edit("for (int r = 0; r < TILE; r += ROWS)", "for (int r = 0; r < TILE / 2; r += ROWS)", times=2, only=0),),
        Cause(
            Part.SAFETY,
            "uninitialised read",
            at="if (inside) out[(long long)(col0 + j) * m + row0 + i] = tile",
            words="nothing has written",
        ),
    ),
    Mutant(
        _CUDA,
        "swizzled_the_wrong_way",
        "the permutation depends on the column, and the elements of a column stay in one bank",
        (Edit("j ^ (i % 32)", "j ^ (j / 32)", times=2),),
        Cause(Part.TRAFFIC, _TRAFFIC, words="shared load bank conflicts"),
    ),
)
