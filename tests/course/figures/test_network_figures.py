"""The pictures of networks say what is so: cables and ways against the topology, chunks against what a ring holds."""

from __future__ import annotations

import numpy as np
import pytest

from course.figures.chunk_steps import chunk_steps, contributions
from course.figures.cost_lines import CostLine, cost_lines
from course.figures.network_map import network_map
from systems.network.clusters import Fabric, cluster, dgx1, nvswitch_node, pcie_server, tpu_torus
from systems.network.collectives import Collective
from systems.network.schedules import Op, Phase, Schedule, ScheduleError, Transfer, build
from warplab.figures import style
from warplab.hardware.tpus import TPU_V5P

ALL_REDUCE = Collective.ALL_REDUCE
TORUS = tpu_torus(TPU_V5P, 4, 4, 1)


def labels(figure) -> set[str]:
    return {text.get_text() for legend in figure.legends for text in legend.get_texts()}


@pytest.mark.parametrize(
    ("topology", "grid", "rates"),
    [
        (nvswitch_node(), None, {"450 GB/s each way"}),
        (dgx1(), None, {"25 GB/s each way", "50 GB/s each way"}),
        (pcie_server(), None, {"31.5 GB/s each way", "10 GB/s each way"}),
        (TORUS, (4, 4), {"100 GB/s each way"}),
        (cluster(2, 4), None, {"450 GB/s each way", "63 GB/s each way", "50 GB/s each way", "1.6 TB/s each way"}),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_every_cable_is_drawn_once_and_each_rate_is_named(topology, grid, rates) -> None:
    figure = network_map(topology, grid=grid)
    (axes,) = figure.axes
    cables = {frozenset(pair) for pair in zip(topology.tails.tolist(), topology.heads.tolist(), strict=True)}
    assert len(axes.lines) == len(cables)
    assert labels(figure) == rates
    drawn = [tuple(place) for dots in axes.collections for place in dots.get_offsets()]
    assert len(drawn) == len(set(drawn)) == len(topology.names), "no vertex lies on another"


def test_cables_end_at_their_vertices() -> None:
    figure = network_map(TORUS, grid=(4, 4))
    (axes,) = figure.axes
    (dots,) = axes.collections
    places = dots.get_offsets()
    drawn = {frozenset(((line.get_xdata()[0], line.get_ydata()[0]), (line.get_xdata()[-1], line.get_ydata()[-1])))
             for line in axes.lines}  # fmt: skip
    expected = {frozenset((tuple(places[tail]), tuple(places[head])))
                for tail, head in zip(TORUS.tails, TORUS.heads, strict=True)}  # fmt: skip
    assert drawn == expected


def test_a_way_goes_over_the_vertices_of_the_route() -> None:
    pod = cluster(4, fabric=Fabric(nodes_per_leaf=2))
    figure = network_map(pod, paths=[(0, 9), (8, 24)])
    (axes,) = figure.axes
    first, second = (line for line in axes.lines if line.get_gid() == "route")
    assert len(first.get_xdata()) == len(pod.path(0, 9)) and len(second.get_xdata()) == len(pod.path(8, 24))
    assert max(first.get_ydata()) == 3 and min(first.get_ydata()) == 0, "by NVSwitch and leaf, not by the spine"
    assert max(second.get_ydata()) == 4
    assert first.get_color() != second.get_color()
    assert {"gpu 0 to gpu 9", "gpu 8 to gpu 24"} <= labels(figure)


def test_a_load_colours_the_busier_direction() -> None:
    node = nvswitch_node(3)
    load = np.zeros(len(node.tails))
    load[node.links_between("nvswitch 0", "gpu 1")] = 1.0
    (axes,) = network_map(node, load=load).axes
    colours = {tuple(np.round(line.get_xdata(), 3)): line.get_color() for line in axes.lines}
    busy = [colour for colour in colours.values() if colour == style.HEAT(1.0)]
    assert len(busy) == 1 and len(colours) == 3
    with pytest.raises(ValueError, match="2 entries for 6 links"):
        network_map(node, load=np.zeros(2))
    with pytest.raises(ValueError, match="does not hold 16"):
        network_map(TORUS, grid=(4, 5))


@pytest.mark.parametrize("ranks", [2, 3, 4, 7])
def test_chunks_fill_up_as_a_ring_must(ranks: int) -> None:
    """In step s rank r adds to chunk r - s - 2, which then has s + 2 ranks' data, until one is whole at each rank."""
    counts, arrived = contributions(build.ring(ALL_REDUCE, ranks))
    assert (counts[0] == 1).all() and (counts[-1] == ranks).all() and not arrived[0].any()
    for step in range(ranks - 1):
        for rank in range(ranks):
            chunk = (rank - step - 2) % ranks
            assert counts[step + 1, rank, chunk] == step + 2
            assert arrived[step + 1, rank].nonzero()[0].tolist() == [chunk]


def test_what_a_copy_replaces_is_not_counted() -> None:
    moves = (Transfer(0, 1, 0, 0, Op.REDUCE), Transfer(1, 0, 1, 0))
    counts, _ = contributions(Schedule("star", ALL_REDUCE, 2, 1, (Phase(moves),)))
    assert counts[:, 0, 0].tolist() == [1, 2, 2] and counts[:, 1, 0].tolist() == [1, 1, 2]


def test_panels_show_counts_and_frames() -> None:
    figure = chunk_steps(build.ring(ALL_REDUCE, 3))
    assert [axes.get_title() for axes in figure.axes] == ["at first", *(f"after step {step}" for step in range(4))]
    assert [len(axes.patches) for axes in figure.axes] == [0, 3, 3, 3, 3]
    assert {text.get_text() for text in figure.axes[-1].texts} == {"3"}


def test_schedules_that_are_wrong_or_too_large_are_refused_in_a_sentence() -> None:
    with pytest.raises(ScheduleError, match="ends without the data"):
        chunk_steps(Schedule("none", ALL_REDUCE, 2, 1, (Phase((Transfer(0, 0, 1, 0, Op.REDUCE),)),)))
    with pytest.raises(ScheduleError, match="at most 15, 16 and 16"):
        chunk_steps(build.ring(ALL_REDUCE, 9))


def test_lines_are_drawn_as_given() -> None:
    sizes = [1e3, 1e6, 1e9]
    lines = [CostLine(f"way {n}", sizes, [1e-6 * (n + 1)] * 3) for n in range(7)]
    lines += [CostLine("bound", sizes, [1e-7] * 3, quiet=True), CostLine("way 0", sizes, [2e-6] * 3, dots=True)]
    (axes,) = cost_lines(lines, title="t", marks=[(1e6, "here")]).axes
    assert [list(line.get_ydata()) for line in axes.lines[:7]] == [list(line.values) for line in lines[:7]]
    assert axes.lines[8].get_color() == axes.lines[0].get_color(), "measured and modelled belong together"
    looks = {(line.get_color(), line.get_linestyle()) for line in axes.lines[:8]}
    assert len(looks) == 8, "no two lines look alike"
    assert "here" in [text.get_text() for text in axes.texts]
    said = axes.yaxis.get_major_formatter()
    assert [said(value, 0) for value in (1e-7, 1e-4, 0.01, 10)] == ["100 ns", "100 µs", "10 ms", "10 s"]


@pytest.mark.parametrize("line", [CostLine("a", [1, 2], [1]), CostLine("a", [0, 1], [1, 1]), CostLine("a", [1], [-1])])
def test_lines_that_a_logarithm_cannot_have_are_refused(line: CostLine) -> None:
    with pytest.raises(ValueError, match="'a' needs as many values as sizes"):
        cost_lines([line], title="t")
