"""What tests know of lab 02_divergence: mistakes in its references, and sizes to try its tolerances with."""

from __future__ import annotations

from autograder.records.status import Part
from autograder.spec.task import Case, Family
from corpus.judge.mutants.mutant import Cause, Edit, Mutant

_NUMBA, _CUDA = "02_divergence/submission.py", "02_divergence/submission_cuda.py"
_WRONG, _FAULT, _TRAFFIC = "wrong answer", "out of bounds", "over budget"

TOLERANCES = (Case("ragged", {"n": 165}, Family.NORMAL), Case("wide", {"n": 128}, Family.WIDE))
CLASSES = {"kind": 0.2}  # changes the rays that become long or short: 2 * 1/8 * 7/8 of them
MUTANTS = (
    Mutant(
        _NUMBA,
        "counter_never_zeroed",
        "the counts of the lists begin with what the memory held",
        (Edit("    if x < WARPS:\n        waiting[x] = 0\n", ""),),
        Cause(Part.SAFETY, "uninitialised read", at="place = uint64(start + cuda.atomic.add(waiting, warp, mine))"),
    ),
    Mutant(
        _NUMBA,
        "missing_barrier",
        "what the other warps have left is shared out before they have looked",
        (Edit("    cuda.syncthreads()\n    count = int64(0)\n", "    count = int64(0)\n"),),
        Cause(Part.SAFETY, "race", at="count += waiting[w]"),
    ),
    Mutant(
        _NUMBA,
        "missing_barrier_after_the_layers",
        "rays march through layers that are not there yet",
        (Edit("        waiting[x] = 0\n    cuda.syncthreads()\n", "        waiting[x] = 0\n"),),
        # The compiler reads the layers before the loop over these rays, and names the loop.
        Cause(Part.SAFETY, "race", at="for i in range(whole + lane, n, 32):"),
    ),
    Mutant(
        _NUMBA,
        "no_bounds_check",
        "the last tile is taken for a whole one",
        (Edit("n // int32(TILE) * int32(TILE)", "(n + int32(TILE - 1)) // int32(TILE) * int32(TILE)"),),
        Cause(Part.SAFETY, _FAULT, at="opacities[e], kinds[e] = opacity[", words="has shape"),
    ),
    Mutant(
        _NUMBA,
        "rest_forgotten",
        "what is less than a batch is never marched",
        (Edit("    done = int64(0)\n", "    done = count\n"),),
        Cause(Part.CORRECTNESS, _WRONG, words="elements of out are wrong"),
    ),
    Mutant(
        _NUMBA,
        "rest_cut_off",
        "of what is less than a batch only one ray a thread is marched",
        (Edit("    done = int64(0)\n", "    done, count = int64(0), min(count, int64(BLOCK))\n"),),
        Cause(Part.CORRECTNESS, _WRONG, words="elements of out are wrong"),
    ),
    Mutant(
        _NUMBA,
        "every_fourth_step_left_out",
        "of 16 layers the last four are skipped",
        (Edit("        four(y, t, layers, k + uint64(12))\n", ""),),
        Cause(Part.CORRECTNESS, _WRONG, words="elements of out are wrong"),
    ),
    Mutant(
        _NUMBA,
        "small_batches",
        "a thread with one ray marches 20",
        (Edit("        if each > 3:\n", "        if each > 0:\n"),),
        Cause(Part.TRAFFIC, _TRAFFIC, words="fp32 instructions"),
    ),
    Mutant(
        _CUDA,
        "counter_never_zeroed",
        "the counts of the lists begin with what the memory held",
        (Edit("    if (threadIdx.x < WARPS) rest.waiting[threadIdx.x] = 0;\n", ""),),
        Cause(Part.SAFETY, "uninitialised read", at="int* place = list + atomicAdd(waiting,"),
    ),
    Mutant(
        _CUDA,
        "places_without_atomics",
        "two lanes take the same place in the list",
        (
            Edit(
                "list + atomicAdd(waiting, LOOK - __popc(others(p) | others(q) >> 1));",
                "list + *waiting; *waiting += LOOK - __popc(others(p) | others(q) >> 1);",
            ),
        ),
        Cause(Part.SAFETY, "race", at="int* place = list + *waiting;"),
    ),
    Mutant(
        _CUDA,
        "missing_barrier",
        "what the other warps have left is shared out before they have looked",
        (Edit("    __syncthreads();\n    int all = 0;", "    int all = 0;"),),
        Cause(Part.SAFETY, "race", at="all += rest.waiting[w];"),
    ),
    Mutant(
        _CUDA,
        "missing_warp_barrier",
        "a lane counts while others still add",
        (Edit("        __syncwarp();\n        rays = *waiting;", "        rays = *waiting;"),),
        Cause(Part.SAFETY, "race", at="rays = *waiting;"),
    ),
    Mutant(
        _CUDA,
        "no_bounds_check",
        "the last tile is taken for a whole one",
        (Edit("warp.whole = n / TILE * TILE;", "warp.whole = (n + TILE - 1) / TILE * TILE;"),),
        Cause(Part.SAFETY, _FAULT, at="a = rays[0], b = rays[32]", words="reads opacity["),
    ),
    Mutant(
        _CUDA,
        "one_too_far",
        "<= lets one ray too many through",
        (Edit("for (int i = whole + lane; i < n; i += 32) {", "for (int i = whole + lane; i <= n; i += 32) {"),),
        Cause(Part.SAFETY, _FAULT, at="float t = through(opacity[i]), y = 0.0f;", words="reads opacity["),
    ),
    Mutant(
        _CUDA,
        "rest_cut_off",
        "of what is less than a batch only the first 32 rays are marched",
        (Edit("    for (int done = 0; done + 32", "    all = min(all, 32);\n    for (int done = 0; done + 32"),),
        Cause(Part.CORRECTNESS, _WRONG, words="elements of out are wrong"),
    ),
    Mutant(
        _CUDA,
        "swapped_component",
        "the third of four layers glows twice",
        (Edit("four.w);", "four.z);"),),
        Cause(Part.CORRECTNESS, _WRONG, words="elements of out are wrong"),
    ),
    Mutant(
        _CUDA,
        "half_precision",
        "the layers are rounded to float16",
        (
            Edit("layers[k] = glow[k];", "layers[k] = __half2float(__float2half(glow[k]));"),
            Edit('r"""\n', 'r"""\n#include <cuda_fp16.h>\n'),
        ),
        Cause(Part.CORRECTNESS, _WRONG, words="lower precision"),
    ),
    Mutant(
        _CUDA,
        "one_ray_a_thread",
        "every ray is marched where it is found, as long as it has to",
        (
            Edit("LOOK - __popc(others(p) | others(q) >> 1)", "0"),
            Edit("if (!(kinds[e / 4] & 7u << e % 4 * 8)) *place++ =", "if (first < 0) *place++ ="),
            Edit(
                "        float4* fours = reinterpret_cast<float4*>(out + first);\n",
                "        for (int e = 0; e < LOOK; ++e)\n"
                "            if (!(kinds[e / 4] & 7u << e % 4 * 8)) {\n"
                "                unsigned s = seed(e < 4 ? (&a.x)[e] : (&b.x)[e - 4], first + e / 4 * 128 + e % 4);\n"
                "                y[e] = 0.0f;\n"
                "                cross_stretches<1>(y + e, t + e, &s, layers, [] {});\n"
                "            }\n"
                "        float4* fours = reinterpret_cast<float4*>(out + first);\n",
            ),
        ),
        Cause(Part.TRAFFIC, _TRAFFIC, words="fp32 instructions"),
    ),
)
