"""Formats of 4 and 8 bits as pictures: all values on a line, one number rounded, the error over the range."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from course.figures.explore import Explorer
from warplab.figures import style
from warplab.hardware.small_floats import FORMATS, SmallFloat

_FIELDS = {"sign": style.RED, "exponent": style.BLUE, "fraction": style.GREEN}
_BINADES = (style.BLUE, style.SKY)  # in turns, so that neighbouring powers of two are told apart


def number_line(number: SmallFloat) -> Figure:
    """Every finite value of `number` three times: on a straight axis, around zero, and on a logarithmic one."""
    made, (whole, around, logarithmic) = style.figure(11.5, 4.9, heights=(1, 1, 1))
    values = number.values[np.isfinite(number.values)]
    near = 4 * number.smallest_normal
    for axes, shown in ((whole, values), (around, values[np.abs(values) <= near])):
        _ticks(axes, number, shown)
        reach = 1.03 * np.abs(shown).max()
        axes.set_xlim(-reach, reach)
    _ticks(logarithmic, number, number.magnitudes[1:])
    logarithmic.set_xscale("log", base=2)
    exponents = range(math.floor(math.log2(number.magnitudes[1])), math.floor(math.log2(number.largest)) + 2)
    step = max(1, -(-len(exponents) // 12))
    logarithmic.set_xticks([2.0**e for e in exponents[::step]], [f"2^{e}" for e in exponents[::step]])
    logarithmic.minorticks_off()
    logarithmic.set_xlim(2.0 ** (exponents[0] - 0.3), 2.0 ** (exponents[-1] + 0.1))
    for axes, name in (
        (whole, "all finite values"),
        (around, "the same, close to zero"),
        (logarithmic, "positive values, each power of two equally wide"),
    ):
        axes.set_title(name, loc="left", fontsize=style.TEXT, color=style.INK)
    whole.legend(
        handles=[
            Patch(color=style.ORANGE, label="subnormal"),
            Patch(color=style.BLUE, label="normal, one power of two"),
            Patch(color=style.SKY, label="normal, the next"),
        ],
        loc="lower right", bbox_to_anchor=(1, 1), ncols=3, frameon=False, fontsize=style.SMALL,
    )  # fmt: skip
    style.headline(
        made,
        f"{number.name}: {len(values)} finite codes from -{number.largest:,g} to {number.largest:,g}",
        f"{2**number.fraction_bits} values in each power of two; below 2^{number.lowest_exponent} they are "
        f"2^{number.lowest_exponent - number.fraction_bits} apart",
    )
    return made


def explore_number_line() -> Explorer:
    """Choose the format."""
    return Explorer(lambda form: number_line(FORMATS[form]), form=("e4m3", list(FORMATS)))


def rounding(x: float, number: SmallFloat, *, saturate: bool = True) -> Figure:
    """The bits of `x` rounded to `number`, and `x` between its neighbours. Raises ValueError where there is no code."""
    code = int(number.encode(x, saturate=saturate))
    value = float(number.values[code])
    made, (boxes, line) = style.figure(11.5, 3.4, heights=(1, 1))
    _boxes(boxes, code, number)
    _neighbours(line, x, value, number)
    error = f", {value / x - 1:+.2%}" if x and math.isfinite(value) and math.isfinite(x) else ""
    style.headline(made, f"{x:.10g} becomes {value:.10g}{error}", _derivation(code, number))
    return made


def explore_rounding() -> Explorer:
    """Type a number, choose a format and what happens beyond the largest value."""

    def draw(number: float, form: str, beyond: str) -> Figure:
        return rounding(number, FORMATS[form], saturate=beyond == "saturates")

    return Explorer(
        draw, number=(0.3, float), form=("e4m3", list(FORMATS)), beyond=("saturates", ["saturates", "overflows"])
    )


def rounding_error(*numbers: SmallFloat) -> Figure:
    """The relative error of rounding, over all magnitudes of the formats, logarithmic on both axes."""
    made, (axes,) = style.figure(11.5, 4)
    low = min(n.magnitudes[1] for n in numbers) / 8
    high = max(n.largest for n in numbers) * 8
    x = np.geomspace(low, high, 20_000)
    for number, colour in zip(numbers, style.PALETTE, strict=False):
        axes.plot(x, worst_error(x, number), color=colour, linewidth=2, label=number.name)
        axes.axvspan(number.smallest_normal, number.largest, color=colour, alpha=0.06, linewidth=0)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_ylim(0.02, 1.4)
    axes.set_yticks([0.03, 0.06, 0.12, 0.25, 0.5, 1], ["3%", "6%", "12%", "25%", "50%", "100%"])
    axes.minorticks_off()
    axes.set_xlim(low, high)
    axes.set_xlabel("the number that is rounded")
    axes.set_ylabel("largest relative error")
    axes.grid(alpha=0.5)
    axes.legend(frameon=False, loc="lower left", labelcolor=style.INK)
    style.headline(
        made,
        "Where a format is precise",
        "shaded: its normal numbers, all equally precise; left of them digits go missing, right of them it saturates",
    )
    return made


def worst_error(x: np.ndarray, number: SmallFloat) -> np.ndarray:
    """The largest relative error that a number of the size of `x` can have, positive: half a gap between neighbours,
    all of it where that is more, and what is missing beyond the largest value."""
    exponent = np.maximum(np.frexp(x)[1] - 1, number.lowest_exponent)
    half_a_gap = 2.0 ** (exponent - number.fraction_bits - 1)
    return np.where(x > number.largest, np.maximum(1 - number.largest / x, 0), np.minimum(half_a_gap / x, 1))


def _ticks(axes: Axes, number: SmallFloat, values: np.ndarray) -> None:
    magnitude = np.abs(values)
    exponent = np.frexp(np.where(magnitude > 0, magnitude, 1))[1] - 1
    colours = np.array(_BINADES)[exponent % 2]
    colours = np.where(magnitude < number.smallest_normal, style.ORANGE, colours)
    heights = np.where(magnitude == 2.0**exponent, 1.0, 0.72)
    axes.vlines(values, 0, heights, colors=colours.tolist(), linewidth=1.3)
    axes.set_ylim(0, 1.08)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)


def _boxes(axes: Axes, code: int, number: SmallFloat) -> None:
    style.canvas(axes)
    fields = ["sign"] + ["exponent"] * number.exponent_bits + ["fraction"] * number.fraction_bits
    axes.set_xlim(-0.1, 13)
    axes.set_ylim(-0.55, 1.05)
    for place, field in enumerate(fields):
        bit = code >> number.bits - 1 - place & 1
        axes.add_artist(
            Rectangle((place, 0), 0.94, 0.9, facecolor=_FIELDS[field], alpha=1.0 if bit else 0.3, gid=f"bit {place}")
        )
        axes.text(place + 0.47, 0.45, str(bit), ha="center", va="center", size=style.TITLE, weight="bold",
                  color=style.ink_on(_FIELDS[field]) if bit else style.INK)  # fmt: skip
    for field, colour in _FIELDS.items():
        first, wide = fields.index(field), fields.count(field)
        axes.text(first + wide / 2 - 0.03, -0.12, field, ha="center", va="top", size=style.SMALL, color=colour)
    axes.text(number.bits + 0.3, 0.45, f"code 0x{code:02X}", va="center", size=style.TITLE, color=style.INK)


def _derivation(code: int, number: SmallFloat) -> str:
    """The value from its fields, as a formula."""
    value = number.values[code]
    field = code >> number.fraction_bits & 2**number.exponent_bits - 1
    fraction = code & 2**number.fraction_bits - 1
    if not math.isfinite(value):
        return f"all {number.exponent_bits} exponent bits set: {'NaN' if math.isnan(value) else 'infinity'}"
    sign = "-" if code >> number.bits - 1 else ""
    if field == 0:
        lead = f"exponent field 0, subnormal: {sign}(0 + {fraction}/{2**number.fraction_bits})"
        return f"{lead} x 2^{number.lowest_exponent}"
    lead = f"exponent field {field}, bias {number.bias}: {sign}(1 + {fraction}/{2**number.fraction_bits})"
    return f"{lead} x 2^({field} - {number.bias}) = {value:g}"


def _neighbours(axes: Axes, x: float, value: float, number: SmallFloat) -> None:
    finite = np.unique(number.values[np.isfinite(number.values)])
    at = int(np.searchsorted(finite, np.clip(np.nan_to_num(x), finite[0], finite[-1])))
    shown = finite[max(0, at - 4) : at + 4]
    axes.vlines(shown, 0, 0.55, colors=style.BLUE, linewidth=2)
    middles = (shown[1:] + shown[:-1]) / 2
    axes.vlines(middles, 0, 0.3, colors=style.MUTED, linewidth=1, linestyles=":")
    reach = float(np.ptp(shown)) or 1.0
    left, right = shown[0] - 0.08 * reach, shown[-1] + 0.08 * reach
    if math.isfinite(x):
        drawn = min(max(x, left), right)
        axes.plot([drawn], [1.05], "v", color=style.RED, markersize=9, gid="x", clip_on=False)
        beside = "" if drawn == x else (" (far to the right)" if x > right else " (far to the left)")
        place = "right" if drawn > (left + right) / 2 else "left"
        gap = (-0.012 if place == "right" else 0.012) * reach
        axes.text(drawn + gap, 1.06, f"{x:.6g}{beside}", ha=place, va="center", size=style.TEXT, color=style.RED)
        if math.isfinite(value):
            axes.plot([drawn, value], [1.0, 0.57], color=style.RED, linewidth=1.2)
    axes.set_xlim(left, right)
    axes.set_ylim(0, 1.25)
    axes.set_yticks([])
    axes.set_xticks(shown, [f"{near:.4g}" for near in shown], fontsize=style.SMALL)
    axes.spines["left"].set_visible(False)
