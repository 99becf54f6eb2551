"""What tests know of lab 08_hopper_hgemm: mistakes in its reference, and sizes to try its tolerances with."""

from __future__ import annotations

from autograder.records.status import Part
from autograder.spec.task import Case, Family
from corpus.judge.mutants.mutant import Cause, Edit, Mutant

_CUDA = "08_hopper_hgemm/submission.py"
_WRONG, _RACE = "wrong answer", "race"

TOLERANCES = (
    Case("ragged", {"m": 17, "n": 40, "k": 200}, Family.NORMAL),
    Case("wide", {"m": 72, "n": 264, "k": 72}, Family.WIDE),  # some sums are too large for float16
)
MUTANTS = (
    Mutant(
        _CUDA,
        "full_not_awaited",
        "products begin before the copies have come",
        (Edit("        wait(ring.full_barrier(), ring.phase);\n", ""),),
        Cause(Part.SAFETY, _RACE, words="mbarrier"),
    ),
    Mutant(
        _CUDA,
        "empty_not_awaited",
        "from the second round on the producer overwrites stages that are in use",
        (Edit("        wait(ring.empty_barrier(), ring.phase ^ 1);\n", ""),),
        Cause(Part.SAFETY, _RACE),
    ),
    Mutant(
        _CUDA,
        "producer_with_the_consumers_parity",
        "the producer waits for stages to be emptied that it has never filled",
        (Edit("wait(ring.empty_barrier(), ring.phase ^ 1);", "wait(ring.empty_barrier(), ring.phase);"),),
        Cause(Part.SAFETY, "deadlock"),
    ),
    Mutant(
        _CUDA,
        "phase_never_turns",
        "in the second round the consumers take the first round's end for theirs",
        (Edit("            phase ^= 1;\n", ""),),
        Cause(Part.SAFETY, _RACE),
    ),
    Mutant(
        _CUDA,
        "too_few_bytes_expected",
        "the bytes of b are forgotten: the phase ends while its copies are on their way",
        (Edit("arrive_expecting(ring.full_barrier(), STAGE_BYTES)", "arrive_expecting(ring.full_barrier(), A_BYTES)"),),
        Cause(Part.SAFETY, _RACE),
    ),
    Mutant(
        _CUDA,
        "too_many_bytes_expected",
        "bytes are counted as if b came twice",
        (
            Edit(
                "arrive_expecting(ring.full_barrier(), STAGE_BYTES)",
                "arrive_expecting(ring.full_barrier(), 2 * STAGE_BYTES)",
            ),
        ),
        Cause(Part.SAFETY, "deadlock", words="bytes"),
    ),
    Mutant(
        _CUDA,
        "one_arrival_empties",
        "the first warp to be done hands the stage back for all eight",
        (Edit("4 * CONSUMERS);", "1);"),),
        Cause(Part.SAFETY, "deadlock", words="arrivals"),
    ),
    Mutant(
        _CUDA,
        "handed_back_too_early",
        "a stage is handed back when its products are issued, not when they are done: right by luck of the order",
        (
            Edit("if (step > 0 && leader) arrive(before);", "if (leader) arrive(ring.empty_barrier());"),
            Edit("    if (leader) arrive(before);\n", ""),
        ),
        Cause(Part.SAFETY, _RACE, words="before wgmma.wait_group"),
    ),
    Mutant(
        _CUDA,
        "last_stage_kept",
        "the stage of a tile's last step is never handed back",
        (Edit("    if (leader) arrive(before);\n", ""),),
        Cause(Part.SAFETY, "deadlock"),
    ),
    Mutant(
        _CUDA,
        "sums_not_awaited",
        "the sums are stored while the last products are on their way",
        (Edit("    products_wait<0>();\n", ""),),
        Cause(Part.SAFETY, _RACE),
    ),
    Mutant(
        _CUDA,
        "no_wgmma_fence",
        "products of a tile begin on registers that ordinary code has just used",
        (Edit("        products_begin();\n", ""),),
        Cause(Part.SAFETY, _RACE, words="wgmma.fence"),
    ),
    Mutant(
        _CUDA,
        "swizzle_of_64_bytes",
        "the descriptor names another swizzle than the tensor map",
        (Edit("constexpr u64 SWIZZLE_128 = 1;", "constexpr u64 SWIZZLE_128 = 2;"),),
        Cause(Part.CORRECTNESS, _WRONG),
    ),
    Mutant(
        _CUDA,
        "stride_of_one_row",
        "the next eight rows are looked for one row further",
        (Edit("descriptor(a, 16, 1024)", "descriptor(a, 16, 128)"),),
        Cause(Part.CORRECTNESS, _WRONG),
    ),
    Mutant(
        _CUDA,
        "panels_taken_for_neighbours",
        "the leading offset of b is that of eight rows, not of a panel",
        (Edit("descriptor(b, PANEL_BYTES, 1024)", "descriptor(b, 1024, 1024)"),),
        Cause(Part.CORRECTNESS, _WRONG),
    ),
    Mutant(
        _CUDA,
        "old_sums_kept",
        "a block's second tile is added to its first",
        (Edit("!first || k > 0", "true"),),
        Cause(Part.CORRECTNESS, _WRONG),
    ),
    Mutant(
        _CUDA,
        "products_in_turn",
        "each stage's products are waited for before the next ones begin",
        (
            Edit("products_wait<1>();", "products_wait<0>();"),
            Edit("if (step > 0 && leader) arrive(before);", "if (leader) arrive(ring.empty_barrier());"),
            Edit("    if (leader) arrive(before);\n", ""),
        ),
        Cause(Part.TRAFFIC, "over budget", words="wgmma.wait_group 0"),
    ),
    Mutant(
        _CUDA,
        "tiles_left_out",
        "groups are taken for columns: some tiles are made twice, others never",
        (Edit("column = within / height", "column = within % height"),),
        Cause(Part.CORRECTNESS, _WRONG),
    ),
    Mutant(
        _CUDA,
        "first_wave_only",
        "blocks stop after their first tile",
        (Edit("return number < down * across;", "return number < down * across && number < gridDim.x;"),),
        Cause(Part.CORRECTNESS, _WRONG, words="never written"),
    ),
)
