"""Chapter 11: what its cells compute and draw beside the formulas, the networks and the schedules."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from IPython.display import Markdown
from matplotlib.figure import Figure

from course.chapters.spoken import binary, spoken
from course.figures.cost_lines import CostLine, cost_lines
from course.figures.network_map import network_map
from course.lesson import table
from systems.network import nccl
from systems.network.bounds import bound
from systems.network.clusters import Fabric, cluster, dgx1, nvl72, nvswitch_node, tpu_torus
from systems.network.collectives import Collective, algorithm_bandwidth, bus_bandwidth, bus_factor
from systems.network.costs import Algorithm, Level, cost, hierarchical, least, pipeline
from systems.network.execution import execute
from systems.network.links import NetworkError, find_link
from systems.network.schedules import Phase, Schedule, Transfer, build, check
from systems.network.simulation import Simulated, max_min, simulate
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
    return table(["port", "GB/s each way", "latency, µs", "where the bandwidth was read"], rows)


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
        rows.append((_name(kind), int(found.messages), f"{found.volume:.3f}", *times))
    trees = pipeline(ALL_REDUCE, Algorithm.PIPELINED_TREE, 8)
    best = {size: trees.best_pieces(size, alpha, port) for size in (KB, MB, GB)}
    times = (f"{spoken(trees.time(size, alpha, port, pieces))} in {pieces}" for size, pieces in best.items())
    rows.append(("two trees, in pieces", "6 and one a piece more", f"{trees.volume:.3f}", *times))
    fewest = least(ALL_REDUCE, 8)
    rows.append(("*bounds*", int(fewest.messages), f"{fewest.volume:.3f}", "", "", ""))
    heads = ["all-reduce of 8 GPUs", "messages in a row", "through a port, × size", "1 kB", "1 MB", "1 GB"]
    return table(heads, rows)


def figure_of_algorithms() -> Figure:
    """The same over sizes, with the bound for messages."""
    lines = [
        CostLine(_name(kind), SIZES, [cost(ALL_REDUCE, kind, 8).time(size, alpha, port) for size in SIZES])
        for kind in KINDS
    ]
    limit = [bound(ALL_REDUCE, node, size).seconds for size in SIZES]
    lines.append(CostLine("bound (messages)", SIZES, limit, quiet=True))
    subtitle = "closed forms, α = 0.6 µs, 450 GB/s per port; modelled, not measured"
    return cost_lines(lines, title="All-reduce over 8 GPUs on NVLink 4", subtitle=subtitle)


FAIR_USES = {
    "a": ["nic of a", "way up", "where a and d arrive"],
    "b": ["nic of b", "way up"],
    "c": ["nic of c", "way up"],
    "d": ["nic of d", "where a and d arrive"],
}


def fair_rates() -> dict[str, float]:
    """Max-min fair rates of four transfers, in GB/s: NICs of 50, an uplink of 100 for a, b and c."""
    links = list(dict.fromkeys(link for ways in FAIR_USES.values() for link in ways))
    capacity = np.array([100.0 if link == "way up" else 50.0 for link in links])
    uses = [(flow, links.index(link)) for flow, ways in enumerate(FAIR_USES.values()) for link in ways]
    by_flow, by_link = np.array(uses).T
    rates = max_min(capacity, by_link, by_flow, np.ones(len(uses)), len(FAIR_USES))
    return dict(zip(FAIR_USES, rates.tolist(), strict=True))


def table_of_rates() -> Markdown:
    """The same with the links that each transfer uses."""
    rates = fair_rates()
    return table(
        ["transfer", "over", "GB/s"], [(name, ", ".join(ways), rates[name]) for name, ways in FAIR_USES.items()]
    )


def orders(kind: str, nodes: int = 4, gpus: int = 8) -> list[list[int]]:
    """Eight rings over all ranks, as lists of ranks: "node after node", "round robin" or "shuffled"."""
    if kind == "round robin":
        return [[n * gpus + (gpu + start) % gpus for gpu in range(gpus) for n in range(nodes)] for start in range(gpus)]
    rings = [list(ring) for ring in build.node_rings(nodes, gpus)]
    if kind == "shuffled":
        names = np.random.default_rng(0).permutation(nodes * gpus).tolist()
        rings = [[names[rank] for rank in ring] for ring in rings]
    return rings


@cache
def run_of_order(kind: str) -> Simulated:
    """An all-reduce of 1 GB over the pod by eight rings in an order."""
    return simulate(build.ring(ALL_REDUCE, 32, orders(kind)), pod, GB)


def table_of_orders() -> Markdown:
    """Three orders of the ranks: time, bus bandwidth and the busiest link."""
    rows = []
    for kind in ("node after node", "round robin", "shuffled"):
        run = run_of_order(kind)
        times, (name, share) = run.seconds / run_of_order("node after node").seconds, run.busiest(1)[0]
        said = spoken(run.seconds), f"{times:.1f}", f"{run.bus_bandwidth / GB:.0f}"
        rows.append((kind, *said, name, f"{share:.0%}"))
    return table(["order of the ranks", "1 GB takes", "times", "bus bandwidth, GB/s", "busiest link", "busy"], rows)


TAPERS = (1, 2, 4, 8)


@cache
def tapered() -> dict[str, list[Simulated]]:
    """1 GB over four nodes by four schedules, at each of TAPERS."""
    thin = [cluster(4, fabric=Fabric(nodes_per_leaf=2, oversubscription=taper)) for taper in TAPERS]
    work = {
        "eight rings, node after node": build.ring(ALL_REDUCE, 32, orders("node after node")),
        "two levels (section 6)": build.hierarchical_all_reduce(4),
        "halving-doubling": build.halving_doubling(ALL_REDUCE, 32),
        "all-to-all": build.all_to_all(32),
    }
    return {name: [simulate(schedule, topology, GB) for topology in thin] for name, schedule in work.items()}


def slower_at_4_to_1(name: str) -> float:
    """How many times as long a schedule takes at 4:1."""
    runs = tapered()[name]
    return runs[TAPERS.index(4)].seconds / runs[0].seconds


def table_of_tapers() -> Markdown:
    """Times of four schedules at each ratio."""
    rows = [(name, *(spoken(run.seconds) for run in runs)) for name, runs in tapered().items()]
    return table(["1 GB over four nodes", *(f"{taper}:1" for taper in TAPERS)], rows)


def figure_of_crowd() -> Figure:
    """How busy each cable is in an all-to-all at 4:1."""
    return _loaded(tapered()["all-to-all"][TAPERS.index(4)], "An all-to-all at 4:1: how busy each cable is")


@cache
def hashed() -> dict[str, tuple[Simulated, Simulated]]:
    """Three schedules over eight nodes: with traffic spread evenly over four spines, and with routes by a hash."""
    even, ecmp = (
        cluster(8, fabric=Fabric(nodes_per_leaf=4, spines=4, routing=routing)) for routing in ("adaptive", "ecmp")
    )
    work = {
        "halving-doubling": build.halving_doubling(ALL_REDUCE, 64),
        "all-to-all": build.all_to_all(64),
        "eight rings, node after node": build.ring(ALL_REDUCE, 64, orders("node after node", 8)),
    }
    return {name: (simulate(schedule, even, GB), simulate(schedule, ecmp, GB)) for name, schedule in work.items()}


def table_of_hashes() -> Markdown:
    """The times of both, and the busiest link of the second."""
    rows = [
        (
            name,
            *(spoken(run.seconds) for run in both),
            f"{both[1].seconds / both[0].seconds:.2f}",
            both[1].busiest(1)[0][0],
        )
        for name, both in hashed().items()
    ]
    return table(["1 GB over eight nodes", "spread evenly", "hashed", "times", "busiest link, hashed"], rows)


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


def tuners_machine(nodes: int) -> nccl.Machine:
    """Nodes of eight H100s, as NCCL's tuner knows them."""
    return nccl.find_machine("8 x H100, NVSwitch", nodes)


def last_of_ll() -> float:
    """The last power of two, in KiB, for which the tuner chooses LL on one node."""
    return nccl.crossovers(tuners_machine(1), ALL_REDUCE)[1][0] / 2 / 1024


def print_choices() -> None:
    """What the tuner says of three sizes."""
    for size in (1 << 10, 1 << 20, 1 << 30):
        print(nccl.choose(tuners_machine(1), ALL_REDUCE, size).reason)


def figure_of_tuner() -> Figure:
    """The tuner's estimates for one node, and where its choice changes."""
    machine, powers = tuners_machine(1), [float(2**k) for k in range(8, 33)]
    lines = [
        CostLine(_entry(entry), powers, [nccl.seconds(machine, ALL_REDUCE, entry, int(size)) for size in powers])
        for entry in nccl.table(machine, ALL_REDUCE)
        if entry.bandwidth
    ]
    marks = [(float(size), _entry(entry)) for size, entry in nccl.crossovers(machine, ALL_REDUCE)[1:]]
    subtitle = "all-reduce, 8 H100 in a node; it takes the lowest line. A model for choosing"
    return cost_lines(lines, title="The estimates of NCCL's tuner", subtitle=subtitle, marks=marks)


def table_of_tuner() -> Markdown:
    """The tuner's choices over growing numbers of nodes, and two of its estimates."""
    rows = []
    for nodes in (1, 2, 4, 16, 128, 2048):
        parts = [
            f"{entry.method.value} {entry.protocol.value}" + (f" from {binary(size)}" if size > 1 else "")
            for size, entry in nccl.crossovers(tuners_machine(nodes), ALL_REDUCE)
        ]
        estimates = (nccl.choose(tuners_machine(nodes), ALL_REDUCE, size).seconds for size in (1 << 10, 1 << 30))
        rows.append((f"{8 * nodes:,} GPUs", ", then ".join(parts), *map(spoken, estimates)))
    return table(["", "its choice", "estimate: 1 KiB", "estimate: 1 GiB"], rows)


def table_of_published() -> Markdown:
    """Published bus bandwidths beside the tuner's table and our closed forms."""
    entries = {(e.method.value, e.protocol.value): e for e in nccl.table(tuners_machine(1), ALL_REDUCE)}
    tuner = {name: entries[name, "simple"].bandwidth * bus_factor(ALL_REDUCE, 8) for name in ("ring", "nvls")}
    rack = nvl72().rate(0, 1)
    rows = [
        ("8 H100, ring forced", "365 to 370", f"{tuner['ring'] / GB:.0f}", 8, port),
        ("8 H100, NVLS", "480", f"{tuner['nvls'] / GB:.0f}", 8, port),
        ("8 H200, own choice", "475", "", 8, port),
        ("NVL72, example job, 8 GiB", "835", "", 72, rack),
    ]
    said = []
    for name, real, believed, n, rate in rows:
        adding = bus_factor(ALL_REDUCE, n) * rate / cost(ALL_REDUCE, Algorithm.SWITCH, n).volume
        said.append((name, real, believed, f"{rate / GB:.0f}", f"{adding / GB:.0f}"))
    heads = ["bus bandwidth, GB/s", "published", "tuner's table", "our closed form: ring"]
    return table([*heads, "our closed form: switches add"], said)


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


@cache
def hurt(name: str) -> tuple[Simulated, Simulated]:
    """A schedule over 64 GPUs, healthy and with NIC 3 at half speed."""
    schedules = {
        "eight rings": build.ring(ALL_REDUCE, 64, build.node_rings(8, 8)),
        "two levels": build.hierarchical_all_reduce(8),
        "all-to-all": build.all_to_all(64),
    }
    slowed = eight_nodes().slowed("nic 3", 2)
    return simulate(schedules[name], eight_nodes(), GB), simulate(schedules[name], slowed, GB)


def table_of_slow_nic() -> Markdown:
    """Three collectives before and after."""
    rows = []
    for name in ("eight rings", "two levels", "all-to-all"):
        before, after = hurt(name)
        early = after.done.min() / after.done.max()
        times = f"{after.seconds / before.seconds:.2f}"
        rows.append((name, spoken(before.seconds), spoken(after.seconds), times, f"{early:.0%}"))
    heads = ["1 GB over 64 GPUs", "healthy", "NIC 3 at half speed", "times", "first rank done, share of the time"]
    return table(heads, rows)


def busy_nics() -> tuple[np.ndarray, np.ndarray]:
    """Of each of 64 NICs in the rings with a slow one: its share of time busy, and the MB that it sent."""
    _, run = hurt("eight rings")
    out = [int(run.topology.links_between(f"nic {n}", f"leaf {n % 8}")[0]) for n in range(64)]
    share = run.link_bytes / run.topology.bandwidth / run.seconds
    return share[out], run.link_bytes[out] / MB


def figure_of_slow_nic() -> Figure:
    """The same over two nodes, as a map."""
    run = simulate(build.ring(ALL_REDUCE, 16, build.node_rings(2, 8)), cluster(2).slowed("nic 3", 2), GB)
    return _loaded(run, "Two nodes, NIC 3 at half speed")


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


LENGTHS = (1 << 8, 1 << 16, 1 << 19)  # float32
_LOCAL = {
    "ring": build.ring(ALL_REDUCE, 4),
    "two-shot": build.two_shot_all_reduce(4),
    "one-shot": build.one_shot(ALL_REDUCE, 4),
}
Clock = dict[tuple[str, int], float]  # seconds by algorithm and bytes


def run_processes() -> Clock:
    """Three algorithms at three sizes over four processes of this machine, the better of two runs each."""
    queue, clock = os.getloadavg()[0], Clock()
    for _ in range(2):  # one after the other, so that a busy moment spoils one run of each and not both of one
        for name, schedule in _LOCAL.items():
            for length in LENGTHS:
                outcome = execute(schedule, np.ones((4, length), np.float32), patience=30)
                assert outcome.verdict == "right" and outcome.seconds, outcome.sentence
                clock[name, 4 * length] = min(outcome.seconds, clock.get((name, 4 * length), outcome.seconds))
    print(f"{os.cpu_count()} processors, with {queue:.1f} processes in the queue on average before these began")
    return clock


def table_of_processes(clock: Clock) -> Markdown:
    """The times by algorithm and size."""
    rows = [(name, *(spoken(clock[name, 4 * length]) for length in LENGTHS)) for name in _LOCAL]
    return table(["4 processes, measured here", *(f"{4 * length / KB:,.0f} kB" for length in LENGTHS)], rows)


def port_each(latency: float, rate: float) -> Topology:
    """Four processes with a port of their own."""
    base = nvswitch_node(4)
    links = len(base.tails)
    return replace(base, name="a port each", bandwidth=np.full(links, rate), latency=np.full(links, latency / 2))


def one_memory(latency: float, rate: float) -> Topology:
    """Four processes whose copies all pass one link, 4 to 5; to it and from it there is room enough."""
    names = ["rank 0", "rank 1", "rank 2", "rank 3", "memory, in", "memory, out"]
    tails, heads = np.array([0, 1, 2, 3, 4, 5, 5, 5, 5]), np.array([4, 4, 4, 4, 5, 0, 1, 2, 3])
    bandwidth, wait = np.full(9, 1e15), np.zeros(9)
    bandwidth[4], wait[4] = rate, latency

    def router(sources: np.ndarray, destinations: np.ndarray) -> np.ndarray:
        return np.stack([sources, np.full(len(sources), 4), 5 + destinations], 1)

    return Topology("one memory", 4, 1, names, tails, heads, bandwidth, wait, router)


_MODELS = {port_each: 1.5 + 4, one_memory: 6 + 4}  # the ring's bytes through a port, or in all; and the results


def fitted(clock: Clock) -> dict[Callable[[float, float], Topology], tuple[float, float]]:
    """Latency and rate of both models, of the ring's shortest time and its largest array."""
    wait, large_size = min(clock["ring", 4 * length] for length in LENGTHS) / 6, 4 * LENGTHS[-1]
    moving = max(clock["ring", large_size] - 6 * wait, 1e-9)
    return {model: (wait, passed * large_size / moving) for model, passed in _MODELS.items()}


def table_of_forecasts(clock: Clock) -> Markdown:
    """What both models forecast beside the clock, and how far they are off in the mean."""
    fits, rows = fitted(clock), list[tuple[str, ...]]()
    errors: dict[str, list[float]] = {model.__name__: [] for model in fits}
    for (name, size), seconds in clock.items():
        start = name, f"{size / KB:,.0f} kB", spoken(seconds)
        if name == "ring" and size != 4 * LENGTHS[1]:
            rows.append((*start, "(in the fit)", "(in the fit)"))
            continue
        ratios = [
            (simulate(_LOCAL[name], model(*fit), size).seconds + 4 * size / fit[1]) / seconds
            for model, fit in fits.items()
        ]
        rows.append((*start, *(f"{ratio:.2f}" for ratio in ratios)))
        for model, ratio in zip(fits, ratios, strict=True):
            errors[model.__name__].append(abs(np.log(ratio)))
    for model, (wait, rate) in fits.items():
        off = np.exp(np.mean(errors[model.__name__]))
        said = f"{model.__name__.replace('_', ' ')}: {spoken(wait)} a step, {rate / MB:.0f} MB/s"
        print(f"{said}; forecasts are off by a factor of {off:.2f} in the mean")
    return table(["", "size", "measured", "a port each / measured", "one memory / measured"], rows)


def table_of_messages(clock: Clock) -> Markdown:
    """Time per step and per message of the smallest arrays."""
    rows = []
    for name, schedule in _LOCAL.items():
        seconds, sends = clock[name, 4 * LENGTHS[0]], schedule.transfers // 4
        rows.append((name, schedule.steps, sends, spoken(seconds / schedule.steps), spoken(seconds / sends)))
    return table(["1 kB", "steps", "messages per rank", "time per step", "time per message"], rows)


def charged(clock: Clock, name: str, size: float) -> float:
    """Seconds by one memory without latency, and a charge for each message of a rank."""
    wait, rate = fitted(clock)[one_memory]
    sends = _LOCAL[name].transfers // 4
    return simulate(_LOCAL[name], one_memory(0.0, rate), size).seconds + sends * wait + 4 * size / rate


def table_of_charges(clock: Clock) -> Markdown:
    """That model beside the clock, where it was not fitted."""
    rows, off = [], []
    for (name, size), seconds in clock.items():
        if name != "ring" or size == 4 * LENGTHS[1]:
            ratio = charged(clock, name, size) / seconds
            rows.append((name, f"{size / KB:,.0f} kB", f"{ratio:.2f}"))
            off.append(abs(np.log(ratio)))
    print(f"a charge for each message: forecasts are off by a factor of {np.exp(np.mean(off)):.2f} in the mean")
    return table(["", "size", "a charge for each message / measured"], rows)


def figure_of_charges(clock: Clock) -> Figure:
    """The same as curves, with the clock's dots."""
    between = np.geomspace(4 * LENGTHS[0], 4 * LENGTHS[-1], 25).tolist()
    lines = [CostLine(name, between, [charged(clock, name, size) for size in between]) for name in _LOCAL]
    for name in _LOCAL:
        of = [(size, seconds) for (n, size), seconds in clock.items() if n == name]
        lines.append(CostLine(name, [size for size, _ in of], [seconds for _, seconds in of], dots=True))
    subtitle = (
        "lines: one memory, a charge for each message, fitted to the ring; dots: measured, the better of two runs"
    )
    return cost_lines(lines, title="Four processes of this machine", subtitle=subtitle)


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
    slope = (two_levels(2e15, outer) - two_levels(1e15, outer)) / 1e15  # seconds a byte, latency left out
    return slope * megabytes * MB / two_levels(megabytes * MB, outer)


def _name(kind: Algorithm) -> str:
    return kind.value.replace("_", " ")


def _entry(entry: nccl.Entry) -> str:
    return f"{entry.method.value}, {entry.protocol.value}"


def _loaded(run: Simulated, title: str) -> Figure:
    load = run.link_bytes / run.topology.bandwidth / run.seconds
    subtitle = "dark: busy all the time; pale: idle nearly all the time"
    return network_map(run.topology, load=load, title=title, subtitle=subtitle)
