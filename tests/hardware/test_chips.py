"""The datasheets must agree with themselves: a figure typed wrong breaks an identity that the others keep."""

from dataclasses import fields

import pytest

from warplab.hardware import CHIPS, Chip, Math, find_chip
from warplab.hardware.chips import A100, B200, GB200, H100, H200, L4, L40S, RTX_4090, T4, V100
from warplab.hardware.records import Evidence

# Multiply-adds a clock of one SM's tensor cores, float16 in, float32 accumulated (architecture whitepapers).
FP16_FMA_PER_SM = {V100: 512, T4: 512, A100: 1024, H100: 2048, H200: 2048, L4: 512, L40S: 512, RTX_4090: 256}


def ids(chip: Chip) -> str:
    return chip.name


@pytest.mark.parametrize("chip", [chip for chip in CHIPS if chip.boost_clock], ids=ids)
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
    sourced = [name for source in chip.sources for name in source.fields]
    assert set(sourced) <= {field.name for field in fields(chip)} | set(chip.peaks)


@pytest.mark.parametrize("chip", CHIPS, ids=ids)
def test_a_figure_published_only_with_sparsity_says_that_it_is_halved(chip: Chip) -> None:
    source = chip.source(Math.FP16_TENSOR)
    assert source is not None
    assert ("halved here" in source.place) == (chip in (H200, L4, B200, GB200))


def test_a_peak_may_have_a_source_of_its_own() -> None:
    tf32, fp16 = B200.source(Math.TF32_TENSOR), B200.source(Math.FP16_TENSOR)
    assert tf32 is not None and tf32 is not fp16 and fp16 is B200.source("peaks")
    assert V100.source(Math.FP8_TENSOR) is None  # no such peak
    assert T4.source("nvlink") is None  # no such links


def test_the_kind_of_evidence_is_told() -> None:
    def evidence(chip: Chip, figure: str) -> Evidence:
        source = chip.source(figure)
        assert source is not None
        return source.evidence

    assert evidence(A100, "peaks") is Evidence.VENDOR
    assert evidence(RTX_4090, "peaks") is Evidence.SECONDARY
    assert {evidence(H200, figure) for figure in ("sms", "boost_clock", "l2")} == {Evidence.DRIVER}


# Memory clock in MHz (two transfers a cycle) and bus width in bits: the V100's from NVIDIA, others from drivers.
MEMORY_BUS = {
    V100: (877.5, 4096),
    T4: (5001, 256),
    L4: (6251, 192),
    L40S: (9001, 384),
    H100: (2619, 5120),
    B200: (3996, 7680),
}


@pytest.mark.parametrize("chip", MEMORY_BUS, ids=ids)
def test_bandwidth_is_two_transfers_a_memory_clock(chip: Chip) -> None:
    megahertz, bits = MEMORY_BUS[chip]
    assert chip.bandwidth == pytest.approx(2 * megahertz * 1e6 * bits / 8, rel=0.005)


def test_the_h200_is_as_its_driver_reports_it() -> None:
    assert (H200.sms, H200.l2, H200.boost_clock) == (132, 62_914_560, 1980e6)
    assert (H200.shared_per_block, H200.register_file_per_sm) == (227 * 1024, 65_536 * 4)


@pytest.mark.parametrize("chip", CHIPS, ids=ids)
def test_one_kib_of_shared_memory_is_kept_from_a_block_since_ampere(chip: Chip) -> None:
    reserved = 1024 if chip.compute_capability >= (8, 0) else 0
    assert chip.shared_per_sm - chip.shared_per_block == reserved


def test_a_gb200_is_a_b200_that_may_take_more_power() -> None:
    for math, peak in GB200.peaks.items():
        assert 1.06 < peak / B200.peaks[math] < 1.12, math  # more SMs, a higher clock
    implied = GB200.peaks[Math.FP32] / (2 * GB200.cuda_cores)
    assert B200.boost_clock is not None and 1 < implied / B200.boost_clock < 1.06


def test_generations() -> None:
    assert V100.peak(Math.BF16_TENSOR) is None and V100.peak(Math.INT8_TENSOR) is None
    assert A100.peak(Math.FP8_TENSOR) is None
    assert [chip.name for chip in CHIPS if chip.peak(Math.FP4_TENSOR)] == [B200.name, GB200.name]
    assert H200.bandwidth > H100.bandwidth and H200.sms == H100.sms


def test_chips_are_found_by_the_drivers_name() -> None:
    assert find_chip("NVIDIA H200") is H200
    assert find_chip("Tesla T4") is T4
    assert find_chip("NVIDIA GeForce GTX 1060") is None
    names = [name for chip in CHIPS for name in chip.driver_names]
    assert len(names) == len(set(names))
    assert {L4.compute_capability, L40S.compute_capability} == {(8, 9)}
