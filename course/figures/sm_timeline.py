"""Instructions over time, a row for each SM: what it computes, and what it waits for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from course.figures.explore import Explorer
from systems.megakernel.schedule import Op, schedule
from systems.megakernel.shapes import Shape
from systems.megakernel.timeline import Machine, Span, modelled, spans
from warplab.figures import style

COLOURS = {
    Op.EMBED: style.INK, Op.QKV: style.BLUE, Op.ATTEND: style.PURPLE, Op.OUT: style.GREEN, Op.GATE_UP: style.ORANGE,
    Op.DOWN: style.SKY, Op.LOGITS: style.RED,
}  # fmt: skip
TELLS = style.MUTED
NAMES = {
    Op.EMBED: "embedding", Op.QKV: "queries, keys, values", Op.ATTEND: "attention", Op.OUT: "its output",
    Op.GATE_UP: "gate and up", Op.DOWN: "down", Op.LOGITS: "logits",
}  # fmt: skip


def sm_timeline(
    sms: Sequence[Sequence[Span]],
    *,
    title: str,
    subtitle: str = "",
    unit: str = "us",
    scale: float = 1e-3,
    until: float | None = None,
) -> Figure:
    """A row for each SM: coloured while it computes, grey while it waits for inputs, hatched while it takes
    them or waits for weights, dark grey while it signals to others that it is done.

    Times are those of the spans times `scale`, in `unit`, from the first beginning on. `until` ends the time axis, for
    figures that are compared. Raises ValueError without spans.
    """
    every = [span for each in sms for span in each]
    if not every:
        raise ValueError("there is nothing to draw: no SM has an instruction")
    start = min(span.begun for span in every)
    made, (axes,) = style.figure(9.0, min(8.4, 2.9 + 0.16 * max(6, len(sms))))
    for row, each in enumerate(sms):
        for span in each:
            computes = max(span.ready, span.loaded)
            _bar(axes, row, span.begun - start, span.ready - start, scale, "inputs", facecolor=style.FAINT)
            _bar(axes, row, span.ready - start, computes - start, scale, "weights", facecolor=style.PANEL, hatch="////",
                 edgecolor=style.MUTED)  # fmt: skip
            _bar(axes, row, computes - start, span.done - start, scale, span.op.name, facecolor=COLOURS[span.op])
            _bar(axes, row, span.done - start, span.told - start, scale, "tells", facecolor=TELLS)
    axes.set_ylim(len(sms) - 0.4, -0.6)
    axes.set_xlim(0, until or scale * (max(span.told for span in every) - start))
    axes.set_xlabel(f"time ({unit})")
    axes.set_ylabel("SM")
    axes.tick_params(axis="y", length=0)
    used = [op for op in COLOURS if any(span.op is op for span in every)]
    handles = [Patch(facecolor=COLOURS[op], label=NAMES[op]) for op in used]
    handles += [
        Patch(facecolor=style.FAINT, label="waits for inputs"),
        Patch(facecolor=style.PANEL, hatch="////", edgecolor=style.MUTED, label="takes them, waits for weights"),
    ]
    if any(span.told > span.done for span in every):
        handles.append(Patch(facecolor=TELLS, label="signals others"))
    made.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False, fontsize=style.TEXT - 1)
    style.headline(made, title, subtitle)
    return made


def _bar(axes: Axes, row: int, start: float, end: float, scale: float, gid: str, **looks: Any) -> None:
    if end > start:
        bars = axes.broken_barh([(scale * start, scale * (end - start))], (row - 0.4, 0.8), linewidth=0, **looks)
        bars.set_gid(gid)


def explore_ring(shape: Shape, sms: int, machine: Machine, position: int = 511) -> Explorer:
    """Choose the pages of the ring, how long handing over takes, and whether pages are asked for ahead; see who waits.

    Drawn are every eleventh SM and the layers but for the first; the shape needs two layers.
    """
    lists = schedule(shape, sms, position)

    def draw(pages_of_the_ring: int, hand_over_ns: int, weights: str) -> Figure:
        chosen = Machine(
            machine.page, machine.latency, machine.compute, hand_over_ns, pages_of_the_ring, weights == "ahead"
        )
        times = modelled(lists, chosen)
        drawn = [
            [span for span in each if 0 < span.layer < shape.layers]
            for each in spans(lists, times)[:: max(1, sms // 12)]
        ]
        floor = machine.page * sum(line.pages for each in lists for line in each) / sms
        return sm_timeline(
            drawn, title=f"The step takes {times.max() / floor:.2f} times what its pages take from memory",
            subtitle=f"{shape.layers} layers and the logits on {sms} SMs; drawn: layers from the second on "
            "(modelled, not measured)",
        )  # fmt: skip

    return Explorer(
        draw, pages_of_the_ring=(13, range(1, 27)), hand_over_ns=(int(machine.hand_over), range(0, 5001, 250)),
        weights=("ahead", ["ahead", "when inputs are there"]),
    )  # fmt: skip
