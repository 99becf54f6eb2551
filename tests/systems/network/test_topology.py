"""Topologies: routes are ways through the graph, bandwidths add up to datasheets, failures are walked around."""

import itertools
from collections import deque
from pathlib import Path

import numpy as np
import pytest

from systems.network import clusters
from systems.network.clusters import Fabric, cluster, dgx1, nvl72, nvswitch_node, pcie_server, tpu_torus
from systems.network.links import NetworkError, all_links, find_link, read_links
from systems.network.topology import Topology
from warplab.hardware import Chip
from warplab.hardware.chips import A100, GB200, H100, H200, V100
from warplab.hardware.tpus import TPU_V5E, TPU_V5P

SMALL = {
    "pcie": lambda: pcie_server(8),
    "dgx1": dgx1,
    "nvswitch": nvswitch_node,
    "rails": lambda: cluster(6, 8, fabric=Fabric(nodes_per_leaf=2)),
    "rails without pxn": lambda: cluster(6, 8, fabric=Fabric(nodes_per_leaf=2, pxn=False)),
    "shared NICs": lambda: cluster(4, 8, fabric=Fabric(nics=4, nodes_per_leaf=2)),
    "fat tree": lambda: cluster(6, 4, fabric=Fabric(wiring="node", nodes_per_leaf=2)),
    "hashed": lambda: cluster(6, 4, fabric=Fabric(wiring="node", nodes_per_leaf=2, spines=3, routing="ecmp")),
    "two racks": lambda: nvl72(2),
    "torus": lambda: tpu_torus(TPU_V5P, 4, 3, 2),
    "flat torus": lambda: tpu_torus(TPU_V5E, 4, 5),
}


def pairs(topology: Topology) -> np.ndarray:
    every = np.array(list(itertools.permutations(range(topology.ranks), 2)))
    return every[:: max(1, len(every) // 2000)]


@pytest.mark.parametrize("make", SMALL.values(), ids=SMALL)
def test_every_route_leads_from_the_source_to_the_destination(make) -> None:
    topology = make()
    some = pairs(topology)
    for (source, destination), row in zip(some, topology.routes(some[:, 0], some[:, 1]), strict=True):
        at = source
        links = row[row >= 0]
        assert (row[len(links) :] == -1).all() and len(set(links.tolist())) == len(links)
        for link in links:
            assert topology.tails[link] == at
            at = topology.heads[link]
        assert at == destination


def hops(topology: Topology, source: int) -> dict[int, int]:
    """Breadth-first search of its own: the fewest links to every vertex."""
    leaving: dict[int, list[int]] = {}
    for tail, head in zip(topology.tails.tolist(), topology.heads.tolist(), strict=True):
        leaving.setdefault(tail, []).append(head)
    far, queue = {source: 0}, deque([source])
    while queue:
        at = queue.popleft()
        for to in leaving.get(at, ()):
            if to not in far:
                far[to] = far[at] + 1
                queue.append(to)
    return far


@pytest.mark.parametrize("name", ["pcie", "dgx1", "nvswitch", "fat tree", "torus", "flat torus"])
def test_where_nothing_else_is_asked_routes_are_the_shortest(name: str) -> None:
    topology = SMALL[name]()
    for source in range(topology.ranks):
        far = hops(topology, source)
        others = [rank for rank in range(topology.ranks) if rank != source]
        lengths = (topology.routes([source] * len(others), others) >= 0).sum(1)
        assert lengths.tolist() == [far[other] for other in others]


@pytest.mark.parametrize(
    ("chip", "link"),
    [(V100, "nvlink2"), (A100, "nvlink3"), (H100, "nvlink4"), (H200, "nvlink4"), (GB200, "nvlink5")],
    ids=str,
)
def test_a_port_has_half_of_what_the_chips_datasheet_gives_for_both_directions(chip: Chip, link: str) -> None:
    assert find_link(link).bandwidth * 2 == chip.nvlink


def test_pcie_is_transfers_times_lanes_times_coding() -> None:
    for name, transfers in {"pcie3": 8e9, "pcie4": 16e9, "pcie5": 32e9}.items():
        assert find_link(name).bandwidth == pytest.approx(transfers * 16 * 128 / 130 / 8, rel=1e-4)
    assert find_link("roce_400").bandwidth == pytest.approx(50e9 * 4096 / 4178, rel=1e-3)


def test_every_v100_of_a_dgx1_has_six_links() -> None:
    mesh = dgx1()
    for gpu in range(8):
        assert mesh.bandwidth[mesh.tails == gpu].sum() == V100.nvlink / 2  # type: ignore[operator]
    assert mesh.path(0, 7) in (["gpu 0", "gpu 3", "gpu 7"], ["gpu 0", "gpu 4", "gpu 7"], ["gpu 0", "gpu 1", "gpu 7"])


def test_latencies_of_a_hop_are_nccls() -> None:
    pod = cluster(4, 8)
    assert pod.alpha(0, 1) == pytest.approx(0.6e-6)
    assert pod.alpha(0, 8) == pytest.approx(2.7e-6)
    assert pcie_server().alpha(0, 1) == pytest.approx(1.0e-6)


def test_rails_keep_traffic_off_the_spine_by_going_over_nvlink_first() -> None:
    rails = cluster(2, 8)
    assert rails.path(0, 8) == ["gpu 0", "nic 0", "leaf 0", "nic 8", "gpu 8"]
    assert rails.path(0, 13) == ["gpu 0", "nvswitch 0", "gpu 5", "nic 5", "leaf 5", "nic 13", "gpu 13"]
    bare = cluster(2, 8, fabric=Fabric(pxn=False))
    assert bare.path(0, 13) == ["gpu 0", "nic 0", "leaf 0", "spine 0", "leaf 5", "nic 13", "gpu 13"]
    apart = cluster(4, 8, fabric=Fabric(nodes_per_leaf=2))
    assert apart.path(0, 16) == ["gpu 0", "nic 0", "leaf 0", "spine 0", "leaf 8", "nic 16", "gpu 16"]


def test_a_leaf_has_as_much_above_as_below_unless_it_is_oversubscribed() -> None:
    for factor in (1.0, 3.0):
        fabric = Fabric(wiring="node", nodes_per_leaf=4, oversubscription=factor, spines=5, routing="ecmp")
        tree = cluster(8, 8, fabric=fabric)
        leaf, spines = tree.vertex("leaf 0"), [tree.vertex(f"spine {i}") for i in range(5)]
        below = tree.bandwidth[(tree.heads == leaf) & ~np.isin(tree.tails, spines)].sum()
        above = tree.bandwidth[(tree.tails == leaf) & np.isin(tree.heads, spines)].sum()
        assert below == 4 * 8 * 50e9 and above == pytest.approx(below / factor)


def test_hashed_routes_use_all_spines_and_stay_the_same() -> None:
    tree = SMALL["hashed"]()
    first = tree.routes(np.zeros(8, int), np.arange(16, 24))
    assert (first == tree.routes(np.zeros(8, int), np.arange(16, 24))).all()
    some = pairs(tree)
    heads = set(tree.heads[tree.routes(some[:, 0], some[:, 1])].ravel().tolist())
    assert {tree.vertex(f"spine {i}") for i in range(3)} <= heads


def test_a_cut_cable_is_walked_around() -> None:
    mesh = dgx1().without("gpu 0", "gpu 3")
    assert len(mesh.path(0, 3)) == 3 and mesh.path(0, 4) == ["gpu 0", "gpu 4"]
    rails = cluster(2, 2).without("nic 0", "leaf 0")
    assert rails.path(0, 2)[:4] == ["gpu 0", "nvswitch 0", "gpu 1", "nic 1"]
    assert rails.path(1, 3) == ["gpu 1", "nic 1", "leaf 1", "nic 3", "gpu 3"]
    with pytest.raises(NetworkError, match="There is no way from rank 0 to rank 1 in 2 GPUs on nvlink4 without"):
        nvswitch_node(2).without("gpu 0", "nvswitch 0").routes(0, 1)


def test_a_slow_rank_is_slow_both_ways_and_nobody_else() -> None:
    node = nvswitch_node()
    slow = node.slowed("gpu 3", 4)
    assert slow.rate(3, 1) == slow.rate(1, 3) == node.rate(1, 3) / 4
    assert slow.rate(1, 2) == node.rate(1, 2)


def test_a_rack_and_a_torus_have_the_published_bandwidths() -> None:
    rack = nvl72()
    assert rack.ranks == 72 and rack.bandwidth[:72].sum() * 2 == pytest.approx(130e12, rel=0.004)  # "130 TB/s"
    torus = tpu_torus(TPU_V5P, 4, 4, 4)
    assert {torus.bandwidth[torus.tails == chip].sum() for chip in range(64)} == {TPU_V5P.ici / 2}
    assert (torus.routes([0] * 63, range(1, 64)) >= 0).sum(1).max() == 6  # half way around each dimension


def test_sixteen_thousand_gpus_are_made_and_routed() -> None:
    pod = cluster(2048, 8, fabric=Fabric(nodes_per_leaf=32))
    ranks = np.arange(pod.ranks)
    rows = pod.routes(ranks, (ranks + 1) % pod.ranks)
    assert len(rows) == 16384 and (pod.tails[rows[:, 0]] == ranks).all()


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: cluster(0), "nodes is 0"),
        (lambda: cluster(1, 1), "two GPUs or more"),
        (lambda: cluster(2, 8, fabric=Fabric(nics=3)), "8 GPUs cannot share 3 NICs evenly"),
        (lambda: cluster(2, 8, fabric=Fabric(rails=3)), "8 NICs cannot lie on 3 rails"),
        (lambda: cluster(2, 8, fabric=Fabric(oversubscription=0.5)), "1 is a full fat tree"),
        (lambda: cluster(2, 8, fabric=Fabric(wiring="star")), 'wiring "rail" or "node"'),
        (lambda: cluster(2, 8, "nvlink9"), "no link named 'nvlink9'"),
        (lambda: tpu_torus(TPU_V5P, 4), "A torus of shape"),
        (lambda: nvswitch_node().routes(0, 8), "There is no rank 8"),
        (lambda: nvswitch_node().routes(-1, 3), "There is no rank -1"),
        (lambda: nvswitch_node().routes(3, 3), "Rank 3 of 8 GPUs on nvlink4 cannot send to itself"),
        (lambda: nvswitch_node().without("gpu 0", "gpu 1"), "No link leads from gpu 0 to gpu 1"),
        (lambda: nvswitch_node().slowed("gpu 9", 2), "There is no 'gpu 9'"),
        (lambda: nvswitch_node().slowed("gpu 1", 0.5), "at least 1"),
    ],
)
def test_what_cannot_be_built_is_said_in_a_sentence(build, says: str) -> None:
    with pytest.raises(NetworkError, match=says):
        build()


def test_every_figure_of_a_link_has_a_source() -> None:
    for link in all_links():
        for figure in ("bandwidth", "latency", "ports"):
            assert link.source(figure) is not None, (link.name, figure)


LINK = '[[links]]\nname = "a"\nbandwidth = 1\nlatency = 1\nports = 1\n'
SOURCE = '[[links.sources]]\nevidence = "vendor document"\ndocument = "d"\nplace = "p"\nfields = [{}]\n'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (LINK + SOURCE.format('"latency", "ports"'), "no source says where 'bandwidth' of 'a'"),
        (LINK + SOURCE.format('"bandwidth", "latency", "ports", "colour"'), "names 'colour'"),
        ((LINK + SOURCE.format('"bandwidth", "latency", "ports"')) * 2, "'a' is there twice"),
        (LINK.replace("bandwidth = 1", "bandwidth = -1"), "not a valid file of links"),
    ],
)
def test_a_damaged_file_of_links_is_refused(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "links.toml"
    path.write_text(text)
    with pytest.raises(NetworkError, match=says):
        read_links(path)
    with pytest.raises(NetworkError, match="cannot be read"):
        read_links(tmp_path / "none.toml")


def test_the_trunks_come_after_the_ports_that_they_serve() -> None:
    """A regression trap: link numbers are computed, so a shifted block would route over somebody else's cable."""
    pod = clusters.cluster(4, 4, fabric=Fabric(nodes_per_leaf=2, spines=2, routing="ecmp"))
    assert pod.path(0, 8)[2].startswith("leaf") and pod.path(0, 8)[3].startswith("spine")
