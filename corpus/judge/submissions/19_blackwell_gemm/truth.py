"""What tests know of lab 19_blackwell_gemm: mistakes in its reference, and sizes to try its tolerances with."""

from __future__ import annotations

from autograder.records.status import Part
from autograder.spec.task import Case, Family
from corpus.judge.mutants.mutant import Cause, Edit, Mutant

_CUDA = "19_blackwell_gemm/submission.py"
_WRONG, _RACE, _DEADLOCK = "wrong answer", "race", "deadlock"

TOLERANCES = (
    Case("ragged", {"m": 17, "n": 40, "k": 200}, Family.NORMAL),
    Case("wide", {"m": 72, "n": 264, "k": 72}, Family.WIDE),  # some sums are too large for float16
)


def _mutant(name: str, what: str, old: str, new: str, part: Part, status: str, words: str = "") -> Mutant:
    return Mutant(_CUDA, name, what, (Edit(old, new),), Cause(part, status, words=words))


MUTANTS = (
    _mutant(
        "another_swizzle",
        "the descriptor names another swizzle than the tensor map",
        "SWIZZLE_128 = 2;",
        "SWIZZLE_128 = 4;",
        Part.CORRECTNESS,
        _WRONG,
    ),
    _mutant(
        "stride_of_one_row",
        "the next eight rows are looked for one row further",
        "(u64)(1024 >> 4) << 32",
        "(u64)(128 >> 4) << 32",
        Part.CORRECTNESS,
        _WRONG,
    ),
    _mutant(
        "steps_of_64_bytes",
        "the second product takes the third's part of k",
        "descriptor(a + 32 * i)",
        "descriptor(a + 64 * (i % 2))",
        Part.CORRECTNESS,
        _WRONG,
    ),
    _mutant(
        "bfloat16_operands",
        "the instruction descriptor takes a for bfloat16",
        "F16 << 7",
        "1 << 7",
        Part.CORRECTNESS,
        _WRONG,
    ),
    _mutant(
        "rows_of_one_block",
        "m is that of one block, though the product is a pair's",
        "BLOCKS * TILE_M / 16 << 24",
        "TILE_M / 16 << 24",
        Part.CORRECTNESS,
        _WRONG,
    ),
    _mutant(
        "first_lanes_for_all",
        "every warp reads the lanes of warp 0",
        "(warp % 4 * 32 << 16)",
        "0",
        Part.SAFETY,
        "out of bounds",
        "lane",
    ),
    _mutant(
        "warps_in_order",
        "the first warp that stores reads lanes from 0 on, though its number modulo 4 is 2",
        "(warp % 4 * 32 << 16)",
        "((warp - 2) * 32 << 16)",
        Part.SAFETY,
        "out of bounds",
        "lane",
    ),
    _mutant(
        "old_sums_kept",
        "the first product adds to what tensor memory holds",
        "!first || i > 0",
        "true",
        Part.SAFETY,
        "uninitialised read",
    ),
    _mutant(
        "full_not_awaited",
        "products begin before the copies have come",
        "        wait(ring.full_barrier(), ring.phase);\n",
        "",
        Part.SAFETY,
        _RACE,
        "mbarrier",
    ),
    _mutant(
        "empty_not_awaited",
        "from the second round on the producer overwrites stages that are in use",
        "        wait(ring.empty_barrier(), ring.phase ^ 1);\n",
        "",
        Part.SAFETY,
        _RACE,
    ),
    _mutant(
        "phase_never_turns",
        "in the second round the first round's phases are taken for its own",
        "            phase ^= 1;\n",
        "",
        Part.SAFETY,
        _RACE,
    ),
    _mutant(
        "stages_kept",
        "no stage is handed back",
        "        commit(ring.empty_barrier(), (1 << BLOCKS) - 1);\n",
        "",
        Part.SAFETY,
        _DEADLOCK,
        "mbarrier",
    ),
    _mutant(
        "bytes_of_one_block",
        "the phase ends when half of the bytes have arrived",
        "BLOCKS * STAGE_BYTES);\n        // END",
        "STAGE_BYTES);\n        // END",
        Part.SAFETY,
        _RACE,
    ),
    _mutant(
        "both_blocks_expect",
        "both producers arrive and expect bytes, at the even block's barrier or their own",
        "if (rank == 0) arrive_expecting",
        "arrive_expecting",
        Part.SAFETY,
        "divergent barrier",
    ),
    _mutant(
        "signals_stay_at_home",
        "the odd block's copies count at its own barrier",
        "in_block(ring.full_barrier(), 0)",
        "ring.full_barrier()",
        Part.SAFETY,
        _DEADLOCK,
        "bytes",
    ),
    _mutant(
        "odd_block_not_told",
        "the odd block does not hear that the sums are there",
        "    commit(done, (1 << BLOCKS) - 1);",
        "    commit(done, 1);",
        Part.SAFETY,
        _DEADLOCK,
        "mbarrier",
    ),
    _mutant(
        "same_rows_twice",
        "both blocks load the even block's rows of b",
        "return column + rank * B_ROWS;",
        "return column;",
        Part.CORRECTNESS,
        _WRONG,
    ),
    _mutant(
        "done_not_awaited",
        "sums are read before the last commit has arrived",
        "        wait(done, 0);\n",
        "",
        Part.SAFETY,
        _RACE,
        "tcgen05.commit",
    ),
    _mutant(
        "memory_kept",
        "tensor memory is not deallocated",
        "    if (warp == 0) deallocate(sums);\n",
        "",
        Part.SAFETY,
        "trap",
        "tensor memory",
    ),
    Mutant(
        _CUDA,
        "alone",
        "a block works alone",
        (
            Edit("BLOCKS = 2  # that", "BLOCKS = 1  # that"),
            Edit("constexpr int BLOCKS = 2;", "constexpr int BLOCKS = 1;"),
            Edit('#define GROUP "cta_group::2"', '#define GROUP "cta_group::1"'),
        ),
        Cause(Part.TRAFFIC, "over budget"),
    ),
)
