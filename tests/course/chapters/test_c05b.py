"""Chapter 05b: its formula and its checks against NumPy."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from course.chapters import c05b_patterns as chapter


def ran(out: np.ndarray, **total: Any) -> Any:
    return SimpleNamespace(outputs={"out": out}, total=SimpleNamespace(**total))


@pytest.mark.parametrize("count", [2, 8, 256, 1024])
def test_additions_of_the_tree_are_those_of_the_tree(count: int) -> None:
    sums, additions, step = [1] * count, 0, 1
    while step < count:
        for last in range(2 * step - 1, count, 2 * step):
            sums[last] += sums[last - step]
            additions += 1
        step *= 2
    step //= 4
    while step:
        for middle in range(3 * step - 1, count, 2 * step):
            sums[middle] += sums[middle - step]
            additions += 1
        step //= 2
    assert sums == list(range(1, count + 1))
    assert chapter.additions_of_tree(count) == additions / count


def test_a_matrix_is_what_its_name_says() -> None:
    for name, one in chapter.matrices().items():
        lengths = np.diff(one["first"])
        assert one["value"].size == one["column"].size == lengths.sum()
        assert one["column"].max() < one["v"].size == one["out"].size
        dense = np.zeros((one["out"].size, one["v"].size))
        np.add.at(dense, (np.repeat(np.arange(lengths.size), lengths), one["column"]), one["value"])
        assert np.array_equal(chapter.product(one), dense @ one["v"])
        if name == "one long row":
            assert lengths[0] == lengths.sum() / 4 and lengths.mean() == 4
        else:
            assert set(lengths) == {int(name.split()[-1])}


def test_orders_are_told_apart() -> None:
    x = chapter.signed(64)
    kept = x[x > 0]
    assert 0 < kept.size < 64 and np.unique(x).size == 64
    assert chapter.order_of(x, ran(kept)) == chapter.KEPT
    assert chapter.order_of(x, ran(kept[::-1].copy())) == chapter.OTHER
    assert chapter.order_of(x, ran(np.append(kept[1:], kept[1]))) == chapter.LOST


def test_only_an_exclusive_scan_of_each_warp_is_one() -> None:
    x = (1 + np.arange(64) % 7).astype(np.float32).reshape(2, 32)
    right = np.concatenate([np.zeros((2, 1)), np.cumsum(x, axis=1)[:, :-1]], axis=1).astype(np.float32)
    assert chapter.is_exclusive(x.reshape(-1), right.reshape(-1))
    assert not chapter.is_exclusive(x.reshape(-1), np.cumsum(x, axis=1).reshape(-1))
    assert not chapter.is_exclusive(x.reshape(-1), None)


def test_traffic_is_counted_in_sectors_of_the_data() -> None:
    total = {"global_load_sectors": 30, "global_atomic_sectors": 2, "global_store_sectors": 14}
    shown = chapter.traffic(ran(np.zeros(1), **total), data=2 * 16 * 32).data
    assert "| one pass, counted | 2 | 1 |" in shown
