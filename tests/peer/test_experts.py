"""The layer of experts on the emulator, groups of blocks as ranks: right sums, exact bytes, no races; planted faults.

Truth is NumPy's in float64, and the bytes are counted from the routes by hand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from systems.peer.experts import Sizes
from systems.peer.experts_on_one import planned
from systems.peer.experts_timeline import spans
from systems.peer.kernels import PeerError
from tests.peer.expert_cases import drawn, truth
from tests.peer.in_memory import read
from warplab.emulator import execute
from warplab.hardware.chips import H200
from warplab.plan.execution import Execution
from warplab.plan.model import EMULATED_ARCHITECTURE

pytestmark = pytest.mark.processes

SMALL = Sizes(2, 21, 2, 6, 32, 48)
SLICED = Sizes(2, 21, 2, 6, 32, 80)  # two slices of the middle, so that another block may multiply them by down
COPIED = frozenset({"chosen", "weight"})


def run(sizes: Sizes, arrays: dict[str, np.ndarray], seed: int | None = None, **options) -> Execution:
    plan, inputs = planned(sizes, arrays, EMULATED_ARCHITECTURE, **options)
    return execute(plan, inputs, seed=seed)


def is_right(execution: Execution, sizes: Sizes, arrays: dict[str, np.ndarray]) -> bool:
    out, error = truth(sizes, arrays)
    return bool((np.abs(read(execution.outputs["out"], "bfloat16") - out) <= error).all())


def is_clean(execution: Execution) -> bool:
    """Whether nothing was found, all of it was searched for races, and nobody waited in vain."""
    searched = not any(name.startswith("races") for name in execution.notes)
    return execution.findings == () and searched and not execution.outputs["state"].reshape(-1, 2)[:, 1].any()


@pytest.mark.parametrize(
    ("sizes", "seed", "favourite"),
    [
        (Sizes(2, 1, 1, 2, 16, 16), None, None),
        (SMALL, None, None),
        (SMALL, 1, None),
        (Sizes(2, 40, 1, 4, 32, 32), 2, 3),  # three tiles of rank 1's last expert, and none of others
        (Sizes(2, 9, 6, 6, 144, 80), 3, None),  # all experts of each token, two slices of either product
        (Sizes(4, 13, 3, 8, 32, 16), 4, None),
        (Sizes(3, 17, 2, 9, 48, 32), 5, 0),
    ],
)
def test_sums_are_those_of_float64_without_a_race(sizes: Sizes, seed: int | None, favourite: int | None) -> None:
    arrays = drawn(sizes, 7, favourite)
    execution = run(sizes, arrays, seed, blocks=3)
    assert is_clean(execution), execution.findings
    assert is_right(execution, sizes, arrays)


def test_every_order_gives_the_same_bits() -> None:
    arrays = drawn(SMALL, 3)
    first, *others = (
        run(SMALL, arrays, seed, blocks=blocks).outputs["out"] for seed, blocks in ((None, 2), (8, 2), (9, 5))
    )
    for out in others:
        np.testing.assert_array_equal(first, out)


def test_calls_follow_each_other_with_other_routes_and_nothing_is_reset() -> None:
    before = None
    for seed in range(3):
        arrays = drawn(SMALL, seed)
        execution = run(SMALL, arrays, seed, before=before)
        assert is_clean(execution) and is_right(execution, SMALL, arrays)
        before = execution.outputs
    assert before is not None and before["state"].reshape(-1, 2).tolist() == [[3, 0]] * 4


@pytest.mark.parametrize("sizes", [Sizes(2, 64, 4, 8, 256, 64), Sizes(2, 24, 2, 8, 64, 32)])
def test_bytes_over_the_link_are_the_deduplicated_ones_and_flags(sizes: Sizes) -> None:
    arrays = drawn(sizes, 2)
    plan, inputs = planned(sizes, arrays, EMULATED_ARCHITECTURE, blocks=4)
    caches = execute(plan, inputs, sanitize=False, caches=H200, copied=COPIED).launches[0].caches
    assert caches is not None and caches.link_read_sectors == 0
    by_hand = 0
    for home in range(2):
        for experts in arrays["chosen"][home].tolist():
            by_hand += 2 * 2 * sizes.width * any(expert // sizes.own != home for expert in experts)
    assert sizes.crossing(arrays["chosen"]) == by_hand < sizes.crossing_by_choice(arrays["chosen"])
    flags = sizes.flag_bytes() // 4  # a sector each
    assert 32 * caches.link_written_sectors == by_hand + 32 * flags


def instead(old: str, new: str = "") -> Callable[[str], str]:
    """A change of the source: one place."""

    def change(text: str) -> str:
        assert text.count(old) == 1, old
        return text.replace(old, new)

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (instead("st.release.sys", "st.relaxed.sys"), "nothing orders the two"),
        (instead("ld.acquire.sys", "ld.relaxed.sys"), "missing fence"),
        (instead("st.release.gpu", "st.relaxed.gpu"), "nothing orders the two"),
        (instead("ld.acquire.gpu", "ld.relaxed.gpu"), "missing fence"),
        (instead("hear_here(r, state, r.listed +", "if (!call) hear_here(r, state, r.listed +"), "race"),
        (instead("if (from != r.rank) hear(r, state", "if (!call) hear(r, state"), "race"),
        (instead("        hear(r, state, r.returned(", "        if (!call) hear(r, state, r.returned("), "race"),
        (instead("hear_here(r, state, r.halfway +", "if (!call) hear_here(r, state, r.halfway +"), "race"),
        (instead("hear_here(r, state, r.done +", "if (!call) hear_here(r, state, r.done +"), "race"),
    ],
    ids=["no release", "no acquire", "no release here", "no acquire here", "no wait for lists", "no wait for rows",
         "no wait for sums", "no wait for the middle", "no wait for down"],
)  # fmt: skip
def test_a_missing_release_acquire_or_wait_is_found(change: Callable[[str], str], words: str) -> None:
    execution = run(SLICED, drawn(SLICED, 1), change=change)
    assert any(words in finding.message for finding in execution.findings), execution.findings


def test_a_row_per_choice_costs_more_bytes() -> None:
    """What deduplication saves, in sectors: the same kernel that sends a row again for each further choice."""
    again = instead("        if (goes) {\n", "        for (u32 j = 0; goes && j < r.of.choices; ++j) {\n")
    sizes = Sizes(2, 16, 4, 8, 64, 32)
    arrays = drawn(sizes, 2)
    plan, inputs = planned(sizes, arrays, EMULATED_ARCHITECTURE, change=again)
    caches = execute(plan, inputs, sanitize=False, caches=H200, copied=COPIED).launches[0].caches
    assert caches is not None
    assert 32 * caches.link_written_sectors > 1.5 * sizes.crossing(arrays["chosen"])


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ((1, 8, 1, 2, 16, 16), "2 to 8"),
        ((2, 8, 1, 3, 16, 16), "multiple of 2"),
        ((2, 8, 5, 4, 16, 16), "takes 1 to 4"),
        ((2, 0, 1, 2, 16, 16), "0 tokens"),
        ((2, 8, 1, 2, 24, 16), "width is 24"),
        ((2, 8, 1, 2, 16, 0), "hidden is 0"),
    ],
)
def test_sizes_that_the_kernel_cannot_do_are_refused(fields: tuple[int, ...], words: str) -> None:
    with pytest.raises(PeerError, match=words):
        Sizes(*fields)


def test_a_timeline_has_every_item_after_what_it_waits_for() -> None:
    arrays = drawn(SMALL, 4)
    plan, inputs = planned(SMALL, arrays, EMULATED_ARCHITECTURE, blocks=3, room=64)
    times = execute(plan, inputs, sanitize=False).outputs["times"]
    found = [span for rank in spans(SMALL, arrays["chosen"], times) for block in rank for span in block]
    assert all(span.begun <= span.ready < span.ended for span in found)
    kinds = Counter(span.kind for span in found)
    tiles = sum(-(-int((arrays["chosen"] == expert).sum()) // 16) for expert in range(SMALL.experts))
    assert kinds["gate and up"] == kinds["down"] == tiles  # one slice of either
    assert kinds["send"] == kinds["return"] == kinds["add"] == 2 * SMALL.groups
    first_down = min(span.ready for span in found if span.kind == "down")
    assert first_down >= min(span.ended for span in found if span.kind == "gate and up")
    with pytest.raises(ValueError, match="more room"):
        spans(SMALL, arrays["chosen"], times[:, :, :2])
