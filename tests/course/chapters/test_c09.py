"""Chapter 09 and its appendix: formats, scales, sums by the rule, and numbers that are quoted only if measured."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from course import measured, results
from course.chapters import c09_engineering, c09_fp8
from warplab.emulator.core.tensor.numerics import Kind
from warplab.hardware.small_floats import E2M1, E4M3

H100 = "fp8_nvidia_h100_80gb_hbm3"


def test_rules_of_blocks_against_a_loop() -> None:
    """Scales of each kind, element by element in plain Python."""
    x = np.random.default_rng(0).standard_t(2, (4, 64))
    for form, largest_exponent in ((E4M3, 8), (E2M1, 2)):
        expected = np.empty_like(x)
        for row in range(4):
            for first in range(0, 64, 32):
                block = x[row, first : first + 32]
                scale = 2.0 ** (math.floor(math.log2(max(abs(v) for v in block))) - largest_exponent)
                expected[row, first : first + 32] = [float(form.rounded(v / scale)) * scale for v in block]
        np.testing.assert_array_equal(c09_fp8.mx(x, form), expected)
    tensor = max(abs(v) for v in x.ravel()) / (6 * 448)
    expected = np.empty_like(x)
    for row in range(4):
        for first in range(0, 64, 16):
            block = x[row, first : first + 16]
            scale = float(E4M3.rounded(max(abs(v) for v in block) / 6 / tensor)) * tensor
            expected[row, first : first + 16] = [float(E2M1.rounded(v / scale)) * scale for v in block]
    np.testing.assert_allclose(c09_fp8.nvfp4(x), expected, rtol=1e-12)
    two = c09_fp8.largest_of(np.arange(16.0).reshape(4, 4), (2, 2))
    assert two.tolist() == [[5, 5, 7, 7], [5, 5, 7, 7], [13, 13, 15, 15], [13, 13, 15, 15]]


def test_products_are_quoted_only_if_they_were_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured, "DIRECTORY", tmp_path)
    for said in (c09_fp8.products_measured(H100), c09_engineering.promotion_measured(H100)):
        assert "ot measured yet" in said.data
    header = results.Header("NVIDIA H200", "1", {}, "abc", "make bench", "2026-01-02T00:00:00+00:00")
    shape = (4096, 7168, 2048)
    products = [
        results.Record(
            f"09_fp8_gemm/{name}", "rate", 1.2e15, "FLOP/s", variant=f"beside {library}", shape=shape,
            baseline="torch", baseline_value=1.2e15 / ratio, ratio=ratio,
        )
        for name, factor in (("rung_5_any_shape", 1), ("submission", 3))
        for library, ratio in (
            ("tensor-wise", 0.9 * factor), ("tensor-wise fast", 0.8 * factor), ("bfloat16", 1.5 * factor),
        )
    ]  # fmt: skip
    times = [
        results.Record("09_fp8_gemm/rung_5_any_shape", "time", value, "ms", variant=f"choice {choice}", shape=shape)
        for choice, value in (
            ("128x192-one", 0.12), ("128x192-by2-one", 0.11), ("128x192-none", 0.1),
            ("128x256-half", 0.108), ("128x256-by2-none", 0.09),
        )
    ]  # fmt: skip
    results.write(tmp_path / "fp8.json", header, [*products, *times])
    assert "ot measured yet" in c09_fp8.products_measured(H100).data
    said = c09_fp8.products_measured("fp8").data
    assert "| 4,096 x 7,168 x 2,048 | 1,200 | 0.90 | 0.80 |  | 1.50 |" in said
    assert "2.7" not in said  # the reference's
    work = 2e-9 * 4096 * 7168 * 2048
    cells = (work / 0.11, work / 0.1, work / 0.108, work / 0.09)
    row = "| {:,.0f} | {:,.0f} | 10% | {:,.0f} | {:,.0f} | 20% |".format(*cells)
    assert row in c09_engineering.promotion_measured("fp8").data


def test_what_the_predictions_say_holds() -> None:
    data = c09_fp8.activations(np.random.default_rng(9))
    assert c09_fp8.gain_of_small_parts(data["six channels x 100"]) < 1.1
    quality = c09_fp8.qualities(data)
    assert quality["MXFP8"][0] > 1.1 * quality["e4m3, float32 for 1 x 128"][0]
    file = measured.results_of("fp8")
    assert file is not None
    ratios = [r.ratio for library in ("tensor-wise", "tensor-wise fast") for r in c09_fp8.beside(file, library, 64)]
    assert ratios and 0.9 < float(np.exp(np.mean(np.log(ratios)))) < 1.1


def test_a_scale_makes_the_largest_448() -> None:
    x = np.array([[1.0, -2.0], [0.5, 4.0]])
    np.testing.assert_allclose(c09_fp8.scaled(x, (1, 2)), x)  # all are powers of two times the largest
    assert c09_fp8.scaled(np.array([[448.0, 1 / 4096]]), (1, 2))[0, 1] == 0  # below half of the smallest subnormal
    assert c09_fp8.int8(np.array([[127.0, 0.4]]), (1, 2)).tolist() == [[127, 0]]


def test_the_rule_stops_a_sum_of_ones_at_16384() -> None:
    """13 fraction bits: from 2 ** 14 on the unit is 2, and a product of 1 is cut."""
    assert c09_fp8.rule_of(Kind.E4M3).fraction_bits == 13
    ones = np.full((1, 32768), int(E4M3.encode(1.0)), np.uint8)
    lost = c09_fp8.predicted_loss(ones, ones)
    assert lost[c09_fp8.at(16384)] == 0 and lost[c09_fp8.at(32768)] == 0.5


def test_partial_products_and_the_chain_add_up_the_same() -> None:
    rng = np.random.default_rng(1)
    a, bt = rng.integers(-4, 5, (3, 512)).astype(float), rng.integers(-4, 5, (2, 512)).astype(float)
    for found in (c09_fp8.partial_products(a, bt), c09_fp8.float32_chain(a, bt)):
        np.testing.assert_array_equal(found, [a[:, :n] @ bt[:, :n].T for n in (256, 512)])


def test_promotion_by_hand() -> None:
    """128 of k of 64 x 64: 128 cycles of products; 4,096 sums by 128 lanes are 32 cycles, a quarter."""
    assert "| 64 x 64 | 1 | 128 | 128 | 32 | 25% |" in c09_fp8.promotion_table().data
    assert c09_fp8.promotion_slots(32) == 4 and c09_fp8.promotion_slots(128) == 1
    assert c09_fp8.from_l2(128, 128) == 64 and c09_engineering.step_cycles(256) == (1024, 1024)
    assert c09_engineering.step_cycles(144) == (4 * 144, 256 + 3 * 144)


def test_bytes_of_a_layer_by_hand() -> None:
    flops, moved = c09_fp8.layer(1, "fp8", n=128, k=128)
    assert (flops, moved) == (2 * 128 * 128, 128 + 128 * 128 + 2 * 128 + 4 * (1 + 1))
    assert c09_fp8.layer(1, "bf16", n=128, k=128)[1] == 2 * (128 + 128 * 128) + 2 * 128
    assert c09_fp8.ROOFS["bf16"].ridge == pytest.approx(c09_fp8.ROOFS["fp8"].ridge / 2, rel=1e-3)
