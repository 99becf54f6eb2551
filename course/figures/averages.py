"""One kernel's speed beside a library's, shape by shape, and what becomes of it in an average."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import geometric_mean

from matplotlib.figure import Figure

from course.figures.explore import Explorer
from warplab.figures import style


@dataclass(frozen=True)
class Raced:
    """One shape: its GFLOP, the seconds of one kernel and of another, measured in turns."""

    gflop: float
    seconds: float
    others: float

    @property
    def ratio(self) -> float:
        """How many times as fast the one is."""
        return self.others / self.seconds


def arithmetic(races: Sequence[Raced]) -> float:
    """The mean of the ratios. Raises ValueError for none."""
    return sum(race.ratio for race in _some(races)) / len(races)


def geometric(races: Sequence[Raced]) -> float:
    """The geometric mean of the ratios: a half and a double make one. Raises ValueError for none."""
    return geometric_mean(race.ratio for race in _some(races))


def by_time(races: Sequence[Raced]) -> float:
    """The ratio of the sums of times: what somebody gains who needs each shape once."""
    return sum(race.others for race in _some(races)) / sum(race.seconds for race in races)


def averages(races: Sequence[Raced], smallest: float, largest: float) -> Figure:
    """Every shape's ratio by its size, those between two sizes (GFLOP) picked out, and three means of these.

    Raises ValueError if no shape is left.
    """
    chosen = [race for race in races if smallest <= race.gflop <= largest]
    if not chosen:
        raise ValueError(f"No shape has between {smallest:g} and {largest:g} GFLOP: choose a wider range.")
    made, (axes,) = style.figure(9.5, 4.0)
    for group, colour in ((races, style.FAINT), (chosen, style.BLUE)):
        axes.plot([r.gflop for r in group], [r.ratio for r in group], "o", color=colour, markersize=6)
    axes.axhline(1, color=style.INK, linewidth=1)
    axes.axhline(geometric(chosen), color=style.ORANGE, linewidth=1.5, linestyle="--")
    axes.set_xscale("log")
    axes.set_xlabel("GFLOP of the product")
    axes.set_ylabel("times as fast as the library")
    axes.grid(True)
    means = (
        f"{len(chosen)} of {len(races)} shapes; mean of ratios {arithmetic(chosen):.3f}, "
        f"geometric {geometric(chosen):.3f} (dashed), by time {by_time(chosen):.3f}"
    )
    style.headline(made, "The same kernel, some of its shapes", means)
    return made


def explore_averages(races: Sequence[Raced]) -> Explorer:
    """Boxes for the smallest and the largest product that counts."""
    most = max(race.gflop for race in races)
    return Explorer(
        lambda smallest, largest: averages(races, smallest, largest), smallest=(0.0, float), largest=(most, float)
    )


def _some(races: Sequence[Raced]) -> Sequence[Raced]:
    if not races:
        raise ValueError("a mean of no shapes is none")
    return races
