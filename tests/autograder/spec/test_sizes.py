"""Classes of sizes, and the sizes that seeds draw from them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from autograder.spec.lab import Lab
from autograder.spec.sizes import every, multiples, odd, primes
from tests.autograder.handmade import TASK_PY, make_lab

CLASS = 'Case("ragged", {"n": 133}, Family.NORMAL, every(n=odd(129, 143)))'


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    text = TASK_PY.replace('Case("ragged", {"n": 133}, Family.NORMAL)', CLASS)
    return make_lab(tmp_path, task=f"from autograder.spec.sizes import every, odd\n{text}")


def size(lab: Lab, seed: int) -> int:
    return lab.drawn(seed).case("ragged").dimensions["n"]


def test_one_seed_draws_one_size_wherever_it_is_drawn(lab: Lab) -> None:
    assert lab.drawn(7).task == lab.drawn(7).task
    assert lab.drawn(7).drawn(7).task == lab.drawn(7).task
    assert {size(lab, 7) for _ in range(5)} == {size(lab, 7)}


def test_seeds_draw_every_size_of_a_class_alike(lab: Lab) -> None:
    drawn = Counter(size(lab, seed) for seed in range(4000))
    assert set(drawn) == set(odd(129, 143))
    assert all(400 < count < 600 for count in drawn.values())  # 500 and less than five deviations of 21


def test_a_case_like_another_has_its_size(tmp_path: Path) -> None:
    """What is timed is what was counted, for every seed."""
    same = '"%s", {"n": 133}, Family.NORMAL, every(n=odd(129, 143))'
    text = TASK_PY.replace('Case("ragged", {"n": 133}, Family.NORMAL)', f"Case({same % 'ragged'})")
    text = text.replace('Case("timing", {"n": 1 << 20}, Family.NORMAL)', f'Case({same % "timing"}, like="ragged")')
    lab = make_lab(tmp_path, task=f"from autograder.spec.sizes import every, odd\n{text}")
    drawn = [(size(lab, seed), lab.drawn(seed).task.timing.dimensions["n"]) for seed in range(20)]
    assert all(one == other for one, other in drawn) and len(set(drawn)) > 3


def test_without_a_class_there_is_one_size(lab: Lab) -> None:
    for seed in range(20):
        drawn = lab.drawn(seed)
        assert drawn.case("tiny") == lab.case("tiny")
        assert drawn.task.timing == lab.task.timing
    assert lab.case("ragged").dimensions == {"n": 133}  # the nominal size stays


def test_cases_draw_independently(tmp_path: Path) -> None:
    text = TASK_PY.replace('{"n": 3}, Family.INTEGERS', '{"n": 133}, Family.INTEGERS, every(n=odd(129, 143))')
    text = text.replace('Case("ragged", {"n": 133}, Family.NORMAL)', CLASS)
    lab = make_lab(tmp_path, task=f"from autograder.spec.sizes import every, odd\n{text}")
    both = [(d.case("tiny").dimensions["n"], d.case("ragged").dimensions["n"]) for d in map(lab.drawn, range(400))]
    assert len(set(both)) > 8 * 7


def test_every_makes_all_combinations_that_satisfy_the_condition() -> None:
    both = every(m=(1, 2), n=(3, 5))
    assert list(both) == [{"m": 1, "n": 3}, {"m": 1, "n": 5}, {"m": 2, "n": 3}, {"m": 2, "n": 5}]
    assert (len(both), both[-1], both[1:3]) == (4, {"m": 2, "n": 5}, ({"m": 1, "n": 5}, {"m": 2, "n": 3}))
    assert every(m=(1, 2), n=(1, 2), where=lambda d: d["m"] < d["n"]) == ({"m": 1, "n": 2},)


def test_ranges_include_both_ends() -> None:
    assert list(odd(5, 9)) == [5, 7, 9]
    assert list(multiples(64, 128, 256)) == [128, 192, 256]
    assert primes(2, 31) == (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31)
    assert primes(24, 28) == ()
