"""What tests know of lab 01_axpy: mistakes in its references, and sizes to try its tolerances with."""

from __future__ import annotations

from autograder.records.status import Part
from autograder.spec.task import Case, Family
from corpus.judge.mutants.mutant import Cause, Edit, Mutant

_NUMBA, _CUDA = "01_axpy/submission.py", "01_axpy/submission_cuda.py"
_WRONG, _FAULT, _TRAFFIC = "wrong answer", "out of bounds", "over budget"

TOLERANCES = (Case("ragged", {"n": 1501}, Family.NORMAL), Case("wide", {"n": 1024}, Family.WIDE))
MUTANTS = (
    Mutant(
        _NUMBA,
        "no_bounds_check",
        "the last block is taken for a whole one",
        (Edit("if (cuda.blockIdx.x + 1) * TILE <= out.size:", "if out.size > 0:"),),
        Cause(Part.SAFETY, _FAULT, at="xs[e] = x[first + e * BLOCK]", words="has shape"),
    ),
    Mutant(
        _NUMBA,
        "one_too_far",
        "the ragged end goes one element too far",
        (Edit("range(first, out.size, BLOCK)", "range(first, out.size + 1, BLOCK)"),),
        Cause(Part.SAFETY, _FAULT, at="out[i] = scale * x[i] + y[i]"),
    ),
    Mutant(
        _NUMBA,
        "swapped_index",
        "a thread stores neighbours of its own where it should step by the block",
        (Edit("out[first + e * BLOCK]", "out[first + e]"),),
        Cause(Part.SAFETY, "race", at="out[first + e]", words="every thread needs an element of its own"),
    ),
    Mutant(
        _NUMBA,
        "whole_tiles_only",
        "right only for multiples of the tile",
        (Edit("for i in range(first, out.size, BLOCK):", "for i in range(0):"),),
        Cause(Part.CORRECTNESS, _WRONG, words="never written"),
    ),
    Mutant(
        _NUMBA,
        "constant_output",
        "the inputs are not used",
        (
            Edit("scale * xs[e] + ys[e]", "scale - scale"),
            Edit("scale * x[i] + y[i]", "scale - scale"),
        ),
        Cause(Part.CORRECTNESS, _WRONG, words="does not depend on the inputs"),
    ),
    Mutant(
        _NUMBA,
        "wrong_type",
        "alpha loses its fraction",
        (Edit("float32(alpha)  #", "float32(int(alpha))  #"),),
        Cause(Part.CORRECTNESS, _WRONG, words="elements of out are wrong"),
    ),
    Mutant(
        _NUMBA,
        "adds_to_the_output",
        "out is read before anything wrote it",
        (Edit("out[i] = scale", "out[i] += scale"),),
        Cause(Part.SAFETY, "uninitialised read", at="out[i] += scale", words="nothing has written"),
    ),
    Mutant(
        _NUMBA,
        "non_atomic_update",
        "four elements are added into one without an atomic or a loop",
        (Edit("out[first + e * BLOCK] = scale", "out[first] = scale"),),
        Cause(Part.CORRECTNESS, _WRONG, words="never written"),
    ),
    Mutant(
        _NUMBA,
        "half_a_tile_too_early",
        "blocks overlap by half, so elements are computed twice",
        (
            Edit("first = cuda.blockIdx.x * TILE +", "first = cuda.blockIdx.x * (TILE // 2) +"),
            Edit("(cuda.blockIdx.x + 1) * TILE <= out.size", "cuda.blockIdx.x * (TILE // 2) + TILE <= out.size"),
            Edit("blocks = (out.size + TILE - 1) // TILE\n", "blocks = (2 * out.size + TILE - 1) // TILE\n"),
        ),
        Cause(Part.TRAFFIC, _TRAFFIC, words="global load sectors"),
    ),
    Mutant(
        _CUDA,
        "no_bounds_check",
        "a vector of four is moved although fewer are left",
        (Edit("if (first + 4 <= n) {", "if (first < n) {"),),
        Cause(Part.SAFETY, _FAULT, at="reinterpret_cast<const float4*>(x + first)"),
    ),
    Mutant(
        _CUDA,
        "one_too_far",
        "<= where < is meant",
        (Edit("i < n; ++i", "i <= n; ++i"),),
        Cause(Part.SAFETY, _FAULT, at="out[i] = alpha * x[i] + y[i]"),
    ),
    Mutant(
        _CUDA,
        "off_by_one_guard",
        "three elements that are left are taken for four",
        (Edit("first + 4 <= n", "first + 3 <= n"),),
        Cause(Part.SAFETY, _FAULT, at="reinterpret_cast<const float4*>(x + first)"),
    ),
    Mutant(
        _CUDA,
        "misaligned_vectors",
        "threads begin one element apart and move four",
        (Edit("first = 4 * ((long long)", "first = ((long long)"),),
        Cause(Part.CORRECTNESS, "misaligned address", at="reinterpret_cast<const float4*>(x + first)"),
    ),
    Mutant(
        _CUDA,
        "swapped_component",
        "the fourth component is computed from the third",
        (Edit("alpha * xs.w + ys.w", "alpha * xs.z + ys.z"),),
        Cause(Part.CORRECTNESS, _WRONG, words="every 4th element"),
    ),
    Mutant(
        _CUDA,
        "half_precision",
        "the result is rounded to float16 on its way",
        (
            Edit("out[i] = alpha * x[i] + y[i]", "out[i] = __half2float(__float2half(alpha * x[i] + y[i]))"),
            Edit('r"""\n', 'r"""\n#include <cuda_fp16.h>\n'),
        ),
        Cause(Part.CORRECTNESS, _WRONG, words="elements of out are wrong"),
    ),
    Mutant(
        _CUDA,
        "whole_vectors_only",
        "right only for multiples of four",
        (Edit("} else {\n#pragma unroll 1\n", "} else if (n < 0) {\n"),),
        Cause(Part.CORRECTNESS, _WRONG, words="never written"),
    ),
    Mutant(
        _CUDA,
        "grid_rounded_down",
        "the last block is missing",
        (Edit("(out.size + 4 * BLOCK - 1) // (4 * BLOCK)", "max(1, out.size // (4 * BLOCK))"),),
        Cause(Part.CORRECTNESS, _WRONG, words="never written"),
    ),
)
