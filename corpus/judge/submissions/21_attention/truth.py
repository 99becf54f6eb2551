"""What tests know of lab 21_attention: mistakes in its references, and sizes to try its tolerances with."""

from __future__ import annotations

from autograder.records.status import Part
from autograder.spec.task import Case, Family
from corpus.judge.mutants.mutant import Cause, Edit, Mutant

_NUMBA, _CUDA = "21_attention/submission.py", "21_attention/submission_cuda.py"
_WRONG, _RACE, _OUT = "wrong answer", "race", "elements of out are wrong"

TOLERANCES = (
    Case("long", {"heads": 1, "n": 420, "d": 64, "causal": 0}, Family.NORMAL),
    Case("longer and causal", {"heads": 1, "n": 601, "d": 64, "causal": 1}, Family.NORMAL),
)
MUTANTS = (
    Mutant(
        _NUMBA,
        "largest_of_two_lanes",
        "the largest score of a row is that of two lanes",
        (Edit("for step in range(2):", "for step in range(1):"),),
        Cause(Part.CORRECTNESS, _WRONG, words=_OUT),
    ),
    Mutant(
        _NUMBA,
        "mask_one_short",
        "a query sees the key behind its own",
        (Edit("key > (last if", "key > 1 + (last if"),),
        Cause(Part.CORRECTNESS, _WRONG, words=_OUT),
    ),
    Mutant(
        _NUMBA,
        "sums_not_shrunk",
        "sums of a row are kept when a larger score comes",
        (Edit("sums[s + 1] *= shrink\n", "sums[s + 1] *= f32(1)\n"),),
        Cause(Part.CORRECTNESS, _WRONG, words=_OUT),
    ),
    Mutant(
        _NUMBA,
        "copies_not_waited_for",
        "a tile is multiplied while its copies are in flight",
        (Edit("            ptx.cp_async_wait_all()\n", ""),),
        Cause(Part.SAFETY, _RACE, at="ptx.ldmatrix_x4"),
    ),
    Mutant(
        _NUMBA,
        "no_barrier_in_the_loop",
        "a stage is read before other warps' copies have come",
        (Edit("            cuda.syncthreads()  # everybody's", "            # everybody's"),),
        Cause(Part.SAFETY, _RACE),
    ),
    Mutant(
        _NUMBA,
        "neighbouring_head",
        "rows behind the end of a head are stored to the next one",
        (Edit("            if row + 8 < n:\n", "            if row < n:\n"),),
        Cause(Part.SAFETY, "out of bounds", at="ptx.store_global_4"),
    ),
    Mutant(
        _NUMBA,
        "all_tiles",
        "tiles behind the diagonal are multiplied, too",
        (Edit("end = min(n, row0 + QUERIES) if causal != 0 else n", "end = n"),),
        Cause(Part.TRAFFIC, "over budget"),
    ),
    Mutant(
        _CUDA,
        "copies_not_waited_for",
        "a tile is multiplied while its copies are in flight",
        (Edit("        wait_for_copies<0>();\n", ""),),
        Cause(Part.SAFETY, _RACE),
    ),
    Mutant(
        _CUDA,
        "no_barrier_in_the_loop",
        "a stage is read before other warps' copies have come",
        (Edit("        __syncthreads();  // everybody's", "        // everybody's"),),
        Cause(Part.SAFETY, _RACE),
    ),
    Mutant(
        _CUDA,
        "mask_of_the_upper_row",
        "the lower row of a thread has the upper one's mask",
        (Edit("min(n, row + 8 * r + 1) : n", "min(n, row + 1) : n"),),
        Cause(Part.CORRECTNESS, _WRONG, words=_OUT),
    ),
    Mutant(
        _CUDA,
        "only_the_diagonal_hides",
        "keys behind the end have a weight",
        (Edit("start + KEYS > n || (causal && start + KEYS > row0)", "causal && start + KEYS > row0"),),
        Cause(Part.CORRECTNESS, _WRONG, words=_OUT),
    ),
    Mutant(
        _CUDA,
        "total_not_shrunk",
        "the sum of weights is kept when a larger score comes",
        (Edit("total[r] * shrink + sum", "total[r] + sum"),),
        Cause(Part.CORRECTNESS, _WRONG, words=_OUT),
    ),
    Mutant(
        _CUDA,
        "values_not_transposed",
        "values are loaded as keys are",
        (Edit("                load_pieces_transposed(b, stage", "                load_pieces(b, stage"),),
        Cause(Part.CORRECTNESS, _WRONG, words=_OUT),
    ),
)
