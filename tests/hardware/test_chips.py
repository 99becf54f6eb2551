"""The datasheets must agree with themselves: a figure typed wrong breaks an identity that the others keep."""

from dataclasses import fields

import pytest

from warplab.hardware import CHIPS, Chip, Math, find_chip
from warplab.hardware.chips import A100, B200, H100, H200, L4, L40S, RTX_4090, T4, V100

# Multiply-adds a clock of one SM's tensor cores, float16 in, float32 accumulated (architecture whitepapers).
FP16_FMA_PER_SM = {V100: 512, T4: 512, A100: 1024, H100: 2048, H200: 2048, L4: 512, L40S: 512, RTX_4090: 256}


def ids(chip: Chip) -> str:
    return chip.name


@pytest.mark.parametrize("chip", CHIPS, ids=ids)
def test_fp32_peak_is_two_flops_a_lane_a_clock(chip: Chip) -> None:
    assert chip.boost_clock is not None
    assert 2 * chip.cuda_cores * chip.boost_clock == pytest.approx(chip.peaks[Math.FP32], rel=0.01)


@pytest.mark.parametrize("chip", FP16_FMA_PER_SM, ids=ids)
def test_tensor_peak_is_dense(chip: Chip) -> None:
    clock = chip.tensor_clock or chip.boost_clock
    assert clock is not None
    dense = 2 * chip.sms * FP16_FMA_PER_SM[chip] * clock
    # The L40S datasheet gives 362.05 for the dense figure beside 733 for the sparse one: 1.2% apart.
    assert chip.peaks[Math.FP16_TENSOR] == pytest.approx(dense, rel=0.015)


@pytest.mark.parametrize("chip", CHIPS, ids=ids)
def test_tensor_peaks_keep_their_ratios(chip: Chip) -> None:
    fp16 = chip.peaks[Math.FP16_TENSOR]
    for math, ratio in {
        Math.BF16_TENSOR: 1,
        Math.TF32_TENSOR: 0.5,
        Math.FP8_TENSOR: 2,
        Math.INT8_TENSOR: 4 if chip is RTX_4090 else 2,  # its float32 accumulation is halved, its int32 is not
        Math.FP4_TENSOR: 4,
    }.items():
        if (peak := chip.peak(math)) is not None:
            assert peak / fp16 == pytest.approx(ratio, rel=0.015), math


@pytest.mark.parametrize("chip", CHIPS, ids=ids)
def test_every_figure_names_its_source(chip: Chip) -> None:
    without = {"name", "driver_names", "sources"}
    for field in fields(chip):
        if field.name not in without and getattr(chip, field.name) is not None:
            assert chip.source(field.name) is not None, field.name
    sourced = {name for source in chip.sources for name in source.fields}
    assert sourced <= {field.name for field in fields(chip)}


@pytest.mark.parametrize("chip", CHIPS, ids=ids)
def test_one_kib_of_shared_memory_is_kept_from_a_block_since_ampere(chip: Chip) -> None:
    reserved = 1024 if chip.compute_capability >= (8, 0) else 0
    assert chip.shared_per_sm - chip.shared_per_block == reserved


def test_generations() -> None:
    assert V100.peak(Math.BF16_TENSOR) is None and V100.peak(Math.INT8_TENSOR) is None
    assert A100.peak(Math.FP8_TENSOR) is None
    assert [chip.name for chip in CHIPS if chip.peak(Math.FP4_TENSOR)] == [B200.name]
    assert H200.bandwidth > H100.bandwidth and H200.sms == H100.sms


def test_chips_are_found_by_the_drivers_name() -> None:
    assert find_chip("NVIDIA H200") is H200
    assert find_chip("Tesla T4") is T4
    assert find_chip("NVIDIA GeForce GTX 1060") is None
    names = [name for chip in CHIPS for name in chip.driver_names]
    assert len(names) == len(set(names))
    assert {L4.compute_capability, L40S.compute_capability} == {(8, 9)}
