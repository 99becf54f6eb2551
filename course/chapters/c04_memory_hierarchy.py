"""Chapter 04: rings of addresses, and what its cells tabulate and draw of each memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from IPython.display import Markdown
from matplotlib.figure import Figure

from course.experiment import emulate
from course.figures.explore import Explorer
from course.figures.in_flight import explore_in_flight
from course.figures.lanes import sectors_of
from course.figures.working_set import Level, working_set
from course.kernel_cell import KernelCell
from course.lesson import Lesson, table
from course.measured import Measured, known
from warplab.figures import style
from warplab.hardware.chips import H200

KIB, MIB = 1024, 1024**2
AHEAD = (1, 2, 4, 8)  # loads that a warp starts before it needs the first
_STRIDES = (1, 2, 4, 8, 16, 32)
_WARP = 512  # bytes of a warp's load, 16 per lane
_RUNGS = ("rung_1_naive", "rung_2_shared_tile", "rung_3_padded", "submission")


def ring(size: int) -> np.ndarray:
    """Indices into an array of int64 of `size` bytes: a ring through all its lines of 128 bytes, in random order."""
    order = np.random.default_rng(0).permutation(size // 128) * 16
    places = np.zeros(size // 8, np.int64)
    places[order] = np.roll(order, -1)
    return places


def table_of_rounds(cell: KernelCell, kib: Sequence[int]) -> Markdown:
    """Two rounds of a walk along rings of these sizes: what the models of L1 and L2 hold in the second."""
    calls = [{"ring": ring(n * KIB), "out": np.zeros(1, np.int64), "hops": 2 * n * KIB // 128} for n in kib]
    rows = []
    for n, run in zip(kib, emulate(cell, calls, caches=H200), strict=True):
        caches = run.launches[0].caches
        assert caches is not None
        second = caches.l1_load_sectors // 2
        rows.append((f"{n} KiB", f"{caches.l1_load_hits / second:.0%}", f"{caches.l2_read_hits / second:.0%}"))
    return table(["ring", "second round: from L1", "from L2"], rows)


def figure_of_latencies(measured: Measured) -> Figure:
    """The latency of a load by the size of a ring of addresses."""
    return working_set(
        {"dependent load": measured.curve("dependent load", "latency")},
        "cycles",
        [Level("L1", 256 * KIB), Level("L2", H200.l2), Level("main memory", None)],
        label="latency",
        title="Latency of one load, by the size of the ring",
        subtitle="measured on an H200, one thread; "
        f"L1 has 256 KiB per SM, L2 {known(H200.l2) // MIB:.0f} MiB; a random ring of 128-byte lines",
    )


def table_of_latencies(measured: Measured) -> Markdown:
    """Cycles and nanoseconds until each memory answers, and the multiply-adds that fit into them."""
    clock, fma = measured.value("sm clock", "rate"), measured.value("fma.f32", "latency")
    latencies = (
        ("a multiply-add, from registers", fma),
        ("shared memory", measured.value("shared memory", "latency", shape=(1,))),
        ("L1", measured.value("l1", "latency")),
        ("shared memory of the other block of a cluster", measured.value("distributed shared memory", "latency")),
        ("L2", measured.value("l2", "latency")),
        ("main memory", measured.value("hbm", "latency")),
    )
    rows = [(name, cycles, f"{cycles / clock * 1e9:.3g} ns", cycles / fma) for name, cycles in latencies]
    return table(["the answer comes from", "cycles", "time", "multiply-adds one after the other"], rows)


def figure_of_bandwidths(measured: Measured) -> Figure:
    """The bandwidth of all SMs by the size of what they read again and again, through L1 and past it."""
    return working_set(
        {
            way: [(size, rate / 1e12) for size, rate in measured.curve("read", "bandwidth", variant=way)]
            for way in ("through L1", "past L1")
        },
        "TB/s",
        [Level("all L1s together", 256 * KIB * H200.sms), Level("L2", H200.l2), Level("main memory", None)],
        label="bandwidth",
        logarithmic=True,
        title="Bandwidth of all SMs, by the size of what they read",
        subtitle="measured on an H200; the size of all 132 slices together",
    )


def bytes_per_cycle(measured: Measured) -> dict[str, float]:
    """Bytes that one SM gets per cycle from each level if all SMs read."""
    cycles = H200.sms * measured.value("sm clock", "rate")  # of all SMs, in a second
    return {
        "registers, as operands of multiply-adds": measured.value("fma.f32", "rate") * 3 * 4,
        "shared memory": measured.value("shared memory", "bandwidth"),
        "L1": measured.value("l1", "bandwidth"),
        "L2": measured.value("l2", "bandwidth") / cycles,
        "main memory": measured.value("hbm", "bandwidth") / cycles,
    }


def table_of_bandwidths(measured: Measured) -> Markdown:
    """Bytes per cycle from each level."""
    heads = ["from", "bytes per cycle for one SM, if all SMs read"]
    return table(heads, [tuple(row) for row in bytes_per_cycle(measured).items()])


def sentence_of_steps(measured: Measured) -> Markdown:
    """How many times as much each level delivers as the next one."""
    rates = list(bytes_per_cycle(measured).values())
    return Markdown(
        f"Registers deliver **{rates[0] / rates[1]:.0f} times** as much as shared memory, shared memory as much as L1 "
        f"({rates[1] / rates[2]:.2f} times), L1 **{rates[2] / rates[3]:.1f} times** as much as L2, "
        f"and L2 **{rates[3] / rates[4]:.1f} times** as much as the main memory."
    )


def table_of_levels(measured: Measured) -> Markdown:
    """The summary: of each memory of an H200 its latency, what one SM gets from it, and its size."""
    rates = bytes_per_cycle(measured)
    sizes = {
        "shared memory": "with L1 256 KiB per SM",
        "L1": "",
        "L2": f"{known(H200.l2) / MIB:.0f} MiB",
        "main memory": f"{H200.memory / 1e9:.0f} GB",
    }
    latencies = {
        "shared memory": measured.value("shared memory", "latency", shape=(1,)),
        "L1": measured.value("l1", "latency"),
        "L2": measured.value("l2", "latency"),
        "main memory": measured.value("hbm", "latency"),
    }
    rows = [(name, f"{latencies[name]:.0f}", f"{rates[name]:.0f}", size) for name, size in sizes.items()]
    return table(
        ["memory of an H200", "latency, cycles, measured", "bytes per cycle for one SM, measured", "size"], rows
    )


def littles_bytes(measured: Measured) -> float:
    """Bytes that an SM has in flight by Little's law at the memory's bandwidth and the latency of an idle memory."""
    seconds = measured.value("hbm", "latency") / measured.value("sm clock", "rate")
    return measured.value("hbm", "bandwidth") * seconds / H200.sms


def bandwidth_by_warps(measured: Measured, ahead: int) -> dict[int, float]:
    """Bytes per second from the main memory by the warps of an SM, each with so many loads in flight."""
    return dict(measured.curve("bytes in flight", "bandwidth", variant=f"{ahead} loads"))


def figure_of_bytes_in_flight(measured: Measured) -> Figure:
    """The bandwidth of the main memory by the bytes in flight in each SM."""
    figure, (axes,) = style.figure(9, 4)
    for number, ahead in enumerate(AHEAD):
        curve = bandwidth_by_warps(measured, ahead)
        flight = [warps * _WARP * ahead / KIB for warps in curve]
        look: dict[str, Any] = {"marker": "os^D"[number], "color": style.PALETTE[number]}
        label = f"{ahead} load{'s' * (ahead > 1)} per warp in flight"
        axes.plot(flight, [rate / 1e12 for rate in curve.values()], label=label, **look)
    law = littles_bytes(measured) / KIB
    axes.axvline(law, color=style.MUTED, linestyle="--")
    axes.text(law * 1.05, 0.3, "Little's law", color=style.MUTED)
    axes.set_xscale("log", base=2)
    ticks = [2.0**n for n in range(-1, 8)]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_xlabel("KiB in flight in each SM: warps x loads per warp x 512 bytes")
    axes.set_ylabel("TB/s from the main memory")
    axes.legend(frameon=False, fontsize=style.SMALL)
    axes.grid(True)
    style.headline(figure, "Bandwidth by bytes in flight", "measured on an H200, 1 to 32 warps per SM")
    return figure


def explore_bytes_in_flight(measured: Measured) -> Explorer:
    """Choose a kernel's warps, loads and widths, and see where it stands on the measured curve."""
    points = [
        (_WARP * ahead * warps, rate) for ahead in AHEAD for warps, rate in bandwidth_by_warps(measured, ahead).items()
    ]
    return explore_in_flight(points, littles_bytes(measured))


def bytes_for(measured: Measured, share: float, warps: int = 16) -> float:
    """Bytes in flight in each SM that reach this share of the bandwidth, between points of the curve of `warps`."""
    flight = [warps * _WARP * ahead for ahead in AHEAD]
    rates = [bandwidth_by_warps(measured, ahead)[warps] for ahead in AHEAD]
    return float(np.interp(share * measured.value("hbm", "bandwidth"), rates, flight))


def share_at(measured: Measured, flight: float, warps: int = 16) -> float:
    """The share of the bandwidth that so many bytes in flight in each SM reach, on the same curve."""
    sizes = [warps * _WARP * ahead for ahead in AHEAD]
    rates = [bandwidth_by_warps(measured, ahead)[warps] for ahead in AHEAD]
    return float(np.interp(flight, sizes, rates)) / measured.value("hbm", "bandwidth")


def useful_bandwidth(measured: Measured) -> dict[int, float]:
    """Requested bytes per second by the stride in float32."""
    return dict(measured.curve("strided read", "bandwidth"))


def table_of_strides(measured: Measured, cell: KernelCell) -> Markdown:
    """Sectors and useful bandwidth of strided reads: counted, predicted by the model of the caches, and measured."""
    calls = [{"x": np.zeros(4096 * s, np.float32), "out": np.zeros(4096, np.float32), "stride": s} for s in _STRIDES]
    bandwidth, useful, rows = measured.value("hbm", "bandwidth"), useful_bandwidth(measured), []
    for stride, run in zip(_STRIDES, emulate(cell, calls, caches=H200), strict=True):
        requests, caches = run.total.global_load_requests, run.launches[0].caches
        assert caches is not None
        from_memory = caches.dram_read_sectors / requests
        predicted = bandwidth * (32 * 4) / (32 * from_memory)  # the requested part of what comes from memory
        counted = run.total.global_load_sectors / requests
        rows.append((str(stride), counted, from_memory, predicted / 1e9, useful[stride] / 1e9))
    heads = ["sectors per request, counted", "from memory, modelled", "useful GB/s, predicted", "measured"]
    return table(["stride", *heads], rows)


def alone_from(size: int) -> int:
    """The first stride, in elements of `size` bytes, with which each lane has a sector of its own."""
    return next(n for n in range(1, 33) if sectors_at(n * size, size) == 32)


def sectors_at(distance: int, size: int = 4) -> int:
    """Sectors of a warp's request whose lanes read elements of `size` bytes, `distance` bytes apart."""
    return len(sectors_of([distance * lane for lane in range(32)], size).sectors)


def table_of_loads(cell: KernelCell) -> Markdown:
    """Requests and sectors of two kernels that read four floats per thread, far apart and side by side."""
    call = [{"x": np.zeros(4 * 4096, np.float32), "out": np.zeros(4096, np.float32)}]
    rows = []
    for name in ("narrow", "neighbours"):
        total = emulate(cell, call, function=name)[0].total
        requests, sectors = total.global_load_requests, total.global_load_sectors
        rows.append((name, requests, sectors, sectors / requests))
    return table(["kernel", "load requests", "load sectors", "sectors per request"], rows)


def wavefronts_by_stride(cell: KernelCell, strides: Sequence[int]) -> dict[int, int]:
    """Wavefronts of a warp's read from shared memory, by its stride in words."""
    runs = emulate(cell, [{"out": np.zeros(32, np.float32), "stride": stride} for stride in strides])
    return {stride: run.total.shared_load_wavefronts for stride, run in zip(strides, runs, strict=True)}


def table_of_wavefronts(measured: Measured, wavefronts: Mapping[int, int]) -> Markdown:
    """Wavefronts by stride, with the cycles that were measured for many warps and for one load."""
    cycles = dict(measured.curve("shared request", "time"))
    latency = dict(measured.curve("shared memory", "latency"))
    rows = [(str(s), count, cycles.get(s, ""), latency.get(s, "")) for s, count in wavefronts.items()]
    heads = ["wavefronts, counted", "cycles per request, many warps, measured", "cycles of one load, measured"]
    return table(["stride", *heads], rows)


def figure_of_halves(measured: Measured) -> Figure:
    """How many lines of L2 answer after how many cycles, seen from one SM and from all."""
    near = measured.record("l2 half", "latency", variant="near")
    start, step = near.extra["histogram_from"], near.extra["histogram_step"]
    figure, panels = style.figure(11, 3.4, widths=(1, 1))
    titles = {"one_sm": "one SM", "all_sms": f"all {near.extra['sms_measured']} SMs"}
    for axes, (key, title) in zip(panels, titles.items(), strict=True):
        counts = near.extra[key]
        axes.bar([start + step * (n + 0.5) for n in range(len(counts))], counts, width=step, color=style.BLUE)
        axes.set_xlabel("cycles of a load from L2")
        axes.set_ylabel("lines")
        axes.set_title(title, loc="left", size=style.TEXT, color=style.INK)
    style.headline(figure, "Lines of L2 differ in latency", "measured on an H200, 512 lines seen from each SM")
    return figure


def sentence_of_halves(measured: Measured) -> Markdown:
    """The latencies of near and far lines, and how the SMs agree about which is which."""
    near = measured.record("l2 half", "latency", variant="near")
    far = measured.value("l2 half", "latency", variant="far")
    same, other = near.extra["sms_like_the_first"], near.extra["sms_unlike"]
    alike = near.extra["correlation"]
    return Markdown(
        f"The nearer half of the lines takes **{near.value:.0f} cycles** on average, the farther half **{far:.0f}**. "
        f"Which lines are near depends on the SM: {same} SMs agree with the first one, for {other} it is the other way "
        f"round (correlation of the latencies {alike['within a group']:+.2f} within a group, "
        f"{alike['between groups']:+.2f} between the groups)."
    )


def table_of_rings_in_l2(measured: Measured) -> Markdown:
    """Cycles per load of rings from 1 to 128 MiB."""
    curve = measured.curve("dependent load", "latency")
    rows = [(f"{size // MIB} MiB", cycles) for size, cycles in curve if MIB <= size <= 128 * MIB]
    return table(["ring", "cycles per load"], rows)


def sentence_of_far_lines(measured: Measured) -> Markdown:
    """What the other half of the loads would take at 40 MiB if one half took what near lines take."""
    near = measured.value("l2 half", "latency", variant="near")
    others = 2 * dict(measured.curve("dependent load", "latency"))[40 * MIB] - near
    return Markdown(
        f"At 40 MiB: if half of the loads took {near:.0f} cycles, the others would take {others:.0f}; "
        f"the main memory takes {measured.value('hbm', 'latency'):.0f}."
    )


def figure_of_translation(measured: Measured) -> Figure:
    """The latency of loads from L2 by the memory over which they are spread."""
    return working_set(
        {"one line per page, all lines in L2": measured.curve("translation", "latency")},
        "cycles",
        [Level("", None)],
        label="latency",
        across="memory over which the loads are spread",
        title="Latency of a load from L2, by the memory over which the loads are spread",
        subtitle="measured on an H200, one line in every page of 2 MiB; the lines together are at most 4 MiB",
    )


def table_of_translation(measured: Measured) -> Markdown:
    """The same from 8 GiB on."""
    curve = measured.curve("translation", "latency")
    rows = [(f"{size / 2**30:.0f} GiB", cycles) for size, cycles in curve if size >= 8 * 2**30]
    return table(["spread over", "cycles per load"], rows)


def table_of_atomics(measured: Measured) -> Markdown:
    """Additions per second by where they go."""
    of_all = H200.sms * measured.value("sm clock", "rate")
    rows = []
    for place in ("one word", "one line", "a word each"):
        rate = measured.value("global atomics", "rate", variant=place)
        rows.append(("global memory", place, f"{rate / 1e9:,.1f} billion"))
    for place in ("one word", "a word each"):
        rate = measured.value("shared atomics", "rate", variant=place) * of_all
        rows.append(("shared memory, all SMs", place, f"{rate / 1e9:,.0f} billion"))
    return table(["where", "to", "additions per second, measured"], rows)


def table_of_transposes(lesson: Lesson) -> Markdown:
    """The rungs of lab 03: sectors, bank conflicts and, where it is known, the share of the least time."""
    rows = []
    for rung in map(lesson.climb, _RUNGS):
        t = rung.total
        sectors = t.global_load_sectors + t.global_store_sectors
        requests = t.global_load_requests + t.global_store_requests
        share = "" if rung.time is None else f"{rung.time.efficiency:.1%}"
        conflicts = t.shared_load_bank_conflicts + t.shared_store_bank_conflicts
        rows.append((rung.name, sectors / requests, conflicts, share))
    return table(["rung", "sectors per request", "bank conflicts", "of the time floor"], rows)
