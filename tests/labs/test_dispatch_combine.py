"""Lab 22: as many tokens cross as its budget says, in whatever way a seed draws the routes."""

from __future__ import annotations

import numpy as np
import pytest

from autograder.spec.inputs import generate
from autograder.spec.lab import find_lab
from autograder.spec.task import Case, Family

TASK = find_lab("22_dispatch_combine").task
LINK = next(budget for budget in TASK.budgets if budget.counter == "link_written_sectors")


@pytest.mark.parametrize(("tokens", "k", "local"), [(1, 1, 1), (6, 2, 2), (64, 1, 4), (37, 8, 16), (250, 4, 8)])
@pytest.mark.parametrize("seed", [1, 2])
def test_rows_that_cross_are_those_of_the_budget(tokens: int, k: int, local: int, seed: int) -> None:
    size = {"ranks": 2, "tokens": tokens, "k": k, "experts": 2 * local, "width": 32}
    chosen = generate(np, TASK, Case("drawn", size, Family.NORMAL), seed)["chosen"]
    assert all(len(set(row)) == k for row in chosen.reshape(-1, k).tolist())
    crossing = sum((chosen[rank] // local == 1 - rank).any(axis=1).sum() for rank in range(2))
    sectors = 2 * crossing * 32 * 4 // 32
    assert sectors <= LINK.limit(size) < 1.01 * sectors + 1
