"""Appendix 16: what tiles of other sizes, slices and turned tiles gained in the recorded search."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from IPython.display import Markdown

from course import results
from course.chapters.spoken import dimensions
from course.lesson import table
from course.measured import results_of
from systems.search import half_product
from systems.search.half_product import HalfChoice
from warplab.hardware.chips import H200

FILE = "search"


@dataclass(frozen=True)
class Wide:
    """One shape: its best tile of powers of two, the best other one by the guess, and both gains."""

    shape: tuple[int, ...]
    chosen: HalfChoice
    best: HalfChoice
    guessed: float
    measured: float


def in_waves(choice: HalfChoice, shape: tuple[int, ...], sms: int = H200.sms) -> str:
    """A choice's tiles of a product, and the waves that they come in, in words."""
    tiles = -(-shape[0] // choice.rows) * -(-shape[1] // choice.columns) * choice.splits
    split = f", {choice.splits} to a tile" if choice.splits > 1 else ""
    return f"{choice.rows} x {choice.columns}{split}: {tiles} in {-(-tiles // sms)}"


def promising(count: int = 5) -> list[Wide]:
    """The shapes of a GFLOP or more for which `guess` hopes most of tiles that are no powers of two."""
    race, found = results_of(FILE), []
    for record in (r for r in race.records if r.metric == "search" and 2 * np.prod(r.shape) >= 1e9) if race else ():
        powers, others = _by_size(record)
        if others:
            m, n, k = record.shape
            hoped = {choice: half_product.guess(choice, (m, n, k), H200.sms) for choice in others}
            chosen, best = min(powers, key=powers.__getitem__), min(hoped, key=hoped.__getitem__)
            guessed = half_product.guess(chosen, (m, n, k), H200.sms) / hoped[best]
            found.append(Wide(record.shape, chosen, best, guessed, powers[chosen] / min(others.values())))
    return sorted(found, key=lambda one: -one.guessed)[:count]


def table_of_tiles(some: list[Wide]) -> Markdown:
    """What the guess hopes of other tiles."""
    rows = [
        (dimensions(one.shape), in_waves(one.chosen, one.shape), in_waves(one.best, one.shape), f"{one.guessed:.2f}")
        for one in some
    ]
    heads = ["m x n x k", "best of powers of two: tiles in waves", "of the others", "times as fast, guessed"]
    return table(heads, rows)


def table_of_gains(some: list[Wide]) -> Markdown:
    """What other tiles gained as measured, beside the guess."""
    rows = [(dimensions(one.shape), f"{one.measured:.2f}", f"{one.guessed:.2f}") for one in some]
    return table(["m x n x k", "times as fast, measured", "guessed"], rows)


def gains() -> dict[str, list[float]]:
    """By the kind of the best choice: how many times as fast it is as the best without slices and turning."""
    race, found = results_of(FILE), dict[str, list[float]]()
    for record in (r for r in race.records if r.metric == "search") if race else ():
        tried: dict[str, float] = record.extra["tried"]
        best = half_product.named(min(tried, key=tried.__getitem__))
        kind = "slices" if best.slices > 1 else "turned tiles" if best.turned else "neither"
        plain = min(time for name, time in tried.items() if not _is_new(half_product.named(name)))
        found.setdefault(kind, []).append(plain / min(tried.values()))
    return found


def table_of_slices() -> Markdown:
    """What slices and turned tiles bring in the trials, or a sentence."""
    race = results_of(FILE)
    if race is None:
        return Markdown("*Slices and turned tiles: not measured yet.*")
    rows = [
        (kind, len(some), f"{np.prod(some) ** (1 / len(some)):.2f}", f"{max(some):.2f}")
        for kind, some in sorted(gains().items())
    ]
    heads = [f"best on an {race.header.gpu}", "shapes", "times as fast as without, geometric mean", "most"]
    return table(heads, rows)


def _is_new(choice: HalfChoice) -> bool:
    return choice.slices > 1 or choice.turned


def _by_size(record: results.Record) -> tuple[dict[HalfChoice, float], dict[HalfChoice, float]]:
    """The times of a shape's trials without slices and turning: of tiles of powers of two, and of the others."""
    powers: dict[HalfChoice, float] = {}
    others: dict[HalfChoice, float] = {}
    for name, time in record.extra["tried"].items():
        choice = half_product.named(name)
        if not _is_new(choice):
            kind = powers if choice.rows.bit_count() == choice.columns.bit_count() == 1 else others
            kind[choice] = time
    return powers, others
