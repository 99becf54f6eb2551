"""What tests know of lab 10_index_shuffle: mistakes in its references, and sizes to try its exactness with."""

from __future__ import annotations

from autograder.records.status import Part
from autograder.spec.task import Case, Family
from corpus.judge.mutants.mutant import Cause, Edit, Mutant

_NUMBA, _CUDA = "10_index_shuffle/submission.py", "10_index_shuffle/submission_cuda.py"
_WRONG, _FAULT, _TRAFFIC = "wrong answer", "out of bounds", "over budget"

TOLERANCES = (
    Case("ragged", {"tokens": 211, "k": 4, "experts": 128}, Family.NORMAL),
    Case("whole", {"tokens": 1280, "k": 2, "experts": 32}, Family.WIDE),
)
CLASSES = {"scores": 0.4}  # the best expert of a few is often the same in another draw
FINITE = False  # NaN and infinities are among the scores
MUTANTS = (
    Mutant(
        _CUDA,
        "counted_while_others_read",
        "the first of a group moves its counter on before the others have read it",
        (Edit("peers.before;\n            __syncwarp();\n", "peers.before;\n"),),
        Cause(Part.SAFETY, "race", at="if (peers.leads(rows[g])) next"),
    ),
    Mutant(
        _NUMBA,
        "nan_is_large",
        "a NaN's bits lie above those of infinity",
        (Edit("uint32(1) if magnitude > INFINITY else uint32(above + uint32(1))", "uint32(above + uint32(1))"),),
        Cause(Part.CORRECTNESS, _WRONG, words="of chosen are wrong"),
    ),
    Mutant(
        _NUMBA,
        "any_of_the_best",
        "of equal scores the highest expert is taken",
        (
            Edit("best = ptx.redux_min(mine)", "best = ptx.redux_max(mine)"),
            Edit("mine = NOBODY\n                    for e", "mine = uint32(0)\n                    for e"),
        ),
        Cause(Part.CORRECTNESS, _WRONG, words="of chosen are wrong"),
    ),
    Mutant(
        _NUMBA,
        "not_taken",
        "a chosen expert is left to be chosen again",
        (Edit("keys[e] = uint32(0) if uint32(expert) == best else keys[e]", "keys[e] = keys[e]"),),
        Cause(Part.CORRECTNESS, _WRONG, words="of chosen are wrong"),
    ),
    Mutant(
        _NUMBA,
        "nobody_waits",
        "blocks of a grid go on before the others have counted",
        (Edit("    cuda.cg.this_grid().sync()\n", "    cuda.syncthreads()\n"),),
        Cause(Part.SAFETY, "race", at="counted[block, e] = rows"),
    ),
    Mutant(
        _NUMBA,
        "peers_above",
        "a row's place counts the lanes after it",
        (Edit("int32(cuda.popc(peers & lower))", "int32(cuda.popc(peers & ~lower) - 1)"),),
        Cause(Part.CORRECTNESS, _WRONG, words="of order are wrong"),
    ),
    Mutant(
        _NUMBA,
        "missing_barrier",
        "counters of warps are added up before all have counted",
        (Edit("        cuda.syncthreads()\n\n        # Rows of earlier warps", "\n        # Rows of earlier warps"),),
        Cause(Part.SAFETY, "race", words="no barrier between"),
    ),
    Mutant(
        _NUMBA,
        "one_token_too_many",
        "the last block goes one token too far",
        (Edit("block_end = min((block + int32(1)) * a_block, tokens)", "block_end = (block + int32(1)) * a_block"),),
        Cause(Part.SAFETY, _FAULT),
    ),
    Mutant(
        _CUDA,
        "negative_zero_is_less",
        "-0 gets a key below that of +0",
        (Edit("return ((bits & 0x7fffffff) ^ sign) - sign;", "return (bits & 0x7fffffff) ^ sign;"),),
        Cause(Part.CORRECTNESS, _WRONG, words="of chosen are wrong"),
    ),
    Mutant(
        _CUDA,
        "flushed_to_zero",
        "scores below the normal range are taken for zero",
        (Edit("max.f32", "max.ftz.f32"),),
        Cause(Part.CORRECTNESS, _WRONG, words="of chosen are wrong"),
    ),
    Mutant(
        _CUDA,
        "cluster_is_no_grid",
        "blocks of a grid wait for their own threads only",
        (Edit("cg::this_grid().sync();", "__syncthreads();"),),
        Cause(Part.SAFETY, "race", at="counted[w * EXPERTS + e]"),
    ),
    Mutant(
        _CUDA,
        "earlier_blocks_and_own",
        "a block's own rows are counted among those before it",
        (Edit("(word, blockIdx.x - w * PER)", "(word, blockIdx.x + 1 - w * PER)"),),
        Cause(Part.CORRECTNESS, _WRONG, words="of order are wrong"),
    ),
    Mutant(
        _CUDA,
        "every_lane_leads",
        "lanes that share an expert all move its counter on",
        (Edit("return before == 0 && row != NOBODY;", "return row != NOBODY;"),),
        Cause(Part.SAFETY, "race", words="next"),
    ),
    Mutant(
        _CUDA,
        "last_token_guard",
        "scores behind the last token are asked for",
        (Edit("if (token < end && expert(e) < EXPERTS) {", "if (expert(e) < EXPERTS) {"),),
        Cause(Part.SAFETY, _FAULT, at="__ldcs("),
    ),
    Mutant(
        _CUDA,
        "a_block_for_few_tokens",
        "so many blocks that reading each other's counts outweighs the scores",
        (Edit("WORK = 23_000  #", "WORK = 9_000  #"),),
        Cause(Part.TRAFFIC, _TRAFFIC, words="global load sectors"),
    ),
)
