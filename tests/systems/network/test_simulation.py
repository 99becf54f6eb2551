"""The simulator against closed forms, a slow and exact one, and what contention and failures must do."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from systems.network.clusters import Fabric, cluster, dgx1, nvl72, nvswitch_node, pcie_server, tpu_torus
from systems.network.collectives import Collective
from systems.network.costs import Algorithm, Level, cost, hierarchical, node_cap, pipeline
from systems.network.links import NetworkError
from systems.network.schedules import Op, Phase, Schedule, Transfer, build
from systems.network.simulation import events, max_min, simulate, waves
from systems.network.simulation.traffic import classify, exclusive, lay
from tests.sampling import WHOLE
from tests.systems.network import slow_simulator
from warplab.hardware.tpus import TPU_V5P

AR, AG, RS, A2A = Collective.ALL_REDUCE, Collective.ALL_GATHER, Collective.REDUCE_SCATTER, Collective.ALL_TO_ALL
SIZES = (0, 4096, 10**6, 10**9)
ALPHA, PORT = 0.6e-6, 450e9


@st.composite
def sharing(draw: st.DrawFn) -> tuple[list[int], list[list[int]]]:
    """Capacities of a few links, and the links of a few flows."""
    capacity = draw(st.lists(st.integers(1, 20), min_size=1, max_size=6))
    way = st.lists(st.integers(0, len(capacity) - 1), min_size=1, max_size=4, unique=True)
    return capacity, draw(st.lists(way, min_size=1, max_size=8))


def rates(capacity: list[int], ways: list[list[int]]) -> np.ndarray:
    flows = np.repeat(np.arange(len(ways)), [len(way) for way in ways])
    links = np.array(list(itertools.chain(*ways)))
    return max_min(np.array(capacity, float), links, flows, np.ones(len(flows)), len(ways))


@settings(max_examples=200, deadline=None)
@given(sharing())
def test_rates_are_max_min_fair(case: tuple[list[int], list[list[int]]]) -> None:
    """By definition: no link is overfull, and each flow has a full link on which nobody gets more than it does."""
    capacity, ways = case
    found = rates(capacity, ways)
    load = [sum(found[f] for f, way in enumerate(ways) if link in way) for link in range(len(capacity))]
    assert all(used <= room * (1 + 1e-9) for used, room in zip(load, capacity, strict=True))
    for flow, way in enumerate(ways):
        assert any(
            load[link] >= capacity[link] * (1 - 1e-9)
            and all(found[other] <= found[flow] * (1 + 1e-9) for other, its in enumerate(ways) if link in its)
            for link in way
        )
    exact = slow_simulator.fair({i: Fraction(c) for i, c in enumerate(capacity)}, dict(enumerate(ways)))
    assert found.tolist() == pytest.approx([float(exact[flow]) for flow in range(len(ways))])


@settings(max_examples=50, deadline=None)
@given(sharing(), st.integers(2, 5))
def test_one_flow_may_stand_for_many(case: tuple[list[int], list[list[int]]], many: int) -> None:
    capacity, ways = case
    flows = np.repeat(np.arange(len(ways)), [len(way) for way in ways])
    links = np.array(list(itertools.chain(*ways)))
    counts = np.where(flows == 0, float(many), 1.0)
    lumped = max_min(np.array(capacity, float), links, flows, counts, len(ways))
    listed = rates(capacity, ways + [ways[0]] * (many - 1))
    assert lumped.tolist() == pytest.approx(listed[: len(ways)].tolist())


def test_a_flow_that_uses_no_link_is_not_limited() -> None:
    assert max_min(np.ones(1), np.zeros(1, int), np.zeros(1, int), np.ones(1), 2).tolist() == [1, np.inf]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("schedule", "algorithm"),
    [
        *((build.ring(kind, 8), Algorithm.RING) for kind in (AR, AG, RS)),
        *((build.one_shot(kind, 8), Algorithm.ONE_SHOT) for kind in (AR, AG, RS)),
        (build.two_shot_all_reduce(8), Algorithm.TWO_SHOT),
        *((build.halving_doubling(kind, 8), Algorithm.HALVING_DOUBLING) for kind in (AR, AG, RS)),
        (build.all_to_all(8), Algorithm.DIRECT),
        (build.all_to_all(8, pairwise=True), Algorithm.PAIRWISE),
        (build.binomial(Collective.BROADCAST, 8), Algorithm.TREE),
        (build.binomial(Collective.REDUCE, 8, root=5), Algorithm.TREE),
    ],
    ids=lambda v: getattr(v, "name", str(v)),
)
def test_behind_an_nvswitch_everything_takes_its_closed_form(schedule: Schedule, algorithm, size: int) -> None:
    closed = cost(schedule.collective, algorithm, 8).time(size, ALPHA, PORT)
    assert simulate(schedule, nvswitch_node(), size).seconds == pytest.approx(closed, rel=1e-9)


@pytest.mark.parametrize("pieces", [1, 4, 32])
def test_a_chain_takes_its_closed_form_and_two_trees_at_most_theirs(pieces: int) -> None:
    node, size = nvswitch_node(16), 10**8
    chain = pipeline(Collective.BROADCAST, Algorithm.PIPELINED_RING, 16).time(size, ALPHA, PORT, pieces)
    assert simulate(build.chain(Collective.BROADCAST, 16, pieces), node, size).seconds == pytest.approx(chain)
    tree = pipeline(AR, Algorithm.PIPELINED_TREE, 16).time(size, ALPHA, PORT, pieces)
    found = simulate(build.double_tree_all_reduce(16, pieces), node, size).seconds
    # The closed form has every beat as busy as the busiest; the port's share of all pieces is the least.
    assert 2 * (15 / 16) * size / PORT < found <= tree


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("nodes", [2, 16, 32] if WHOLE else [2, 16])
def test_a_hierarchy_on_rails_takes_its_closed_form(nodes: int, size: int) -> None:
    closed = hierarchical(AR, size, Level(8, ALPHA, PORT), Level(nodes, 2.7e-6, 50e9))
    found = simulate(build.hierarchical_all_reduce(nodes), cluster(nodes), size)
    assert found.seconds == pytest.approx(closed, rel=1e-9)
    closed = hierarchical(A2A, size, Level(8, ALPHA, PORT), Level(nodes, 2.7e-6, 50e9))
    if nodes < 32:
        found = simulate(build.hierarchical_all_to_all(nodes), cluster(nodes), size)
        # In its own node the second step is a rank's own share, which stays where it is.
        assert found.seconds == pytest.approx(closed, rel=1e-9)


@pytest.mark.parametrize("ranks", [64, 1024, 16384] if WHOLE else [64, 1024])
def test_one_ring_over_many_nodes_goes_at_the_pace_of_its_slowest_hop(ranks: int) -> None:
    """Every rank waits for its neighbours, so each step takes as long as the slowest hop."""
    size, pod = 10**9, cluster(ranks // 8, fabric=Fabric(nodes_per_leaf=ranks // 8))
    step = 2.7e-6 + 0.6e-6 + size / ranks / 50e9  # over NVLink to the GPU on the rail, then over the NICs
    found = simulate(build.ring(AR, ranks), pod, size)
    assert found.method == "waves"
    assert found.seconds == pytest.approx(2 * (ranks - 1) * step, rel=0.01)


SMALL = [
    (build.ring(AR, 8), dgx1()),
    (build.ring(AR, 8), pcie_server(8)),
    (build.two_shot_all_reduce(8), pcie_server(8)),
    (build.one_shot(AG, 8), dgx1()),
    (build.all_to_all(8), dgx1()),
    (build.ring(AR, 8, build.node_rings(2, 4)), cluster(2, 4)),
    (build.ring(AR, 8, build.node_rings(2, 4)), cluster(2, 4).slowed("gpu 5", 3)),
    (build.ring(AR, 8, build.node_rings(2, 4)), cluster(2, 4).without("nic 1", "leaf 1")),
    (build.ring(AG, 12), cluster(3, 4, fabric=Fabric(nodes_per_leaf=2, oversubscription=2, wiring="node"))),
    (build.hierarchical_all_reduce(3, 4), cluster(3, 4, fabric=Fabric(nics=2, nodes_per_leaf=1))),
    (build.double_tree_all_reduce(7, 3), nvswitch_node(7)),
    (build.hierarchical_all_to_all(3, 2), cluster(3, 2, fabric=Fabric(wiring="node", nodes_per_leaf=1))),
    (build.all_to_all(8), cluster(4, 2, fabric=Fabric(wiring="node", nodes_per_leaf=1, spines=2, routing="ecmp"))),
    (build.ring(AR, 8), tpu_torus(TPU_V5P, 2, 2, 2)),
    (build.all_to_all(9), tpu_torus(TPU_V5P, 3, 3)),
]


@pytest.mark.parametrize("size", [0, 999, 10**7])
@pytest.mark.parametrize(("schedule", "topology"), SMALL, ids=lambda v: v.name)
def test_it_agrees_with_a_slow_and_exact_simulator(schedule: Schedule, topology, size: int) -> None:
    if not size:
        found, slow = simulate(schedule, topology, 0).seconds, slow_simulator.seconds(schedule, topology, 1)
        assert found == pytest.approx(slow, abs=1e-8)  # a byte
        return
    assert simulate(schedule, topology, size).seconds == pytest.approx(
        slow_simulator.seconds(schedule, topology, size), rel=1e-9
    )


@st.composite
def any_schedule(draw: st.DrawFn) -> Schedule:
    """Transfers without a meaning, some of them repeated: the simulator only times them."""
    ranks = draw(st.integers(2, 6))
    pair = st.tuples(st.integers(0, ranks - 1), st.integers(0, ranks - 1)).filter(lambda p: p[0] != p[1])
    phases = []
    for _ in range(draw(st.integers(1, 2))):
        moves = draw(st.lists(st.tuples(st.integers(0, 2), pair), min_size=1, max_size=6))
        transfers = tuple(Transfer(step, one, other, 0, Op.COPY) for step, (one, other) in moves)
        phases.append(Phase(transfers, draw(st.integers(1, 9))))
    return Schedule("drawn", AR, ranks, 1, tuple(phases))


@settings(max_examples=60, deadline=None)
@given(any_schedule(), st.integers(1, 10**7), st.sampled_from([1, 3]))
def test_drawn_schedules_agree_with_the_slow_simulator(schedule: Schedule, size: int, slower: int) -> None:
    topology = pcie_server(schedule.ranks).slowed("gpu 0", slower)
    assert simulate(schedule, topology, size).seconds == pytest.approx(
        slow_simulator.seconds(schedule, topology, size), rel=1e-9
    )


@pytest.mark.parametrize(
    ("schedule", "topology"),
    [
        (build.ring(AR, 64), cluster(8, fabric=Fabric(nodes_per_leaf=2))),
        (build.ring(AR, 64), cluster(8).slowed("gpu 13", 20)),
        (build.chain(Collective.BROADCAST, 16, 9), nvswitch_node(16)),
    ],
    ids=lambda v: v.name,
)
def test_both_ways_of_simulating_agree(schedule: Schedule, topology) -> None:
    traffic = lay(schedule, topology, 10**8)
    assert exclusive(traffic)
    assert events.run(traffic, classify(traffic)).tolist() == pytest.approx(waves.run(traffic).tolist(), rel=1e-9)


def with_repeats(repeats: int) -> Schedule:
    """Ranks 0, 3 and 6 of 8 rest, the others exchange chunks and share links; a phase before and one after."""
    pairs = ((1, 2), (2, 4), (4, 5), (7, 5), (5, 1))
    moves = tuple(Transfer(step, one, other, 0) for step in (0, 1) for one, other in pairs)
    return Schedule("some", AR, 8, 1, (Phase(moves[:1]), Phase(moves, repeats), Phase(moves[1:2])))


def test_skipped_repeats_change_nothing() -> None:
    exact = slow_simulator.seconds(with_repeats(20), pcie_server(8), 10**6)
    assert simulate(with_repeats(20), pcie_server(8), 10**6).seconds == pytest.approx(exact, rel=1e-9)


def test_repeats_are_skipped_where_some_ranks_have_no_part_in_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MOST_EVENTS", 200)
    many, more = (simulate(with_repeats(count), pcie_server(8), 10**6).seconds for count in (10**5, 2 * 10**5))
    few, some = (simulate(with_repeats(count), pcie_server(8), 10**6).seconds for count in (10, 20))
    assert (more - many) / (some - few) == pytest.approx(1e4)


@pytest.mark.parametrize("ranks", [64, 256] if WHOLE else [64])
def test_classes_change_nothing(ranks: int) -> None:
    """Everything for itself is a partition too: the result must be the same."""
    schedule = build.ring(AR, ranks, build.node_rings(ranks // 8, 8))
    traffic = lay(schedule, cluster(ranks // 8, fabric=Fabric(nodes_per_leaf=4)), 10**8)
    few = classify(traffic)
    assert few.rank.max() + 1 < ranks and not exclusive(traffic)
    unlike = cluster(ranks // 8, fabric=Fabric(nodes_per_leaf=4))
    unlike.latency[:] *= 1 + np.arange(len(unlike.latency)) * 1e-13  # a difference that only tells all apart
    alone = lay(schedule, unlike, 10**8)
    many = classify(alone)
    assert many.rank.max() + 1 > 0.9 * ranks
    assert events.run(traffic, few).max() == pytest.approx(events.run(alone, many).max(), rel=1e-6)


def test_a_rank_fewer_than_all_shares_no_class_with_the_slow_one() -> None:
    traffic = lay(build.all_to_all(8), nvswitch_node().slowed("gpu 3", 2), 10**6)
    found = classify(traffic).rank
    assert (found == found[3]).sum() == 1 and len(set(found.tolist())) == 2


def test_a_nodes_nics_cap_it_and_naive_sums_do_not() -> None:
    """Sixteen nodes: rings over all NICs come near the cap; one ring has one NIC a node."""
    naive, cap = node_cap(AR, 128, 8, PORT, 8, 50e9)
    size, pod = 2 * 10**10, cluster(16)
    rings = simulate(build.ring(AR, 128, build.node_rings(16, 8)), pod, size)
    assert naive > size / rings.seconds > 0.9 * cap and size / rings.seconds < cap
    assert any("nic" in name for name, share in rings.busiest(1) if share > 0.95)
    one = simulate(build.ring(AR, 128), pod, size)
    assert one.seconds / rings.seconds == pytest.approx(8, rel=0.02)
    few = simulate(build.ring(AR, 128, build.node_rings(16, 8)), cluster(16, fabric=Fabric(nics=4)), size)
    assert few.seconds / rings.seconds == pytest.approx(2, rel=0.02)


def test_an_oversubscribed_spine_slows_what_crosses_it_by_its_factor() -> None:
    size = 10**9

    def seconds(factor: float, wiring: str = "node") -> float:
        fabric = Fabric(wiring=wiring, nodes_per_leaf=2, oversubscription=factor)
        return simulate(build.all_to_all(32), cluster(4, 8, fabric=fabric), size).seconds

    # 16 of 31 others are behind the spine; with 2:1 the trunks take as long for them as NICs would for 32.
    assert seconds(1) == pytest.approx(24 / 32 * size / 50e9, rel=0.001)
    assert seconds(2) == pytest.approx(2 * 16 / 32 * size / 50e9, rel=0.001)
    assert seconds(4) == pytest.approx(4 * 16 / 32 * size / 50e9, rel=0.001)


def test_hashed_routes_collide_where_adaptive_ones_do_not() -> None:
    size, schedule = 10**9, build.all_to_all(32, pairwise=True)
    fabric = {"wiring": "node", "nodes_per_leaf": 2, "spines": 16}
    adaptive = simulate(schedule, cluster(4, 8, fabric=Fabric(**fabric)), size)
    hashed = simulate(schedule, cluster(4, 8, fabric=Fabric(**fabric, routing="ecmp")), size)
    assert 1.2 < hashed.seconds / adaptive.seconds < 6


def test_a_slow_rank_slows_a_ring_for_all() -> None:
    node, size = nvswitch_node(), 10**9
    fast, slow = (simulate(build.ring(AR, 8), net, size) for net in (node, node.slowed("gpu 3", 4)))
    assert slow.seconds / fast.seconds == pytest.approx(4, rel=0.01)
    assert slow.bus_bandwidth == pytest.approx(fast.bus_bandwidth / 4, rel=0.01)


def test_a_cut_nic_shares_its_neighbours() -> None:
    """Hierarchical all-reduce: two rails on one NIC, so the part between nodes takes twice as long."""
    size = 10**9
    whole, cut = cluster(8), cluster(8).without("nic 3", "leaf 3")
    healthy, broken = (simulate(build.hierarchical_all_reduce(8), net, size).seconds for net in (whole, cut))
    across = 2 * 7 / 8 * size / 8 / 50e9
    assert broken - healthy == pytest.approx(across, rel=0.05)


def test_a_torus_carries_a_ring_along_its_neighbours() -> None:
    """A ring through a 4 x 4 torus in the order of a snake: every hop is one link, nothing shared."""
    snake = [row * 4 + (col if row % 2 == 0 else 3 - col) for row in range(4) for col in range(4)]
    found = simulate(build.ring(AR, 16, [snake]), tpu_torus(TPU_V5P, 4, 4), 10**9)
    closed = cost(AR, Algorithm.RING, 16).time(10**9, 1e-6, TPU_V5P.ici / 2 / 4)
    assert found.seconds == pytest.approx(closed) and found.method == "waves"


def test_a_rack_of_72_is_one_node() -> None:
    closed = cost(AR, Algorithm.TWO_SHOT, 72).time(10**9, ALPHA, 900e9)
    assert simulate(build.two_shot_all_reduce(72), nvl72(), 10**9).seconds == pytest.approx(closed)


@pytest.mark.slow
def test_sixteen_thousand_ranks_share_links_and_are_simulated() -> None:
    """Eight rings, 4 billion transfers: the bandwidth of eight NICs a node and the latency of the longest hop."""
    ranks, size = 16384, 10**11
    found = simulate(build.ring(AR, ranks, build.node_rings(2048, 8)), cluster(2048), size)
    assert found.method == "events" and found.classes <= 256
    # NVLink to the GPU on the rail, PCIe and NIC, leaf, spine, leaf, and back: every 32 nodes a ring crosses the spine.
    hop = 0.6e-6 + 2.7e-6 + 2 * 0.33e-6
    assert found.seconds == pytest.approx(2 * (ranks - 1) * (hop + size / ranks / 400e9), rel=0.001)


def test_what_links_carry_is_what_ranks_send() -> None:
    found = simulate(build.ring(AR, 8), nvswitch_node(), 8000)
    assert found.link_bytes.tolist() == [14 * 1000.0] * 16
    assert found.done.shape == (8,)


def test_what_cannot_be_simulated_is_said() -> None:
    circle = (Transfer(0, 0, 1, 0, received=1), Transfer(0, 1, 0, 0, received=1))
    deadlock = Schedule("circle", AR, 2, 1, (Phase(circle),))
    with pytest.raises(NetworkError, match="has a deadlock at rank 0"):
        simulate(deadlock, nvswitch_node(2), 1)
    with pytest.raises(NetworkError, match="is for 4 ranks, but 8 GPUs on nvlink4 has 8"):
        simulate(build.ring(AR, 4), nvswitch_node(), 1)
    with pytest.raises(NetworkError, match="size of -1 bytes"):
        simulate(build.ring(AR, 8), nvswitch_node(), -1)
    endless = Schedule("endless", AR, 8, 1, (Phase((Transfer(0, 0, 1, 0),), 1 << 30),))
    with pytest.raises(NetworkError, match="repeats a phase more than"):
        simulate(endless, nvswitch_node(), 1)
    with pytest.raises(NetworkError, match="nothing to simulate"):
        simulate(Schedule("empty", AR, 8, 1, ()), nvswitch_node(), 1)
