"""The pictures of notebook 10 say what is so: bars against counts, waves against a loop, nodes against a simulation."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.patches import Rectangle

from course.figures.experts import SKEWS, Groups, distinct_nodes, explore_groups, groups, routed, shares

COUNTS = (0, 1, 128, 129, 300, 7)


def test_bars_are_the_rows_and_what_is_added() -> None:
    figure = groups(Groups(COUNTS, 128))
    heights = {
        patch.get_gid(): patch.get_height()
        for patch in figure.axes[0].patches
        if isinstance(patch, Rectangle) and patch.get_gid()
    }
    for expert, count in enumerate(COUNTS):
        assert heights[f"rows {expert}"] == count
        together = sum(heights[f"{name} {expert}"] for name in ("rows", "to a tile"))
        assert together % 128 == 0 and 0 <= together - count < 128
        assert together + heights[f"to the fullest {expert}"] == 384


def test_rows_and_waves_against_a_loop() -> None:
    model = Groups(COUNTS, 128, columns=5)
    tiles = [0, 1, 1, 2, 3, 1]
    assert model.on_tiles == 128 * sum(tiles) and model.to_the_fullest == 6 * 3 * 128
    queue, together = sum(tiles) * 5, 0
    while queue > 0:
        queue, together = queue - 4, together + 1
    apart = 0
    for tall in tiles:
        left = tall * 5
        while left > 0:
            left, apart = left - 4, apart + 1
    assert (model.waves(4), model.waves_one_by_one(4)) == (together, apart)


@pytest.mark.parametrize("skew", SKEWS)
def test_every_token_chooses_k_different_experts(skew: str) -> None:
    counts = routed(500, 16, 4, skew, seed=3)
    assert sum(counts) == 2000 and max(counts) <= 500 and counts == routed(500, 16, 4, skew, seed=3)


def test_skews_are_skewed() -> None:
    even, some, one = (shares(routed(2000, 32, 2, skew)) for skew in SKEWS)
    assert even < 1.5 < some < one
    assert one > 8


@pytest.mark.parametrize(
    ("nodes", "experts", "k", "most"), [(8, 256, 8, 0), (8, 256, 8, 4), (2, 8, 3, 0), (4, 4, 1, 0)]
)
def test_nodes_against_a_simulation(nodes: int, experts: int, k: int, most: int) -> None:
    rng = np.random.default_rng(1)
    share, found = experts // nodes, []
    for _ in range(4000):
        of = rng.choice(nodes, most or nodes, replace=False)
        candidates = (of[:, None] * share + np.arange(share)).ravel()
        found.append(len(set(rng.choice(candidates, k, replace=False) // share)))
    assert distinct_nodes(nodes, experts, k, most) == pytest.approx(np.mean(found), rel=0.02)


def test_what_cannot_be_is_refused() -> None:
    for call in (
        lambda: Groups(()),
        lambda: Groups((3,), tile=0),
        lambda: routed(10, 4, 5, "even"),
        lambda: routed(10, 4, 1, "uneven"),
        lambda: distinct_nodes(3, 256, 8),
        lambda: distinct_nodes(8, 8, 4, most=2),
    ):
        with pytest.raises(ValueError):
            call()


def test_the_explorer_draws_every_choice_of_skew() -> None:
    explorer = explore_groups()
    for skew in SKEWS:
        explorer.controls["skew"].value = skew
        assert explorer.message.value == ""
