"""Lab 12: schedules of a ring all-reduce, of a hierarchical all-reduce and of an all-to-all, as data."""

from __future__ import annotations

from autograder.spec.records import RecordCase
from autograder.spec.schedules import Exchange, ScheduleTask, SendBudget
from autograder.spec.sizes import every
from autograder.spec.task import Dimensions
from systems.network.clusters import Fabric, cluster
from systems.network.collectives import Collective
from systems.network.topology import Topology

MIB = 1 << 20


def _ranks(size: Dimensions) -> int:
    return size["nodes"] * size["per_node"]


def _rails(size: Dimensions) -> Topology:
    """Nodes whose traffic between rails shares spines that carry a quarter of what the leaves take in from below."""
    fabric = Fabric(pxn=False, oversubscription=4, nodes_per_leaf=size["nodes"])
    return cluster(size["nodes"], size["per_node"], fabric=fabric)


RING = Exchange(
    function="ring_all_reduce",
    collective=Collective.ALL_REDUCE,
    ranks=lambda size: size["ranks"],
    chunks=lambda size: size["ranks"] * size["pieces"],
    correctness=(
        RecordCase("ring: two ranks", {"ranks": 2, "pieces": 1}, timed=True),
        RecordCase("ring: four ranks", {"ranks": 4, "pieces": 1}, timed=True),
        RecordCase("ring: eight ranks", {"ranks": 8, "pieces": 1}, timed=True),
        RecordCase("ring: three ranks", {"ranks": 3, "pieces": 2}, run=True),
        RecordCase("ring: odd", {"ranks": 7, "pieces": 2}, every(ranks=(5, 7, 9, 11), pieces=(1, 2, 3))),
        RecordCase("ring: hidden", {"ranks": 10, "pieces": 3}, every(ranks=range(4, 18), pieces=range(1, 5)), True),
    ),
    modelled=RecordCase("ring: modelled", {"ranks": 8, "pieces": 1}, every(ranks=range(6, 17), pieces=(1, 2))),
    network=lambda size: cluster(1, size["ranks"]),
    size=256 * MIB,
    budgets=(
        SendBudget("peers", lambda size, bytes: 1, "Let every rank send to one other, the next in the ring."),
        SendBudget(
            "sent_bytes",
            lambda size, bytes: 2 * (size["ranks"] - 1) / size["ranks"] * bytes,
            "Let a rank send a chunk that is not reduced yet once, and one that is once more.",
        ),
    ),
)

HIERARCHICAL = Exchange(
    function="hierarchical_all_reduce",
    collective=Collective.ALL_REDUCE,
    ranks=_ranks,
    chunks=lambda size: _ranks(size) * size["pieces"],
    correctness=(
        RecordCase("hierarchical: two by two", {"nodes": 2, "per_node": 2, "pieces": 1}, run=True),
        RecordCase("hierarchical: a node of two", {"nodes": 1, "per_node": 2, "pieces": 1}, timed=True),
        RecordCase("hierarchical: a node of four", {"nodes": 1, "per_node": 4, "pieces": 1}, timed=True),
        RecordCase("hierarchical: a node of eight", {"nodes": 1, "per_node": 8, "pieces": 1}, timed=True),
        RecordCase("hierarchical: one node, pieces", {"nodes": 1, "per_node": 4, "pieces": 2}),
        RecordCase("hierarchical: one GPU a node", {"nodes": 3, "per_node": 1, "pieces": 1}),
        RecordCase(
            "hierarchical: odd",
            {"nodes": 3, "per_node": 4, "pieces": 3},
            every(nodes=(3, 5), per_node=(3, 4, 5), pieces=(2, 3, 4)),
        ),
        RecordCase(
            "hierarchical: hidden",
            {"nodes": 3, "per_node": 8, "pieces": 2},
            every(nodes=(2, 3, 4, 5), per_node=(6, 7, 8), pieces=(1, 2, 3)),
            hidden=True,
        ),
    ),
    modelled=RecordCase(
        "hierarchical: modelled",
        {"nodes": 3, "per_node": 8, "pieces": 28},
        every(nodes=(2, 3), per_node=(8,), pieces=range(24, 31)),
    ),
    network=lambda size: cluster(size["nodes"], size["per_node"]),
    size=256 * MIB,
    budgets=(
        SendBudget(
            "node_bytes",
            lambda size, bytes: 2 * (size["nodes"] - 1) / size["nodes"] * bytes,
            "Add up inside the nodes first: what crosses the network is then one node's sum, and not one of each GPU.",
        ),
    ),
)

ALL_TO_ALL = Exchange(
    function="all_to_all",
    collective=Collective.ALL_TO_ALL,
    ranks=_ranks,
    chunks=lambda size: _ranks(size) ** 2,
    correctness=(
        RecordCase("all-to-all: two by two", {"nodes": 2, "per_node": 2}, run=True),
        RecordCase("all-to-all: a node of two", {"nodes": 1, "per_node": 2}, timed=True),
        RecordCase("all-to-all: a node of four", {"nodes": 1, "per_node": 4}, timed=True),
        RecordCase("all-to-all: a node of eight", {"nodes": 1, "per_node": 8}, timed=True),
        RecordCase("all-to-all: a node of three", {"nodes": 1, "per_node": 3}),
        RecordCase("all-to-all: one GPU a node", {"nodes": 4, "per_node": 1}),
        RecordCase("all-to-all: odd", {"nodes": 3, "per_node": 5}, every(nodes=(3, 5), per_node=(3, 5, 7))),
        RecordCase(
            "all-to-all: hidden",
            {"nodes": 4, "per_node": 6},
            every(nodes=(2, 3, 4, 5), per_node=(4, 6, 8)),
            hidden=True,
        ),
    ),
    modelled=RecordCase(
        "all-to-all: modelled", {"nodes": 4, "per_node": 8}, every(nodes=(3, 4, 5, 6, 7), per_node=(8,))
    ),
    network=_rails,
    size=64 * MIB,
    budgets=(
        SendBudget(
            "spine_bytes",
            lambda size, bytes: 0,
            "Hand every chunk, inside its node, to the GPU that is on its destination's rail: from there it needs no "
            "spine.",
        ),
        SendBudget(
            "sent_bytes",
            lambda size, bytes: 2 * (_ranks(size) - 1) / _ranks(size) * bytes,
            "No chunk needs more than one stop on its way.",
        ),
    ),
)

TASK = ScheduleTask((RING, HIERARCHICAL, ALL_TO_ALL), on_gpus=9)
