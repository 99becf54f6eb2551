"""Chapter 12: what its cells compute and draw beside the kernel, the schedules and the formulas."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np
from IPython.display import Markdown
from matplotlib.figure import Figure

from course.chapters.c11_the_network import ALL_REDUCE, GB, KB, MB, alpha, node, port
from course.chapters.spoken import binary, spoken
from course.figures.cost_lines import CostLine, cost_lines
from course.figures.protocol_kinks import protocol_kinks
from course.lesson import table
from course.measured import results_of
from systems.network import nccl
from systems.network.clusters import Fabric, cluster
from systems.network.collectives import Collective, bus_bandwidth, bus_factor
from systems.network.costs import Algorithm, cost
from systems.network.execution import Backend, execute
from systems.network.fits import Line, fit, predicted
from systems.network.links import NetworkError
from systems.network.schedules import Phase, Schedule, Transfer, build, check
from systems.network.simulation import simulate
from systems.network.topology import Topology

BROADCAST = Collective.BROADCAST


KIB, MIB = 1 << 10, 1 << 20


FITTED, HELD_BACK = (KIB, 128 * KIB, 2 * MIB, 8 * MIB), (32 * KIB, 512 * KIB)


NOT_YET = Markdown("**Not measured yet** on GPUs: `make bench NET=1`, on two or more.")


WHAT = {
    Collective.ALL_REDUCE: ("all arrays added up, to all", Algorithm.RING),
    Collective.ALL_GATHER: ("all ranks' parts, on every rank", Algorithm.RING),
    Collective.REDUCE_SCATTER: ("added up, a part to each", Algorithm.RING),
    Collective.ALL_TO_ALL: ("different data for every rank", Algorithm.DIRECT),
    Collective.BROADCAST: ("one array, to all", None),
}


def on_gpus(name: str, metric: str = "time") -> list[tuple[int, int, float]]:
    """The records of a collective that were measured over NCCL: (GPUs, bytes, value); nothing if there are none."""
    file = results_of("collectives")
    of = [r for r in (file.records if file else ()) if (r.name, r.metric, r.variant) == (name, metric, "nccl")]
    return sorted((r.shape[0], r.shape[-1], r.value) for r in of)


def run_here(schedule: Schedule, size: int, backend: Backend = Backend.SOCKETS, turns: int = 3) -> float:
    """Seconds of the best of some runs over four processes of this machine; the result is checked each time."""
    outcomes = [execute(schedule, np.ones((4, size // 4), np.float32), backend, patience=60) for _ in range(turns)]
    assert all(outcome.verdict == "right" for outcome in outcomes), outcomes[0].sentence
    return min(outcome.seconds for outcome in outcomes if outcome.seconds)


def ring_here(sizes: Iterable[int], backend: Backend) -> dict[int, float]:
    """Seconds of a ring of four processes by size, and a line on how busy the machine was before."""
    queue, ring = os.getloadavg()[0], build.ring(ALL_REDUCE, 4)
    clock = {size: run_here(ring, size, backend) for size in sizes}
    print(f"four CPU processes over {backend}; {os.cpu_count()} processors, {queue:.1f} processes in the queue before")
    return clock


def table_of_fit(line: Line, clock: dict[int, float]) -> Markdown:
    """The line beside the clock, at sizes that are in the fit and at others."""
    rows = []
    for size, seconds in sorted(clock.items()):
        said = predicted([line], size)
        fitted = "yes" if size in FITTED else "no"
        rows.append((binary(size), spoken(seconds), spoken(said), f"{said / seconds:.2f}", fitted))
    return table(["ring of 4 processes", "measured here", "α + β S", "model / measured", "in the fit"], rows)


def figure_of_fit(line: Line, clock: dict[int, float]) -> Figure:
    """The clock's dots, the line through them, and its two parts."""
    sizes = np.geomspace(min(clock), max(clock), 40).tolist()
    drawn = [
        CostLine("α + β S, the fit", sizes, [line.alpha + size / line.bandwidth for size in sizes]),
        CostLine("α + β S, the fit", sorted(clock), [clock[size] for size in sorted(clock)], dots=True),
        CostLine("α alone: waiting", sizes, [line.alpha] * len(sizes)),
        CostLine("β S alone: bytes", sizes, [size / line.bandwidth for size in sizes]),
    ]
    return cost_lines(drawn, title="A ring of four CPU processes", subtitle="dots: measured here, best of three runs")


def table_of_collectives() -> Markdown:
    """Five collectives of eight: what each does, what crosses a port, how many messages follow each other."""
    rows = []
    for kind, (words, algorithm) in WHAT.items():
        messages = f"{cost(kind, algorithm, 8).messages:.0f}" if algorithm else "7 + pieces − 1"
        rows.append((kind.value, words, f"{bus_factor(kind, 8):.3f}", messages))
    heads = ["collective of 8", "in the end", "must cross a port, × size"]
    return table([*heads, "messages in a row (ring; direct; chain)"], rows)


def modelled(kind: Collective, size: float) -> float:
    """Seconds over the eight GPUs of a node, by the algorithm of the table; a broadcast by a chain in pieces."""
    algorithm = WHAT[kind][1]
    if algorithm:
        return cost(kind, algorithm, 8).time(size, alpha, port)
    return min((7 + k - 1) * (alpha + size / k / port) for k in (2**power for power in range(12)))


def figure_of_collectives() -> Figure:
    """Bus bandwidth of the five over sizes, with NCCL's measurements on eight GPUs if there are any."""
    sizes = np.geomspace(KB, 8 * GB, 60).tolist()
    names = {ALL_REDUCE: "all_reduce, all_gather, reduce_scatter", Collective.ALL_TO_ALL: "all_to_all"}
    names[BROADCAST] = "broadcast"
    drawn = [_bus_line(kind, name, sizes) for kind, name in names.items()]
    drawn.append(CostLine("port", sizes, [port] * len(sizes), quiet=True))
    for kind in WHAT:
        found = [(size, _bus(kind, gpus, size, us)) for gpus, size, us in on_gpus(kind.value) if gpus == 8]
        if found:
            drawn.append(CostLine(kind.value, [size for size, _ in found], [rate for _, rate in found], dots=True))
    return cost_lines(
        drawn,
        title="Bus bandwidth of five collectives over 8 GPUs",
        subtitle="closed forms, modelled",
        up="bus bandwidth",
        units=("B", "B/s"),
    )


def table_of_nccl() -> Markdown:
    """Bus bandwidths that NCCL reached, by collective and GPUs, at three sizes."""
    counts = sorted({gpus for kind in WHAT for gpus, _, _ in on_gpus(kind.value)})
    rows = []
    for kind in WHAT:
        for gpus in counts:
            of = {size: _bus(kind, gpus, size, us) / GB for n, size, us in on_gpus(kind.value) if n == gpus}
            cells = (f"{of[size]:.1f}" if size in of else "" for size in (MIB, 32 * MIB, 1 << 30))
            rows.append((kind.value, gpus, *cells))
    heads = ["measured over NCCL, GB/s of bus bandwidth", "GPUs", "1 MiB", "32 MiB", "1 GiB"]
    return table(heads, rows) if rows else NOT_YET


@cache
def h100s() -> nccl.Machine:
    """Eight H100s at NVSwitches, as NCCL's tuner knows them."""
    return nccl.find_machine("8 x H100, NVSwitch")


def tuned(protocol: nccl.Protocol) -> nccl.Entry:
    """What the tuner has of a ring over the eight H100s by a protocol."""
    cells = {(entry.method, entry.protocol): entry for entry in nccl.table(h100s(), ALL_REDUCE)}
    return cells[nccl.Method.RING, protocol]


def ring_of_simple(size: int) -> tuple[float, float]:
    """Seconds of one step's latency, and of a ring by the Simple protocol over eight H100s, as the tuner has them."""
    step = nccl.constants().hop["nvlink"]["ring"][2] * 1e-6
    return step, nccl.seconds(h100s(), ALL_REDUCE, tuned(nccl.Protocol.SIMPLE), size)


def table_of_ceiling() -> Markdown:
    """From the port's datasheet to what the tuner expects of a ring, and what was measured."""
    graph, simple = h100s().graphs[nccl.Method.RING], tuned(nccl.Protocol.SIMPLE)
    search = f"what NCCL's search gave the ring: {graph.channels} channels of {graph.inside:.0f} GB/s"
    _, whole = ring_of_simple(10**9)
    rows = [
        ("the port, as the datasheet has it", f"{port / GB:.0f}"),
        (search, f"{graph.channels * graph.inside:.0f}"),
        ("the tuner's table: ring, Simple", f"{simple.bandwidth * bus_factor(ALL_REDUCE, 8) / GB:.0f}"),
        ("the same at 1 GB, with latency", f"{bus_bandwidth(ALL_REDUCE, 8, 10**9, whole) / GB:.0f}"),
    ]
    for gpus in sorted({gpus for gpus, _, _ in on_gpus("all_reduce")}):
        size, us = max((size, us) for n, size, us in on_gpus("all_reduce") if n == gpus)
        rows.append((f"measured on {gpus} GPUs, {binary(size)}", f"{_bus(ALL_REDUCE, gpus, size, us) / GB:.0f}"))
    return table(["all-reduce by a ring, 8 H100 unless said", "GB/s of bus bandwidth"], rows)


def table_of_protocols() -> Markdown:
    """Latency and bandwidth of a ring by each protocol, as the tuner has them."""
    rows = []
    for protocol in nccl.PROTOCOLS:
        entry = tuned(protocol)
        bus = f"{entry.bandwidth * bus_factor(ALL_REDUCE, 8) / GB:.0f}"
        rows.append((protocol.value, spoken(entry.latency), bus))
    return table(["ring over 8 H100, by the tuner", "at 0 bytes", "GB/s of bus bandwidth, far right"], rows)


def figure_of_protocols() -> Figure:
    """The bus bandwidth of each protocol, and the sizes at which the tuner changes."""
    sizes = [float(2 ** (k / 2)) for k in range(24, 65)]
    rates = {}
    for protocol in nccl.PROTOCOLS:
        seconds = [nccl.seconds(h100s(), ALL_REDUCE, tuned(protocol), int(size)) for size in sizes]
        rates[protocol.value] = [bus_bandwidth(ALL_REDUCE, 8, *both) for both in zip(sizes, seconds, strict=True)]
    changes = [(size, f"{entry.protocol.value} from {binary(size)}") for size, entry in _changes()[1:]]
    return protocol_kinks(sizes, rates, changes, title="Three protocols of one ring, by NCCL's tuner for 8 H100")


def tuners_times() -> list[tuple[float, float]]:
    """(bytes, seconds) of what the tuner takes, a ring alone, from 1 KiB to 1 GiB."""
    return [
        (size, nccl.choose(_ring_only(), ALL_REDUCE, int(size)).seconds) for size in (2.0**k for k in range(10, 31))
    ]


def table_of_lines(points: Sequence[tuple[float, float]]) -> Markdown:
    """The lines that `fit` finds in times, without knowing of protocols."""
    rows = []
    for found in fit(points):
        bus = f"{found.bandwidth * bus_factor(ALL_REDUCE, 8) / GB:.0f}"
        rows.append((f"{binary(found.first)} to {binary(found.last)}", spoken(found.alpha), bus))
    return table(["found from the times alone", "α", "GB/s of bus bandwidth"], rows)


def error_of_one_line(points: Sequence[tuple[float, float]]) -> float:
    """The largest relative error of a single line through all points."""
    (single,) = fit(points, lines=1)
    return max(abs(predicted([single], size) / seconds - 1) for size, seconds in points)


def table_of_channels() -> Markdown:
    """What was fitted to NCCL's measured times with its rules for channels, and the errors at other sizes."""
    rows = []
    for kind in WHAT:
        gpus = max((found[0] for found in on_gpus(kind.value)), default=0)
        waits = [_fitted(kind, gpus, f"{protocol}: wait", "µs") for protocol in nccl.PROTOCOLS]
        channel = _fitted(kind, gpus, "ll: a channel, bandwidth", "GB/s")
        errors = [_share(kind, gpus, f"error {where}") for where in ("below 1 MiB", "from 1 MiB up")]
        rows.append((kind.value, gpus, *waits, channel, *errors))
    heads = ["fitted to NCCL's times", "GPUs", *(f"{protocol.value} waits" for protocol in nccl.PROTOCOLS)]
    heads += ["a channel, ll", "largest error below 1 MiB", "above"]
    return table(heads, rows) if rows[0][1] else NOT_YET


def table_of_the_jump() -> Markdown:
    """The bus bandwidth of an all-to-all over two GPUs where the number of its channels changes."""
    large = [(size, us) for gpus, size, us in on_gpus("all_to_all") if gpus == 2 and size >= 256 * MIB]
    rows = [(binary(size), f"{_bus(Collective.ALL_TO_ALL, 2, size, us) / GB:.0f}") for size, us in large]
    return table(["all-to-all over two GPUs", "GB/s of bus bandwidth"], rows) if rows else NOT_YET


def took(gpus: int, size: int = 1 << 30) -> float | None:
    """Milliseconds of a measured all-reduce over GPUs, or None."""
    return next((us * 1e-3 for n, of, us in on_gpus("all_reduce") if (n, of) == (gpus, size)), None)


def table_from_two_gpus() -> Markdown:
    """How far the laws of two GPUs are from more: errors by collective."""
    metrics = ("error below 1 MiB", "error from 1 MiB up", "share within 5% from 1 MiB up")
    rows = []
    for kind in WHAT:
        for gpus in sorted({n for n, _, _ in on_gpus(kind.value) if n > 2}):
            cells = [_share(kind, gpus, f"{metric}, by the laws of two GPUs") for metric in metrics]
            if all(cells):
                rows.append((kind.value, gpus, *cells))
    heads = ["predicted from two GPUs", "GPUs", "largest error below 1 MiB", "from 1 MiB up"]
    return table([*heads, "sizes within 5% from 1 MiB up"], rows) if rows else NOT_YET


DECADES = [10.0**k for k in range(4, 10)]


def network(nodes: int) -> Topology:
    """Nodes of one GPU and one NIC each, at one leaf."""
    return cluster(nodes, 1, fabric=Fabric(nodes_per_leaf=nodes))


@cache
def rings_over(nodes: int) -> list[float]:
    """Seconds of a ring at each of DECADES, simulated."""
    return [simulate(build.ring(ALL_REDUCE, nodes), network(nodes), size).seconds for size in DECADES]


@cache
def trees_over(nodes: int) -> list[tuple[float, int]]:
    """Seconds of two trees at each of DECADES, and the best number of pieces of those tried."""
    every = {pieces: build.double_tree_all_reduce(nodes, pieces) for pieces in (1, 2, 4, 8, 16)}
    return [
        min((simulate(schedule, network(nodes), size).seconds, pieces) for pieces, schedule in every.items())
        for size in DECADES
    ]


def last_decade_of_trees(nodes: int) -> int:
    """The last power of ten, in bytes, at which two trees beat the ring."""
    pairs = zip(DECADES, rings_over(nodes), trees_over(nodes), strict=True)
    return round(np.log10(max(size for size, ring, (tree, _) in pairs if tree < ring)))


def table_of_trees() -> Markdown:
    """Ring and two trees over 4, 16 and 64 nodes."""
    rows: list[tuple[str, ...]] = []
    for nodes in (4, 16, 64):
        rows.append((f"{nodes} nodes, ring", *map(spoken, rings_over(nodes))))
        rows.append((f"{nodes} nodes, two trees (pieces)", *(f"{spoken(s)} ({k})" for s, k in trees_over(nodes))))
    return table(["all-reduce, simulated", *(f"{size / MB:g} MB" for size in DECADES)], rows)


def figure_of_trees() -> Figure:
    """Ring and two trees over 4 and 64 nodes."""
    drawn = []
    for nodes in (4, 64):
        drawn.append(CostLine(f"ring, {nodes} nodes", DECADES, rings_over(nodes)))
        drawn.append(CostLine(f"two trees, {nodes} nodes", DECADES, [seconds for seconds, _ in trees_over(nodes)]))
    return cost_lines(drawn, title="Tree against ring, one GPU and one NIC per node", subtitle="simulated")


SMALL = (KIB, 8 * KIB, 64 * KIB, MIB)


def table_of_small_arrays() -> Markdown:
    """Four algorithms and NCCL's own choice for small arrays over eight GPUs, modelled."""
    ways = {"ring": Algorithm.RING, "halving-doubling": Algorithm.HALVING_DOUBLING}
    ways |= {"two-shot": Algorithm.TWO_SHOT, "one-shot": Algorithm.ONE_SHOT}
    rows: list[tuple[object, ...]] = []
    for name, way in ways.items():
        found = cost(ALL_REDUCE, way, 8)
        rows.append((name, int(found.messages), *(spoken(found.time(size, alpha, port)) for size in SMALL)))
    choices = (spoken(nccl.choose(h100s(), ALL_REDUCE, size).seconds) for size in SMALL)
    rows.append(("NCCL's tuner, its own choice", "", *choices))
    return table(["all-reduce of 8, modelled", "messages in a row", *map(binary, SMALL)], rows)


def table_of_measured_small() -> Markdown:
    """NCCL's all-reduces of small arrays in CUDA graphs, as measured."""
    of = {(gpus, size): us for gpus, size, us in on_gpus("all_reduce")}
    counts, sizes = sorted({gpus for gpus, _ in of}), [size for size in SMALL if any(s == size for _, s in of)]
    rows = [(f"{n} GPUs", *(f"{of[n, size]:.1f}" if (n, size) in of else "" for size in sizes)) for n in counts]
    return table(["all-reduce by NCCL, in CUDA graphs, µs", *map(binary, sizes)], rows) if rows else NOT_YET


def table_of_one_shot(clock: dict[int, float], backend: Backend) -> Markdown:
    """Ring and one-shot over four processes of this machine."""
    rows = []
    for size in (KIB, 512 * KIB, 8 * MIB):
        seconds = run_here(build.one_shot(ALL_REDUCE, 4), size, backend)
        rows.append((binary(size), spoken(clock[size]), spoken(seconds), f"{clock[size] / seconds:.2f}"))
    return table(["all-reduce of 4 processes, measured here", "ring", "one-shot", "ring / one-shot"], rows)


def share_of_stages(part: str, size: float = 256 * MB) -> float:
    """How busy a link is, such as "nic 0 to leaf 0", in a hierarchical all-reduce over two nodes, stage by stage."""
    nodes = cluster(2)
    run = simulate(build.hierarchical_all_reduce(2), nodes, size)
    tail, head = part.split(" to ")
    link = int(nodes.links_between(tail, head)[0])
    return float(run.link_bytes[link] / nodes.bandwidth[link] / run.seconds)


def read_curve() -> tuple[float, float]:
    """Exercise 1: α in seconds and the bus bandwidth in B/s, of 21 µs for 64 KiB and 365 µs for 64 MiB over 8 GPUs."""
    slope = (365e-6 - 21e-6) / (64 * MIB - 64 * KIB)
    return 21e-6 - slope * 64 * KIB, bus_factor(ALL_REDUCE, 8) / slope


def time_of_broadcast(transfers: Sequence[Transfer], chunks: int) -> tuple[float | None, str]:
    """Exercise 2: seconds of a broadcast of 64 MB over eight GPUs, None if it is not right, and a sentence."""
    try:
        schedule = Schedule("mine", BROADCAST, 8, chunks, (Phase(tuple(transfers)),))
        if fault := check(schedule):
            return None, fault.sentence
        seconds = simulate(schedule, node, 64 * MB).seconds
        return seconds, f"right, and {spoken(seconds)}"
    except NetworkError as error:
        return None, str(error)


def waits_less(nodes: float, times: float = 10) -> bool:
    """Exercise 3: whether two trees wait so many times less often than a ring; of powers of two."""
    power = nodes > 1 and float(np.log2(nodes)).is_integer()
    return power and 2 * (nodes - 1) >= times * 2 * np.log2(nodes)


def _bus_line(kind: Collective, name: str, sizes: Sequence[float]) -> CostLine:
    return CostLine(name, sizes, [bus_bandwidth(kind, 8, size, modelled(kind, size)) for size in sizes])


def _bus(kind: Collective, gpus: int, size: float, us: float) -> float:
    return bus_bandwidth(kind, gpus, size, us * 1e-6)


def _ring_only() -> nccl.Machine:
    known = h100s()
    graphs = {nccl.Method.RING: known.graphs[nccl.Method.RING]}
    return nccl.Machine(known.name, known.generation, 1, 8, graphs, hop=known.hop, intel=known.intel)


def _changes() -> Sequence[tuple[float, nccl.Entry]]:
    return nccl.crossovers(_ring_only(), ALL_REDUCE)


def _fitted(kind: Collective, gpus: int, metric: str, unit: str) -> str:
    """A fitted constant; nothing where there is none, or where the data cannot tell it from zero."""
    found = [value for n, _, value in on_gpus(kind.value, metric) if n == gpus]
    return f"{found[0]:.3g} {unit}" if found and found[0] else ""


def _share(kind: Collective, gpus: int, metric: str) -> str:
    return next((f"{value:.1%}" for n, _, value in on_gpus(kind.value, metric) if n == gpus), "")
