"""Measures the network's simulator: how long it takes, and how far it is from closed forms where there are any.

`python -m benchmarks.network` writes benchmarks/results/network.json. No GPU; one processor. What is simulated is
modelled, not measured: the records say so.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator

from course import results
from course.results import Record
from systems.network.clusters import Fabric, cluster, nvswitch_node
from systems.network.collectives import Collective
from systems.network.costs import Algorithm, Level, cost, hierarchical, pipeline
from systems.network.schedules import Schedule, build
from systems.network.simulation import Simulated, simulate
from systems.network.topology import Topology

COMMAND = "python -m benchmarks.network"
RANKS = (2, 8, 64, 512, 4096, 16384)
SIZE = 10**9
NIC, NVLINK, PORT = 2.7e-6, 0.6e-6, 450e9
AR = Collective.ALL_REDUCE


def main() -> int:
    """Measure and write."""
    header = results.make_header(COMMAND)
    results.write(results.DIRECTORY / "network.json", header, list(measure()))
    return 0


def measure() -> Iterator[Record]:
    """Rings over 2 to 16,384 GPUs, one and one a NIC of a node; then other algorithms in a node and over nodes."""
    for ranks in RANKS:
        nodes, per_node = max(1, ranks // 8), min(ranks, 8)
        schedule, pod = build.ring(AR, ranks), cluster(nodes, per_node, fabric=Fabric(nodes_per_leaf=nodes))
        hop, rate = (NIC + NVLINK, 50e9) if nodes > 1 else (NVLINK, PORT)
        yield from _records("one ring", schedule, pod, cost(AR, Algorithm.RING, ranks).time(SIZE, hop, rate))
        if nodes > 1:
            schedule = build.ring(AR, ranks, build.node_rings(nodes, per_node))
            closed = cost(AR, Algorithm.RING, ranks).time(SIZE, hop, 8 * 50e9)
            yield from _records("eight rings", schedule, pod, closed)
            # Leaves of 32 nodes: a ring crosses the spine, two more switches each way.
            spine = 2 * 0.33e-6 if nodes > 32 else 0
            closed = cost(AR, Algorithm.RING, ranks).time(SIZE, hop + spine, 8 * 50e9)
            yield from _records("eight rings, leaves of 32 nodes", schedule, cluster(nodes, per_node), closed)
    for algorithm, schedule in {
        Algorithm.ONE_SHOT: build.one_shot(AR, 8),
        Algorithm.TWO_SHOT: build.two_shot_all_reduce(8),
        Algorithm.HALVING_DOUBLING: build.halving_doubling(AR, 8),
    }.items():
        yield from _records(algorithm.value, schedule, nvswitch_node(), cost(AR, algorithm, 8).time(SIZE, NVLINK, PORT))
    # A bound from above: it takes all beats to be as busy as the busiest.
    closed = pipeline(AR, Algorithm.PIPELINED_TREE, 64).time(SIZE, NVLINK, PORT, 20)
    yield from _records("two trees, 20 pieces", build.double_tree_all_reduce(64, 20), nvswitch_node(64), closed)
    closed = hierarchical(AR, SIZE, Level(8, NVLINK, PORT), Level(32, NIC, 50e9))
    yield from _records("hierarchical", build.hierarchical_all_reduce(32), cluster(32), closed)


def _records(name: str, schedule: Schedule, topology: Topology, closed: float) -> Iterator[Record]:
    begin = time.perf_counter()
    found: Simulated = simulate(schedule, topology, SIZE)
    wall = time.perf_counter() - begin
    shape = (schedule.ranks,)
    how = f"{found.method}, {schedule.transfers} transfers, {found.classes} classes of ranks"
    conditions = f"wall time on one of {os.cpu_count()} processors; {how}"
    yield Record(name, "simulation", wall, "s", shape=shape, conditions=conditions)
    yield Record(
        name,
        "modelled time",
        found.seconds,
        "s",
        shape=shape,
        baseline="closed form",
        baseline_value=closed,
        ratio=results.better(found.seconds, closed, "s"),
        conditions=f"all-reduce of {SIZE} bytes; modelled, not measured",
    )
    print(
        f"{name:32} {schedule.ranks:6} ranks {found.seconds:10.6f} s ({closed:.6f}), simulated in {wall:.2f} s, {how}"
    )


if __name__ == "__main__":
    sys.exit(main())
