"""NCCL's own model of itself: which algorithm and protocol its tuner takes for a size, and why.

It follows what src/graph/tuning.cc of NCCL 2.30.7 computes (data/nccl.toml names the commit and has the constants): for
each algorithm and protocol a latency and a bandwidth, time = latency + bytes / bandwidth, the least time wins. It is a
model for choosing, not for predicting: NCCL itself corrects trees by a table for that reason.

Left out: CollNet (SHARP over the network), plug-ins, environment variables, fp8's relegation, calls grouped together.
What the search over the machine finds (channels and their bandwidth) is an input, a `Machine`: NCCL_DEBUG_SUBSYS=GRAPH
prints it, and NCCL_DEBUG_SUBSYS=TUNING the table that `table` should equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Annotated

import msgspec

from systems.network.collectives import Collective
from systems.network.links import DATA, GB, MICROSECOND, NetworkError


class Method(StrEnum):
    """NCCL's algorithms, as NCCL_ALGO names them in lower case."""

    TREE = "tree"
    RING = "ring"
    NVLS = "nvls"
    NVLS_TREE = "nvls_tree"
    PAT = "pat"


class Protocol(StrEnum):
    """How data and the flags that announce it travel: 4 + 4 bytes, 120 + 8 bytes, or data and then one flag."""

    LL = "ll"
    LL128 = "ll128"
    SIMPLE = "simple"


PROTOCOLS = tuple(Protocol)
_REDUCING_HALVES = (Collective.ALL_GATHER, Collective.REDUCE_SCATTER)
_TUNED = (Collective.ALL_REDUCE, *_REDUCING_HALVES, Collective.BROADCAST, Collective.REDUCE)
Triple = tuple[float, float, float]
_Row = Mapping[str, Triple]


class _MachineTable(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    source: str
    generation: str
    per_node: int
    intel: bool
    graphs: dict[str, tuple[int, float, float]]


class _Constants(msgspec.Struct, forbid_unknown_fields=True):
    version: str
    source: str
    base_latency: dict[str, Triple]
    hop: dict[str, dict[str, Triple]]
    ll_ceiling: dict[str, Triple]
    channel_ceiling: dict[str, dict[str, Triple]]
    nvls_efficiency: dict[str, float]
    tree_correction: dict[str, Annotated[tuple[float, ...], msgspec.Meta(min_length=24, max_length=24)]]
    machines: tuple[_MachineTable, ...]


@cache
def constants() -> _Constants:
    """The constants of data/nccl.toml."""
    return msgspec.toml.decode((DATA / "nccl.toml").read_bytes(), type=_Constants)


@dataclass(frozen=True)
class Graph:
    """What NCCL's search found for one algorithm: `inside` and `between` nodes in GB/s a channel.

    `same_channels`: all channels visit the GPUs in one order. `latency` is what the network's driver adds, in us.
    """

    channels: int
    inside: float
    between: float
    same_channels: bool = True
    latency: float = 0.0


@dataclass(frozen=True)
class Machine:
    """A machine as the tuner sees it. `hop` is "nvlink" or "pcie": how GPUs of a node reach each other.

    `intel`: NCCL allows more for LL between nodes with Intel's processors than with AMD's, and 1 us instead of 2 a
    post to the network. `ll128`: whether all links keep 128 bytes together (NVLink within, a NIC on the GPU's own
    switch). `pattern_tree`: the tree graph is of the plain kind, with one NIC a channel's tree, which costs it 15%.
    """

    name: str
    generation: str
    nodes: int
    per_node: int
    graphs: Mapping[Method, Graph] = field(hash=False)
    hop: str = "nvlink"
    intel: bool = True
    ll128: bool = True
    pattern_tree: bool = False

    @property
    def ranks(self) -> int:
        return self.nodes * self.per_node


@dataclass(frozen=True)
class Entry:
    """One cell of the tuner's table: latency in seconds, bandwidth in bytes/s of the size (0: not used)."""

    method: Method
    protocol: Protocol
    latency: float
    bandwidth: float


@dataclass(frozen=True)
class Choice:
    """What NCCL takes for a size: its seconds by the model, each candidate's, and the reason in a sentence."""

    collective: Collective
    size: int
    entry: Entry
    seconds: float
    candidates: tuple[tuple[Entry, float], ...]  # the fastest first
    reason: str

    def table(self) -> str:
        """Each candidate in a line, the fastest first: latency (us), bandwidth (GB/s of the size), time (us)."""
        lines = [f"{'algorithm':<10}{'protocol':<10}{'latency':>10}{'bandwidth':>11}{'time':>12}"]
        for entry, time in self.candidates:
            figures = f"{entry.latency / MICROSECOND:>10.1f}{entry.bandwidth / GB:>11.1f}{time / MICROSECOND:>12.1f}"
            lines.append(f"{entry.method:<10}{entry.protocol:<10}{figures}")
        return "\n".join(lines)


def find_machine(name: str, nodes: int = 1) -> Machine:
    """A machine of data/nccl.toml by its name, as `nodes` of them. Raises NetworkError if there is none."""
    known = {table.name: table for table in constants().machines}
    if name not in known:
        raise NetworkError(f"There is no machine named {name!r}: there are {', '.join(known)}.")
    table = known[name]
    graphs = {Method(key): Graph(*value) for key, value in table.graphs.items()}
    return Machine(name, table.generation, nodes, table.per_node, graphs, intel=table.intel)


def table(machine: Machine, collective: Collective) -> tuple[Entry, ...]:
    """Latency and bandwidth of every algorithm and protocol, as NCCL_DEBUG_SUBSYS=TUNING prints them.

    Raises NetworkError for a collective that is not tuned (NCCL sends all-to-all and send/receive as single messages).
    """
    if collective not in _TUNED:
        raise NetworkError(f"NCCL tunes no {collective}: it sends its messages one by one, over LL or Simple.")
    if machine.ranks < 2:
        raise NetworkError(f"{machine.name} has {machine.ranks} rank: a collective needs two or more.")
    if machine.generation not in constants().nvls_efficiency:
        raise NetworkError(
            f"NCCL's constants know {', '.join(constants().nvls_efficiency)}, not {machine.generation!r}."
        )
    return tuple(
        Entry(method, protocol, _latency(machine, collective, method, index) * MICROSECOND,
              _bandwidth(machine, collective, method, protocol) * GB)
        for method in Method
        if method in machine.graphs and _does(machine, collective, method)
        for index, protocol in enumerate(PROTOCOLS)
        if protocol is Protocol.SIMPLE or method in (Method.TREE, Method.RING)
    )  # fmt: skip


def choose(machine: Machine, collective: Collective, size: int) -> Choice:
    """What NCCL takes for `size` bytes. Raises NetworkError as `table` does, and for a size below 1."""
    if size < 1:
        raise NetworkError(f"A collective of {size} bytes is none: give 1 byte or more.")
    entries = [entry for entry in table(machine, collective) if entry.bandwidth > 0]
    times = sorted(((entry, seconds(machine, collective, entry, size)) for entry in entries), key=lambda pair: pair[1])
    best, time = times[0]
    return Choice(collective, size, best, time, tuple(times), _reason(best, time, size, times[1:]))


def seconds(machine: Machine, collective: Collective, entry: Entry, size: int) -> float:
    """The time that the tuner compares for one cell of its table."""
    bandwidth, latency = entry.bandwidth, entry.latency
    step = (size >> 6).bit_length() - 1  # the tree's corrections start at 64 bytes, one a doubling
    if entry.method is Method.TREE and collective is Collective.ALL_REDUCE and 0 <= step < 23:
        bandwidth *= constants().tree_correction[entry.protocol][step]
    modern_x86 = machine.generation == "blackwell"
    if entry.method is Method.NVLS_TREE and collective is Collective.ALL_REDUCE and 0 <= step < 24 and modern_x86:
        bandwidth *= constants().tree_correction[entry.protocol][step]
    if entry.method is Method.RING and entry.protocol is Protocol.SIMPLE and collective is Collective.ALL_REDUCE:
        channels = max(graph.channels for graph in machine.graphs.values())
        if machine.nodes > 1 and size // (channels * machine.ranks) >= 64:
            latency *= 1.9 if machine.generation == "volta" else 1.4
    return latency + size / bandwidth


def crossovers(machine: Machine, collective: Collective, largest: int = 1 << 34) -> list[tuple[int, Entry]]:
    """Where the choice changes: the first power of two, in bytes, at which each entry is taken."""
    found: list[tuple[int, Entry]] = []
    size = 1
    while size <= largest:
        entry = choose(machine, collective, size).entry
        if not found or found[-1][1] != entry:
            found.append((size, entry))
        size *= 2
    return found


def _does(machine: Machine, collective: Collective, method: Method) -> bool:
    """Whether the tuner considers an algorithm: trees only all-reduce, PAT only one GPU a node, NVLS needs switches."""
    if collective in (Collective.BROADCAST, Collective.REDUCE):
        return method is Method.RING
    if collective in _REDUCING_HALVES:
        if method is Method.PAT:
            return machine.per_node == 1
        return method is Method.RING or (method is Method.NVLS and machine.nodes == 1)
    if method is Method.NVLS:
        return machine.nodes == 1  # between nodes it needs SHARP
    if method is Method.NVLS_TREE:
        return machine.nodes > 1
    return method is not Method.PAT


def _column(machine: Machine) -> int:
    return min(machine.nodes, 3) - 1


def _bandwidth(machine: Machine, collective: Collective, method: Method, protocol: Protocol) -> float:
    """GB/s of the size (algbw), as the tuner's table has it."""
    if protocol is Protocol.LL128 and not machine.ll128:
        return 0.0
    graph, column, n = machine.graphs[method], _column(machine), machine.ranks
    ceilings, generation = constants().channel_ceiling, machine.generation
    channel = graph.inside if machine.nodes <= 2 else graph.between
    if method in (Method.NVLS, Method.NVLS_TREE):
        if graph.channels < 2:
            return 0.0
        channel = _nvls_channel(machine, collective, method, graph, column)
    bus = graph.channels * channel
    if machine.nodes == 1:
        ll_most = constants().ll_ceiling[generation][column]
    else:
        ll_most = constants().ll_ceiling["volta" if machine.intel else "ampere"][column]
    if method is Method.RING and protocol is Protocol.LL:
        bus = min(ll_most, bus / 2)  # half of what LL sends is flags
    if method is Method.RING and protocol is Protocol.LL128:
        bus = min(bus * 0.92, graph.channels * ceilings["ring_ll128"][generation][column])
    if method is Method.TREE:
        bus = min(bus * 0.92, graph.channels * ceilings["tree"][generation][column])
        if protocol is Protocol.LL:
            bus = min(bus / 3.8, ll_most)
        if protocol is Protocol.LL128:
            flags = 7 / 9 if machine.nodes == 1 else 120 / 128
            bus = min(bus * flags, graph.channels * ceilings["tree_ll128"][generation][column])
        if machine.pattern_tree:
            bus *= 0.85
    if method is Method.PAT:
        bus *= 0.75
    if method is not Method.RING and collective in _REDUCING_HALVES:
        return bus
    if method in (Method.RING, Method.NVLS, Method.NVLS_TREE):
        return bus * n / _steps(collective, n)
    return bus / 2


def _nvls_channel(machine: Machine, collective: Collective, method: Method, graph: Graph, column: int) -> float:
    inside = graph.inside * constants().nvls_efficiency[machine.generation] * (graph.channels - 1) / graph.channels
    if collective is Collective.ALL_REDUCE:
        inside *= 2  # it reduces and replicates at once
    else:
        inside *= (machine.per_node - 1) / machine.per_node
    between = graph.between * (2 if machine.nodes <= 2 and method is Method.NVLS_TREE else 1)
    most = min(inside, between)
    if method is Method.NVLS_TREE:
        most = min(most, constants().channel_ceiling["nvls_tree"][machine.generation][column])
    return most


def _steps(collective: Collective, n: int) -> int:
    """Steps of a ring of n ranks."""
    if collective is Collective.ALL_REDUCE:
        return 2 * (n - 1)
    return n - 1 if collective in _REDUCING_HALVES else n


def _latency(machine: Machine, collective: Collective, method: Method, index: int) -> float:
    """Microseconds before the first byte counts."""
    hops, graph = constants().hop, machine.graphs[method]
    base = constants().base_latency[method][index]
    inside = hops[machine.hop][method][index]
    # One GPU a node leaves nothing to hide a hop behind: the tree's figure, which is a bare one, holds for all.
    between = hops["network"][Method.TREE if machine.per_node == 1 else method][index] + graph.latency
    simple = PROTOCOLS[index] is Protocol.SIMPLE
    if simple:
        between += graph.latency  # flushing what the NIC wrote
    if method is Method.RING:
        return base + _ring_hops(machine, collective, graph, index, inside, between)
    doublings = (machine.nodes).bit_length() - 1
    if method is Method.TREE:
        return base + 2 * ((machine.per_node - 1) * inside + doublings * between)
    if method is Method.NVLS:
        return inside + (between if machine.nodes > 1 else 0)
    if method is Method.NVLS_TREE:
        return base + inside + 2 * doublings * between
    return base + doublings * between / 3.5 + machine.ranks * 2.8


def _ring_hops(
    machine: Machine, collective: Collective, graph: Graph, index: int, inside: float, between: float
) -> float:
    steps, simple = _steps(collective, machine.ranks), PROTOCOLS[index] is Protocol.SIMPLE
    if collective in (Collective.BROADCAST, Collective.REDUCE):
        where = constants().hop["network" if machine.nodes > 1 else machine.hop]
        if graph.same_channels:
            return where[Method.RING][index]
        return steps * where[Method.TREE if simple else Method.RING][index]
    post = 0.0 if machine.nodes == 1 else (1.0 if machine.intel else 2.0) * (3 if simple else 1)
    crossings = 0 if machine.nodes == 1 else (machine.nodes - 1) * (2 if collective is Collective.ALL_REDUCE else 1)
    return (steps - crossings) * max(inside, post) + crossings * between


def _reason(best: Entry, time: float, size: int, others: list[tuple[Entry, float]]) -> str:
    name = f"{best.method} with {best.protocol}"
    waits, moves = best.latency, time - best.latency
    if not others:
        return f"{name} is the only one that NCCL has here."
    other, slower = others[0]
    if best.latency <= other.latency and best.bandwidth >= other.bandwidth:
        why = "which has both the lower latency and the higher bandwidth"
    elif best.latency < other.latency:
        why = "whose lower latency still outweighs a lower bandwidth"
    else:
        why = "whose higher bandwidth outweighs a higher latency at this size"
    return (
        f"{name} takes {time / MICROSECOND:.1f} us ({waits / MICROSECOND:.1f} us waiting, {moves / MICROSECOND:.1f} us "
        f"moving {size} bytes), {slower / time:.2f} times faster than {other.method} with {other.protocol}, {why}."
    )
