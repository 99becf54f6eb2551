"""NCCL's model against tables and choices that NCCL itself printed, and against figures derived by hand."""

import pytest

from systems.network.collectives import Collective
from systems.network.links import NetworkError
from systems.network.nccl import Graph, Machine, Method, Protocol, choose, constants, crossovers, find_machine, table

H100 = find_machine("8 x H100, NVSwitch")

# NCCL 2.29.7's own table (NCCL_DEBUG_SUBSYS=TUNING) on two ranks, each a node of its own, over sockets:
# eunomia-bpf/nccl-eBPF, docs/tmp. Its search found 4.8 GB/s for a tree's and 2.4 for a ring's channels; LL128 was off.
SOCKETS = Machine(
    "two RTX 5090 over sockets", "blackwell", 2, 1,
    {Method.TREE: Graph(2, 2.4, 2.4), Method.RING: Graph(2, 1.2, 1.2), Method.PAT: Graph(2, 2.4, 2.4)},
    hop="pcie", ll128=False, pattern_tree=True,
)  # fmt: skip
PRINTED = {
    Collective.ALL_REDUCE: {
        (Method.TREE, Protocol.LL): (16.8, 0.5),
        (Method.TREE, Protocol.LL128): (31.0, 0.0),
        (Method.TREE, Protocol.SIMPLE): (36.4, 1.9),
        (Method.RING, Protocol.LL): (16.6, 1.2),
        (Method.RING, Protocol.LL128): (31.0, 0.0),
        (Method.RING, Protocol.SIMPLE): (36.4, 2.4),
    },
    Collective.ALL_GATHER: {
        (Method.RING, Protocol.LL): (11.6, 2.4),
        (Method.RING, Protocol.LL128): (22.5, 0.0),
        (Method.RING, Protocol.SIMPLE): (22.4, 4.8),
        (Method.PAT, Protocol.SIMPLE): (17.6, 3.6),
    },
    Collective.BROADCAST: {
        (Method.RING, Protocol.LL): (9.3, 1.2),
        (Method.RING, Protocol.LL128): (18.0, 0.0),
        (Method.RING, Protocol.SIMPLE): (22.4, 2.4),
    },
}
PRINTED[Collective.REDUCE_SCATTER] = PRINTED[Collective.ALL_GATHER]
PRINTED[Collective.REDUCE] = PRINTED[Collective.BROADCAST]


@pytest.mark.parametrize("collective", PRINTED)
def test_the_table_is_the_one_that_nccl_printed(collective: Collective) -> None:
    entries = {(e.method, e.protocol): (e.latency * 1e6, e.bandwidth / 1e9) for e in table(SOCKETS, collective)}
    assert entries.keys() == PRINTED[collective].keys()
    for key, (latency, bandwidth) in PRINTED[collective].items():
        assert entries[key] == pytest.approx((latency, bandwidth), abs=0.051), key  # printed with one decimal


@pytest.mark.parametrize("power", range(10, 28))
def test_the_broadcasts_that_nccl_printed(power: int) -> None:
    """It took LL up to 16,384 bytes and Simple from 32,768, as its log says size by size."""
    taken = choose(SOCKETS, Collective.BROADCAST, 1 << power).entry
    assert (taken.method, taken.protocol) == (Method.RING, Protocol.LL if power <= 14 else Protocol.SIMPLE)


@pytest.mark.parametrize("collective", [Collective.ALL_GATHER, Collective.REDUCE_SCATTER])
@pytest.mark.parametrize("power", range(4, 27))
def test_the_gathers_that_nccl_printed(collective: Collective, power: int) -> None:
    """It took a ring over LL up to 16,384 bytes, PAT at 32,768 and a ring over Simple from there on.

    The log has the bytes of one rank's part; the tuner, and this model, those of both ranks' parts together.
    """
    small, large = (Method.RING, Protocol.LL), (Method.RING, Protocol.SIMPLE)
    printed = small if power <= 14 else (Method.PAT, Protocol.SIMPLE) if power == 15 else large
    taken = choose(SOCKETS, collective, 2 << power).entry
    assert (taken.method, taken.protocol) == printed


def test_latencies_of_eight_gpus_on_nvlink() -> None:
    """By hand: 14 ring hops, or 14 tree hops (up and down a chain of 8), each after the base latency."""
    entries = {(e.method, e.protocol): e.latency * 1e6 for e in table(H100, Collective.ALL_REDUCE)}
    expected = {
        Method.RING: (6.6 + 14 * 0.6, 14 + 14 * 1.9, 8.4 + 14 * 3.4),
        Method.TREE: (6.8 + 14 * 0.6, 14 + 14 * 1.25, 8.4 + 14 * 4.0),
    }
    for method, latencies in expected.items():
        assert [entries[method, protocol] for protocol in Protocol] == pytest.approx(latencies)
    assert [round(entries[Method.RING, p]) for p in Protocol] == [15, 41, 56]
    assert [int(entries[Method.TREE, p] + 0.5) for p in Protocol] == [15, 32, 64]
    assert entries[Method.NVLS, Protocol.SIMPLE] == pytest.approx(25)


def test_bandwidths_of_eight_gpus_on_nvlink() -> None:
    entries = {(e.method, e.protocol): e.bandwidth / 1e9 for e in table(H100, Collective.ALL_REDUCE)}
    algbw = 8 / 14  # of a ring's bus bandwidth
    assert entries[Method.RING, Protocol.SIMPLE] == pytest.approx(12 * 30 * algbw)
    assert entries[Method.RING, Protocol.LL128] == pytest.approx(12 * 30 * 0.92 * algbw)
    assert entries[Method.RING, Protocol.LL] == pytest.approx(141 * algbw)  # the ceiling, not half of 360
    assert entries[Method.TREE, Protocol.SIMPLE] == pytest.approx(12 * 30 * 0.92 / 2)
    # Each channel: 40 x 0.85 x 7/8 x 2 = 59.5, below the 60 between nodes.
    assert entries[Method.NVLS, Protocol.SIMPLE] == pytest.approx(8 * 59.5 * algbw)


def test_what_is_taken_as_all_reduce_grows() -> None:
    steps = crossovers(H100, Collective.ALL_REDUCE)
    sizes = [size for size, _ in steps]
    assert sizes == sorted(sizes) and sizes[0] == 1
    assert steps[0][1].protocol is Protocol.LL
    assert (steps[-1][1].method, steps[-1][1].protocol) == (Method.NVLS, Protocol.SIMPLE)
    without = Machine(**{**vars(H100), "graphs": {m: g for m, g in H100.graphs.items() if m is not Method.NVLS}})
    kinds = [entry.protocol for _, entry in crossovers(without, Collective.ALL_REDUCE)]
    assert kinds.index(Protocol.LL) < kinds.index(Protocol.LL128) < kinds.index(Protocol.SIMPLE)


def test_between_many_nodes_a_tree_wins_small_sizes_and_a_ring_large_ones() -> None:
    graphs = {Method.TREE: Graph(12, 30, 30), Method.RING: Graph(12, 30, 30)}
    big = Machine("64 nodes", "hopper", 64, 8, graphs)
    assert choose(big, Collective.ALL_REDUCE, 1 << 12).entry.method is Method.TREE
    assert choose(big, Collective.ALL_REDUCE, 1 << 36).entry.method is Method.RING
    # 1,022 ring steps: 896 behind a post of 1 us, 126 over the network; 2 x 6 tree hops over it.
    latency = {(e.method, e.protocol): e.latency * 1e6 for e in table(big, Collective.ALL_REDUCE)}
    assert latency[Method.RING, Protocol.LL] == pytest.approx(6.6 + 896 * 1.0 + 126 * 2.7)
    assert latency[Method.TREE, Protocol.LL] == pytest.approx(6.8 + 14 * 0.6 + 12 * 5.0)


def test_the_reason_names_both() -> None:
    choice = choose(H100, Collective.ALL_REDUCE, 1 << 30)
    assert choice.reason.startswith("nvls with simple takes ")
    assert "times faster than ring with simple, which has both" in choice.reason
    assert [time for _, time in choice.candidates] == sorted(time for _, time in choice.candidates)
    lines = choice.table().splitlines()
    assert len(lines) == 1 + 7 and lines[1].split()[:3] == ["nvls", "simple", "25.0"]
    assert float(lines[1].split()[-1]) == pytest.approx(choice.seconds * 1e6, abs=0.1)


def test_what_nccl_has_no_answer_for() -> None:
    with pytest.raises(NetworkError, match="tunes no all_to_all"):
        choose(H100, Collective.ALL_TO_ALL, 1024)
    with pytest.raises(NetworkError, match="of 0 bytes"):
        choose(H100, Collective.ALL_REDUCE, 0)
    with pytest.raises(NetworkError, match="no machine named 'DGX-2'"):
        find_machine("DGX-2")


def test_the_file_says_what_was_read() -> None:
    assert constants().version == "2.30.7" and "5067397c" in constants().source
