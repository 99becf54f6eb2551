"""Chapter 15: what its cells compute, read from records and draw, beside the interpreter, its lists and its model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
from IPython.display import Markdown
from matplotlib.figure import Figure

from course import results
from course.figures.sm_timeline import NAMES, sm_timeline
from course.figures.stacks import stacks
from course.lesson import table
from course.measured import measured, needed
from systems.megakernel import launch
from systems.megakernel.schedule import Instruction, Op, Schedule, schedule, stages
from systems.megakernel.shapes import LLAMA_1B, MATRICES
from systems.megakernel.timeline import Machine, Span, modelled, read
from warplab.hardware.chips import H100

SMS = 132  # of an H100 or H200
DECODER = "megakernel_nvidia_h200"  # the decoder's results on that card; megakernel has an H100's
CARDS = {"H200": DECODER, "H100": "megakernel"}
RIVALS = (
    "torch, eager in a CUDA graph",
    "torch.compile in a CUDA graph",
    "torch.compile, coordinate descent, in a CUDA graph",
)
RINGS, FLIGHTS = (2, 3, 4, 6, 8, 10, 13), (1, 2, 3, 4, 6, 8, 13)
HEADS = ["instruction, µs", "in all", "waits for inputs", "takes them, waits for weights", "computes", "signals"]
PAGES = {Op.QKV: "qkv", Op.OUT: "out", Op.GATE_UP: "gate_up", Op.DOWN: "down", Op.LOGITS: "embedding"}
shape = LLAMA_1B
copy = needed("ceilings", "copy", "rate").value  # bytes per second, on the H200 that this project measures on
floor = shape.weight_bytes / copy  # seconds
gaps = {
    "stream": needed("microbench", "launch", "time", variant="between kernels").value,
    "graph": needed("microbench", "launch", "time", variant="in a graph").value,
}  # seconds


def table_of_matrices() -> Markdown:
    """The matrices of the model with their bytes in all layers."""
    each = {name: 2 * shape.width * shape.rows(name) * shape.layers for name in MATRICES}
    rows = [
        ("queries, keys, values", shape.rows("qkv"), shape.width, each["qkv"]),
        ("attention's output", shape.rows("out"), shape.width, each["out"]),
        ("gate and up", shape.rows("gate_up"), shape.width, each["gate_up"]),
        ("down", shape.width, shape.hidden, each["down"]),
        ("embedding, once, for the logits", shape.vocabulary, shape.width, 2 * shape.width * shape.vocabulary),
    ]
    return table(
        ["matrix", "rows", "columns", "MB in all layers"], [(*row[:3], f"{row[3] / 1e6:,.0f}") for row in rows]
    )


def step_of_kernels(kernels_a_layer: int, between_us: float, start_and_tail_us: float) -> Figure:
    """What a step takes if nothing overlaps."""
    kernels, weights = kernels_a_layer * shape.layers, 1e6 * floor
    parts = {"weights": weights, "between kernels": kernels * between_us}
    parts["starts and tails"] = kernels * start_and_tail_us
    whole = sum(parts.values())
    return stacks(
        {"one kernel": {"weights": weights}, f"{kernels} kernels": parts},
        across="µs",
        title=f"{whole / weights:.2f} times the floor: {shape.weight_bytes / whole / 1e6:.2f} TB/s",
        subtitle="computed from your choices; nothing overlaps",
    )


def table_of_idle() -> Markdown:
    """Idle time between and within kernels that fill the chip, by their own clocks."""
    rows = []
    for variant in ("stream", "graph", "dependent launch"):
        if found := measured(DECODER, "between two kernels", "idle time", variant=variant):
            rows.append((f"between two kernels: {variant}", f"{found.value:.2f} µs"))
    for blocks in ("132 blocks", "133 blocks", "264 blocks"):
        if found := measured(DECODER, "tail", "idle share", variant=blocks):
            rows.append(
                (f"within a kernel of {blocks}, one block per SM at a time", f"{found.value:.0%} of the SMs' time")
            )
    return table(["kernels that fill the chip, by their own clocks", "idle"], rows)


def table_of_list(lines: Sequence[Instruction]) -> Markdown:
    """Instructions of one SM, as the host makes them."""
    rows = [
        (
            line.op.name,
            line.layer,
            line.pages,
            line.row,
            "" if line.wait < 0 else f"counter {line.wait} ≥ {line.target}",
            "" if line.bump < 0 else f"counter {line.bump}",
        )
        for line in lines
    ]
    return table(["SM 0 does", "layer", "pages", "from row", "waits until", "then adds 1 to"], rows)


def pages_of(lists: Schedule) -> list[int]:
    """Pages of each SM."""
    return [sum(line.pages for line in each) for each in lists]


def passage(first: str, last: str, source: str | None = None) -> Markdown:
    """Lines of interpreter.cu or of another source, from the first with `first` in it to the next with `last`."""
    text = (source or launch.source()).splitlines()
    start = next(n for n, line in enumerate(text) if first in line)
    end = next(n for n in range(start, len(text)) if text[n].startswith(last))
    return Markdown("```cpp\n" + "\n".join(text[start : end + 1]) + "\n```")


def machine() -> Machine:
    """An H200 as the model of section 6 knows it; what is assumed says so."""
    clock = needed("microbench", "sm clock", "rate").value
    return Machine(
        page=1e9 * shape.page / (copy / SMS),
        latency=1e9 * needed("microbench", "hbm", "latency").value / clock,
        compute=100.0,  # assumed: a fifth of what its page takes
        hand_over=2000.0,  # assumed
        slots=launch.SLOTS,
    )


def pages_time(lists: Schedule, of: Machine) -> float:
    """Nanoseconds that the pages of a step take by themselves."""
    return of.page * sum(pages_of(lists)) / SMS


def factors_of_rings(lists: Schedule, of: Machine) -> dict[int, float]:
    """By the pages of the ring: how many times the pages' time a step takes in the model."""
    least = pages_time(lists, of)
    return {slots: modelled(lists, replace(of, slots=slots)).max() / least for slots in range(2, 14)}


def table_of_factors(factors: dict[int, float]) -> Markdown:
    """The same as a table."""
    return table(["pages of the ring", "times the pages' time"], [(n, f"{one:.3f}") for n, one in factors.items()])


def step_time(variant: str, file: str = DECODER) -> results.Record | None:
    """The record of a step at position 512, all contenders in alternation; None if not measured."""
    key = (shape.layers, shape.width, shape.heads, shape.kv_heads, shape.vocabulary, 512)
    return measured(file, "decoding step", "time", variant=variant, shape=key)


def ms_of(variant: str, file: str = DECODER) -> float:
    """Milliseconds of a contender's step."""
    found = step_time(variant, file)
    assert found is not None, variant
    return found.value


def table_of_steps() -> Markdown:
    """A step of ours and of its rivals."""
    equal = needed(DECODER, "tokens", "equal")
    rate = needed(DECODER, "decoding step", "weights read", variant="ours")
    gpu, ours = results.read(results.DIRECTORY / f"{DECODER}.json").header.gpu, ms_of("ours")
    print(f"on an {gpu}: {equal.value:.0f} of {equal.extra['positions']} tokens are float32's")
    print(f"weights come at {rate.value / 1e12:.2f} TB/s, {rate.ratio:.1%} of the copy's bandwidth")
    rows = [("ours, one launch", f"{ours:.3f}", "")]
    for variant in (*RIVALS, "copy"):
        if other := step_time(variant):
            rows.append((variant, f"{other.value:.3f}", f"{other.value / ours:.2f}"))
    return table(["step at position 512", "ms", "times ours"], rows)


def in_a_row(slots: int, in_flight: int, late: bool = False, flags: bool = False, file: str = DECODER) -> float:
    """Milliseconds per step, many in a row: a ring of so many pages, of which so many are in flight."""
    variant = f"ring of {slots}, {in_flight} on their way{', late' if late else ''}{', flags' if flags else ''}"
    return needed(file, "decoding step", "time in a row", variant=variant).value


def as_copied() -> Machine:
    """The machine with pages at the rate of the copy that was timed in alternation with the decoder."""
    return replace(machine(), page=1e6 * ms_of("copy") * shape.page * SMS / shape.weight_bytes)


def table_of_first_model(lists: Schedule) -> Markdown:
    """Rings of several sizes, all of whose pages are in flight: as measured, and by the model of section 6."""
    there, full_ring = as_copied(), in_a_row(13, 13)
    full, rows = modelled(lists, there).max(), []
    for slots, late in [*((slots, False) for slots in RINGS), (13, True)]:
        ms = in_a_row(slots, slots, late)
        model = modelled(lists, replace(there, slots=slots, ahead=not late)).max()
        name = f"{slots} pages{', when inputs are there' if late else ''}"
        rows.append((name, f"{ms:.3f}", f"{ms / full_ring:.2f}", f"{model / full:.2f}"))
    return table(["ring", "ms per step, many in a row", "times the full ring", "the model says"], rows)


def table_of_instructions(suffix: str = "") -> Markdown:
    """For each kind of instruction what its time goes to, as measured."""
    rows = []
    for op in NAMES:
        if found := measured(DECODER, "instruction", "mean time", variant=op.name + suffix):
            waits = [found.extra[name] for name in ("waited_for_inputs", "waited_for_weights", "told_others")]
            times = found.value, *waits[:2], found.value - sum(waits)
            rows.append((NAMES[op], *(f"{time:.2f}" for time in times), f"**{waits[2]:.2f}**"))
    return table(HEADS, rows)


def table_of_flights() -> Markdown:
    """A step by the pages in flight, of a ring of 13."""
    rows = [(n, f"{in_a_row(13, n):.3f}", f"{ms_of('copy') / in_a_row(13, n):.0%}") for n in FLIGHTS]
    return table(["pages in flight, ring of 13", "ms per step, many in a row", "of a copy's bandwidth"], rows)


def timeline(variant: str) -> list[list[Span]]:
    """The instructions of two layers, for each SM, by its own clock."""
    return [read(line) for line in needed(DECODER, "timeline", "time", variant=variant).extra["lines"]]


def took(variant: str) -> float:
    """Microseconds of those two layers."""
    lines = timeline(variant)
    return (max(each[-1].told for each in lines) - min(each[0].begun for each in lines)) / 1e3


def figure_of_layers(variant: str, name: str) -> Figure:
    """The same as a picture; all have one time axis."""
    return sm_timeline(
        timeline(variant),
        title=f"{name}: two layers in {took(variant):.0f} µs",
        subtitle="one step of the 1B shape, by globaltimer; measured on an H200",
        until=max(took(each) for each in ("13 on their way", "", "flags")),
    )


def hand_overs(variant: str, since: str) -> dict[tuple[Op, Op], float]:
    """(operator before, operator after): ns from the last SM that is `since` (done, told), to where the median SM
    multiplies."""
    last: dict[tuple[int, Op], float] = {}
    begin: dict[tuple[int, Op], list[float]] = {}
    for span in (span for each in timeline(variant) for span in each):
        key = span.layer, span.op
        last[key] = max(last.get(key, 0.0), getattr(span, since))
        begin.setdefault(key, []).append(max(span.ready, span.loaded))
    order = sorted(last, key=last.__getitem__)
    found: dict[tuple[Op, Op], list[float]] = {}
    for before, after in zip(order, order[1:], strict=False):
        found.setdefault((before[1], after[1]), []).append(float(np.median(begin[after])) - last[before])
    return {pair: float(np.mean(each)) for pair, each in found.items()}


def table_of_second_model(lists: Schedule) -> Markdown:
    """The model in which a release comes after the pages in flight, beside the measurements."""
    signal = float(np.mean([*hand_overs("", "told").values()]))
    knows, full_ring = replace(as_copied(), release_waits=True, hand_over=signal), in_a_row(13, 13)
    base = modelled(lists, knows).max()
    print(f"a signal takes {signal / 1e3:.1f} µs; thirteen in flight: {full_ring:.3f} ms measured")
    print(f"{base / 1e6:.3f} ms by the model")
    cases = [(slots, slots, False) for slots in RINGS] + [(13, 13, True)]
    cases += [(13, n, False) for n in FLIGHTS[-2::-1]] + [(slots, 2, False) for slots in RINGS[:0:-1][1:]]
    rows = []
    for slots, n, late in [*cases, (13, 2, True)]:
        model = modelled(lists, replace(knows, slots=slots, in_flight=n, ahead=not late)).max()
        said = f"{n}{', when inputs are there' if late else ''}"
        rows.append((slots, said, f"{in_a_row(slots, n, late) / full_ring:.2f}", f"{model / base:.2f}"))
    return table(["ring", "in flight", "times the full ring of thirteen, measured", "the model says"], rows)


def table_of_flags() -> Markdown:
    """A step with counters released and with flags, by the pages in flight."""
    rows = []
    for n in FLIGHTS:
        released, flagged = in_a_row(13, n), in_a_row(13, n, flags=True)
        rows.append((n, f"{released:.3f}", f"{flagged:.3f}", f"{1 - flagged / released:.0%}"))
    heads = ["pages in flight, ring of 13", "ms per step, counters released", "ms per step, words with flags"]
    return table([*heads, "shorter by"], rows)


def table_of_hand_overs() -> Markdown:
    """Hand-overs by operator, with counters released and with flags."""
    by_release, by_flags = hand_overs("", "done"), hand_overs("flags", "done")
    rows = [
        (f"{NAMES[before]} → {NAMES[after]}", *(f"{by[before, after] / 1e3:.2f}" for by in (by_release, by_flags)))
        for before, after in by_release
    ]
    means = (f"**{np.mean([*by.values()]) / 1e3:.2f}**" for by in (by_release, by_flags))
    return table(["from → to", "counters released, µs", "words with flags, µs"], [*rows, ("**mean**", *means)])


def table_of_late_rings() -> Markdown:
    """What loading ahead gains, with each form."""
    rows = []
    for name, flags in (("counters released", False), ("words with flags", True)):
        ahead, late = (in_a_row(13, 2, late=late, flags=flags) for late in (False, True))
        rows.append((name, f"{ahead:.3f}", f"{late:.3f}", f"{late / ahead - 1:.0%}"))
    return table(["ring of 13, two in flight", "ahead, ms", "when inputs are there, ms", "longer by"], rows)


def table_of_a_layer() -> Markdown:
    """Each instruction of a layer beside the time of its pages at a copy's rate."""
    page_us, rows, whole = as_copied().page / 1e3, [], np.zeros(4)
    for op in (Op.QKV, Op.ATTEND, Op.OUT, Op.GATE_UP, Op.DOWN):
        pages = shape.rows(PAGES[op]) / 4 / SMS if op in PAGES else 0
        line = np.array([pages * page_us, _of_a_layer(op, "")[0], *_of_a_layer(op, ", flags")])
        rows.append((NAMES[op], *(f"{each:.2f}" for each in line)))
        whole += line
    rows.append(("**a layer**", *(f"**{each:.2f}**" for each in whole)))
    more, flagged = whole[2] - whole[0], in_a_row(13, 2, flags=True)
    above = 1e3 * (flagged - ms_of("copy"))
    print(f"{more:.1f} µs per layer more than its pages take; {shape.layers * more:.0f} in {shape.layers} layers")
    print(f"a step takes {above:.0f} µs more than the copy")
    logits = needed(DECODER, "instruction", "mean time", variant="LOGITS, flags")
    seconds = logits.value * logits.extra["instructions"] / SMS
    print(f"the logits take {seconds:.0f} µs, their pages {shape.vocabulary / 4 / SMS * page_us:.0f} µs")
    heads = ["µs of the mean SM", "its pages, at a copy's rate", "counters released", "words with flags"]
    return table([*heads, "of that, multiplies nothing"], rows)


def table_of_one_more_page(lists: Schedule) -> Markdown:
    """What one more page of the ring saves, with flags."""
    page_us = as_copied().page / 1e3
    sizes = [(slots, in_a_row(slots, 2, flags=True)) for slots in RINGS[1:]]
    rows = [
        (
            f"{few} to {many}",
            f"{before:.3f} to {after:.3f}",
            f"{1e3 * (before - after) / (many - few) / shape.layers:.2f}",
        )
        for (few, before), (many, after) in zip(sizes, sizes[1:], strict=False)
    ]
    print(f"a page takes {page_us:.2f} µs at the copy's rate; a full ring is {13 * page_us:.1f} µs of memory")
    mean = float(np.mean([*hand_overs("flags", "done").values()]))
    sooner = modelled(lists, replace(as_copied(), in_flight=2, hand_over=mean)).max()
    flagged = in_a_row(13, 2, flags=True)
    print(f"the model with these hand-overs and no release: {sooner / 1e6:.3f} ms; measured: {flagged:.3f} ms")
    return table(["pages of the ring, words with flags", "ms per step", "one more page saves, µs per layer"], rows)


def share_of_copy(card: str) -> float:
    """The share of a copy's rate at which weights come, on an H200 or an H100."""
    return needed(CARDS[card], "decoding step", "weights read", variant="ours").ratio or 0.0


def table_of_cards() -> Markdown:
    """The kernel and its rivals on two cards."""
    rows = []
    for card, file in CARDS.items():
        page = 1e3 * ms_of("copy", file) * shape.page * SMS / shape.weight_bytes
        ops = ("QKV", "OUT", "GATE_UP", "DOWN")
        signals = [needed(file, "instruction", "mean time", variant=op).extra["told_others"] for op in ops]
        rivals = (f"{ms_of(variant, file) / ms_of('ours', file):.2f}" for variant in RIVALS)
        rows.append((card, f"{share_of_copy(card):.1%}", *rivals, f"{page:.2f}", f"{np.mean(signals):.2f}"))
    heads = ["card", "of its copy's rate", "eager, times ours", "compiled", "coordinate descent"]
    return table([*heads, "a page every, µs", "a release would take, µs (2 in flight)"], rows)


def print_share_of_datasheet() -> None:
    """The rate on the H100 beside its datasheet's and its copy's."""
    rate = needed(CARDS["H100"], "decoding step", "weights read", variant="ours")
    share = rate.value / H100.bandwidth
    print(f"on the H100: {rate.value / 1e12:.2f} of the datasheet's {H100.bandwidth / 1e12:.2f} TB/s, {share:.0%}")
    print(f"a copy moves {(rate.baseline_value or 0) / 1e12:.2f} TB/s")


def right_targets(found: dict[int, int], lists: Schedule) -> bool:
    """Exercise 1: whether each wait of the lists has its target."""
    return all(found.get(line.wait) == line.target for each in lists for line in each if line.wait >= 0)


def dealt_by(shares_of: Callable[[int, list[int]], list[int]]) -> list[int] | None:
    """Exercise 2: pages of each SM after all products of the step; None if pages are lost or made up."""
    had = [0] * SMS
    for _, op in stages(shape):
        if op is not Op.ATTEND:
            pages = shape.rows(PAGES[op]) // 4
            shares = shares_of(pages, list(had))
            if sum(shares) != pages or min(shares) < 0:
                print("pages are missing or invented")
                return None
            had = [before + share for before, share in zip(had, shares, strict=True)]
    print(f"from {min(had)} to {max(had)} pages; {max(had) / (sum(had) / SMS) - 1:.1%} above the mean at most")
    return had


@cache
def short_lists() -> Schedule:
    """Exercise 3: the lists of three layers."""
    return schedule(replace(shape, layers=3), SMS, 511)


def times_the_pages(hand_over: float) -> float:
    """Exercise 3: a step of three layers over the time of its pages, in the model with such a hand-over."""
    of = machine()
    return modelled(short_lists(), replace(of, hand_over=hand_over)).max() / pages_time(short_lists(), of)


def _of_a_layer(op: Op, suffix: str) -> np.ndarray:
    """(all of it, what of it multiplies nothing), µs of a layer on the mean SM."""
    found = needed(DECODER, "instruction", "mean time", variant=op.name + suffix)
    times = found.extra["instructions"] / (SMS * shape.layers)
    waits = sum(found.extra[name] for name in ("waited_for_inputs", "waited_for_weights", "told_others"))
    return np.array([found.value, waits]) * times
