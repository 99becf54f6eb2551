"""Sections 5 and 9 of chapter 11: transfers that share links, and one link at half speed."""

from __future__ import annotations

from functools import cache

import numpy as np
from IPython.display import Markdown
from matplotlib.figure import Figure

from course.chapters.c11_the_network import ALL_REDUCE, GB, MB, eight_nodes, pod
from course.chapters.spoken import spoken
from course.figures.network_map import network_map
from course.lesson import table
from systems.network.clusters import Fabric, cluster
from systems.network.schedules import build
from systems.network.simulation import Simulated, max_min, simulate

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
    return figure_of_load(tapered()["all-to-all"][TAPERS.index(4)], "An all-to-all at 4:1: how busy each cable is")


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
    return figure_of_load(run, "Two nodes, NIC 3 at half speed")


def figure_of_load(run: Simulated, title: str) -> Figure:
    load = run.link_bytes / run.topology.bandwidth / run.seconds
    subtitle = "dark: busy all the time; pale: idle nearly all the time"
    return network_map(run.topology, load=load, title=title, subtitle=subtitle)
