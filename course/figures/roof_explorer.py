"""A kernel's intensity under the roof of a chip, to be moved."""

from __future__ import annotations

from matplotlib.figure import Figure

from course.figures.explore import Explorer
from warplab.figures.roofline import Point, roofline
from warplab.hardware import Math
from warplab.hardware.chips import A100, B200, H100, H200, V100
from warplab.hardware.roofline import Roofline

_CHIPS = {chip.name.split()[0]: chip for chip in (V100, A100, H100, H200, B200)}


def under_the_roof(chip: str, arithmetic: str, intensity: float) -> Figure:
    """The datasheet's roof of a chip for one kind of arithmetic, and a kernel of this intensity that reaches it.

    Raises ValueError for a kind that the chip does not have, and for an intensity that is not positive.
    """
    found = _CHIPS[chip]
    peak = found.peak(Math(arithmetic))
    if peak is None:
        raise ValueError(f"The {found.name} has no {arithmetic} arithmetic.")
    roof = Roofline(peak, found.bandwidth, f"{found.name}, datasheet")
    if intensity <= 0:
        raise ValueError("An intensity is a positive number of FLOP per byte.")
    limit = roof.bound(intensity)
    kernel = Point("at best", intensity, roof.attainable(intensity))
    return roofline(
        roof, [kernel], title=f"{found.name}, {arithmetic}: {intensity:g} FLOP per byte is limited by {limit}"
    )


def explore_roof() -> Explorer:
    """Menus of chips and kinds of arithmetic, and a box for the intensity."""
    kinds = [str(kind) for kind in (Math.FP32, Math.FP16_TENSOR, Math.FP8_TENSOR)]
    return Explorer(
        under_the_roof, chip=("H200", list(_CHIPS)), arithmetic=(str(Math.FP16_TENSOR), kinds), intensity=(100.0, float)
    )
