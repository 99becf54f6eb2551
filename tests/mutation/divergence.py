"""Mistakes in the references of lab 02_divergence."""

from __future__ import annotations

from autograder.verdict import Part
from tests.mutation.mutant import Cause, Edit, Mutant

_NUMBA, _CUDA = "02_divergence/submission.py", "02_divergence/submission_cuda.py"
_WRONG, _FAULT, _TRAFFIC = "wrong answer", "out of bounds", "over budget"

MUTANTS = (
    Mutant(
        _NUMBA,
        "counter_never_zeroed",
        "the count of the queue begins with what the memory held",
        (Edit("    if x == 0:\n        waiting[0] = 0\n", ""),),
        Cause(Part.SAFETY, "uninitialised read", at="place = cuda.atomic.add(waiting, 0, mine)"),
    ),
    Mutant(
        _NUMBA,
        "missing_barrier",
        "the queue is read before all rays of the tile are in it",
        (Edit("            cuda.syncthreads()\n            rays = waiting[0]", "            rays = waiting[0]"),),
        Cause(Part.SAFETY, "race", at="rays = waiting[0]"),
    ),
    Mutant(
        _NUMBA,
        "missing_barrier_after_the_layers",
        "rays march through layers that are not there yet",
        (Edit("        waiting[0] = 0\n    cuda.syncthreads()\n", "        waiting[0] = 0\n"),),
        Cause(Part.SAFETY, "race", at="a, b, c, d = layers[k]"),
    ),
    Mutant(
        _NUMBA,
        "no_bounds_check",
        "the last tile is taken for a whole one",
        (Edit("            if whole or i < n:\n                opac", "            if n > 0:\n                opac"),),
        Cause(Part.SAFETY, _FAULT, at="opacities[e], kinds[e] = opacity[i], kind[i]", words="has shape"),
    ),
    Mutant(
        _NUMBA,
        "last_batch_forgotten",
        "what is left in the queue and fills no batch is never marched",
        (Edit("        if each > FEWER:\n", "        if now < full:\n            pass\n        elif each > FEWER:\n"),),
        Cause(Part.CORRECTNESS, _WRONG, words="elements of out are wrong"),
    ),
    Mutant(
        _NUMBA,
        "last_batch_cut_off",
        "of the last batch only one ray a thread is marched",
        (Edit("rays + x, now - x\n", "rays + x, min(now, BLOCK) - x\n"),),
        Cause(Part.CORRECTNESS, _WRONG, words="elements of out are wrong"),
    ),
    Mutant(
        _NUMBA,
        "every_fourth_step_left_out",
        "of 16 layers the last four are skipped",
        (Edit("            four(y, t, layers, k + uint64(12))\n", ""),),
        Cause(Part.CORRECTNESS, _WRONG, words="elements of out are wrong"),
    ),
    Mutant(
        _NUMBA,
        "small_batches",
        "a thread with one ray marches 20",
        (Edit("        if each > FEWER:\n", "        if each > 0:\n"),),
        Cause(Part.TRAFFIC, _TRAFFIC, words="fp32 instructions"),
    ),
    Mutant(
        _CUDA,
        "counter_never_zeroed",
        "the count of the queue begins with what the memory held",
        (Edit("    if (threadIdx.x == 0) waiting = 0;\n", ""),),
        Cause(Part.SAFETY, "uninitialised read", at="Ray* place = queue + atomicAdd(waiting, mine);"),
    ),
    Mutant(
        _CUDA,
        "places_without_atomics",
        "two threads take the same place in the queue",
        (Edit("queue + atomicAdd(waiting, mine);", "queue + (*waiting += mine) - mine;"),),
        Cause(Part.SAFETY, "race", at="Ray* place = queue + (*waiting += mine) - mine;"),
    ),
    Mutant(
        _CUDA,
        "missing_barrier",
        "the queue is read before all rays of the tile are in it",
        (Edit("            __syncthreads();\n            rays = waiting;", "            rays = waiting;"),),
        Cause(Part.SAFETY, "race"),
    ),
    Mutant(
        _CUDA,
        "no_bounds_check",
        "the last tile is taken for a whole one",
        (Edit("bool here = i + away(e) < n;", "bool here = n > 0;"),),
        Cause(Part.SAFETY, _FAULT, at="opacities[e] = here ? opacity[i + away(e)] : 0.0f;", words="reads opacity["),
    ),
    Mutant(
        _CUDA,
        "one_too_far",
        "<= lets one ray too many through",
        (Edit("if (!WHOLE && i + away(e) < n) out", "if (!WHOLE && i + away(e) <= n) out"),),
        Cause(Part.SAFETY, _FAULT, at="if (!WHOLE && i + away(e) <= n) out", words="writes out["),
    ),
    Mutant(
        _CUDA,
        "last_batch_cut_off",
        "of the last batch only one ray a thread is marched",
        (Edit("now - threadIdx.x, each);", "min(now, BLOCK) - threadIdx.x, each);"),),
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
            Edit("mine += kinds[e] % 8 == 0;", "mine += 0;"),
            Edit("if (kinds[e] % 8 == 0) *place++", "if (n < 0) *place++"),
            Edit(
                "cross<LOOK, SHORT>(y, t, layers);",
                "cross<LOOK, SHORT>(y, t, layers);\n    for (int e = 0; e < LOOK; ++e)\n"
                "        if (kinds[e] % 8 == 0) y[e] = alone(t[e], layers);",
            ),
            Edit(
                "// Look at this thread's rays",
                "__device__ float alone(float t, const float4* layers)\n{\n    float y = 0.0f;\n"
                "    cross<1, LONG>(&y, &t, layers);\n    return y;\n}\n\n// Look at this thread's rays",
            ),
        ),
        Cause(Part.TRAFFIC, _TRAFFIC, words="fp32 instructions"),
    ),
)
