"""How every picture looks: one palette, one type scale, one light panel that reads well on light and dark pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Rectangle
from matplotlib.textpath import text_to_path
from matplotlib.typing import ColorType

# Okabe and Ito's palette, told apart with every common colour blindness (Color Universal Design, 2008), without yellow,
# which disappears on a light panel.
BLUE = "#0072B2"
ORANGE = "#E69F00"
GREEN = "#009E73"
RED = "#D55E00"
PURPLE = "#CC79A7"
SKY = "#56B4E9"
PALETTE = (BLUE, ORANGE, GREEN, PURPLE, SKY, RED)

PANEL = "#FBFBF9"
INK = "#22272E"
MUTED = "#6B7280"
FAINT = "#D9DCE1"
EMPTY = "#F0F1F3"

TITLE = 13
TEXT = 10.5
SMALL = 9

# Inches: a page shows 800 pixels, 600 points, of width. So type of 9 points has 9 points there too.
WIDEST = 8.3

# From no waste to all waste. It starts at the panel's colour, so that a clean line stays clean.
HEAT = LinearSegmentedColormap.from_list("warplab_heat", [PANEL, "#FBE3C4", "#F2A65A", RED])

_RC: dict[Any, Any] = {
    "text.parse_math": False,  # a dollar sign in a kernel's name is no formula
    "figure.facecolor": PANEL,
    "axes.facecolor": PANEL,
    "savefig.facecolor": PANEL,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.labelsize": TEXT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": TEXT,
    "ytick.labelsize": TEXT,
    "grid.color": FAINT,
    "grid.linewidth": 0.7,
    "font.size": TEXT,
    "font.family": "DejaVu Sans",
    "svg.fonttype": "path",
}


class Picture(Figure):
    """A figure that says in words what it shows, for a reader who cannot see it: a notebook keeps this beside it."""

    def __repr__(self) -> str:
        words = [text.get_text() for text in self.texts]
        for axes in self.axes:
            parts = {"": axes.get_title(), "x: ": axes.get_xlabel(), "y: ": axes.get_ylabel()}
            words += [name + value for name, value in parts.items() if value]
        return "Figure: " + ". ".join(" ".join(word.split()).rstrip(".") for word in words if word.strip()) + "."


def figure(
    width: float, height: float, *, widths: Sequence[float] = (1,), heights: Sequence[float] = (1,)
) -> tuple[Figure, list[Axes]]:
    """A figure of `width` (at most WIDEST) x `height` inches and axes, row by row, in shares of `widths` x `heights`.

    The figure belongs to nobody: it is not registered with pyplot, so notebooks do not show it twice and a loop that
    draws thousands does not leak them.
    """
    with rc_context(_RC):
        made = Picture(figsize=(min(width, WIDEST), height), dpi=110, layout="constrained")
        grid = made.subplots(
            len(heights), len(widths), squeeze=False, gridspec_kw={"width_ratios": widths, "height_ratios": heights}
        )
    return made, list(grid.flat)


def headline(made: Figure, title: str, subtitle: str = "") -> None:
    """The title at the left edge of the figure, with a quieter line of what the picture shows under it."""
    width = made.get_size_inches()[0]
    title, subtitle = _in_lines(title, width, TITLE, "bold"), _in_lines(subtitle, width, TEXT, "normal")
    more = title.count("\n") * 0.21, subtitle.count("\n") * 0.17  # inches
    height = made.get_size_inches()[1] + sum(more)
    made.set_size_inches(width, height)
    used = (2.3 if subtitle else 1.4) * 0.21 + sum(more)
    engine = made.get_layout_engine()
    assert isinstance(engine, ConstrainedLayoutEngine)  # as `figure` makes it
    engine.set(rect=(0, 0, 1, 1 - used / height), h_pad=0.06, w_pad=0.08)
    made.text(0.1 / width, 1 - 0.1 / height, title, va="top", size=TITLE, weight="bold", color=INK)
    if subtitle:
        made.text(0.1 / width, 1 - (0.33 + more[0]) / height, subtitle, va="top", size=TEXT, color=MUTED)


def _in_lines(text: str, width: float, size: float, weight: str) -> str:
    """The text with line breaks, so that it fits into `width` inches."""
    room = 72 * (width - 0.2) * 0.96  # hinted letters are wider than their outlines
    if len(text) * size < room:  # no letter is wider than high
        return text
    font = FontProperties(family="DejaVu Sans", size=size, weight=weight)
    lines: list[str] = []
    for line in text.split("\n"):
        lines.append("")
        for word in line.split(" "):
            longer = f"{lines[-1]} {word}" if lines[-1] else word
            if lines[-1] and text_to_path.get_text_width_height_descent(longer, font, ismath=False)[0] > room:
                lines.append(word)
            else:
                lines[-1] = longer
    return "\n".join(lines)


def canvas(axes: Axes) -> None:
    """Makes axes a drawing surface: no frame, no ticks."""
    axes.set_axis_off()


def box(axes: Axes, corner: tuple[float, float], width: float, height: float, **look: Any) -> None:
    """A rectangle on axes whose limits the picture itself sets.

    `add_patch` would work out anew what the axes must hold, which for thousands of cells takes longer than drawing.
    """
    axes.add_artist(Rectangle(corner, width, height, **look))


def ink_on(colour: ColorType) -> str:
    """The colour of text that reads well on a background (its relative luminance as WCAG 2 defines it)."""
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    # Contrasts of 4.5 or more: ink needs a luminance of 0.263, white one of 0.183 or less, black is between.
    return INK if luminance > 0.263 else "#FFFFFF" if luminance < 0.183 else "#000000"


def quantity(value: float, unit: str = "") -> str:
    """A value with three significant digits and an SI prefix: 4.25e12, "B/s" is "4.25 TB/s"."""
    if value == 0:
        return f"0 {unit}".rstrip()
    for factor, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor * 0.9995:
            return f"{_three_digits(value / factor)} {prefix}{unit}".rstrip()
    return f"{_three_digits(value)} {unit}".rstrip()


def _three_digits(value: float) -> str:
    if abs(value) >= 99.95:
        return f"{value:.0f}"
    text = f"{value:.3g}"
    return f"{value:.4f}".rstrip("0").rstrip(".") if "e" in text else text
