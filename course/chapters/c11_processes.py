"""Section 10 of chapter 11: schedules on processes of this machine, and the models that are fitted to them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from IPython.display import Markdown
from matplotlib.figure import Figure

from course.chapters.c11_the_network import ALL_REDUCE, KB, MB
from course.chapters.spoken import spoken
from course.figures.cost_lines import CostLine, cost_lines
from course.lesson import table
from systems.network.clusters import nvswitch_node
from systems.network.execution import execute
from systems.network.schedules import build
from systems.network.simulation import simulate
from systems.network.topology import Topology

LENGTHS = (1 << 8, 1 << 16, 1 << 19)  # float32


_LOCAL = {
    "ring": build.ring(ALL_REDUCE, 4),
    "two-shot": build.two_shot_all_reduce(4),
    "one-shot": build.one_shot(ALL_REDUCE, 4),
}


Clock = dict[tuple[str, int], float]  # seconds by algorithm and bytes


def run_processes() -> Clock:
    """Three algorithms at three sizes over four processes of this machine, the better of two runs each."""
    queue, clock = os.getloadavg()[0], Clock()
    for _ in range(2):  # one after the other, so that a busy moment spoils one run of each and not both of one
        for name, schedule in _LOCAL.items():
            for length in LENGTHS:
                outcome = execute(schedule, np.ones((4, length), np.float32), patience=30)
                assert outcome.verdict == "right" and outcome.seconds, outcome.sentence
                clock[name, 4 * length] = min(outcome.seconds, clock.get((name, 4 * length), outcome.seconds))
    print(f"{os.cpu_count()} processors, with {queue:.1f} processes in the queue on average before these began")
    return clock


def table_of_processes(clock: Clock) -> Markdown:
    """The times by algorithm and size."""
    rows = [(name, *(spoken(clock[name, 4 * length]) for length in LENGTHS)) for name in _LOCAL]
    return table(["4 processes, measured here", *(f"{4 * length / KB:,.0f} kB" for length in LENGTHS)], rows)


def port_each(latency: float, rate: float) -> Topology:
    """Four processes with a port of their own."""
    base = nvswitch_node(4)
    links = len(base.tails)
    return replace(base, name="a port each", bandwidth=np.full(links, rate), latency=np.full(links, latency / 2))


def one_memory(latency: float, rate: float) -> Topology:
    """Four processes whose copies all pass one link, 4 to 5; to it and from it there is room enough."""
    names = ["rank 0", "rank 1", "rank 2", "rank 3", "memory, in", "memory, out"]
    tails, heads = np.array([0, 1, 2, 3, 4, 5, 5, 5, 5]), np.array([4, 4, 4, 4, 5, 0, 1, 2, 3])
    bandwidth, wait = np.full(9, 1e15), np.zeros(9)
    bandwidth[4], wait[4] = rate, latency

    def router(sources: np.ndarray, destinations: np.ndarray) -> np.ndarray:
        return np.stack([sources, np.full(len(sources), 4), 5 + destinations], 1)

    return Topology("one memory", 4, 1, names, tails, heads, bandwidth, wait, router)


_MODELS = {port_each: 1.5 + 4, one_memory: 6 + 4}  # the ring's bytes through a port, or in all; and the results


def fitted(clock: Clock) -> dict[Callable[[float, float], Topology], tuple[float, float]]:
    """Latency and rate of both models, of the ring's shortest time and its largest array."""
    wait, large_size = min(clock["ring", 4 * length] for length in LENGTHS) / 6, 4 * LENGTHS[-1]
    moving = max(clock["ring", large_size] - 6 * wait, 1e-9)
    return {model: (wait, passed * large_size / moving) for model, passed in _MODELS.items()}


def table_of_forecasts(clock: Clock) -> Markdown:
    """What both models forecast beside the clock, and how far they are off in the mean."""
    fits, rows = fitted(clock), list[tuple[str, ...]]()
    errors: dict[str, list[float]] = {model.__name__: [] for model in fits}
    for (name, size), seconds in clock.items():
        start = name, f"{size / KB:,.0f} kB", spoken(seconds)
        if name == "ring" and size != 4 * LENGTHS[1]:
            rows.append((*start, "(in the fit)", "(in the fit)"))
            continue
        ratios = [
            (simulate(_LOCAL[name], model(*fit), size).seconds + 4 * size / fit[1]) / seconds
            for model, fit in fits.items()
        ]
        rows.append((*start, *(f"{ratio:.2f}" for ratio in ratios)))
        for model, ratio in zip(fits, ratios, strict=True):
            errors[model.__name__].append(abs(np.log(ratio)))
    for model, (wait, rate) in fits.items():
        off = np.exp(np.mean(errors[model.__name__]))
        said = f"{model.__name__.replace('_', ' ')}: {spoken(wait)} a step, {rate / MB:.0f} MB/s"
        print(f"{said}; forecasts are off by a factor of {off:.2f} in the mean")
    return table(["", "size", "measured", "a port each / measured", "one memory / measured"], rows)


def table_of_messages(clock: Clock) -> Markdown:
    """Time per step and per message of the smallest arrays."""
    rows = []
    for name, schedule in _LOCAL.items():
        seconds, sends = clock[name, 4 * LENGTHS[0]], schedule.transfers // 4
        rows.append((name, schedule.steps, sends, spoken(seconds / schedule.steps), spoken(seconds / sends)))
    return table(["1 kB", "steps", "messages per rank", "time per step", "time per message"], rows)


def charged(clock: Clock, name: str, size: float) -> float:
    """Seconds by one memory without latency, and a charge for each message of a rank."""
    wait, rate = fitted(clock)[one_memory]
    sends = _LOCAL[name].transfers // 4
    return simulate(_LOCAL[name], one_memory(0.0, rate), size).seconds + sends * wait + 4 * size / rate


def table_of_charges(clock: Clock) -> Markdown:
    """That model beside the clock, where it was not fitted."""
    rows, off = [], []
    for (name, size), seconds in clock.items():
        if name != "ring" or size == 4 * LENGTHS[1]:
            ratio = charged(clock, name, size) / seconds
            rows.append((name, f"{size / KB:,.0f} kB", f"{ratio:.2f}"))
            off.append(abs(np.log(ratio)))
    print(f"a charge for each message: forecasts are off by a factor of {np.exp(np.mean(off)):.2f} in the mean")
    return table(["", "size", "a charge for each message / measured"], rows)


def figure_of_charges(clock: Clock) -> Figure:
    """The same as curves, with the clock's dots."""
    between = np.geomspace(4 * LENGTHS[0], 4 * LENGTHS[-1], 25).tolist()
    lines = [CostLine(name, between, [charged(clock, name, size) for size in between]) for name in _LOCAL]
    for name in _LOCAL:
        of = [(size, seconds) for (n, size), seconds in clock.items() if n == name]
        lines.append(CostLine(name, [size for size, _ in of], [seconds for _, seconds in of], dots=True))
    subtitle = (
        "lines: one memory, a charge for each message, fitted to the ring; dots: measured, the better of two runs"
    )
    return cost_lines(lines, title="Four processes of this machine", subtitle=subtitle)
