"""What a plan of checkpoints keeps: a row for each block, its operators side by side, as wide as their results."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from systems.training.planner import Operator
from warplab.figures import style

_KINDS = {"kept": style.SKY, "made again, by a product": style.ORANGE, "made again, without FLOP": style.EMPTY}


def kept_operators(
    table: Sequence[Operator], kept: Collection[tuple[int, str]], *, title: str, subtitle: str = ""
) -> Figure:
    """Draw the operators of a table in their order; `kept` are (block, name). Raises ValueError for an empty table."""
    if not table:
        raise ValueError("there is nothing to draw: the table has no operators")
    blocks = 1 + max(one.block for one in table)
    widest = max(sum(one.bytes for one in table if one.block == block) for block in range(blocks))
    made, (axes,) = style.figure(11, 1.4 + 0.42 * blocks)
    axes.set_xlim(0, widest / 1e6)
    axes.set_ylim(blocks, 0)
    ends = [0.0] * blocks
    for one in table:
        kind = "kept" if (one.block, one.name) in kept else _again(one)
        width, left = one.bytes / 1e6, ends[one.block]
        ends[one.block] += width
        axes.add_artist(
            Rectangle(
                (left, one.block + 0.06), width, 0.88, facecolor=_KINDS[kind], edgecolor=style.MUTED, linewidth=0.7
            )
        )
        axes.text(
            left + width / 2, one.block + 0.5, one.name, ha="center", va="center", color=style.INK, size=style.SMALL
        )
    axes.set_yticks([block + 0.5 for block in range(blocks)], [f"block {block}" for block in range(blocks)])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("MB of results, one beside the other")
    marks = [Patch(facecolor=colour, edgecolor=style.MUTED, label=kind) for kind, colour in _KINDS.items()]
    axes.legend(handles=marks, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=style.SMALL + 1)
    style.headline(made, title, subtitle)
    return made


def _again(one: Operator) -> str:
    return "made again, by a product" if one.flops else "made again, without FLOP"
