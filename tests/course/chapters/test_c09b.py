"""Chapter 09b: its arithmetic by counting, and its check of a head's attention."""

from __future__ import annotations

import math

import numpy as np
import pytest

from course.chapters import c09b_attention as chapter


@pytest.mark.parametrize(("n", "d"), [(64, 64), (1000, 128)])
def test_bytes_are_those_of_arrays(n: int, d: int) -> None:
    assert chapter.data_bytes(n, d) == sum(np.empty((n, d), np.float16).nbytes for _ in ("q", "k", "v", "out"))
    passes = ("scores written", "scores read", "weights written", "weights read")
    assert chapter.score_bytes(n) == sum(np.empty((n, n), np.float16).nbytes for _ in passes)
    assert chapter.cache_bytes(n, 8, d) == np.empty((2, n, 8, d), np.float16).nbytes


@pytest.mark.parametrize("rows", [1, 2, 16])
def test_tiles_kept_are_those_on_and_below_the_diagonal(rows: int) -> None:
    assert chapter.tiles_kept(rows) == np.tri(rows).mean()


def test_cycles_follow_from_the_rates_of_an_sm() -> None:
    rate = 989e12 / 2 / 132 / 1.83e9  # multiply-adds per cycle and SM, by the datasheet
    products, powers = chapter.cycles(128)
    assert products == pytest.approx(2 * 128**3 / rate, rel=0.01)
    assert (products, powers) == (2048, 1024)
    assert chapter.share_in_sequence(64) == 0.5


def test_attention_is_what_its_definition_says() -> None:
    case = chapter.head(n=7, d=8)
    right = np.zeros((7, 8))
    for i in range(7):
        scores = [float(case["q"][i].astype(float) @ case["k"][j].astype(float)) / math.sqrt(8) for j in range(7)]
        weights = np.exp(scores) / np.sum(np.exp(scores))
        right[i] = sum(w * case["v"][j].astype(float) for j, w in enumerate(weights))
    assert np.allclose(chapter.attention(case), right)
    assert chapter.is_attention(case, right) and not chapter.is_attention(case, right + 1e-3)
    assert not chapter.is_attention(case, None)


def test_pages_hold_the_keys_that_lie_side_by_side() -> None:
    case, contiguous = chapter.paged_head(pages=16, page=8, used=5)
    assert len(set(case["table"].tolist())) == 5 and contiguous["k"].shape == (40, 32)
    assert not np.array_equal(case["table"], np.arange(5))
    for j in range(40):
        row = case["table"][j // 8] * 8 + j % 8
        assert np.array_equal(case["k"][row], contiguous["k"][j]) and np.array_equal(case["v"][row], contiguous["v"][j])


@pytest.mark.parametrize("d", [64, 128])
def test_turns_keep_the_tensor_cores_busy_where_products_take_as_long_as_powers(d: int) -> None:
    words = " ".join(axes.get_title(loc="left") for axes in chapter.figure_of_turns(d).axes)
    assert f"{chapter.share_in_sequence(d):.0%}" in words and "100%" in words


def test_equal_shares_keep_more_sms_busy_than_a_block_each() -> None:
    text = chapter.shares_table(sequences=8, heads=8, lengths=(4096,)).data
    assert "48%" in text and f"{4096 / 132 / 32:.0%}" in text  # 64 of 132; 4,096 pages in 132 shares of 32 at most


def test_decoding_case_has_each_page_once() -> None:
    case = chapter.decoding_case(4, (130, 64))
    assert sorted([*case["table"][0, :3], case["table"][1, 0]]) == [0, 1, 2, 3]
    assert case["k"].shape == (4, 1, 64, 128) and case["q"].shape == (2, 4, 128)
