"""Chapters 10 and 10b: what their cells compute, and that a number which nobody measured is said to be missing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from autograder.spec.lab import find_lab
from course import measured as module
from course import results
from course.chapters import c10_experts, c10b_layer
from course.chapters.c10_experts import SCOUT, V3


def test_the_walk_makes_every_tile_once() -> None:
    for counts, columns, blocks in (((130, 0, 300, 5), 3, 4), ((0, 0), 2, 3), ((1, 129), 5, 1)):
        made = sorted(tile for n in range(blocks) for tile in c10_experts.tiles_of(n, blocks, counts, columns))
        tall = [-(-count // 128) for count in counts]
        assert made == [(e, r, c) for e, rows in enumerate(tall) for r in range(rows) for c in range(columns)]


def test_codes_of_rows_are_those_of_lab_09() -> None:
    task = find_lab("09_fp8_gemm").task
    x = np.random.default_rng(3).standard_normal((7, 272)).astype(np.float16)
    x[2, 128:256] = 0
    codes, scale = c10_experts.quantised_rows(x)
    expected = task.expected(np, {"x": x, "w8": np.zeros((8, 272), np.uint8), "w_scale": np.ones((1, 3), np.float32)})
    np.testing.assert_array_equal(codes, expected["x8"])
    np.testing.assert_array_equal(scale, expected["x_scale"])


def test_weights_come_back_within_a_code() -> None:
    w = np.random.default_rng(4).standard_normal((2, 130, 200))
    _, scale, back = c10_experts.quantised_weights(w)
    assert scale.shape == (2, 2, 2) and np.abs(back - w).max() <= 2.0**-4 * np.abs(w).max()


def test_the_ridge_by_hand() -> None:
    """1,979 TFLOP/s over 4.8 TB/s is 412 FLOP per byte: 206 rows, each with two operations per byte of weights."""
    assert c10_experts.ROOF.ridge == pytest.approx(1979 / 4.8, rel=1e-3)
    assert V3.weights == 3 * 7168 * 2048 and SCOUT.weights == 3 * 5120 * 8192


def test_bytes_of_a_chain_by_hand() -> None:
    """One token of Scout with one active expert: its three matrices, and little else."""
    for work in (c10_experts.chain(SCOUT, 16, 1), c10b_layer.fused(SCOUT, 16, 1)):
        moved = sum(each for *_, each in work)
        assert SCOUT.weights < moved < 1.01 * SCOUT.weights
        assert sum(flops for _, flops, _ in work) == 2 * SCOUT.weights
    assert c10_experts.active_experts(16, 1) == pytest.approx(1)
    assert 15.9 < c10_experts.active_experts(16, 100) < 16


def test_backward_has_twice_the_operations_of_forward() -> None:
    for model in (V3, SCOUT):
        forward = sum(flops for _, flops, _ in c10_experts.chain(model, 16, 64))
        assert sum(flops for _, flops, _ in c10b_layer.backward_work(model, 16, 64)) == 2 * forward


def test_the_busiest_of_132_reads_two_tiles_of_up_or_one() -> None:
    """Scout, one expert: 128 tiles of 40 blocks, then 40 tiles of 64, on 132 SMs."""
    average, separate, together = c10b_layer.blocks_read(SCOUT, 1)
    assert separate == 40 + 64 and average == pytest.approx(7680 / 132)
    assert average < together < separate


def test_gates_stand_beside_their_values() -> None:
    order = c10b_layer.rows_of_up(32)
    assert sorted(order) == list(range(64)) and list(order[:16]) == [*range(8), *range(32, 40)]


def test_shares_are_a_softmax_of_the_chosen() -> None:
    share = c10b_layer.shares(np.log(np.array([[1.0, 2.0, 6.0]], np.float32)), np.array([[2, 1]]))
    np.testing.assert_allclose(share, [[0.75, 0.25]], rtol=1e-6)


def test_the_layer_in_float64_by_hand() -> None:
    """One token, one expert, one inner channel: share x down x silu(gate) x value."""
    x, up, down = np.array([[2.0]]), np.array([[[3.0], [0.5]]]), np.array([[[4.0]]])
    out = c10b_layer.in_float64(x, np.array([[0]]), np.array([[0.5]]), up, down, rounded=False)
    assert out[0, 0] == pytest.approx(0.5 * 4 * 6 / (1 + np.exp(-6)) * 1)


def test_experts_above_their_average() -> None:
    """4,096 tokens on 16 experts: about half have more than the average of 256."""
    assert 7 < c10b_layer.above(256) < 8 and 1.5 < c10b_layer.above(272) < 3


@pytest.mark.processes
def test_what_is_not_measured_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without a record a sentence; with one of a single shape, its row."""
    monkeypatch.setattr(module, "DIRECTORY", tmp_path)
    monkeypatch.setattr(results, "DIRECTORY", tmp_path)
    assert "not measured" in c10_experts.products_measured("experts").data
    assert "not measured" in c10b_layer.layers_measured().data and "not measured" in c10b_layer.chain_measured().data
    record = results.Record(
        c10_experts.BEST, "weights read", 4e12, "B/s", variant="masked, beside grouped fast", shape=(32, 4096, 7168),
        baseline="torch", baseline_value=2e12, ratio=2.0,
    )  # fmt: skip
    results.write(tmp_path / "experts.json", results.make_header("nothing"), [record])
    shown = c10_experts.products_measured("experts").data
    assert "4.00 TB/s" in shown and "2.00" in shown and "contiguous" not in shown
