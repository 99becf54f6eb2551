"""Chapter 15, experts over several GPUs: rows against drawn routes, bytes against what the text says of them."""

from __future__ import annotations

from itertools import combinations

import pytest

from course.chapters import c15_experts as experts


@pytest.mark.parametrize(("choices", "of", "ranks"), [(1, 4, 2), (2, 8, 4), (3, 6, 2), (4, 8, 2)])
def test_rows_are_the_mean_over_all_routes(choices: int, of: int, ranks: int) -> None:
    own, each, once, routes = of // ranks, 0, 0, list(combinations(range(of), choices))
    for route in routes:  # of a token of rank 0
        away = [expert // own for expert in route if expert >= own]
        each += 2 * len(away)
        once += 2 * len(set(away))
    assert experts.rows(choices, of, ranks, once=False) == pytest.approx(each / len(routes))
    assert experts.rows(choices, of, ranks, once=True) == pytest.approx(once / len(routes))


@pytest.mark.processes
def test_bytes_are_the_deduplicated_ones_to_one_percent() -> None:
    counted, once, each = experts.counted().values()
    assert once < counted <= 1.01 * once < each
    groups = 2 * 2 * 4  # two directions, two ranks, four groups of eight tokens
    assert counted - once == 32 * groups
