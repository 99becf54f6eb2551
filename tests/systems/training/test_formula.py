"""The formula against Korthikanti et al.'s, against the planner's, and against the weights that a model has."""

from __future__ import annotations

import pytest

from systems.parallel.layout import Job, Layout
from systems.parallel.memory import layer_activations
from systems.parallel.shapes import gpt as planned
from systems.training.formula import layer_bytes, model_bytes
from systems.training.sizes import Sizes

SIXTEEN = Sizes(layers=24, width=2048, heads=16, vocabulary=32000, sequence=2048, batch=2, value_bytes=2)


def test_a_layer_keeps_what_korthikanti_counted_without_masks_and_scores() -> None:
    """Section 4: 34 s b h + 5 a s s b, of which 2 s b h are dropout's masks and the second term is the scores. We have
    besides a mean, a deviation and a logarithm a head for each token, in float32."""
    statistics = SIXTEEN.tokens * (4 * 4 + 4 * 16)
    assert sum(layer_bytes(SIXTEEN).values()) - statistics == 32 * SIXTEEN.tokens * 2048


def test_the_planner_of_clusters_counts_the_same_layer() -> None:
    """Within the masks that systems.parallel counts and this model has not, and the statistics that it leaves out."""
    job = Job(planned("same", 24, 2048, 16, 32000), batch=2, sequence=2048)
    theirs = layer_activations(job, Layout(micro_batch=2))
    ours = sum(layer_bytes(SIXTEEN).values())
    masks = 2 * SIXTEEN.tokens * 2048
    assert ours == pytest.approx(theirs - masks, rel=0.002)


def test_layers_are_added_up_and_the_rest_is_there_once() -> None:
    one, three = (model_bytes(Sizes(n, 64, 4, 100, 32, 2)) for n in (1, 3))
    assert three["gelu"] == 3 * one["gelu"] and three["loss"] == one["loss"] == 64 * (4 * 100 + 8)


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(ValueError, match="a width of 100 cannot be split over 3 heads: choose a multiple"):
        Sizes(1, 100, 3, 10, 8, 1)
