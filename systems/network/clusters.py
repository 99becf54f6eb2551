"""Topologies of real machines: PCIe servers, NVLink meshes and switches, clusters over a fabric, NVL72, TPUs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, prod

import numpy as np

from systems.network.links import Link, NetworkError, find_link
from systems.network.topology import Floats, Integers, Router, Topology, shortest_paths
from warplab.hardware.records import Tpu

# Pairs of a DGX-1's V100s and the NVLinks between them (`nvidia-smi topo -m` on one): the hybrid cube mesh.
_DGX1 = {
    (0, 1): 1, (0, 2): 1, (0, 3): 2, (0, 4): 2, (1, 2): 2, (1, 3): 1, (1, 5): 2, (2, 3): 2, (2, 6): 1, (3, 7): 1,
    (4, 5): 1, (4, 6): 1, (4, 7): 2, (5, 6): 2, (5, 7): 1, (6, 7): 2,
}  # fmt: skip


class _Cables:
    """Collects cables: two links each, the second against the first."""

    def __init__(self) -> None:
        self.tails: list[Integers] = []
        self.heads: list[Integers] = []
        self.rates: list[Floats] = []
        self.waits: list[Floats] = []
        self.count = 0

    def add(self, tails: Integers, heads: Integers, link: Link, bandwidth: float | None = None) -> tuple[int, int]:
        """Cables from each tail to each head; the numbers of the first link there and of the first one back."""
        there = self.count
        for start, end in ((tails, heads), (heads, tails)):
            self.tails.append(np.asarray(start, np.int64))
            self.heads.append(np.asarray(end, np.int64))
            self.rates.append(np.full(len(tails), bandwidth or link.bandwidth))
            self.waits.append(np.full(len(tails), link.latency))
            self.count += len(tails)
        return there, there + len(tails)

    def topology(self, name: str, ranks: int, period: int, names: list[str], router: Router | None) -> Topology:
        tails, heads = np.concatenate(self.tails), np.concatenate(self.heads)
        return Topology(
            name, ranks, period, names, tails, heads, np.concatenate(self.rates), np.concatenate(self.waits),
            router or shortest_paths(name, ranks, tails, heads),
        )  # fmt: skip


def pcie_server(gpus: int = 8, pcie: str = "pcie4", sockets: str = "sockets_skylake", per_switch: int = 2) -> Topology:
    """GPUs without NVLink: `per_switch` at each PCIe switch, the switches shared out among two processors.

    A switch has one x16 link to its processor, so its GPUs share it; all traffic between processors shares `sockets`.
    """
    _at_least("gpus", gpus, 2)
    _at_least("per_switch", per_switch, 1)
    switches = ceil(gpus / per_switch)
    cables, ranks = _Cables(), np.arange(gpus)
    cables.add(ranks, gpus + ranks // per_switch, find_link(pcie))
    numbers = np.arange(switches)
    processors = gpus + switches + numbers * 2 // switches
    cables.add(gpus + numbers, processors, find_link(pcie))
    cables.add(np.array([gpus + switches]), np.array([gpus + switches + 1]), find_link(sockets))
    names = [*_named("gpu", gpus), *_named("pcie switch", switches), "cpu 0", "cpu 1"]
    return cables.topology(f"{gpus} GPUs on {pcie}", gpus, gpus, names, None)


def dgx1() -> Topology:
    """Eight V100s in a hybrid cube mesh: one or two NVLinks to four others, the rest through one of them."""
    cables, nvlink = _Cables(), find_link("nvlink2")
    for (one, other), links in _DGX1.items():
        cables.add(np.array([one]), np.array([other]), nvlink, nvlink.bandwidth / nvlink.ports * links)
    return cables.topology("DGX-1 (V100)", 8, 8, _named("gpu", 8), None)


def nvswitch_node(gpus: int = 8, nvlink: str = "nvlink4") -> Topology:
    """GPUs behind NVSwitches: each port at full bandwidth to any other.

    The switches of a node are one vertex: traffic is spread over them evenly and none of them is narrower than the
    ports.
    """
    return cluster(1, gpus, nvlink=nvlink)


@dataclass(frozen=True)
class Fabric:
    """The network between nodes. `wiring` "rail": NIC i of `nodes_per_leaf` nodes at one leaf; "node": all NICs.

    `oversubscription` is what comes into a leaf from below over what leaves it above. `routing` "adaptive" spreads all
    traffic between leaves and spines evenly; "ecmp" has each pair of ranks hashed to one of `spines`, as static routes
    do. `pxn`: over rails, traffic goes to the GPU beside that is on the destination's rail, by NVLink, and leaves
    there.
    """

    nic: str = "infiniband_ndr"
    pcie: str = "pcie5"
    nics: int | None = None  # of a node; None: one a GPU
    wiring: str = "rail"
    rails: int | None = None  # None: as many as a node has NICs; NIC i is on rail i modulo this
    nodes_per_leaf: int = 32
    spines: int = 16
    oversubscription: float = 1.0
    routing: str = "adaptive"
    pxn: bool = True


def cluster(nodes: int, gpus: int = 8, nvlink: str = "nvlink4", fabric: Fabric | None = None) -> Topology:
    """`nodes` of `gpus` each, at a two-level fat tree. One node alone has no NICs.

    Vertices are named "gpu 0", "nvswitch 0", "nic 0", "leaf 0", "spine 0". Raises NetworkError for sizes that cannot
    be.
    """
    fabric = fabric or Fabric()
    _at_least("nodes", nodes, 1)
    _at_least("gpus", gpus, 1)
    if nodes * gpus < 2:
        raise NetworkError("A network needs two GPUs or more: give more nodes or more GPUs a node.")
    nics = fabric.nics or gpus
    rails = (fabric.rails or nics) if fabric.wiring == "rail" else 1
    if fabric.wiring not in ("rail", "node") or fabric.routing not in ("adaptive", "ecmp"):
        raise NetworkError('A fabric has wiring "rail" or "node" and routing "adaptive" or "ecmp".')
    if gpus % nics:
        raise NetworkError(f"{gpus} GPUs cannot share {nics} NICs evenly: choose a number that divides {gpus}.")
    if nics % rails:
        raise NetworkError(f"{nics} NICs cannot lie on {rails} rails evenly: choose a number that divides {nics}.")
    if not fabric.oversubscription >= 1:
        raise NetworkError(f"An oversubscription of {fabric.oversubscription:g} cannot be: 1 is a full fat tree.")
    for what, value in (("nodes_per_leaf", fabric.nodes_per_leaf), ("spines", fabric.spines)):
        _at_least(what, value, 1)
    ranks, cables = nodes * gpus, _Cables()
    every, ports = np.arange(ranks), np.arange(nodes * nics)
    switch0, nic0 = ranks, ranks + nodes
    up, down = cables.add(every, switch0 + every // gpus, find_link(nvlink))
    names = [*_named("gpu", ranks), *_named("nvswitch", nodes)]
    kind = f"{nodes} nodes of {gpus} GPUs ({nvlink}, {nics} x {fabric.nic}, {fabric.wiring})"
    if nodes == 1:
        return cables.topology(f"{gpus} GPUs on {nvlink}", ranks, gpus, names, _in_node(up, down))
    share = gpus // nics
    nic_of = every // gpus * nics + every % gpus // share  # for each rank
    out, back = cables.add(every, nic0 + nic_of, find_link(fabric.pcie))
    groups = ceil(nodes / fabric.nodes_per_leaf)
    leaves = groups * rails
    leaf_of = ports // nics // fabric.nodes_per_leaf * rails + ports % nics % rails
    leaf0, nic_link = nic0 + nodes * nics, find_link(fabric.nic)
    nic_up, nic_down = cables.add(nic0 + ports, leaf0 + leaf_of, nic_link)
    below = fabric.nodes_per_leaf * nics // rails * nic_link.bandwidth
    spines = 1 if fabric.routing == "adaptive" else fabric.spines
    spine0, trunks = leaf0 + leaves, np.arange(leaves * spines)
    trunk = below / fabric.oversubscription / spines
    leaf_up, leaf_down = cables.add(leaf0 + trunks // spines, spine0 + trunks % spines, find_link("switch"), trunk)
    names += [*_named("nic", nodes * nics), *_named("leaf", leaves), *_named("spine", spines)]

    def router(sources: Integers, destinations: Integers) -> Integers:
        rows = np.full((len(sources), 8), -1, np.int64)
        near = sources // gpus == destinations // gpus
        rows[near, 0], rows[near, 1] = up + sources[near], down + destinations[near]
        far = ~near
        start, end = sources[far], destinations[far]
        leaving = start.copy()
        if fabric.pxn:
            other = nic_of[start] % nics % rails != nic_of[end] % nics % rails
            leaving[other] = start[other] // gpus * gpus + end[other] % gpus
        hop = leaving != start
        row = np.full((len(start), 8), -1, np.int64)
        row[hop, 0], row[hop, 1] = up + start[hop], down + leaving[hop]
        first, last = nic_of[leaving], nic_of[end]
        row[:, 2], row[:, 3] = out + leaving, nic_up + first
        over = leaf_of[first] != leaf_of[last]
        spine = (leaving * 2654435761 + end * 40503) // 65536 % spines  # a fixed hash: the same pair, the same spine
        row[over, 4] = leaf_up + leaf_of[first][over] * spines + spine[over]
        row[over, 5] = leaf_down + leaf_of[last][over] * spines + spine[over]
        row[:, 6], row[:, 7] = nic_down + last, back + end
        rows[far] = row
        return _packed(rows)

    node_of = np.concatenate([every // gpus, np.arange(nodes), ports // nics, np.full(leaves + spines, -1)])
    group_of = np.where(node_of >= 0, node_of // fabric.nodes_per_leaf, -1)
    group_of[leaf0 : leaf0 + leaves] = np.arange(leaves) // rails
    topology = cables.topology(kind, ranks, gpus * fabric.nodes_per_leaf, names, router)
    return replace(topology, levels=(("nodes", node_of), ("leaves", group_of)))


def nvl72(racks: int = 1, fabric: Fabric | None = None) -> Topology:
    """Racks of 72 Blackwell GPUs in one NVLink domain each; between racks one NIC a GPU.

    By default a compute tray's four NICs are on four rails, and each rail of each rack has a leaf of its own.
    """
    return cluster(racks, 72, "nvlink5", fabric or Fabric(rails=4, nodes_per_leaf=1))


def tpu_torus(tpu: Tpu, *shape: int) -> Topology:
    """TPUs in a torus of two or three dimensions: each has a link both ways along each, and traffic turns in order.

    A link has the chip's bandwidth shared out over its links and directions. A dimension of 2 has one cable, as a ring
    of two would use the same neighbour twice. Longer ones wrap around.
    """
    if len(shape) not in (2, 3) or min(shape) < 1 or prod(shape) < 2:
        raise NetworkError(f"A torus of shape {shape} cannot be: give two or three sizes of at least 1.")
    count, hop = prod(shape), find_link("tpu_hop")
    rate = tpu.ici / 2 / (2 * len(shape))
    places = np.stack(np.unravel_index(np.arange(count), shape), 1)
    cables, first = _Cables(), {}
    for axis, size in enumerate(shape):
        if size < 2:
            continue
        begin = np.arange(count)[places[:, axis] == 0] if size == 2 else np.arange(count)
        step = places[begin].copy()
        step[:, axis] = (step[:, axis] + 1) % size
        first[axis] = (cables.add(begin, np.ravel_multi_index(tuple(step.T), shape), hop, rate), len(begin))
    forward: dict[tuple[int, int], int] = {}
    tails, heads = np.concatenate(cables.tails), np.concatenate(cables.heads)
    for link, (tail, head) in enumerate(zip(tails.tolist(), heads.tolist(), strict=True)):
        forward[tail, head] = link

    def router(sources: Integers, destinations: Integers) -> Integers:
        rows = []
        for source, destination in zip(sources.tolist(), destinations.tolist(), strict=True):
            at, goal, row = list(places[source]), places[destination], []
            for axis, size in enumerate(shape):
                distance = int((goal[axis] - at[axis]) % size)
                step = 1 if distance <= size - distance else -1
                while at[axis] != goal[axis]:
                    tail = int(np.ravel_multi_index(tuple(at), shape))
                    at[axis] = (at[axis] + step) % size
                    row.append(forward[tail, int(np.ravel_multi_index(tuple(at), shape))])
            rows.append(row)
        width = max((len(row) for row in rows), default=0)
        return np.array([row + [-1] * (width - len(row)) for row in rows], np.int64).reshape(len(rows), width)

    name = f"{tpu.name} torus of {' x '.join(map(str, shape))}"
    return cables.topology(name, count, 1, _named("tpu", count), router)


def _in_node(up: int, down: int) -> Router:
    return lambda sources, destinations: np.stack([up + sources, down + destinations], 1)


def _packed(rows: Integers) -> Integers:
    """Rows with their links first and the -1 after."""
    order = np.argsort(rows < 0, axis=1, kind="stable")
    rows = np.take_along_axis(rows, order, 1)
    return rows[:, : max(1, int((rows >= 0).sum(1).max(initial=0)))]


def _named(what: str, count: int) -> list[str]:
    return [f"{what} {number}" for number in range(count)]


def _at_least(what: str, value: int, least: int) -> None:
    if value < least:
        raise NetworkError(f"{what} is {value}: it must be at least {least}.")
