"""Bounds: no simulated schedule beats them, the best ones come near, and they say what limits."""

from __future__ import annotations

import pytest

from systems.network.bounds import bound
from systems.network.clusters import Fabric, cluster, dgx1, nvl72, nvswitch_node, pcie_server, tpu_torus
from systems.network.collectives import Collective
from systems.network.costs import node_cap
from systems.network.links import NetworkError
from systems.network.schedules import Schedule, build
from systems.network.simulation import simulate
from systems.network.topology import Topology
from warplab.hardware.tpus import TPU_V5P

AR, AG, RS, A2A = Collective.ALL_REDUCE, Collective.ALL_GATHER, Collective.REDUCE_SCATTER, Collective.ALL_TO_ALL
EIGHT = [
    *(build.ring(kind, 8) for kind in (AR, AG, RS)),
    *(build.one_shot(kind, 8) for kind in (AR, AG, RS)),
    build.two_shot_all_reduce(8),
    build.halving_doubling(AR, 8),
    build.double_tree_all_reduce(8, 16),
    build.hierarchical_all_reduce(2, 4),
    build.all_to_all(8),
    build.all_to_all(8, pairwise=True),
    *(build.binomial(kind, 8, root=3) for kind in (Collective.BROADCAST, Collective.REDUCE)),
    *(build.chain(kind, 8, 16, root=3) for kind in (Collective.BROADCAST, Collective.REDUCE)),
]
MACHINES = [
    nvswitch_node(),
    pcie_server(),
    dgx1(),
    cluster(2, 4),
    cluster(4, 2, fabric=Fabric(nodes_per_leaf=1, pxn=False)),
    cluster(4, 2, fabric=Fabric(nodes_per_leaf=1, oversubscription=3, wiring="node")),
    cluster(2, 4).slowed("gpu 5", 9),
    tpu_torus(TPU_V5P, 2, 2, 2),
]


@pytest.mark.parametrize("topology", MACHINES, ids=lambda t: t.name)
@pytest.mark.parametrize("schedule", EIGHT, ids=lambda s: s.name)
@pytest.mark.parametrize("size", [1, 10**6, 10**9])
def test_nothing_simulated_beats_the_bound(schedule: Schedule, topology: Topology, size: int) -> None:
    least = bound(schedule.collective, topology, size, schedule.root)
    assert simulate(schedule, topology, size).seconds >= least.seconds * (1 - 1e-9)


@pytest.mark.parametrize(
    ("schedule", "topology", "where"),
    [
        (build.ring(AR, 8), nvswitch_node(), "ranks"),
        (build.two_shot_all_reduce(72), nvl72(), "ranks"),
        (build.all_to_all(8), nvswitch_node(), "ranks"),
        (build.one_shot(AG, 8), nvswitch_node(), "ranks"),
        (build.one_shot(RS, 8), nvswitch_node(), "ranks"),
        (build.chain(Collective.BROADCAST, 8, 1000), nvswitch_node(), "ranks"),
        (build.ring(AR, 128, build.node_rings(16, 8)), cluster(16), "nodes"),
        (build.all_to_all(32), cluster(4), "nodes"),
        (
            build.all_to_all(32),
            cluster(4, 8, fabric=Fabric(wiring="node", nodes_per_leaf=2, oversubscription=4)),
            "leaves",
        ),
    ],
    ids=lambda v: getattr(v, "name", str(v)),
)
def test_large_ones_come_near_and_the_level_that_limits_is_named(schedule: Schedule, topology, where: str) -> None:
    size = 10**11
    least = bound(schedule.collective, topology, size, schedule.root)
    assert least.where == where
    # Rings through all ranks move 2 (n - 1) / n of the size out of a node, where 2 (m - 1) / m would do for m nodes.
    assert 1 <= simulate(schedule, topology, size).seconds / least.seconds * (1 + 1e-9) < 1.07


def test_a_nodes_cap_is_the_bound_of_its_level() -> None:
    for kind in (AR, A2A):
        _, cap = node_cap(kind, 128, 8, 450e9, 8, 50e9)
        assert bound(kind, cluster(16), 10**12).bandwidth == pytest.approx(10**12 / cap)


def test_a_slow_rank_is_a_bound_of_its_own() -> None:
    slow = bound(AR, nvswitch_node().slowed("gpu 3", 10), 10**9)
    assert slow.bandwidth == pytest.approx(10**9 / 45e9)


def test_small_ones_are_bound_by_the_farthest_pair() -> None:
    least = bound(AR, cluster(64), 1)
    # Over the spine to the other rail; PXN, which saves the spine where it can, would wait for NVLink besides.
    assert least.seconds == least.latency == pytest.approx(2.7e-6 + 2 * 0.33e-6)
    with pytest.raises(NetworkError, match="needs no bound"):
        bound(Collective.SEND_RECV, nvswitch_node(), 1)
