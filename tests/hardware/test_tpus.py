"""The TPUs' figures against each other and against ratios that Google publishes."""

from __future__ import annotations

import pytest

from warplab.hardware.tpus import TPU7X, TPU_V5E, TPU_V5P, TPU_V6E, TPUS


def test_intensity_is_flops_over_bytes() -> None:
    assert TPU_V5E.intensity == pytest.approx(197e12 / 819e9)
    assert TPU_V5P.intensity == pytest.approx(166, rel=0.01)


def test_generations_relate_as_published() -> None:
    # Google Cloud, Introducing Trillium: 4.7 times the v5e's compute, twice its memory, bandwidth and links.
    assert TPU_V6E.bf16 / TPU_V5E.bf16 == pytest.approx(4.7, rel=0.02)
    assert TPU_V6E.memory == 2 * TPU_V5E.memory and TPU_V6E.bandwidth == 2 * TPU_V5E.bandwidth
    assert TPU_V6E.ici == 2 * TPU_V5E.ici
    assert TPU7X.fp8 == 2 * TPU7X.bf16


def test_matrix_units_make_the_peak_at_a_clock_that_a_chip_can_have() -> None:
    for tpu in (TPU_V5E, TPU_V5P):
        assert tpu.matrix_units is not None and tpu.matrix_side is not None
        clock = tpu.bf16 / (2 * tpu.matrix_units * tpu.matrix_side**2)
        assert 1.4e9 < clock < 1.8e9, tpu.name


@pytest.mark.parametrize("tpu", TPUS, ids=lambda tpu: tpu.name)
def test_every_chip_names_its_source(tpu) -> None:
    assert tpu.source.startswith("Google Cloud TPU documentation")
    assert 0 < tpu.tensor_cores <= 2 and tpu.bf16 > 0 and tpu.bandwidth > 0
