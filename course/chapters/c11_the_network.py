"""Chapter 11: what its cells compute and draw beside the formulas, the networks and the schedules."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from IPython.display import Markdown
from matplotlib.figure import Figure

from course.chapters.spoken import spoken
from course.figures.cost_lines import CostLine, cost_lines
from course.figures.network_map import network_map
from course.lesson import table
from systems.network.bounds import bound
from systems.network.clusters import Fabric, cluster, dgx1, nvl72, nvswitch_node, tpu_torus
from systems.network.collectives import Collective, algorithm_bandwidth, bus_bandwidth
from systems.network.costs import Algorithm, Level, cost, hierarchical, least, pipeline
from systems.network.links import NetworkError, find_link
from systems.network.schedules import Phase, Schedule, Transfer, build, check
from systems.network.simulation import Simulated, simulate
from systems.network.topology import Topology
from warplab.hardware.tpus import TPU_V5P

ALL_REDUCE, ALL_TO_ALL = Collective.ALL_REDUCE, Collective.ALL_TO_ALL


KB, MB, GB = 1e3, 1e6, 1e9


NODES, LARGE = 2048, 16384


KINDS = (
    Algorithm.RING,
    Algorithm.HALVING_DOUBLING,
    Algorithm.TREE,
    Algorithm.ONE_SHOT,
    Algorithm.TWO_SHOT,
    Algorithm.SWITCH,
)


node, nic = nvswitch_node(), find_link("infiniband_ndr")


pod = cluster(4, fabric=Fabric(nodes_per_leaf=2))


alpha, port = node.alpha(0, 1), node.rate(0, 1)


SIZES = np.logspace(2, 9, 60).tolist()


def table_of_ports() -> Markdown:
    """Ports of GPUs and nodes: bandwidth each way, latency, and where the bandwidth was read."""
    names = ("nvlink2", "nvlink3", "nvlink4", "nvlink5", "pcie4", "pcie5")
    rows = []
    for link in map(find_link, (*names, "infiniband_hdr", "infiniband_ndr", "infiniband_xdr")):
        source = link.source("bandwidth")
        read = source.document.split(",")[0] if source else ""
        rows.append((link.name, f"{link.bandwidth / GB:.4g}", f"{link.latency / 1e-6:.2f}", read))
    return table(["port", "GB/s each way", "latency, µs", "source of the bandwidth"], rows)


def switches_between(a: int, b: int) -> int:
    """Switches of the network (leaves and spines) on the way between two GPUs of the pod."""
    return sum(name.split()[0] in ("leaf", "spine") for name in pod.path(a, b))


def figure_of_pod() -> Figure:
    """Four nodes on rails, with two ways through them."""
    subtitle = "gpu 0 to gpu 9 changes the rail inside its node; gpu 8 to gpu 24 has to cross the spine"
    return network_map(pod, paths=[(0, 9), (8, 24)], title="Four nodes on rails", subtitle=subtitle)


def figure_of_rack() -> Figure:
    """One NVL72."""
    return network_map(nvl72(), title="One rack", subtitle="72 Blackwell GPUs in one NVLink domain")


def figure_of_torus() -> Figure:
    """One plane of TPUs."""
    plane = tpu_torus(TPU_V5P, 4, 4, 1)
    subtitle = "16 TPU v5p; a message turns at most once in a plane"
    return network_map(plane, grid=(4, 4), paths=[(0, 10)], title="One plane of a torus", subtitle=subtitle)


def table_of_ways() -> Markdown:
    """Links, latency and rate between pairs of GPUs of four machines."""
    racks, cube = nvl72(2), tpu_torus(TPU_V5P, 4, 4, 4)
    ways = [("H200, same node", node, 0, 5), ("H200, other node, same rail", pod, 0, 8)]
    ways += [("H200, other rail", pod, 0, 9), ("H200, other leaf", pod, 0, 16)]
    ways += [("NVL72, same rack", racks, 0, 71), ("NVL72, other rack", racks, 0, 72)]
    ways += [("TPU v5p, beside", cube, 0, 1), ("TPU v5p, far corner of 4 x 4 x 4", cube, 0, 42)]
    rows = [
        (name, len(t.path(a, b)) - 1, f"{t.alpha(a, b) / 1e-6:.2f}", f"{t.rate(a, b) / GB:.0f}")
        for name, t, a, b in ways
    ]
    return table(["from, to", "links", "latency, µs", "GB/s, alone"], rows)


def half_sizes() -> dict[str, float]:
    """Bytes at which half of the time is waiting: α B, for a port of NVLink and for a NIC on the same rail."""
    return {"NVLink": alpha * port, "network, same rail": pod.alpha(0, 8) * pod.rate(0, 8)}


def figure_of_messages() -> Figure:
    """What share of a link a message of a size gets."""
    hops = {"NVLink": (alpha, port), "network, same rail": (pod.alpha(0, 8), pod.rate(0, 8))}
    lines = [
        CostLine(name, SIZES, [size / (wait + size / rate) for size in SIZES]) for name, (wait, rate) in hops.items()
    ]
    marks = [(size, f"half, {name}") for name, size in half_sizes().items()]
    return cost_lines(
        lines,
        title="What a message of a size gets",
        subtitle="size / (latency + size / bandwidth)",
        up="rate",
        units=("B", "B/s"),
        marks=marks,
    )


def table_of_rings() -> Markdown:
    """A ring over growing numbers of GPUs on NVLink: messages, bytes, time of 1 GB and two bandwidths."""
    rows = []
    for n in (2, 4, 8, 72, 1024):
        ring = cost(ALL_REDUCE, Algorithm.RING, n)
        seconds = ring.time(GB, alpha, port)
        rates = algorithm_bandwidth(GB, seconds) / GB, bus_bandwidth(ALL_REDUCE, n, GB, seconds) / GB
        rows.append((n, int(ring.messages), f"{ring.volume:.3f}", spoken(seconds), *(f"{rate:.0f}" for rate in rates)))
    heads = ["GPUs on NVLink 4", "messages", "sent, × size", "1 GB takes", "algorithm bandwidth", "bus bandwidth"]
    return table(heads, rows)


def table_of_algorithms() -> Markdown:
    """All-reduces of eight GPUs: messages in a row, bytes through a port, and three times; and the bounds."""
    rows: list[tuple[object, ...]] = []
    for kind in KINDS:
        found = cost(ALL_REDUCE, kind, 8)
        times = (spoken(found.time(size, alpha, port)) for size in (KB, MB, GB))
        rows.append((named(kind), int(found.messages), f"{found.volume:.3f}", *times))
    trees = pipeline(ALL_REDUCE, Algorithm.PIPELINED_TREE, 8)
    best = {size: trees.best_pieces(size, alpha, port) for size in (KB, MB, GB)}
    times = (f"{spoken(trees.time(size, alpha, port, pieces))} in {pieces}" for size, pieces in best.items())
    rows.append(("two trees, in pieces", "6, one more per further piece", f"{trees.volume:.3f}", *times))
    fewest = least(ALL_REDUCE, 8)
    rows.append(("*bounds*", int(fewest.messages), f"{fewest.volume:.3f}", "", "", ""))
    heads = ["all-reduce of 8 GPUs", "messages in a row", "through a port, × size", "1 kB", "1 MB", "1 GB"]
    return table(heads, rows)


def figure_of_algorithms() -> Figure:
    """The same over sizes, with the bound for messages."""
    lines = [
        CostLine(named(kind), SIZES, [cost(ALL_REDUCE, kind, 8).time(size, alpha, port) for size in SIZES])
        for kind in KINDS
    ]
    limit = [bound(ALL_REDUCE, node, size).seconds for size in SIZES]
    lines.append(CostLine("bound (messages)", SIZES, limit, quiet=True))
    subtitle = "closed forms, α = 0.6 µs, 450 GB/s per port; modelled, not measured"
    return cost_lines(lines, title="All-reduce over 8 GPUs on NVLink 4", subtitle=subtitle)


@cache
def large() -> Topology:
    """16,384 H200s in 2,048 nodes."""
    return cluster(NODES)


INSIDE = Level(8, alpha, port)


def across() -> Level:
    """Between the nodes of the large cluster."""
    return Level(NODES, large().alpha(0, 33 * 8), nic.bandwidth)


def one_ring(size: float) -> tuple[float, float]:
    """Seconds of a single ring over all GPUs, ranks in order, and of its waiting. Its link between nodes leaves by
    the next rail."""
    ring, wait = cost(ALL_REDUCE, Algorithm.RING, LARGE), across().alpha + alpha
    return ring.time(size, wait, nic.bandwidth), ring.messages * wait


def simulate_eight_rings() -> Simulated:
    """Eight rings over 16,384 GPUs, 1 GB; the simulator follows one rank of each kind."""
    return simulate(build.ring(ALL_REDUCE, LARGE, build.node_rings(NODES, 8)), large(), GB)


def two_levels(size: float, outer: Algorithm, inside: Level = INSIDE, outside: Level | None = None) -> float:
    """Seconds of an all-reduce in two levels."""
    return hierarchical(ALL_REDUCE, size, inside, outside or across(), outer=outer)


def ways_over_many() -> dict[str, Callable[[float], float]]:
    """Seconds by bytes, of nine ways over 8, 72 and 16,384 GPUs."""
    rack = nvl72()
    wait, rate = rack.alpha(0, 1), rack.rate(0, 1)
    racks_in, racks_across = Level(72, wait, rate), Level(228, across().alpha, nic.bandwidth)
    rings = cost(ALL_REDUCE, Algorithm.RING, LARGE)
    return {
        "8 H200, two-shot": lambda size: cost(ALL_REDUCE, Algorithm.TWO_SHOT, 8).time(size, alpha, port),
        "8 H200, switch adds": lambda size: cost(ALL_REDUCE, Algorithm.SWITCH, 8).time(size, alpha, port),
        "NVL72, ring": lambda size: cost(ALL_REDUCE, Algorithm.RING, 72).time(size, wait, rate),
        "NVL72, two-shot": lambda size: cost(ALL_REDUCE, Algorithm.TWO_SHOT, 72).time(size, wait, rate),
        "16,384 H200, eight rings": lambda size: rings.time(size, across().alpha + alpha, 8 * nic.bandwidth),
        "16,384 H200, two levels, ring of nodes": lambda size: two_levels(size, Algorithm.RING),
        "16,384 H200, two levels, halving-doubling": lambda size: two_levels(size, Algorithm.HALVING_DOUBLING),
        "16,384 H200, two levels, switches add (SHARP)": lambda size: two_levels(size, Algorithm.SHARP),
        "16,416 in NVL72s, two levels, ring of racks": lambda size: two_levels(
            size, Algorithm.RING, racks_in, racks_across
        ),
    }


def table_over_many() -> Markdown:
    """The nine ways at five sizes, and the bound for messages."""
    sizes = (KB, MB, 100 * MB, GB, 10 * GB)
    rows = [(name, *(spoken(way(size)) for size in sizes)) for name, way in ways_over_many().items()]
    limit = bound(ALL_REDUCE, large(), GB)
    rows.append((f"*bound for messages, 16,384 H200 ({limit.where})*", "", "", "", spoken(limit.seconds), ""))
    return table(["all-reduce, modelled", "1 kB", "1 MB", "100 MB", "1 GB", "10 GB"], rows)


def figure_over_many() -> Figure:
    """Seven of the ways as curves."""
    wide, ways = np.logspace(3, 11, 60).tolist(), ways_over_many()
    chosen = [name for name in ways if name not in ("8 H200, switch adds", "NVL72, ring")]
    lines = [CostLine(name, wide, [ways[name](size) for size in wide]) for name in chosen]
    subtitle = "closed forms with datasheet bandwidths; modelled, not measured"
    return cost_lines(lines, title="All-reduce over 8, 72 and 16,384 GPUs", subtitle=subtitle)


@cache
def eight_nodes() -> Topology:
    """64 H200s."""
    return cluster(8)


def table_of_exchanges() -> Markdown:
    """An all-to-all of 64 in three ways, beside its bound."""
    limit = bound(ALL_TO_ALL, eight_nodes(), GB)
    ways = {
        "direct": build.all_to_all(64),
        "pairwise": build.all_to_all(64, pairwise=True),
        "in two levels": build.hierarchical_all_to_all(8),
    }
    rows = []
    for name, schedule in ways.items():
        times = [simulate(schedule, eight_nodes(), size).seconds for size in (64 * KB, MB, GB)]
        rows.append((name, schedule.steps, *map(spoken, times), f"{times[2] / limit.seconds:.2f}"))
    return table(["all-to-all of 64", "steps", "64 kB", "1 MB", "1 GB", "1 GB, × the bound"], rows)


def table_of_machines() -> Markdown:
    """The same gigabyte on 64 H200s, 64 chips of a torus and 72 GPUs of a rack."""
    cube, rack = tpu_torus(TPU_V5P, 4, 4, 4), nvl72()
    rows = []
    for name, topology, ranks, rings in (
        ("64 H200, eight nodes", eight_nodes(), 64, build.node_rings(8, 8)),
        ("64 TPU v5p, 4 x 4 x 4", cube, 64, None),
        ("72 GPUs of an NVL72", rack, 72, None),
    ):
        exchange = simulate(build.all_to_all(ranks), topology, GB)
        link, busy = exchange.busiest(1)[0]
        all_reduce = simulate(build.ring(ALL_REDUCE, ranks, rings), topology, GB).seconds
        rows.append((name, spoken(exchange.seconds), f"{link} ({busy:.0%})", spoken(all_reduce)))
    return table(["machine", "all-to-all", "busiest link", "all-reduce by rings (eight; one; one)"], rows)


@dataclass(frozen=True)
class Dispatch:
    """Bytes out of a NIC for a layer of experts whose tokens are drawn over all nodes at random."""

    tokens: int = 4096
    hidden: int = 7168
    experts: int = 8  # per token
    nodes: int = 8

    @property
    def per_expert(self) -> float:
        """A copy for each expert; of what is drawn over the nodes, one in `nodes` stays at home."""
        return self.tokens * self.experts * self.hidden * (1 - 1 / self.nodes)

    @property
    def per_node(self) -> float:
        """One copy for each node that the draws hit, the own one excepted."""
        hit = self.nodes * (1 - (1 - 1 / self.nodes) ** self.experts)
        return self.tokens * self.hidden * hit * (1 - 1 / self.nodes)

    @property
    def four_nodes(self) -> float:
        """The same where the router keeps to four nodes."""
        return self.tokens * self.hidden * 4 * (1 - 1 / self.nodes)


def table_of_dispatch(of: Dispatch) -> Markdown:
    """The three, and the time of a NIC for them."""
    ways = {"a copy for each expert": of.per_expert, "one copy for each node, handed on over NVLink": of.per_node}
    ways["the same, router keeps to 4 nodes"] = of.four_nodes
    rows = [(name, size / MB, spoken(size / nic.bandwidth)) for name, size in ways.items()]
    return table(["dispatch of 4,096 tokens", "MB out of each NIC", "at 50 GB/s"], rows)


def schedule_of(
    name: str, moves: Sequence[Transfer], ranks: int = 4, chunks: int = 1, collective: Collective = ALL_REDUCE
) -> Schedule:
    """Transfers as a schedule."""
    return Schedule(name, collective, ranks, chunks, (Phase(tuple(moves)),))


def table_of_checks(tries: Mapping[str, Sequence[Transfer]]) -> Markdown:
    """What the checker says of some lists."""
    rows = []
    for name, moves in tries.items():
        finding = check(schedule_of(name, moves))
        rows.append((name, finding.sentence if finding else "right"))
    return table(["schedule", "what the checker says"], rows)


@cache
def small_arrays() -> np.ndarray:
    """An array for each of four ranks, float32 [4, 1024]."""
    return np.random.default_rng(1).standard_normal((4, 1 << 10)).astype(np.float32)


def near_one_shot(size: float) -> bool:
    """Exercise 1: whether an all-gather of 8 by a ring is within a tenth of one-shot, for a power of two."""
    kinds = (Algorithm.RING, Algorithm.ONE_SHOT)
    ring, one_shot = (cost(Collective.ALL_GATHER, kind, 8).time(size, alpha, port) for kind in kinds)
    return size > 1 and math.log2(size).is_integer() and ring <= 1.1 * one_shot


def bandwidth_of_rings(rings: Sequence[Sequence[int]]) -> float:
    """Exercise 2: bus bandwidth in GB/s of rings over a DGX-1; 0, and a sentence, for what are no rings."""
    try:
        run = simulate(build.ring(ALL_REDUCE, 8, rings), dgx1(), GB)
    except (NetworkError, TypeError) as error:  # also a list that is none of lists
        print(error)
        return 0.0
    print(f"{run.bus_bandwidth / GB:.0f} GB/s; busiest: {run.busiest(1)[0][0]}")
    return run.bus_bandwidth / GB


def time_of_mine(moves: Sequence[Transfer], chunks: int) -> float:
    """Exercise 3: seconds of 1 GB over two nodes of two GPUs; infinity, and a sentence, if it is not right."""
    two_by_two = cluster(2, 2)
    try:
        mine = schedule_of("mine", moves, chunks=chunks)
        if finding := check(mine):
            print(finding.sentence)
            return math.inf
        seconds = simulate(mine, two_by_two, GB).seconds
    except NetworkError as error:
        print(error)
        return math.inf
    fewest = spoken(bound(ALL_REDUCE, two_by_two, GB).seconds)
    print(f"right, and {spoken(seconds)}; no schedule of messages can take less than {fewest}")
    return seconds


def share_of_bandwidth(megabytes: float, outer: Algorithm = Algorithm.HALVING_DOUBLING) -> float:
    """Exercise 4: what share of the bandwidth of very large buckets one of this size reaches."""
    slope = (two_levels(2e15, outer) - two_levels(1e15, outer)) / 1e15  # seconds per byte, latency left out
    return slope * megabytes * MB / two_levels(megabytes * MB, outer)


def named(kind: Algorithm) -> str:
    return kind.value.replace("_", " ")
