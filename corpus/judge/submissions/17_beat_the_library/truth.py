"""What tests know of lab 17_beat_the_library: mistakes in its reference, and sizes to try its tolerances with."""

from __future__ import annotations

from autograder.records.status import Part
from autograder.spec.task import Case, Family
from corpus.judge.mutants.mutant import Cause, Edit, Mutant

_SOURCE = "17_beat_the_library/submission.py"
_WRONG, _RACE, _TRAFFIC, _BOUNDS = "wrong answer", "race", "over budget", "out of bounds"
_ADDED = "        sum.x += more.x, sum.y += more.y;\n"

TOLERANCES = (
    Case("small and ragged", {"m": 17, "n": 40, "k": 200}, Family.NORMAL),
    Case("in parts", {"m": 24, "n": 64, "k": 1032}, Family.NORMAL),
)
MUTANTS = (
    Mutant(
        _SOURCE,
        "copies_not_awaited",
        "a stage is read while cp.async is still filling it",
        (Edit('        asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 2) : "memory");\n', ""),),
        Cause(Part.SAFETY, _RACE, words="cp.async"),
    ),
    Mutant(
        _SOURCE,
        "one_stage_too_few_awaited",
        "the wait leaves the group on its way that is read next",
        (Edit('"n"(STAGES - 2)', '"n"(STAGES - 1)'),),
        Cause(Part.SAFETY, _RACE, words="cp.async"),
    ),
    Mutant(
        _SOURCE,
        "no_barrier_between_stages",
        "each thread waits for its own copies only",
        (Edit("        __syncthreads();  // everybody's copies", "        // everybody's copies"),),
        Cause(Part.SAFETY, _RACE),
    ),
    Mutant(
        _SOURCE,
        "rest_of_the_sum_dropped",
        "every part takes as many steps, and those that are left belong to none",
        (Edit("steps = (part + 1) * all / PARTS - start;", "steps = all / PARTS;"),),
        Cause(Part.CORRECTNESS, _WRONG, words="elements of c are wrong"),
    ),
    Mutant(
        _SOURCE,
        "parts_rounded",
        "the sum of the parts is rounded to float16 after each of them",
        (
            Edit(
                _ADDED,
                _ADDED + '        asm("{ .reg .b16 h; cvt.rn.f16.f32 h, %0; cvt.f32.f16 %0, h; }" : "+f"(sum.x));\n',
            ),
        ),
        Cause(Part.CORRECTNESS, _WRONG, words="elements of c are wrong"),
    ),
    Mutant(
        _SOURCE,
        "workspace_one_part_short",
        "the last part lies behind the workspace",
        (Edit("cupy.empty((parts, m, n)", "cupy.empty((parts - 1, m, n)"),),
        Cause(Part.SAFETY, _BOUNDS, words="writes"),
    ),
    Mutant(
        _SOURCE,
        "b_not_turned",
        "ldmatrix reads b along its rows",
        (Edit("x4.trans.shared", "x4.shared"),),
        Cause(Part.CORRECTNESS, _WRONG, words="elements of c are wrong"),
    ),
    Mutant(
        _SOURCE,
        "one_row_too_far",
        "> in the guard of the store",
        (Edit("if (row >= m || column >= n) continue;", "if (row > m || column >= n) continue;"),),
        Cause(Part.SAFETY, _BOUNDS, words="writes c["),
    ),
    Mutant(
        _SOURCE,
        "unswizzled",
        "pieces lie in the order of their rows: the rows that ldmatrix reads at once begin in the same bank",
        (
            Edit("row * 64 + ((q ^ (row >> 1 & 3)) << 4)", "row * 64 + (q << 4)"),
            Edit("row * BYTES + ((q ^ (row & 7)) << 4)", "row * BYTES + (q << 4)"),
        ),
        Cause(Part.TRAFFIC, _TRAFFIC, words="shared load wavefronts"),
    ),
    Mutant(
        _SOURCE,
        "larger_tiles",
        "64 x 64 outputs a block: a quarter of the SMs have one",
        (Edit("return 32, 32, 64, 6, parts", "return 64, 64, 64, 4, parts"),),
        Cause(Part.TRAFFIC, _TRAFFIC, words="estimated nanoseconds"),
    ),
)
