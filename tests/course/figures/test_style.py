import subprocess
import sys

import pytest
from matplotlib.colors import to_rgb

from warplab.figures import style


def contrast(first: str, second: str) -> float:
    """WCAG 2's contrast ratio."""

    def luminance(colour: str) -> float:
        linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    lighter, darker = sorted((luminance(first), luminance(second)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def test_text_reads_on_the_panel() -> None:
    assert contrast(style.INK, style.PANEL) > 7
    assert contrast(style.MUTED, style.PANEL) > 4.5


@pytest.mark.parametrize("colour", [*style.PALETTE, style.EMPTY, style.HEAT(0.0), style.HEAT(0.5), style.HEAT(1.0)])
def test_text_reads_on_every_fill(colour: str) -> None:
    assert contrast(style.ink_on(colour), colour) > 3


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (4.25e12, "B/s", "4.25 TB/s"),
        (989.4e12, "FLOP/s", "989 TFLOP/s"),
        (999_960, "", "1 M"),
        (1000, "", "1 k"),
        (0, "B", "0 B"),
        (12.94, "", "12.9"),
        (0.1667, "", "0.167"),
        (1.5e15, "FLOP/s", "1.5 PFLOP/s"),
    ],
)
def test_quantity(value: float, unit: str, text: str) -> None:
    assert style.quantity(value, unit) == text


@pytest.mark.processes
def test_figures_leave_no_global_state() -> None:
    code = (
        "from warplab.hardware import Roofline\n"
        "from warplab.figures.roofline import roofline\n"
        "import matplotlib\n"
        "before = dict(matplotlib.rcParams)\n"
        "roofline(Roofline(1e12, 1e11))\n"
        "assert dict(matplotlib.rcParams) == before\n"
        "from matplotlib import pyplot\n"
        "assert pyplot.get_fignums() == []\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_figure_says_in_words_what_it_shows() -> None:
    made, (left, right) = style.figure(6, 3, widths=(1, 1))
    style.headline(made, "Banks of a tile", "32 lanes\nask for a column.")
    left.set_xlabel("bank")
    right.set_title("padded")
    assert repr(made) == "Figure: Banks of a tile. 32 lanes ask for a column. x: bank. padded."
