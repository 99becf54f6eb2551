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
        Cause(Part.SAFETY, "uninitialised read", at="queue[cuda.atomic.add(waiting, 0, 1)] = i"),
    ),
    Mutant(
        _NUMBA,
        "missing_barrier",
        "the queue is read before all rays of the tile are in it",
        (Edit("        cuda.syncthreads()\n        rays = waiting[0]", "        rays = waiting[0]"),),
        Cause(Part.SAFETY, "race", at="rays = waiting[0]"),
    ),
    Mutant(
        _NUMBA,
        "missing_barrier_after_the_layers",
        "rays march through layers that are not there yet",
        (Edit("        waiting[0] = 0\n    cuda.syncthreads()\n", "        waiting[0] = 0\n"),),
        Cause(Part.SAFETY, "race", at="y[e] = y[e] * t[e] + layers[k]"),
    ),
    Mutant(
        _NUMBA,
        "no_bounds_check",
        "the last tile is taken for a whole one",
        (Edit("            if i < n:\n                t[e]", "            if n > 0:\n                t[e]"),),
        Cause(Part.SAFETY, _FAULT, at="t[e] = through(opacity[i])", words="has shape"),
    ),
    Mutant(
        _NUMBA,
        "last_batch_forgotten",
        "what is left in the queue is never marched",
        (Edit("    else:\n        one_each(opacity, out, layers, queue, 0, rays)\n", ""),),
        Cause(Part.CORRECTNESS, _WRONG, words="never written"),
    ),
    Mutant(
        _NUMBA,
        "four_layers_short",
        "the loop over the layers ends one step too early",
        (Edit("while k < uint64(LONG):", "while k < uint64(LONG - 4):"),),
        Cause(Part.CORRECTNESS, _WRONG, words="elements of out are wrong"),
    ),
    Mutant(
        _NUMBA,
        "small_batches",
        "a thread with one ray marches eight",
        (Edit("    if rays > 4 * BLOCK:\n        eight_each", "    if rays > 0:\n        eight_each"),),
        Cause(Part.TRAFFIC, _TRAFFIC, words="fp32 instructions"),
    ),
    Mutant(
        _CUDA,
        "counter_never_zeroed",
        "the count of the queue begins with what the memory held",
        (Edit("    if (threadIdx.x == 0) waiting = 0;\n", ""),),
        Cause(Part.SAFETY, "uninitialised read", at="queue[atomicAdd(&waiting, 1)] = i"),
    ),
    Mutant(
        _CUDA,
        "places_without_atomics",
        "two threads take the same place in the queue",
        (Edit("queue[atomicAdd(&waiting, 1)] = i;", "queue[waiting++] = i;"),),
        Cause(Part.SAFETY, "race", at="queue[waiting++] = i;"),
    ),
    Mutant(
        _CUDA,
        "missing_barrier",
        "the queue is read before all rays of the tile are in it",
        (Edit("        __syncthreads();\n        int rays = waiting;", "        int rays = waiting;"),),
        Cause(Part.SAFETY, "race"),
    ),
    Mutant(
        _CUDA,
        "no_bounds_check",
        "the last tile is taken for a whole one",
        (Edit("t[e] = i < n ? through(opacity[i]) : 0.0f;", "t[e] = through(opacity[i]);"),),
        Cause(Part.SAFETY, _FAULT, at="t[e] = through(opacity[i]);", words="reads opacity["),
    ),
    Mutant(
        _CUDA,
        "one_too_far",
        "<= lets one ray too many through",
        (Edit("else if (i < n) out[i] = y[e];", "else if (i <= n) out[i] = y[e];"),),
        Cause(Part.SAFETY, _FAULT, at="else if (i <= n) out[i] = y[e];", words="writes out["),
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
            Edit("if (is_long[e]) queue[atomicAdd(&waiting, 1)] = i;", "if (n < 0) queue[atomicAdd(&waiting, 1)] = i;"),
            Edit("else if (i < n) out[i] = y[e];", "else if (i < n) out[i] = is_long[e] ? alone(t[e], layers) : y[e];"),
            Edit(
                "// March `count` queued rays",
                "__device__ float alone(float t, const float* layers)\n{\n    float y = 0.0f;\n"
                "    for (int k = 0; k < LONG; ++k) y = fmaf(y, t, layers[k]);\n    return y;\n}\n\n"
                "// March `count` queued rays",
            ),
        ),
        Cause(Part.TRAFFIC, _TRAFFIC, words="fp32 instructions"),
    ),
)
