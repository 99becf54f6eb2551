"""Pairs of kernels that hand shared memory over too early, and that do so rightly: asynchronous copies and mbarriers.

A pair's host function has the argument `mend`, as those of global_races.py have.
"""

from __future__ import annotations

from corpus.emulator import draws
from corpus.emulator.entry import read, scalar, update
from corpus.emulator.global_races import Pair

_ARGUMENTS = (read("a", "float32", 512), update("out", "float32", 512), scalar("mend", 0))


def _pairs(functions: str) -> tuple[Pair, ...]:
    inputs = {"out": draws.zeros}
    file = "faulty/handing_over.py"
    return tuple(Pair(f"handover/{f}", file, f, _ARGUMENTS, inputs, sorts=()) for f in functions.split())


UNREAD_SOURCES = _pairs(
    "written_by_its_own_thread loaded_by_its_own_thread told_by_an_mbarrier told_by_a_barrier stage_loaded_again "
    "tensor_stage_loaded_again one_group_too_few awaited_by_another_thread"
)
LONE_LANES = _pairs(
    "lane_hands_back_a_stage lane_hands_back_a_tensor_stage lane_hands_back_to_stores lane_tells_of_stores "
    "half_a_warp_hands_back common_word_handed_back"
)
