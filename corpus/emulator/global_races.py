"""Pairs of kernels with a race in global memory and without it, made from one text.

A pair's host function has the argument `mend`: 0 runs the faulty kernel, 1 its mended twin. `sorts` says how the
finding may be named (see warplab/emulator/report/races.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from corpus.emulator import draws
from corpus.emulator.entry import Fault, read, scalar, update
from warplab.plan.execution import FindingKind

READ_WRITE, WRITE_WRITE = "read-write race", "write-write race"
SCOPE, FENCE, BARRIER = "insufficient scope", "missing fence", "missing barrier"
_FOLDER = "faulty/global_races"


@dataclass(frozen=True)
class Pair(Fault):
    """A faulty kernel; with `mended` its twin, which must give no finding."""

    sorts: tuple[str, ...] = (READ_WRITE,)

    @property
    def mended(self) -> Pair:
        """The twin."""
        return replace(self, name=f"{self.name}/mended", arguments=(*self.arguments[:-1], scalar("mend", 1)))


def _pairs(file: str, functions: str, *sorts: str) -> tuple[Pair, ...]:
    arguments = (
        read("a", "int32", 1024),
        update("out", "int32", 1024),
        update("work", "int32", 1024),
        update("flag", "int32", 64),
        scalar("mend", 0),
    )
    inputs = {"a": draws.integers(1, 1000)} | {name: draws.zeros for name in ("out", "work", "flag")}
    return tuple(
        Pair(f"global/{f}", f"{_FOLDER}/{file}.py", f, arguments, inputs, FindingKind.RACE, sorts=sorts)
        for f in functions.split()
    )


_BOTH = (READ_WRITE, WRITE_WRITE)

PAIRS: tuple[Pair, ...] = (
    *_pairs(
        "updates",
        "lost_update plain_histogram plain_maximum plain_bits plain_compaction column_sums scatter_add wide_sum "
        "bits_of_a_byte pairs_of_halves reverse_in_place odd_even_sort level_of_a_graph worklist_by_plain_tail "
        "shortest_paths hooked_trees plain_compare_and_swap plain_ticket",
        *_BOTH,
    ),
    *_pairs("updates", "scatter_overwrites wrong_index overlapping_tiles overlapping_vectors", WRITE_WRITE),
    *_pairs(
        "updates",
        "stencil_in_place transpose_in_place halo_exchange two_phases table_of_first_block one_buffer_for_two "
        "carry_of_neighbour plain_read_of_a_counter",
        READ_WRITE,
    ),
    *_pairs("updates", "cleared_by_first_block plain_reset_of_a_counter", WRITE_WRITE),
    *_pairs("updates", "atomics_of_the_block one_atomic_of_the_block", SCOPE),
    *_pairs(
        "within_blocks",
        "no_barrier tree_without_barriers wide_tree_without_barriers scratch_used_again scan_in_one_buffer "
        "barrier_of_each_warp fence_for_a_barrier syncwarp_for_a_barrier tile_for_the_block "
        "block_for_the_grid no_syncwarp warp_sum_without_syncwarp broadcast_without_syncwarp count_read_early "
        "copied_too_early bytes_of_neighbours",
        READ_WRITE,
    ),
    *_pairs("within_blocks", "lost_update_in_a_block", *_BOTH),
    *_pairs("within_blocks", "cleared_without_barrier neighbour_overwrites", WRITE_WRITE),
    *_pairs(
        "flags",
        "last_block_without_fence last_block_reads_without_fence flag_without_fences flag_set_without_fence "
        "flag_seen_without_fence flag_before_the_fence fence_before_the_flag_is_seen relaxed_for_a_release "
        "relaxed_for_an_acquire exchange_without_order lock_without_fences lock_taken_without_fence "
        "lock_given_back_without_fence queue_without_fence look_back_without_fence look_back_at_an_unfenced_sum "
        "counted_before_it_is_written slot_ready_too_early given_back_too_early",
        FENCE,
    ),
    *_pairs(
        "flags",
        "last_block_fence_of_the_block last_block_reads_with_fence_of_the_block last_block_counts_in_the_block "
        "flag_with_fences_of_the_block release_in_the_block acquire_in_the_block released_by_a_fence_of_the_block "
        "lock_of_the_block",
        SCOPE,
    ),
    *_pairs("flags", "last_block_without_barrier flag_set_for_one_warp look_back_by_one_warp", BARRIER),
    *_pairs(
        "flags",
        "last_block_counts_plainly plain_flag flag_of_one_warp flag_of_another_block lock_given_back_plainly "
        "two_locks_for_one_sum read_outside_of_the_lock queue_with_plain_tail "
        "queue_with_plain_head slot_reused_unseen",
        *_BOTH,
    ),
    *_pairs(
        "volatile_data",
        "volatile_sum volatile_ticket volatile_sum_of_warps volatile_neighbours volatile_message",
        *_BOTH,
    ),
    *_pairs(
        "grids",
        "block_barrier_for_the_grid one_grid_barrier_a_round stencil_between_grid_barriers wrong_one_of_two_buffers "
        "result_before_the_grid_barrier hand_barrier_holds_one_warp hand_barrier_counts_from_zero_again "
        "hand_barrier_misses_one_block",
        READ_WRITE,
    ),
    *_pairs("grids", "lost_update_between_grid_barriers", *_BOTH),
    # Which of a barrier's parts is missing is only said where the reader has seen a flag of the writer's own.
    *_pairs(
        "grids",
        "hand_barrier_without_fence hand_barrier_with_fence_of_the_block hand_barrier_arrives_early "
        "sense_of_the_barrier_unfenced",
        READ_WRITE,
        FENCE,
        SCOPE,
        BARRIER,
    ),
    *_pairs("grids", "hand_barrier_left_without_fence flag_of_a_later_block_without_fence", FENCE),
    *_pairs("in_numba", "numba_lost_update numba_histogram", *_BOTH),
    *_pairs("in_numba", "numba_blur numba_neighbours", READ_WRITE),
    *_pairs("in_numba", "numba_scatter", WRITE_WRITE),
    *_pairs("in_numba", "numba_last_block numba_lock", FENCE),
)
