"""What tests know of lab 07_tensor_core_hgemm: mistakes in its references, and sizes to try its tolerances with."""

from __future__ import annotations

from autograder.records.status import Part
from autograder.spec.task import Case, Family
from corpus.judge.mutants.mutant import Cause, Edit, Mutant

_NUMBA, _CUDA = "07_tensor_core_hgemm/submission.py", "07_tensor_core_hgemm/submission_cuda.py"
_LAST_FETCH = "            fetch(write, from_a, from_b, to_a, to_b, stride_a, stride_b)\n"
_WRONG, _RACE, _TRAFFIC = "wrong answer", "race", "over budget"

TOLERANCES = (
    Case("ragged", {"m": 17, "n": 35, "k": 201}, Family.NORMAL),
    Case("whole", {"m": 128, "n": 256, "k": 256}, Family.NORMAL),
)
MUTANTS = (
    Mutant(
        _NUMBA,
        "copies_not_awaited",
        "a stage is read while cp.async is still filling it",
        (
            Edit(
                "        wait_for_next_stage()\n        cuda.syncthreads()\n        read",
                "        cuda.syncthreads()\n        read",
            ),
        ),
        Cause(Part.SAFETY, _RACE, words="cp_async"),
    ),
    Mutant(
        _NUMBA,
        "one_stage_too_few_awaited",
        "the wait leaves the group on its way that is read next",
        (Edit("cp_async_wait_group(STAGES - 2)", "cp_async_wait_group(STAGES - 1)"),),
        Cause(Part.SAFETY, _RACE, words="cp_async"),
    ),
    Mutant(
        _NUMBA,
        "no_barrier_between_stages",
        "each thread waits for its own copies only",
        (
            Edit(
                "        wait_for_next_stage()\n        cuda.syncthreads()\n        read",
                "        wait_for_next_stage()\n        read",
            ),
        ),
        Cause(Part.SAFETY, _RACE),
    ),
    Mutant(
        _NUMBA,
        "empty_groups_not_committed",
        "at the end nothing is committed, so the wait counts older groups than it means",
        (
            Edit("        ptx.cp_async_commit()  # an empty group keeps the count of the wait right\n", ""),
            Edit(_LAST_FETCH, f"{_LAST_FETCH}            ptx.cp_async_commit()\n"),
        ),
        Cause(Part.SAFETY, _RACE, words="cp_async"),
    ),
    Mutant(
        _NUMBA,
        "one_stage_too_many",
        "the ring is filled before anything is read, so the first tile in the loop has no place left",
        (Edit("for _ in range(STAGES - 1):", "for _ in range(STAGES):"),),
        Cause(Part.SAFETY, "out of bounds", words="writes"),
    ),
    Mutant(
        _NUMBA,
        "fragments_of_the_step_before",
        "the two sets of fragments are exchanged in one of the four steps",
        (Edit("        multiply(sums, a1, b1)\n        a1, b1 =", "        multiply(sums, a0, b0)\n        a1, b1 ="),),
        Cause(Part.CORRECTNESS, _WRONG, words="elements of c are wrong"),
    ),
    Mutant(
        _NUMBA,
        "b_not_turned",
        "ldmatrix reads b along its rows",
        (Edit("ptx.ldmatrix_x4_trans(ptx.shared_address", "ptx.ldmatrix_x4(ptx.shared_address"),),
        Cause(Part.CORRECTNESS, _WRONG, words="elements of c are wrong"),
    ),
    Mutant(
        _NUMBA,
        "rows_of_the_fragment_exchanged",
        "the sums of the lower eight rows are stored in the upper ones",
        (
            Edit("store(c, row, col, sums[s], sums[s + 1])", "store(c, row + 8, col, sums[s], sums[s + 1])"),
            Edit("store(c, row + 8, col, sums[s + 2]", "store(c, row, col, sums[s + 2]"),
        ),
        Cause(Part.CORRECTNESS, _WRONG, words="elements of c are wrong"),
    ),
    Mutant(
        _NUMBA,
        "no_bounds_check",
        "columns beyond the edge are read",
        (Edit("inside = row0 + row < rows and col0 + col + e < cols", "inside = row0 + row < rows"),),
        Cause(Part.SAFETY, "out of bounds", words="reads"),
    ),
    Mutant(
        _NUMBA,
        "half_accumulator",
        "one in four sums is rounded to float16 after every product",
        (Edit("    sums[first] = d[0]\n", "    sums[first] = f32(f16(d[0]))\n"),),
        Cause(Part.CORRECTNESS, _WRONG),
    ),
    Mutant(
        _NUMBA,
        "short_sums_in_the_pipeline",
        "the kernel for whole tiles is used for less k than it has stages",
        (Edit(" and k >= STAGES * TILE_K:", ":"),),
        Cause(Part.SAFETY, "out of bounds"),
    ),
    Mutant(
        _NUMBA,
        "unswizzled",
        "the pieces of a's tile lie in the order of its rows, and are read so: every row begins in the same bank",
        (
            Edit("((u32(2 * k) + half) ^ (row & u32(7))) << u32(4)", "(u32(2 * k) + half) << u32(4)"),
            Edit("((chunk_a ^ (row_a & 7)) << 4)", "(chunk_a << 4)"),
        ),
        Cause(Part.TRAFFIC, _TRAFFIC, words="shared load wavefronts"),
    ),
    Mutant(
        _CUDA,
        "copies_not_awaited",
        "a stage is read while cp.async is still filling it",
        (Edit('        asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 2) : "memory");\n', ""),),
        Cause(Part.SAFETY, _RACE, words="cp.async"),
    ),
    Mutant(
        _CUDA,
        "no_barrier_between_stages",
        "each thread waits for its own copies only",
        (Edit('"n"(STAGES - 2) : "memory");\n        __syncthreads();', '"n"(STAGES - 2) : "memory");'),),
        Cause(Part.SAFETY, _RACE),
    ),
    Mutant(
        _CUDA,
        "ring_one_stage_short",
        "the ring's end is a stage too early, and the place that is filled runs past it",
        (Edit("const u32 end = base + STAGES * STAGE_BYTES;", "const u32 end = base + (STAGES - 1) * STAGE_BYTES;"),),
        # Whether a place beyond the ring is filled, too, depends on how long k is drawn.
        Cause(Part.CORRECTNESS, _WRONG, words="elements of c are wrong"),
    ),
    Mutant(
        _CUDA,
        "first_fragments_left_out",
        "the sums begin with the second sixteen steps of k",
        (
            Edit(
                "        even.add_to(sums);\n        even.load(read, warp_row, warp_col / 8, lane, 2);",
                "        even.load(read, warp_row, warp_col / 8, lane, 2);",
            ),
        ),
        Cause(Part.CORRECTNESS, _WRONG),
    ),
    Mutant(
        _CUDA,
        "b_not_turned",
        "ldmatrix reads b along its rows",
        (Edit("x4.trans.shared", "x4.shared"),),
        Cause(Part.CORRECTNESS, _WRONG),
    ),
    Mutant(
        _CUDA,
        "one_too_far",
        "<= in the guard of the store",
        (Edit("if (row < m && col < n) c", "if (row <= m && col < n) c"),),
        Cause(Part.SAFETY, "out of bounds", words="writes c["),
    ),
    Mutant(
        _CUDA,
        "unswizzled",
        "pieces lie in the order of their rows: the rows that ldmatrix reads at once begin in the same bank",
        (Edit("row * row_bytes + ((q ^ (row & 7)) << 4)", "row * row_bytes + (q << 4)"),),
        Cause(Part.TRAFFIC, _TRAFFIC, words="shared load wavefronts"),
    ),
)
