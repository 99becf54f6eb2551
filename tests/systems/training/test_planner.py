"""The planner against every choice that there is."""

from __future__ import annotations

import itertools
import random

import pytest

from systems.training.planner import Operator, Plan, frontier, greedy, plan


def drawn(seed: int, many: int, blocks: int = 1) -> list[Operator]:
    chance = random.Random(seed)
    block = [
        (f"op{n}", chance.randint(1, 9), chance.choice([0, chance.randint(0, 50)]), chance.randint(1, 20))
        for n in range(many)
    ]
    return [Operator(number, *one) for number in range(blocks) for one in block]


def tried(operators: list[Operator], budget: float) -> tuple[int, int]:
    """(FLOP, bytes moved) of the best of all choices."""
    costs = []
    for mask in itertools.product((False, True), repeat=len(operators)):
        if sum(one.bytes for one, keep in zip(operators, mask, strict=True) if keep) <= budget:
            left = [one for one, keep in zip(operators, mask, strict=True) if not keep]
            costs.append((sum(one.flops for one in left), sum(one.moved for one in left)))
    return min(costs)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("share", [0, 0.1, 0.37, 0.5, 0.9, 1])
def test_no_choice_is_better(seed: int, share: float) -> None:
    operators = drawn(seed, 9) if seed % 2 else drawn(seed, 4, blocks=2)
    budget = share * sum(one.bytes for one in operators)
    found = plan(operators, budget)
    assert (found.flops, found.moved) == tried(operators, budget) and found.bytes <= budget
    assert found.bytes == sum(one.bytes for one in found.kept)
    assert found.flops == sum(one.flops for one in operators if one not in found.kept)


def test_the_frontier_falls_from_nothing_kept_to_all_that_is_worth_it() -> None:
    operators = drawn(3, 6, blocks=3)
    plans = frontier(operators)
    assert plans[0].kept == () and plans[-1].flops == plans[-1].moved == 0
    for one, next_one in itertools.pairwise(plans):
        assert one.bytes < next_one.bytes and (one.flops, one.moved) > (next_one.flops, next_one.moved)


def test_equal_blocks_do_not_make_it_slow_to_find() -> None:
    """32 blocks of seven: 2^224 choices, of which few differ."""
    operators = [Operator(b, f"op{n}", (1, 3, 4)[n % 3], n * n, 1) for b in range(32) for n in range(7)]
    assert len(frontier(operators)) <= 1 + sum(one.bytes for one in operators)


def test_the_greedy_choice_is_a_choice_and_can_be_worse() -> None:
    operators = [Operator(0, "dense", 6, 60, 1), Operator(0, "a", 5, 45, 1), Operator(0, "b", 5, 45, 1)]
    assert greedy(operators, 10).flops == 90 and plan(operators, 10).flops == 60
    assert greedy(operators, 10).bytes == 6


def test_names_of_what_is_kept_by_block() -> None:
    kept = (Operator(0, "qkv", 1, 1, 1), Operator(2, "qkv", 1, 1, 1), Operator(2, "up", 1, 1, 1))
    assert Plan(kept, 3, 0, 0).names(3) == [{"qkv"}, set(), {"qkv", "up"}]


def test_a_budget_below_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="a budget of -1 bytes cannot be met"):
        plan([], -1)
