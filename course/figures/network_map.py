"""A network as a picture: GPUs, switches and NICs in rows, cables by what they carry; a way or the load on top."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from systems.network.topology import Topology
from warplab.figures import style

# The row of each kind of vertex, from the bottom. What has no row is a mesh: drawn on a circle or a grid.
_ROWS = {"nvswitch": 0, "gpu": 1, "pcie switch": 2, "nic": 2, "cpu": 3, "leaf": 3, "spine": 4}
_SWITCHES = {"nvswitch", "pcie switch", "cpu", "leaf", "spine"}
_ROUTES = (style.RED, style.INK, style.SKY)
_MOST_NAMED = 34  # vertices of a row that have room for their numbers
Places = NDArray[np.float64]


def network_map(
    topology: Topology,
    *,
    paths: Sequence[tuple[int, int]] = (),
    load: NDArray[np.float64] | None = None,
    grid: tuple[int, int] | None = None,
    title: str = "",
    subtitle: str = "",
) -> Figure:
    """Draw a topology, each cable once, in a colour for each bandwidth.

    `paths` are pairs of ranks whose routes are drawn over it. `load` has a share of the busiest link's time for each
    link, 0 to 1, shape (links,): cables are then coloured by the busier of their two directions. `grid` places the
    vertices of a mesh in rows and columns. Raises ValueError if the load or the grid does not fit.
    """
    if load is not None and len(load) != len(topology.tails):
        raise ValueError(f"the load has {len(load)} entries for {len(topology.tails)} links")
    if grid and grid[0] * grid[1] != len(topology.names):
        raise ValueError(f"a grid of {grid[0]} x {grid[1]} does not hold {len(topology.names)} vertices")
    layered = all(_kind(name) in _ROWS for name in topology.names) and len({_kind(n) for n in topology.names}) > 1
    places = _layers(topology) if layered else _mesh(len(topology.names), grid)
    spread = np.ptp(places[:, 0]) + 1, np.ptp(places[:, 1]) + 1
    size = (min(10.0, max(7.0, 0.42 * spread[0] + 1.0)), 1.7 + 0.95 * spread[1]) if layered else (7.4, 5.6)
    made, (axes,) = style.figure(*size)
    style.canvas(axes)
    _cables(axes, topology, places, load, bend=bool(grid))
    for number, pair in enumerate(paths):
        _route(axes, topology, places, pair, _ROUTES[number % len(_ROUTES)])
    _vertices(axes, topology, places, layered)
    if load is None:
        made.legend(loc="outside lower left", ncols=3, frameon=False, fontsize=style.TEXT)
    axes.margins(0.04, 0.09)
    if not layered:
        axes.set_aspect("equal")
    style.headline(made, title or topology.name, subtitle)
    return made


def _kind(name: str) -> str:
    return name.rsplit(" ", 1)[0]


def _layers(topology: Topology) -> Places:
    """GPUs beside each other with a gap between nodes, everything else above or below the middle of what it serves."""
    kinds = [_kind(name) for name in topology.names]
    nodes = dict(topology.levels).get("nodes")
    places = np.zeros((len(kinds), 2))
    for number, kind in enumerate(kinds):
        gap = 0 if nodes is None or kind != "gpu" else 0.9 * nodes[number]
        places[number] = number + gap, _ROWS[kind]
    width = places[: topology.ranks, 0].max()
    for kind in ("nvswitch", "pcie switch", "nic", "cpu"):
        for number in (n for n, k in enumerate(kinds) if k == kind):
            below = topology.tails[topology.heads == number]
            served = [int(n) for n in below if kinds[n] in ("gpu", "pcie switch") and kinds[n] != kind]
            places[number, 0] = places[served, 0].mean()
    for kind in ("leaf", "spine"):
        mine = [n for n, k in enumerate(kinds) if k == kind]
        places[mine, 0] = (np.arange(len(mine)) + 0.5) * width / max(len(mine), 1)
    return places


def _mesh(count: int, grid: tuple[int, int] | None) -> Places:
    if grid:
        rows, columns = np.divmod(np.arange(count), grid[1])
        return np.stack([columns, -rows], 1).astype(float)
    angle = np.pi / 2 - 2 * np.pi * np.arange(count) / count
    return np.stack([2 * np.cos(angle), 2 * np.sin(angle)], 1)


def _cables(axes: Axes, topology: Topology, places: Places, load: NDArray[np.float64] | None, bend: bool) -> None:
    cables: dict[tuple[int, int], tuple[float, float]] = {}  # bandwidth and the busier direction's load
    for link, (tail, head) in enumerate(zip(topology.tails.tolist(), topology.heads.tolist(), strict=True)):
        key = (min(tail, head), max(tail, head))
        rate, busy = cables.get(key, (0.0, 0.0))
        share = 0.0 if load is None else float(load[link])
        cables[key] = max(rate, float(topology.bandwidth[link])), max(busy, share)
    rates = sorted({round(rate, -6) for rate, _ in cables.values()}, reverse=True)
    told: set[int] = set()
    crowd = min(1.0, _MOST_NAMED / topology.ranks)
    for (one, other), (rate, busy) in sorted(cables.items(), key=lambda cable: -cable[1][0]):  # as the legend's order
        rank = rates.index(round(rate, -6))
        colour = style.PALETTE[rank % len(style.PALETTE)] if load is None else style.HEAT(0.12 + 0.88 * busy)
        label = f"{style.quantity(rate, 'B/s')} each way" if load is None and rank not in told else None
        told.add(rank)
        wide = crowd * (1.0 + 1.6 * (len(rates) - rank) / len(rates) if load is None else 0.8 + 2.6 * busy)
        far = bend and float(np.abs(places[one] - places[other]).max()) > 1.5  # a cable that wraps around
        line = _bent(places[one], places[other]) if far else np.array([places[one], places[other]])
        axes.plot(line[:, 0], line[:, 1], color=colour, linewidth=wide, zorder=1, label=label, alpha=0.9)


def _bent(start: Places, end: Places) -> Places:
    """A curve beside the straight line, so that it does not run through the vertices between."""
    t = np.linspace(0, 1, 30)[:, None]
    across = np.array([(end - start)[1], -(end - start)[0]])
    middle = (start + end) / 2 + 0.16 * across
    return (1 - t) ** 2 * start + 2 * t * (1 - t) * middle + t**2 * end


def _route(axes: Axes, topology: Topology, places: Places, pair: tuple[int, int], colour: str) -> None:
    names = topology.path(*pair)
    way = places[[topology.vertex(name) for name in names]]
    axes.plot(way[:, 0], way[:, 1], color=colour, linewidth=4.5, alpha=0.75, zorder=2, gid="route",
              label=f"{names[0]} to {names[-1]}", solid_capstyle="round")  # fmt: skip


def _vertices(axes: Axes, topology: Topology, places: Places, layered: bool) -> None:
    kinds = [_kind(name) for name in topology.names]
    for kind in dict.fromkeys(kinds):
        mine = [n for n, k in enumerate(kinds) if k == kind]
        square = kind in _SWITCHES
        room = min(1.0, (_MOST_NAMED / len(mine)) ** 2)
        face = style.INK if square else (style.EMPTY if kind == "nic" else style.PANEL)
        axes.scatter(places[mine, 0], places[mine, 1], s=room * (230 if square else 190), marker="s" if square else "o",
                     color=face, edgecolor=style.INK, linewidth=1.0, zorder=3)  # fmt: skip
        if len(mine) <= _MOST_NAMED:
            for n in mine:
                axes.text(places[n, 0], places[n, 1], topology.names[n].rsplit(" ", 1)[1], ha="center", va="center",
                          size=style.TEXT - 1, color=style.ink_on(face), zorder=4)  # fmt: skip
        if layered:
            plural = {"gpu": "GPUs", "nic": "NICs", "nvswitch": "NVSwitches", "leaf": "leaf switches",
                      "spine": "spine switches", "cpu": "processors", "pcie switch": "PCIe switches"}[kind]  # fmt: skip
            axes.annotate(plural, (0, places[mine[0], 1]), xycoords=("axes fraction", "data"), xytext=(-6, 0),
                          textcoords="offset points", ha="right", va="center", color=style.MUTED)  # fmt: skip
