"""What tests know of lab 20_compaction: mistakes in its references, and sizes to try its tolerances with."""

from __future__ import annotations

from autograder.records.status import Part
from autograder.spec.task import Case, Family
from corpus.judge.mutants.mutant import Cause, Edit, Mutant

_NUMBA, _CUDA = "20_compaction/submission.py", "20_compaction/submission_cuda.py"
_WRONG, _FAULT, _TRAFFIC, _OUT, _COUNT = (
    "wrong answer",
    "out of bounds",
    "over budget",
    "elements of out are wrong",
    "elements of count are wrong",
)

TOLERANCES = (
    Case("ragged", {"n": 5501, "limit": 0}, Family.NORMAL),
    Case("whole", {"n": 16_384, "limit": 1}, Family.WIDE),
)
# Half of x is kept, and what out held is left behind it; the count depends on x alone.
CLASSES = {"x": {"out": 0.4}, "out": {"out": 0.4, "count": 0.0}}
FINITE = False
MUTANTS = (
    Mutant(
        _NUMBA,
        "never_cleared",
        "words and ticket are what the memory held",
        (Edit("    clear_kernel[tiles // 256 + 1, 256](words)\n", ""),),
        Cause(Part.CORRECTNESS, _WRONG, words=_COUNT),
    ),
    Mutant(
        _NUMBA,
        "ticket_without_barrier",
        "warps read the ticket before it is drawn",
        (Edit("uint64(1)))\n    cuda.syncthreads()\n", "uint64(1)))\n"),),
        Cause(Part.SAFETY, "race", at="tile = shared[0]", words="no barrier between"),
    ),
    Mutant(
        _NUMBA,
        "gathered_without_barrier",
        "elements are stored before they are gathered",
        (Edit("    cuda.syncthreads()\n    # Warps store", "    # Warps store"),),
        Cause(Part.SAFETY, "race", at="start = int64(shared[1])", words="no barrier between"),
    ),
    Mutant(
        _NUMBA,
        "one_shuffle_short",
        "the scan of a warp stops at 16 lanes",
        (Edit("for step in range(5):\n        below", "for step in range(4):\n        below"),),
        Cause(Part.CORRECTNESS, _WRONG, words=_COUNT),
    ),
    Mutant(
        _NUMBA,
        "sum_for_prefix",
        "a tile says that its sum is its prefix",
        (Edit("PREFIX | uint64(earlier + total)", "PREFIX | uint64(total)"),),
        Cause(Part.CORRECTNESS, _WRONG, words=_COUNT),
    ),
    Mutant(
        _NUMBA,
        "no_bounds_check",
        "the last tile is taken for a whole one",
        (Edit("    if whole_tile:\n", "    if whole_tile or tile >= 0:\n"),),
        Cause(Part.SAFETY, _FAULT, at="four = ptx.load_global_16", words="has shape"),
    ),
    Mutant(
        _NUMBA,
        "padding_kept",
        "what lies beyond the end is above every limit",
        (Edit("NOTHING = float32(-np.inf)", "NOTHING = float32(np.inf)"),),
        Cause(Part.SAFETY, _FAULT, at="out[start + i] = kept[i]"),
    ),
    Mutant(
        _NUMBA,
        "count_of_the_last_tile",
        "the count leaves out the tiles before",
        (Edit("count[0] = int32(earlier + total)", "count[0] = int32(total)"),),
        Cause(Part.CORRECTNESS, _WRONG, words=_COUNT),
    ),
    Mutant(
        _CUDA,
        "never_cleared",
        "words and ticket are what the memory held",
        (Edit("    clear_kernel(((words.size + 255) // 256,), (256,), (words, np.int32(words.size)))\n", ""),),
        Cause(Part.SAFETY, _FAULT, at="if (!looks_back && tile < tiles) load_tile", words="has shape"),
    ),
    Mutant(
        _CUDA,
        "plain_words",
        "words are read and written by plain accesses",
        (
            Edit("ld.relaxed.gpu.global.u64", "ld.global.u64"),
            Edit("st.relaxed.gpu.global.u64", "st.global.u64"),
        ),
        Cause(Part.SAFETY, "race", words="nothing orders the two"),
    ),
    Mutant(
        _CUDA,
        "ticket_without_barrier",
        "warps read the ticket before it is drawn",
        (Edit("their numbers\n    __syncthreads();\n", "their numbers\n"),),
        Cause(Part.SAFETY, "race", at="if (looks_back && lane == 0) tickets[0]", words="no barrier between"),
    ),
    Mutant(
        _CUDA,
        "one_lane_too_few",
        "the lane with the nearest prefix is left out",
        (Edit("__ffs(prefixes) : 32;", "__ffs(prefixes) - 1 : 32;"),),
        Cause(Part.CORRECTNESS, _WRONG, words=_COUNT),
    ),
    Mutant(
        _CUDA,
        "swapped_component",
        "the third component is kept twice",
        (Edit("line[to++] = parts[v].w", "line[to++] = parts[v].z"),),
        Cause(Part.CORRECTNESS, _WRONG, words=_OUT),
    ),
    Mutant(
        _CUDA,
        "half_precision",
        "elements go through float16",
        (
            Edit(
                "__stcs(to + i, kept[(turn - 1) % 2 * TILE + i])",
                "__stcs(to + i, __half2float(__float2half(kept[(turn - 1) % 2 * TILE + i])))",
            ),
            Edit('r"""\n', 'r"""\n#include <cuda_fp16.h>\n'),
        ),
        Cause(Part.CORRECTNESS, _WRONG, words=_OUT),
    ),
    Mutant(
        _CUDA,
        "one_too_far",
        "<= where < is meant",
        (Edit("i < of_last; i += BLOCK", "i <= of_last; i += BLOCK"),),
        Cause(Part.CORRECTNESS, _WRONG, words=_OUT),
    ),
    Mutant(
        _CUDA,
        "warps_not_scanned",
        "each warp begins where the tile does",
        (Edit("__shfl_sync(ALL, scanned, warp) - of_warp;", "0;"),),
        Cause(Part.SAFETY, "race", at="line[to++]"),
    ),
)
