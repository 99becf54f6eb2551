"""What tests know of lab 11_k_grouped_gemm: mistakes in its reference, and sizes to try its tolerances with."""

from __future__ import annotations

from autograder.records.status import Part
from autograder.spec.task import Case, Family
from corpus.judge.mutants.mutant import Cause, Edit, Mutant

_CUDA = "11_k_grouped_gemm/submission.py"
_WRONG, _RACE = "wrong answer", "race"

TOLERANCES = (
    Case("ragged and long", {"slots": 701, "experts": 2, "m": 40, "n": 24}, Family.NORMAL),
    Case("all of one", {"slots": 150, "experts": 3, "m": 72, "n": 40}, Family.WIDE),
)
# Experts without tokens have zeros, whatever the others' tokens are
CLASSES = {"dy": 0.5, "x": 0.5, "first": 0.5, "count": 0.5}
FINITE = False
MUTANTS = (
    Mutant(
        _CUDA,
        "tokens_from_the_first",
        "groups all begin at row 0",
        (Edit("tile.from = groups.first[tile.expert];", "tile.from = 0;"),),
        Cause(Part.CORRECTNESS, _WRONG),
    ),
    Mutant(
        _CUDA,
        "depth_of_the_first",
        "all experts have as many tokens as the first",
        (Edit("tile.depth = groups.count[tile.expert];", "tile.depth = groups.count[0];"),),
        Cause(Part.CORRECTNESS, _WRONG),
    ),
    Mutant(
        _CUDA,
        "tail_is_not_cleared",
        "the last step multiplies the next group's tokens too",
        (Edit("if (left % 16) clear_tail(ring.data(), left);", ""),),
        Cause(Part.CORRECTNESS, _WRONG),
    ),
    Mutant(
        _CUDA,
        "tail_of_dy_alone",
        "zeros meet the NaN of rows that are nobody's",
        (Edit("boxes = (TILE_M + TILE_N) / BOX;", "boxes = TILE_M / BOX;"),),
        Cause(Part.CORRECTNESS, _WRONG),
    ),
    Mutant(
        _CUDA,
        "tail_one_token_short",
        "the first row behind the group is not cleared",
        (
            Edit("((left + 15) / 16 * 16 - left) * 8", "((left + 15) / 16 * 16 - left - 1) * 8"),
            Edit("i / pieces * BOX_BYTES + left * 128", "i / pieces * BOX_BYTES + (left + 1) * 128"),
        ),
        Cause(Part.CORRECTNESS, _WRONG),
    ),
    Mutant(
        _CUDA,
        "whole_steps_of_the_tail",
        "tokens that fill no step of 16 are left out",
        (Edit("if (16 * step < left)", "if (16 * step + 15 < left)"),),
        Cause(Part.CORRECTNESS, _WRONG),
    ),
    Mutant(
        _CUDA,
        "read_along_the_lines",
        "dy is read as if tokens lay along its lines",
        (Edit("%129, 1, 1, 1, 1, 1;", "%129, 1, 1, 1, 0, 1;"),),
        Cause(Part.CORRECTNESS, _WRONG),
    ),
    Mutant(
        _CUDA,
        "no_fence_between_proxies",
        "wgmma may not see the zeros that threads wrote",
        (Edit('    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");', ""),),
        Cause(Part.SAFETY, _RACE),
    ),
    Mutant(
        _CUDA,
        "zeros_not_awaited",
        "a warpgroup multiplies while the other one still writes zeros",
        (Edit('    asm volatile("bar.sync 1, 256;" ::: "memory");\n', ""),),
        Cause(Part.SAFETY, _RACE),
    ),
    Mutant(
        _CUDA,
        "full_not_awaited",
        "products begin before the copies have come",
        (Edit("        wait(ring.full_barrier(), ring.phase);\n        int left", "        int left"),),
        Cause(Part.SAFETY, _RACE),
    ),
    Mutant(
        _CUDA,
        "stage_handed_back_early",
        "a stage is handed back while its product is in flight",
        (Edit("        before = ring.empty_barrier();", "        if (leader) arrive(ring.empty_barrier());"),),
        Cause(Part.SAFETY, _RACE),
    ),
)
