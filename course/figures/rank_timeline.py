"""Items over time, a row for each block, the blocks of a rank together: what each does, and what it waits for."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from systems.peer.experts_timeline import KINDS, Span
from warplab.figures import style

_COLOURS = dict(zip(KINDS, (style.BLUE, style.PURPLE, style.ORANGE, style.SKY, style.GREEN, style.RED), strict=True))


def rank_timeline(ranks: Sequence[Sequence[Sequence[Span]]], *, title: str, subtitle: str, unit: str) -> Figure:
    """A row for each block of each rank: coloured while it works on an item, grey while the item waits for others."""
    rows = [
        (f"rank {rank}, block {number}", block)
        for rank, blocks in enumerate(ranks)
        for number, block in enumerate(blocks)
    ]
    made, (axes,) = style.figure(9.0, 2.4 + 0.24 * len(rows))
    for row, (_, block) in enumerate(rows):
        for span in block:
            for start, end, colour in (
                (span.begun, span.ready, style.FAINT),
                (span.ready, span.ended, _COLOURS[span.kind]),
            ):
                axes.broken_barh([(start, end - start)], (row - 0.4, 0.8), linewidth=0, facecolor=colour)
    for first in range(len(ranks[0]), len(rows), len(ranks[0])):
        axes.axhline(first - 0.5, color=style.MUTED, linewidth=1)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(0, max(span.ended for _, block in rows for span in block))
    axes.set_yticks(range(len(rows)), [name for name, _ in rows])
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(f"time ({unit})")
    used = [kind for kind in KINDS if any(span.kind == kind for _, block in rows for span in block)]
    handles = [Patch(facecolor=_COLOURS[kind], label=kind) for kind in used]
    handles.append(Patch(facecolor=style.FAINT, label="waits for others"))
    made.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False, fontsize=style.TEXT - 1)
    style.headline(made, title, subtitle)
    return made
