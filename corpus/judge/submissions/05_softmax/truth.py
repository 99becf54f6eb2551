"""What tests know of lab 05_softmax: mistakes in its references, and sizes to try its tolerances with."""

from __future__ import annotations

from autograder.records.status import Part
from autograder.spec.task import Case, Family
from corpus.judge.mutants.mutant import Cause, Edit, Mutant

_NUMBA, _CUDA = "05_softmax/submission.py", "05_softmax/submission_cuda.py"
_WRONG, _FAULT, _TRAFFIC = "wrong answer", "out of bounds", "over budget"
_SOME = "elements of out are wrong"

TOLERANCES = (Case("ragged", {"m": 3, "n": 333}, Family.NORMAL), Case("vectors", {"m": 2, "n": 512}, Family.INTEGERS))
MUTANTS = (
    Mutant(
        _NUMBA,
        "no_bounds_check",
        "warps without a row read and write beyond the last",
        (Edit("        if row >= m:", "        if row > m + uint64(1 << 40):"),),
        Cause(Part.SAFETY, _FAULT),
    ),
    Mutant(
        _NUMBA,
        "missing_barrier",
        "the partial sums of the warps are read before they are there",
        (Edit("            cuda.syncthreads()\n", ""),),
        Cause(Part.SAFETY, "race", words="no barrier between"),
    ),
    Mutant(
        _NUMBA,
        "swapped_mask",
        "the mask of the first of four elements is taken for all",
        (Edit("uint32(e % vector * 8)", "uint32(0)"),),
        Cause(Part.CORRECTNESS, _WRONG, words=_SOME),
    ),
    Mutant(
        _NUMBA,
        "largest_not_joined",
        "sums relative to different elements are added",
        (Edit("return both, total", "return largest, total"),),
        Cause(Part.CORRECTNESS, _WRONG, words=_SOME),
    ),
    Mutant(
        _NUMBA,
        "misaligned_vectors",
        "rows of odd length are read by vectors of four",
        (Edit("vector = 4 if n % 4 == 0 else 1", "vector = 4"),),
        Cause(Part.SAFETY, _FAULT),
    ),
    Mutant(
        _NUMBA,
        "two_readings",
        "every row is read a second time for the result",
        (
            Edit(
                "        while first >= uint64(chunk):",
                "        first += uint64(chunk)\n        while first >= uint64(chunk):",
            ),
        ),
        Cause(Part.TRAFFIC, _TRAFFIC, words="global load sectors"),
    ),
    Mutant(
        _CUDA,
        "no_bounds_check",
        "warps without a row read and write beyond the last",
        (Edit("    if (row >= m) return;", "    if (row < 0) return;"),),
        Cause(Part.SAFETY, _FAULT),
    ),
    Mutant(
        _CUDA,
        "missing_barrier",
        "the partial sums of the warps are read before they are there",
        (Edit("    __syncthreads();\n", ""),),
        Cause(Part.SAFETY, "race", words="no barrier between"),
    ),
    Mutant(
        _CUDA,
        "masked_rows_divide",
        "a row that is masked everywhere adds up to 1 all the same",
        (Edit("all.largest > NOTHING ? 1.0f / all.sum : 0.0f", "1.0f / all.sum"),),
        Cause(Part.CORRECTNESS, _WRONG, words=_SOME),
    ),
    Mutant(
        _CUDA,
        "swapped_component",
        "the mask of the third of four elements hides the fourth",
        (Edit("m[e].w ? v[e].w", "m[e].z ? v[e].w"),),
        Cause(Part.CORRECTNESS, _WRONG, words=_SOME),
    ),
    Mutant(
        _CUDA,
        "sum_not_rescaled",
        "sums relative to different elements are added",
        (Edit("    p.sum *= exp2f(p.largest - largest);\n", ""),),
        Cause(Part.CORRECTNESS, _WRONG, words=_SOME),
    ),
    Mutant(
        _CUDA,
        "base_of_the_exponential",
        "2 to the power where e is meant",
        (Edit("    scale *= 1.44269504f;", "    scale *= 1.0f;"),),
        Cause(Part.CORRECTNESS, _WRONG, words=_SOME),
    ),
    Mutant(
        _CUDA,
        "misaligned_vectors",
        "rows of odd length are read by vectors of four",
        (Edit("vector = 4 if n % 4 == 0 else 1", "vector = 4"),),
        Cause(Part.SAFETY, _FAULT),
    ),
    Mutant(
        _CUDA,
        "two_readings",
        "every row is read a second time for the result",
        (Edit("int c = chunks - 2; c >= 0; --c", "int c = chunks - 1; c >= 0; --c"),),
        Cause(Part.TRAFFIC, _TRAFFIC, words="global load sectors"),
    ),
)
