"""Searches: they try nothing twice, find what there is, and believe the judge; the templated product is right."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import numpy as np
import pytest

from benchmarks.search.clock import rank_correlation, records_of
from benchmarks.search_space import SHAPES, captured
from course import results
from systems.search.product import AXES, CHOICES, Choice, guess, kernel_of, name_of, neighbours
from systems.search.proposers import ByChance, ByEvolution, ByGuess
from systems.search.trials import Log, Proposer, search, trials_needed
from warplab.emulator import execute

pytestmark = pytest.mark.stored


@dataclass(frozen=True)
class Spot:
    """A place on a line of a hundred."""

    x: int


LINE = [Spot(x) for x in range(100)]


def beside(spot: Spot) -> list[Spot]:
    return [Spot(x) for x in (spot.x - 1, spot.x + 1) if 0 <= x < 100]


def height(spot: Spot) -> float | None:
    """A valley at 70; whatever divides by seven is wrong."""
    return None if spot.x % 7 == 0 else abs(spot.x - 71.5)


def proposers(seed: int) -> list[Proposer[Spot]]:
    return [ByChance(LINE, seed), ByEvolution(LINE, beside, seed), ByGuess(LINE, lambda spot: -spot.x)]


@pytest.mark.parametrize("which", range(3))
def test_everything_is_tried_once_and_the_best_is_the_best(which: int) -> None:
    log = search(proposers(3)[which], height, 1_000)
    assert sorted(trial.choice.x for trial in log.trials) == list(range(100)) and log.paid == 100
    assert log.best is not None and log.best.choice in (Spot(71), Spot(72)) and log.best.cost == 0.5
    assert log.so_far()[-1] == 0.5 and sorted(log.so_far(), reverse=True) == log.so_far()


def test_a_search_ends_when_its_trials_are_spent_and_is_the_same_for_a_seed() -> None:
    for which in range(3):
        first, again = (search(proposers(5)[which], height, 12, price=0.25) for _ in range(2))
        assert first.trials == again.trials and len(first.trials) == 12 and first.paid == 3
    assert search(ByChance(LINE, 1), height, 12).trials != search(ByChance(LINE, 2), height, 12).trials


@pytest.mark.slow
def test_evolution_goes_down_a_valley_of_three_axes_faster_than_chance() -> None:
    """In a cube of 10 x 10 x 10, the sum of squares: forty trials each, sixty seeds."""
    cube = [(x, y, z) for x in range(10) for y in range(10) for z in range(10)]

    def beside_in(cell: tuple[int, ...]) -> list[tuple[int, ...]]:
        return [other for other in cube if sum(abs(i - j) for i, j in zip(cell, other, strict=True)) == 1]

    def low(cell: tuple[int, ...]) -> float:
        return float(sum((i - 3) ** 2 for i in cell))

    chance = mean(search(ByChance(cube, seed), low, 40).so_far()[-1] for seed in range(30))
    evolution = mean(search(ByEvolution(cube, beside_in, seed), low, 40).so_far()[-1] for seed in range(30))
    assert evolution < chance / 2


def test_wrong_ones_are_written_down_and_never_best() -> None:
    log = search(ByGuess(LINE, lambda spot: spot.x % 7), height, 15)
    assert all(trial.cost is None for trial in log.trials) and log.best is None and log.so_far() == [float("inf")] * 15


def test_the_log_is_data() -> None:
    log = search(ByChance(LINE, 0), height, 5)
    rows = json.loads(log.to_json())
    assert [row["choice"]["x"] for row in rows] == [trial.choice.x for trial in log.trials]
    assert all(row["paid"] == 1 for row in rows) and Log().best is None


def test_who_proposes_the_same_again_is_told() -> None:
    class Same:
        def propose(self, log: Log[Spot]) -> Spot:
            return Spot(3)

    with pytest.raises(ValueError, match="tried before"):
        search(Same(), height, 5)


def test_neighbours_are_one_step_away_and_mutual() -> None:
    assert len(CHOICES) == 69 and all(32 <= choice.threads <= 1024 for choice in CHOICES)
    for choice in CHOICES:
        for other in neighbours(choice):
            changed = [name for name in AXES if getattr(choice, name) != getattr(other, name)]
            assert len(changed) == 1 and choice in neighbours(other) and other in CHOICES


@pytest.mark.parametrize("choice", [Choice(16, 16, 8, 1), Choice(64, 32, 32, 4), Choice(32, 64, 16, 2)])
def test_the_product_is_right_for_ragged_sizes(choice: Choice) -> None:
    shape = (37, 45, 19)
    random = np.random.default_rng(4)
    a, b = random.standard_normal((37, 19), np.float32), random.standard_normal((19, 45), np.float32)
    (plan,) = captured([choice], shape)
    run = execute(plan, {"a": a, "b": b})
    true = a.astype(np.float64) @ b
    assert not run.findings and (abs(run.outputs["c"] - true) <= 19 * 2.0**-24 * (abs(a) @ abs(b))).all()


def test_a_template_leaves_nothing_to_fill_in() -> None:
    for choice in CHOICES:
        text = kernel_of(choice)
        assert name_of(choice) in text and not any(name.upper() in text for name in (*AXES, "threads", "name"))


def test_the_table_has_every_choice_and_the_guess_is_better_than_nothing() -> None:
    """The guess ranks choices as the estimate does more often than not: Spearman's correlation above 0.3."""
    table = results.read(results.DIRECTORY / "search_space.json")
    for shape in SHAPES:
        times = [table.find("product", "estimated time", variant=name_of(c), shape=shape).value for c in CHOICES]
        guesses = [guess(choice, shape, 132) for choice in CHOICES]
        ranks = [np.argsort(np.argsort(values)) for values in (times, guesses)]
        assert np.corrcoef(*ranks)[0, 1] > 0.3


@pytest.mark.processes
def test_what_a_gpu_run_keeps_of_times_made_up(tmp_path: Path) -> None:
    """The clock says what the estimate says, but for one kernel that only the clock likes."""
    shape = SHAPES[0]
    modelled = {choice: float(place) for place, choice in enumerate(CHOICES, start=10)}
    times = dict(modelled)
    times[CHOICES[40]] = 5.0
    records = records_of(shape, times, modelled)
    kept = {(record.metric, record.variant): record for record in records}
    assert len(records) == len(CHOICES) + 5
    favourite = kept["time", f"{name_of(CHOICES[40])}"]
    assert favourite.value == 5 and favourite.extra == {"estimated": 50.0}
    assert kept["trials", "estimate"].value == 41 and kept["trials", "chance"].value == pytest.approx(35, rel=0.25)
    assert 0.85 < kept["rank correlation of estimate and clock", ""].value < 1
    results.write(tmp_path / "search.json", results.make_header("x"), records)
    assert len(results.read(tmp_path / "search.json").records) == len(records)


def test_ranks_and_trials_by_hand() -> None:
    assert rank_correlation([1, 2, 3], [10, 40, 90]) == 1 and rank_correlation([1, 2, 3], [3, 2, 1]) == -1
    times = {choice: 1.0 if choice == CHOICES[2] else 2.0 for choice in CHOICES}
    assert trials_needed(ByGuess(CHOICES, CHOICES.index), times) == 3
