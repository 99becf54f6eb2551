"""Closed forms against exchanges carried out by hand, the bounds that they may not break, and published figures."""

from math import log2

import pytest

from systems.network.collectives import Collective, bus_bandwidth, bus_factor
from systems.network.costs import (
    Algorithm,
    Cost,
    Level,
    algorithms,
    cost,
    hierarchical,
    least,
    node_cap,
    pipeline,
)
from systems.network.links import NetworkError

AR = Collective.ALL_REDUCE
SIZES = (2, 4, 8, 16, 256)
ALL = [(kind, way) for kind in Collective if kind is not Collective.SEND_RECV for way in algorithms(kind)]


@pytest.mark.parametrize(
    ("collective", "factor"),
    [
        (Collective.ALL_REDUCE, 2 * 7 / 8),
        (Collective.ALL_GATHER, 7 / 8),
        (Collective.REDUCE_SCATTER, 7 / 8),
        (Collective.ALL_TO_ALL, 7 / 8),
        (Collective.BROADCAST, 1),
        (Collective.REDUCE, 1),
        (Collective.SEND_RECV, 1),
    ],
)
def test_bus_factors_are_those_of_nccl_tests(collective: Collective, factor: float) -> None:
    assert bus_factor(collective, 8) == factor
    assert bus_bandwidth(collective, 8, 1e9, 0.01) == pytest.approx(1e11 * factor)


@pytest.mark.parametrize(("collective", "algorithm"), ALL)
@pytest.mark.parametrize("ranks", SIZES)
def test_no_exchange_of_messages_goes_below_the_bounds(collective, algorithm, ranks: int) -> None:
    this, bound = cost(collective, algorithm, ranks), least(collective, ranks)
    if algorithm in (Algorithm.SWITCH, Algorithm.SHARP):
        assert this.messages <= 2
        return
    assert this.volume >= bound.volume * (1 - 1e-12)
    direct = {Algorithm.ONE_SHOT, Algorithm.TWO_SHOT, Algorithm.DIRECT}  # they send many messages at a time
    assert algorithm in direct or this.messages >= bound.messages


def test_a_ring_on_a_full_port_has_the_ports_bus_bandwidth() -> None:
    for collective in (Collective.ALL_REDUCE, Collective.ALL_GATHER, Collective.REDUCE_SCATTER):
        time = cost(collective, Algorithm.RING, 8).time(1e9, 0, 450e9)
        assert bus_bandwidth(collective, 8, 1e9, time) == pytest.approx(450e9)


def test_the_switch_halves_large_all_reduces_and_the_tree_small_ones() -> None:
    ring, switch = (cost(Collective.ALL_REDUCE, a, 1024) for a in (Algorithm.RING, Algorithm.SWITCH))
    assert ring.volume / switch.volume == pytest.approx(2, rel=0.003)
    assert ring.messages / cost(Collective.ALL_REDUCE, Algorithm.TREE, 1024).messages == pytest.approx(2046 / 20)


def test_a_network_that_reduces_needs_half_of_the_nics() -> None:
    node, network = Level(8, 0, 1e30), Level(64, 0, 50e9)
    ring, sharp = (hierarchical(AR, 1e9, node, network, outer=way) for way in (Algorithm.RING, Algorithm.SHARP))
    assert ring / sharp == pytest.approx(2 * 63 / 64)


def test_bruck_sends_the_blocks_of_a_carried_out_exchange() -> None:
    for ranks in (2, 3, 5, 8, 13):
        sent = rounds = 0
        bit = 1
        while bit < ranks:
            sent += sum(1 for distance in range(ranks) if distance & bit)
            rounds, bit = rounds + 1, bit * 2
        assert cost(Collective.ALL_TO_ALL, Algorithm.BRUCK, ranks) == Cost(rounds, sent / ranks)


def test_halving_and_doubling_folds_ranks_beyond_a_power_of_two() -> None:
    assert cost(Collective.ALL_REDUCE, Algorithm.HALVING_DOUBLING, 8) == Cost(6, 2 * 7 / 8)
    assert cost(Collective.ALL_REDUCE, Algorithm.HALVING_DOUBLING, 12) == Cost(8, 2 + 2 * 7 / 8)
    with pytest.raises(NetworkError, match="power of two, not 12"):
        cost(Collective.ALL_GATHER, Algorithm.HALVING_DOUBLING, 12)


def beats(depth: int, pieces: int) -> int:
    """A chain carried out: each beat, every vertex hands on the piece that it got in the beat before."""
    held = [pieces] + [0] * depth
    count = 0
    while held[-1] < pieces:
        before = held.copy()
        for vertex in range(1, depth + 1):
            if before[vertex - 1] > before[vertex]:
                held[vertex] += 1
        count += 1
    return count


@pytest.mark.parametrize(("ranks", "pieces"), [(2, 1), (4, 7), (9, 3), (16, 40)])
def test_a_pipelined_chain_takes_the_beats_of_a_carried_out_one(ranks: int, pieces: int) -> None:
    chain = pipeline(Collective.BROADCAST, Algorithm.PIPELINED_RING, ranks)
    assert chain.time(pieces, 1.0, float("inf"), pieces) == beats(ranks - 1, pieces)


@pytest.mark.parametrize("size", [1e3, 1e6, 1e9])
def test_the_best_number_of_pieces_is_the_best_of_all(size: float) -> None:
    chain = pipeline(Collective.BROADCAST, Algorithm.PIPELINED_RING, 16)
    times = {pieces: chain.time(size, 1e-6, 100e9, pieces) for pieces in range(1, 5000)}
    assert chain.best_pieces(size, 1e-6, 100e9) == min(times, key=lambda p: times[p])


def test_two_trees_reach_the_port_as_messages_grow() -> None:
    tree = pipeline(Collective.ALL_REDUCE, Algorithm.PIPELINED_TREE, 64)
    size = 1e12
    assert tree.time(size, 1e-6, 50e9, tree.best_pieces(size, 1e-6, 50e9)) == pytest.approx(2 * size / 50e9, rel=0.01)
    assert tree.time(1, 1e-6, 50e9, 1) == pytest.approx(2 * log2(64) * 1e-6, rel=0.01)


def test_half_of_the_bandwidth_is_reached_where_both_terms_are_equal() -> None:
    ring = cost(Collective.ALL_REDUCE, Algorithm.RING, 8)
    size = ring.half_size(1e-6, 450e9)
    assert ring.time(size, 1e-6, 450e9) == pytest.approx(2 * ring.time(size, 0, 450e9))


def test_a_hierarchy_moves_an_eighth_over_each_nic() -> None:
    node, network = Level(8, 0, 450e9), Level(16, 0, 50e9)
    by_hand = 2 * 7 / 8 / 450e9 + 2 * 15 / 16 / 8 / 50e9
    assert hierarchical(Collective.ALL_REDUCE, 1.0, node, network) == pytest.approx(by_hand)
    slow = Level(16, 1.0, 1e30)
    assert hierarchical(Collective.ALL_REDUCE, 1.0, Level(8, 1e-3, 1e30), slow) == pytest.approx(30 + 2e-3)
    # All messages inside the node, then one to each other node instead of one to each of its GPUs.
    assert hierarchical(Collective.ALL_TO_ALL, 1.0, node, network) == pytest.approx(7 / 8 / 450e9 + 15 / 16 / 50e9)
    with pytest.raises(NetworkError, match="no hierarchical form"):
        hierarchical(Collective.SEND_RECV, 1.0, node, network)


def test_nics_cap_a_node_whatever_its_nvlink() -> None:
    """Eight NICs of 50 GB/s: an all-reduce over many nodes cannot pass 200 GB/s."""
    naive, cap = node_cap(Collective.ALL_REDUCE, 1024, 8, 450e9, 8, 50e9)
    assert cap == pytest.approx(400e9 / (2 * 127 / 128)) and naive > 1.2 * cap
    _, inside = node_cap(Collective.ALL_REDUCE, 8, 8, 450e9, 8, 50e9)
    assert inside == pytest.approx(450e9 * 8 / 14)
    _, exchange = node_cap(Collective.ALL_TO_ALL, 1024, 8, 450e9, 8, 50e9)
    assert exchange == pytest.approx(50e9 * 1024 / 1016)


def test_what_an_algorithm_does_not_do_is_said() -> None:
    with pytest.raises(NetworkError, match="bruck does no all_reduce: it takes ring, tree"):
        cost(Collective.ALL_REDUCE, Algorithm.BRUCK, 8)
    with pytest.raises(NetworkError, match="two or more"):
        cost(Collective.ALL_REDUCE, Algorithm.RING, 1)
    with pytest.raises(NetworkError, match="no pipelined form"):
        pipeline(Collective.ALL_TO_ALL, Algorithm.RING, 4)
