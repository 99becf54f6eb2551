"""Searches of a templated product on a GPU: what the clock says beside the emulator's estimate.

All 69 choices of `systems.search.product` are timed for each of the two shapes that search_space.json has, with a cold
L2 and in turns. Kept are the times, how well the estimate ranks them, and after how many trials each kind of search is
within 2% of the best that the clock found. It writes benchmarks/results/search_clock.json and ends by itself within
minutes.

torch.matmul is not beside them: products so small take less time than its launch, which would be what is timed.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks.search_space import FILE as MODELLED
from benchmarks.search_space import SHAPES, captured
from course import results
from systems.search.product import CHOICES, Choice, guess, name_of, neighbours
from systems.search.proposers import ByChance, ByEvolution, ByGuess
from systems.search.trials import trials_needed
from warplab.errors import DeviceError, WarplabError
from warplab.hardware.chips import H200
from warplab.hardware.device import architecture_of, present
from warplab.plan.assemble import assemble
from warplab.plan.model import Plan

COMMAND = "python -m benchmarks.search.clock"
FILE = results.DIRECTORY / "search_clock.json"
SEEDS = range(100)
_AT_ONCE = 12
_BUDGET_SECONDS = 60.0  # of a shape
_UNIT = 2.0**-24

Shape = tuple[int, int, int]


def timed(plans: Mapping[Choice, Plan], shape: Shape, architecture: str) -> dict[Choice, float]:
    """Microseconds of each choice, in the same turns. Raises WarplabError for a wrong product."""
    from benchmarks.gemm.contest import Product
    from warplab.gpu import executor
    from warplab.gpu.stopwatch import time_in_turns

    m, n, k = shape
    random = np.random.default_rng(0)
    inputs = {"a": random.standard_normal((m, k), np.float32), "b": random.standard_normal((k, n), np.float32)}
    a, b = (inputs[name].astype(np.float64) for name in "ab")
    with executor.on_stream() as stream:
        products = {choice: Product(plan, architecture, stream, inputs) for choice, plan in plans.items()}
        for choice, candidate in products.items():
            candidate.launch()
            stream.sync()
            if not (abs(candidate.output.get() - a @ b) <= k * _UNIT * (abs(a) @ abs(b))).all():
                raise WarplabError(f"{name_of(choice)} gave a wrong product for {m} x {n} x {k}.")
        candidates = {name_of(choice): candidate for choice, candidate in products.items()}
        turns = time_in_turns(candidates, stream, budget_seconds=_BUDGET_SECONDS, precision=0.02)
        return {choice: turns.time(name_of(choice)).value * 1e3 for choice in products}


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """Spearman's, equal values with the mean of their ranks."""

    def ranks(values: Sequence[float]) -> list[float]:
        order = sorted(values)
        return [order.index(value) + (order.count(value) - 1) / 2 for value in values]

    return statistics.correlation(ranks(one), ranks(other))


def records_of(shape: Shape, times: Mapping[Choice, float], modelled: Mapping[Choice, float]) -> list[results.Record]:
    """What is kept of one shape: times beside the estimate, and what searches by the clock would take."""
    kept = [
        results.Record(
            "product", "time", value, "us", name_of(choice), shape, "float32",
            conditions="cold L2, CUDA events, in turns", extra={"estimated": modelled[choice]},
        )
        for choice, value in times.items()
    ]  # fmt: skip
    ranks = rank_correlation([times[c] for c in times], [modelled[c] for c in times])
    ways = {
        "chance": [trials_needed(ByChance(CHOICES, seed), times) for seed in SEEDS],
        "evolution": [trials_needed(ByEvolution(CHOICES, neighbours, seed), times) for seed in SEEDS],
        "guess": [trials_needed(ByGuess(CHOICES, lambda choice: guess(choice, shape, H200.sms)), times)],
        "estimate": [trials_needed(ByGuess(CHOICES, modelled.__getitem__), times)],
    }
    kept.append(results.Record("search", "rank correlation of estimate and clock", ranks, "correlation", shape=shape))
    for way, trials in ways.items():
        words = f"mean of {len(trials)} searches; within 2% of the best"
        kept.append(results.Record("search", "trials", statistics.mean(trials), "trials", way, shape, conditions=words))
    return kept


def _measure() -> int:
    device = present()
    if device is None:
        raise DeviceError("No GPU answers in this machine: `python -m benchmarks.search_space` needs none.")
    architecture = architecture_of(device)
    space = results.read(MODELLED)
    records: list[results.Record] = []
    for shape in SHAPES:
        plans: dict[Choice, Plan] = {}
        for begin in range(0, len(CHOICES), _AT_ONCE):
            some = CHOICES[begin : begin + _AT_ONCE]
            made = (assemble(plan, architecture) for plan in captured(some, shape, architecture))
            plans |= dict(zip(some, made, strict=True))
        times = timed(plans, shape, architecture)
        modelled = {c: space.find("product", "estimated time", variant=name_of(c), shape=shape).value for c in CHOICES}
        found = records_of(shape, times, modelled)
        best = min(times, key=times.__getitem__)
        print(f"{'x'.join(map(str, shape)):14} best {name_of(best)} {times[best]:.2f} us")
        for record in found[len(times) :]:
            print(f"{'':14} {record.metric} {record.variant} {record.value:.2f}")
        records += found
    results.write(FILE, results.make_header(COMMAND), records)
    return 0


def main() -> int:
    """Exit code 0 once the file is written, 3 without a GPU."""
    try:
        return _measure()
    except WarplabError as error:
        print(error, file=sys.stderr)
        return 3


if __name__ == "__main__":
    sys.exit(main())
