"""What tests know of lab 04_reduction: mistakes in its references, and sizes to try its tolerances with."""

from __future__ import annotations

from autograder.records.status import Part
from autograder.spec.task import Case, Family
from corpus.judge.mutants.mutant import Cause, Edit, Mutant

_NUMBA, _CUDA = "04_reduction/submission.py", "04_reduction/submission_cuda.py"
_WRONG, _FAULT, _TRAFFIC = "wrong answer", "out of bounds", "over budget"
_ONE = "1 of 1 elements of out are wrong"

TOLERANCES = (Case("ragged", {"n": 1501}, Family.NORMAL), Case("whole", {"n": 8192}, Family.WIDE))
MUTANTS = (
    Mutant(
        _NUMBA,
        "never_zeroed",
        "blocks add to what nobody has set",
        (Edit("    zero_kernel[1, 1](out)\n", ""),),
        Cause(Part.CORRECTNESS, _WRONG, words="got nan"),
    ),
    Mutant(
        _NUMBA,
        "missing_barrier",
        "the sums of the warps are read before they are there",
        (Edit("    cuda.syncthreads()\n", ""),),
        Cause(Part.SAFETY, "race", at="sums[cuda.threadIdx.x // 32] = s", words="no barrier between"),
    ),
    Mutant(
        _NUMBA,
        "one_shuffle_short",
        "neighbouring lanes never meet",
        (Edit("for step in range(5):", "for step in range(4):"),),
        Cause(Part.CORRECTNESS, _WRONG, words=_ONE),
    ),
    Mutant(
        _NUMBA,
        "no_bounds_check",
        "the last tile is taken for a whole one",
        (Edit("if (cuda.blockIdx.x + 1) * TILE <= x.size:", "if x.size > 0:"),),
        Cause(Part.SAFETY, _FAULT, at="parts[e] = x[first + e * BLOCK]", words="has shape"),
    ),
    Mutant(
        _NUMBA,
        "one_too_far",
        "the ragged end goes one element too far",
        (Edit("range(first, x.size, BLOCK)", "range(first, x.size + 1, BLOCK)"),),
        Cause(Part.SAFETY, _FAULT, at="s += x[i]", words="has shape"),
    ),
    Mutant(
        _NUMBA,
        "uninitialised_warps",
        "a sum of a warp that does not exist is added",
        (Edit("for w in range(WARPS):", "for w in range(WARPS + 1):"),),
        Cause(Part.SAFETY, _FAULT, at="s += sums[w]"),
    ),
    Mutant(
        _NUMBA,
        "every_lane_adds",
        "threads add their own sums to memory",
        (
            Edit(
                "    if cuda.threadIdx.x == 0:\n        s = float32(0)\n",
                "    if cuda.threadIdx.x < 0:\n        s = x[0]\n",
            ),
            Edit("    for step in range(5):", "    cuda.atomic.add(out, 0, s)\n    for step in range(5):"),
        ),
        Cause(Part.TRAFFIC, _TRAFFIC, words="global reduction requests"),
    ),
    Mutant(
        _CUDA,
        "never_zeroed",
        "blocks add to what nobody has set",
        (Edit("    zero_kernel((1,), (1,), (out,))\n", ""),),
        Cause(Part.CORRECTNESS, _WRONG, words="got nan"),
    ),
    Mutant(
        _CUDA,
        "missing_barrier",
        "the sums of the warps are read before they are there",
        (Edit("    __syncthreads();\n", ""),),
        Cause(Part.SAFETY, "race", at="sums[threadIdx.x / 32] = s;", words="no barrier between"),
    ),
    Mutant(
        _CUDA,
        "barrier_of_a_warp",
        "the barrier holds for a warp, the sums belong to the block",
        (Edit("__syncthreads();", "__syncwarp();"),),
        Cause(Part.SAFETY, "race", at="sums[threadIdx.x / 32] = s;", words="no barrier between"),
    ),
    Mutant(
        _CUDA,
        "swapped_component",
        "the third component is added twice",
        (Edit("parts[e].w", "parts[e].z", times=1),),
        Cause(Part.CORRECTNESS, _WRONG, words=_ONE),
    ),
    Mutant(
        _CUDA,
        "no_bounds_check",
        "the last tile is taken for a whole one",
        (Edit("if (4 * (first + BLOCK * EACH) <= n) {", "if (n > 0) {"),),
        Cause(Part.SAFETY, _FAULT, at="parts[e] = fours[first"),
    ),
    Mutant(
        _CUDA,
        "one_too_far",
        "<= where < is meant",
        (Edit("i < n; i += BLOCK", "i <= n; i += BLOCK"),),
        Cause(Part.SAFETY, _FAULT, at="s += x[i];"),
    ),
    Mutant(
        _CUDA,
        "all_warps_are_added",
        "32 sums are added up where eight were stored",
        (Edit("threadIdx.x < WARPS ? sums[threadIdx.x] : 0.0f", "sums[threadIdx.x]"),),
        Cause(Part.SAFETY, _FAULT, at="of_a_warp(sums[threadIdx.x])"),
    ),
    Mutant(
        _CUDA,
        "half_precision",
        "the sum of a warp is rounded to float16",
        (
            Edit("sums[threadIdx.x / 32] = s;", "sums[threadIdx.x / 32] = __half2float(__float2half(s));"),
            Edit('r"""\n', 'r"""\n#include <cuda_fp16.h>\n'),
        ),
        Cause(Part.CORRECTNESS, _WRONG, words=_ONE),
    ),
    Mutant(
        _CUDA,
        "read_twice",
        "blocks overlap by half, and each counts half",
        (
            Edit("(long long)blockIdx.x * BLOCK * EACH;", "(long long)(blockIdx.x / 2) * BLOCK * EACH;"),
            Edit("atomicAdd(out, s)", "atomicAdd(out, 0.5f * s)"),
            Edit("blocks = (x.size + TILE - 1) // TILE", "blocks = 2 * ((x.size + TILE - 1) // TILE)"),
        ),
        Cause(Part.TRAFFIC, _TRAFFIC, words="global load sectors"),
    ),
)
