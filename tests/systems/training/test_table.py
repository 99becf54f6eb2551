"""The table on paper against what a census measures of a step with full checkpoints."""

from __future__ import annotations

from dataclasses import replace

import pytest

from systems.training.sizes import Sizes
from systems.training.table import recomputed

SIZES = Sizes(layers=2, width=48, heads=3, vocabulary=16, sequence=40, batch=2, expansion=3)


@pytest.mark.parametrize(
    "sizes", [SIZES, replace(SIZES, heads=6, expansion=4, batch=1), replace(SIZES, layers=1, width=32, heads=1)]
)
def test_every_number_is_what_a_census_counts(sizes: Sizes) -> None:
    pytest.importorskip("torch")
    from systems.training import gpt
    from systems.training.operators import operators

    assert recomputed([sizes] * sizes.layers) == operators(gpt.make(sizes), *gpt.draw(sizes))


def test_blocks_may_differ() -> None:
    wide = replace(SIZES, width=96)
    table = recomputed([SIZES, wide])
    assert table[:8] == recomputed([SIZES]) and {one.block for one in table[8:]} == {1}
    assert [one.bytes for one in table[8:]] == [one.bytes for one in recomputed([wide])]


def test_half_precision_halves_what_is_no_statistic() -> None:
    half = {one.name: one for one in recomputed([replace(SIZES, value_bytes=2)])}
    for one in recomputed([SIZES]):
        statistics = {"norm_1": 2, "norm_2": 2, "attention": 3}.get(one.name, 0) * 4 * SIZES.tokens
        assert one.bytes - statistics == 2 * (half[one.name].bytes - statistics) and one.flops == half[one.name].flops
