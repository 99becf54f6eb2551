"""What tests know of lab 09_fp8_gemm: mistakes in its reference, and sizes to try its tolerances with."""

from __future__ import annotations

from autograder.records.status import Part
from autograder.spec.task import Case, Family
from corpus.judge.mutants.mutant import Cause, Edit, Mutant

_CUDA = "09_fp8_gemm/submission.py"
_NUMBA = "09_fp8_gemm/numba_1_two_kernels.py"
_WRONG, _RACE = "wrong answer", "race"


def _case(name: str, m: int, n: int, k: int, family: Family) -> Case:
    return Case(name, {"m": m, "n": n, "k": k, "blocks": -(-k // 128), "panels": -(-n // 128)}, family)


TOLERANCES = (
    _case("ragged and long", 17, 40, 2576, Family.NORMAL),
    _case("wide", 72, 264, 144, Family.WIDE),
)
CLASSES = {
    "x": {"x8": 0.9, "x_scale": 0.1},  # most numbers of a bell curve share their scale, some their code
    "w8": {"x8": 0.0, "x_scale": 0.0},
    "w_scale": {"x8": 0.0, "x_scale": 0.0},
}
MUTANTS = (
    Mutant(
        _CUDA,
        "room_for_a_bit_more",
        "a largest magnitude of exactly 448 times a power of two gets the next scale",
        (Edit("+ 0x1fffff) >> 23", "+ 0x200000) >> 23"),),
        Cause(Part.CORRECTNESS, _WRONG),
    ),
    Mutant(
        _CUDA,
        "scale_by_the_exponent_alone",
        "fractions above 0.75 do not get the next power of two, and are clamped to 448",
        (Edit("+ 0x1fffff) >> 23", ") >> 23"),),
        Cause(Part.CORRECTNESS, _WRONG),
    ),
    Mutant(
        _CUDA,
        "zeros_without_a_scale",
        "the exponent of a block of zeros is taken from zero",
        (Edit("    if (largest == 0) exponent = 127;\n", ""),),
        Cause(Part.CORRECTNESS, _WRONG),
    ),
    Mutant(
        _CUDA,
        "largest_of_half_the_lanes",
        "the last step of the reduction is left out: two halves of a warp have scales of their own",
        (Edit("for (int distance = 16; distance > 0;", "for (int distance = 16; distance > 1;"),),
        Cause(Part.CORRECTNESS, _WRONG),
    ),
    Mutant(
        _CUDA,
        "scales_of_w_in_nine_bits",
        "scales of w lose all but nine bits",
        (
            Edit(
                "float of_w = w_scale[block], of_upper",
                "float of_w = __uint_as_float(__float_as_uint(w_scale[block]) & 0xffff8000u), of_upper",
            ),
        ),
        Cause(Part.CORRECTNESS, _WRONG),
    ),
    Mutant(
        _CUDA,
        "scales_lie_the_other_way",
        "x_scale is written with a row for each row of x",
        (Edit("x_scale[(long long)block * m + row] = scale", "x_scale[(long long)row * gridDim.y + block] = scale"),),
        Cause(Part.CORRECTNESS, _WRONG),
    ),
    Mutant(
        _CUDA,
        "steps_of_16_bytes",
        "a product steps along k as if it took 16 bytes of each line",
        (Edit("rows + k * 32 / 16, columns + k * 32 / 16", "rows + k, columns + k"),),
        Cause(Part.CORRECTNESS, _WRONG),
    ),
    Mutant(
        _CUDA,
        "old_products_kept",
        "a block's products are added to those of the block before, which have been promoted",
        (Edit("k * 32 / 16, k > 0)", "k * 32 / 16, true)"),),
        Cause(Part.CORRECTNESS, _WRONG),
    ),
    Mutant(
        _CUDA,
        "lower_row_with_the_upper_scale",
        "all sums of a thread are promoted by one row's scale",
        (Edit("(i % 4 < 2 ? upper : lower)", "upper"),),
        Cause(Part.CORRECTNESS, _WRONG),
    ),
    Mutant(
        _CUDA,
        "first_scale_of_w_kept",
        "the scale of w is that of the first block of k",
        (Edit("float of_w = w_scale[block]", "float of_w = w_scale[0]"),),
        Cause(Part.CORRECTNESS, _WRONG),
    ),
    Mutant(
        _CUDA,
        "scales_of_the_first_panel",
        "every tile has the first 128 columns' scales of w",
        (Edit("w_scale + (long long)(column / 128) * blocks", "w_scale"),),
        Cause(Part.CORRECTNESS, _WRONG),
    ),
    Mutant(
        _CUDA,
        "full_not_awaited",
        "products begin before the copies have come",
        (Edit("        wait(ring.full_barrier(), ring.phase);\n", ""),),
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
        _CUDA,
        "handed_back_too_early",
        "a stage is handed back when its products are issued, not when they are done",
        (
            Edit(
                "        products_wait<0>();\n        if (leader) arrive(ring.empty_barrier());\n",
                "        if (leader) arrive(ring.empty_barrier());\n        products_wait<0>();\n",
            ),
        ),
        Cause(Part.SAFETY, _RACE, words="a copy may start only when all have read"),
    ),
    Mutant(
        _CUDA,
        "never_handed_back",
        "no stage is ever handed back",
        (Edit("        if (leader) arrive(ring.empty_barrier());\n", ""),),
        Cause(Part.SAFETY, "deadlock"),
    ),
    Mutant(
        _CUDA,
        "every_thread_hands_back",
        "a warp arrives 32 times where it counts once: phases end that nobody waits for",
        (Edit("        if (leader) arrive(ring.empty_barrier());\n", "        arrive(ring.empty_barrier());\n"),),
        Cause(Part.SAFETY, "deadlock", words="arrivals"),
    ),
    Mutant(
        _CUDA,
        "no_wgmma_fence",
        "products begin on registers that promotion has just read",
        (Edit("        products_begin();\n", ""),),
        Cause(Part.SAFETY, _RACE, words="wgmma.fence"),
    ),
    Mutant(
        _NUMBA,
        "scale_by_the_exponent_alone",
        "fractions above 0.75 do not get the next power of two, and are clamped to 448",
        (Edit(" + 0x1FFFFF) >> 23", ") >> 23"),),
        Cause(Part.CORRECTNESS, _WRONG),
    ),
    Mutant(
        _NUMBA,
        "lower_row_with_the_upper_scale",
        "all sums of a thread are promoted by one row's scale",
        (Edit("parts[4 * j + 2] * lower", "parts[4 * j + 2] * upper"),),
        Cause(Part.CORRECTNESS, _WRONG),
    ),
    Mutant(
        _NUMBA,
        "old_products_kept",
        "a block's products are added to those of the block before, which have been promoted",
        (Edit("d = product(d, a, b, 0)", "d = product(d, a, b, 1)"),),
        Cause(Part.CORRECTNESS, _WRONG),
    ),
    Mutant(
        _NUMBA,
        "sums_of_the_tile_before",
        "what a block has added up for one tile is there when it begins the next",
        (
            Edit("            ptx.to_array(ZEROS, sums)\n", ""),
            Edit(
                "        while tile < tiles_m", "        ptx.to_array(ZEROS, sums)\n        while tile < tiles_m", 2, 1
            ),
        ),
        Cause(Part.CORRECTNESS, _WRONG),
    ),
    Mutant(
        _NUMBA,
        "full_not_awaited",
        "products begin before the copies have come",
        (Edit("                ptx.mbarrier_wait(full + stage * u32(8), phase)\n", ""),),
        Cause(Part.SAFETY, _RACE, words="mbarrier"),
    ),
    Mutant(
        _NUMBA,
        "one_warp_hands_back",
        "a stage counts as empty when the first warp is done with it",
        (Edit("ptx.mbarrier_init(empty + u32(8 * s), WARPS)", "ptx.mbarrier_init(empty + u32(8 * s), 1)"),),
        Cause(Part.SAFETY, "deadlock", words="arrivals"),
    ),
)
