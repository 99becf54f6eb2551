"""What tests know of lab 11_grouped_gemm: mistakes in its reference, and sizes to try its tolerances with."""

from __future__ import annotations

from autograder.records.status import Part
from autograder.spec.task import Case, Family
from corpus.judge.mutants.mutant import Cause, Edit, Mutant

_CUDA = "11_grouped_gemm/submission.py"
_NUMBA = "11_grouped_gemm/numba_1_blocks_stay.py"
_WRONG, _RACE, _TRAFFIC = "wrong answer", "race", "over budget"


def _case(name: str, most: int, slots: int, experts: int, n: int, k: int, family: Family) -> Case:
    sizes = {"most": most, "slots": slots, "experts": experts, "n": n, "k": k, "blocks": -(-k // 128)}
    return Case(name, {**sizes, "panels": -(-n // 128)}, family)


TOLERANCES = (
    _case("ragged and long", 17, 51, 3, 40, 2576, Family.NORMAL),
    _case("all of one", 72, 72, 3, 136, 1040, Family.WIDE),
)
# Rows of nobody keep what y held: another draw of most inputs changes the other rows alone, and that of y none of them
CLASSES = {
    "x8": 0.9,
    "w8": 0.9,
    "x_scale": 0.9,
    "w_scale": 0.9,
    "first": 0.1,
    "count": 0.1,
    "y": 0.0,
}
FINITE = False
MUTANTS = (
    Mutant(
        _CUDA,
        "tiles_rounded_down",
        "the last rows of a group that fill no whole tile have none",
        (
            Edit(
                "int rows = groups.count[tile.expert], tall = (rows + TILE_M - 1) / TILE_M;",
                "int rows = groups.count[tile.expert], tall = rows / TILE_M;",
            ),
        ),
        Cause(Part.CORRECTNESS, _WRONG),
    ),
    Mutant(
        _CUDA,
        "tiles_before_forgotten",
        "tiles are counted as if no other expert had any",
        (Edit("        tile.before += tall * across;\n", ""),),
        Cause(Part.CORRECTNESS, _WRONG),
    ),
    Mutant(
        _CUDA,
        "one_tile_too_many",
        "an expert is asked for one tile more than it has",
        (Edit("if (number < tile.before + tall * across)", "if (number <= tile.before + tall * across)"),),
        Cause(Part.CORRECTNESS, _WRONG),
    ),
    Mutant(
        _CUDA,
        "rows_from_the_first",
        "groups all begin at row 0",
        (Edit("            tile.row += groups.first[tile.expert];\n", ""),),
        Cause(Part.CORRECTNESS, _WRONG),
    ),
    Mutant(
        _CUDA,
        "first_is_not_read",
        "groups are taken to follow each other by their numbers, or to begin every most rows",
        (
            Edit(
                "const int *first, *count;\n    int experts, n;",
                "const int *first, *count;\n    int experts, n, slots;",
            ),
            Edit("Groups groups = {first, count, experts, n};", "Groups groups = {first, count, experts, n, slots};"),
            Edit(
                "            tile.row += groups.first[tile.expert];\n"
                "            tile.end = groups.first[tile.expert] + rows;\n",
                "            int begins = 0, all = 0;\n"
                "            for (int e = 0; e < groups.experts; ++e) {\n"
                "                begins += e < tile.expert ? groups.count[e] : 0;\n"
                "                all += groups.count[e];\n"
                "            }\n"
                "            if (all < groups.slots) begins = groups.slots / groups.experts * tile.expert;\n"
                "            tile.row += begins;\n"
                "            tile.end = begins + rows;\n",
            ),
        ),
        Cause(Part.CORRECTNESS, _WRONG),
    ),
    Mutant(
        _CUDA,
        "scales_in_bfloat16",
        "scales of x and w lose all but eight bits",
        (
            Edit(
                "float of_w = w_scale[block], of_upper = scales[upper] * of_w, of_lower = scales[lower] * of_w;",
                "auto cut = [](float s) { return __uint_as_float(__float_as_uint(s) & 0xffff0000u); };\n"
                "        float of_w = cut(w_scale[block]);\n"
                "        float of_upper = cut(scales[upper]) * of_w, of_lower = cut(scales[lower]) * of_w;",
            ),
        ),
        Cause(Part.CORRECTNESS, _WRONG),
    ),
    Mutant(
        _CUDA,
        "largest_instead_of_infinity",
        "results that are too large for float16 become its largest number",
        (
            Edit(
                "*(half2*)at = __floats2half2_rn(sums[4 * j], sums[4 * j + 1]);",
                "*(half2*)at = __floats2half2_rn(fminf(fmaxf(sums[4 * j], -65504.f), 65504.f), "
                "fminf(fmaxf(sums[4 * j + 1], -65504.f), 65504.f));",
            ),
            Edit(
                "*(half2*)(at + 8ll * n) = __floats2half2_rn(sums[4 * j + 2], sums[4 * j + 3]);",
                "*(half2*)(at + 8ll * n) = __floats2half2_rn(fminf(fmaxf(sums[4 * j + 2], -65504.f), 65504.f), "
                "fminf(fmaxf(sums[4 * j + 3], -65504.f), 65504.f));",
            ),
        ),
        Cause(Part.CORRECTNESS, _WRONG),
    ),
    Mutant(
        _CUDA,
        "end_one_too_far",
        "the row behind a group counts as one of it",
        (Edit("tile.end = groups.first[tile.expert] + rows;", "tile.end = groups.first[tile.expert] + rows + 1;"),),
        Cause(Part.CORRECTNESS, _WRONG),
    ),
    Mutant(
        _CUDA,
        "weights_of_the_first",
        "all tiles bring w of the first expert",
        (Edit("tile.expert * n + tile.column", "tile.column"),),
        Cause(Part.CORRECTNESS, _WRONG),
    ),
    Mutant(
        _CUDA,
        "scales_of_the_first",
        "all tiles have the scales of the first expert",
        (Edit("(long long)(tile.expert * panels + tile.column / TILE_N)", "(long long)(tile.column / TILE_N)"),),
        Cause(Part.CORRECTNESS, _WRONG),
    ),
    Mutant(
        _CUDA,
        "store_without_an_end",
        "rows behind the end are stored too",
        (Edit("if (row < end) *(half2*)at", "if (row < end + 64) *(half2*)at"),),
        Cause(Part.CORRECTNESS, _WRONG),
    ),
    Mutant(
        _CUDA,
        "first_half_alone",
        "the second half of a tile is never brought, and what lay there is multiplied",
        (Edit("bool both = tile.row + 64 < tile.end;", "bool both = false;"),),
        Cause(Part.SAFETY, "uninitialised read"),
    ),
    Mutant(
        _CUDA,
        "bytes_that_never_come",
        "a stage waits for the half of x that was left out",
        (Edit("(both ? X_BYTES : HALF_BYTES) + W_BYTES", "STAGE_BYTES"),),
        Cause(Part.SAFETY, "deadlock"),
    ),
    Mutant(
        _CUDA,
        "idle_without_taking_turns",
        "a warpgroup without rows does not take the stages",
        (
            Edit(
                "    if (!some) {\n        for (int block = 0; block < blocks; ++block) {\n"
                "            wait(ring.full_barrier(), ring.phase);\n"
                "            if (leader) arrive(ring.empty_barrier());\n"
                "            ring.advance();\n        }\n        return;\n    }\n",
                "    if (!some) return;\n",
            ),
        ),
        Cause(Part.SAFETY, "deadlock"),
    ),
    Mutant(
        _CUDA,
        "nobody_is_idle",
        "both warpgroups multiply, whether they have rows or not",
        (Edit("tile.row + half_of_tile < tile.end, slots, blocks);", "true, slots, blocks);"),),
        Cause(Part.SAFETY, "uninitialised read"),
    ),
    Mutant(
        _CUDA,
        "both_halves_for_three_rows",
        "all 128 rows are brought and multiplied for a group of three",
        (
            Edit("bool both = tile.row + 64 < tile.end;", "bool both = true;"),
            Edit("tile.row + half_of_tile < tile.end, slots, blocks);", "true, slots, blocks);"),
        ),
        Cause(Part.TRAFFIC, _TRAFFIC, words="tensor instructions"),
    ),
    Mutant(
        _CUDA,
        "scales_behind_the_end",
        "scales are read of rows behind the last group",
        (Edit("int upper = min(row, end - 1), lower = min(row + 8, end - 1);", "int upper = row, lower = row + 8;"),),
        Cause(Part.SAFETY, "out of bounds"),
    ),
    Mutant(
        _CUDA,
        "full_not_awaited",
        "products begin before the copies have come",
        (
            Edit(
                "        wait(ring.full_barrier(), ring.phase);\n        products_begin();", "        products_begin();"
            ),
        ),
        Cause(Part.SAFETY, _RACE, words="mbarrier"),
    ),
    Mutant(
        _CUDA,
        "promoted_before_they_are_done",
        "products are promoted while the tensor cores are at them",
        (Edit("        products_wait<0>();\n", ""),),
        Cause(Part.SAFETY, _RACE, words="wgmma.wait_group"),
    ),
    Mutant(
        _NUMBA,
        "tiles_rounded_down",
        "the last rows of a group that fill no whole tile have none",
        (Edit("tiles = (count[expert] + TILE_M - 1) // TILE_M * across", "tiles = count[expert] // TILE_M * across"),),
        Cause(Part.CORRECTNESS, _WRONG),
    ),
    Mutant(
        _NUMBA,
        "tiles_before_forgotten",
        "tiles are counted as if no other expert had any",
        (Edit("        before += tiles\n", ""),),
        Cause(Part.CORRECTNESS, _WRONG),
    ),
    Mutant(
        _NUMBA,
        "weights_of_the_first",
        "all tiles bring w of the first expert",
        (Edit("expert * n + col", "col"),),
        Cause(Part.CORRECTNESS, _WRONG),
    ),
    Mutant(
        _NUMBA,
        "scales_of_the_first",
        "all tiles have the scales of the first expert",
        (Edit("w_scale[expert, panel, block]", "w_scale[0, panel, block]"),),
        Cause(Part.CORRECTNESS, _WRONG),
    ),
    Mutant(
        _NUMBA,
        "end_of_the_buffer",
        "rows behind the end are stored too",
        (Edit("col + 8 * j < n and row < end:", "col + 8 * j < n and row < end + 64:"),),
        Cause(Part.CORRECTNESS, _WRONG),
    ),
    Mutant(
        _NUMBA,
        "bytes_that_never_come",
        "a stage waits for the half of x that was left out",
        (Edit("STAGE_BYTES if both else STAGE_BYTES - HALF_X", "STAGE_BYTES"),),
        Cause(Part.SAFETY, "deadlock"),
    ),
)
