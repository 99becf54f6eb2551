"""Section 7 of chapter 11: the estimates of NCCL's tuner, beside published measurements."""

from __future__ import annotations

from IPython.display import Markdown
from matplotlib.figure import Figure

from course.chapters.c11_the_network import ALL_REDUCE, GB, port
from course.chapters.spoken import binary, spoken
from course.figures.cost_lines import CostLine, cost_lines
from course.lesson import table
from systems.network import nccl
from systems.network.clusters import nvl72
from systems.network.collectives import bus_factor
from systems.network.costs import Algorithm, cost


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


def _entry(entry: nccl.Entry) -> str:
    return f"{entry.method.value}, {entry.protocol.value}"
