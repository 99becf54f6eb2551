"""Where an HTML report has the submission beside the ceilings of the GPU that timed it: a picture, or a sentence."""

from __future__ import annotations

import base64
import io

from autograder.records.measurement import COPY, Measurement
from autograder.records.report import Report
from autograder.records.status import Part
from warplab.figures.roofline import Point, roofline
from warplab.hardware.roofline import Roofline


def bandwidth_words(report: Report) -> str:
    """A sentence for a measured kernel without arithmetic, which has no place on a roofline; else empty."""
    measurement = _measurement(report)
    if measurement is None or _compute(measurement):
        return ""
    rate = measurement.work[COPY] / measurement.median_ms * 1e3
    ceiling = measurement.ceilings[COPY]
    return (
        f"It moves {rate / 1e12:.2f} TB/s of the {ceiling / 1e12:.2f} TB/s that a copy reaches on this GPU "
        f"(measured in the same run): {rate / ceiling:.1%}."
    )


def roofline_picture(report: Report) -> str:
    """The roofline with a measured submission on it, as a data URL; empty if nothing was measured, or no arithmetic.

    A URL of an image, so that the ids inside several pictures on one page cannot clash.
    """
    measurement = _measurement(report)
    compute = _compute(measurement) if measurement is not None else ""
    if measurement is None or not compute:
        return ""
    work, ceilings, sheet = measurement.work, measurement.ceilings, measurement.datasheet
    roof = Roofline(ceilings[compute], ceilings[COPY], "measured in this run")
    datasheet = Roofline(sheet[compute], sheet[COPY], "datasheet") if {compute, COPY} <= set(sheet) else None
    flops = work[compute]
    point = Point(
        report.submission,
        flops / work[COPY],
        flops / measurement.median_ms * 1e3,
        (flops / measurement.high_ms * 1e3, flops / measurement.low_ms * 1e3),
    )
    figure = roofline(roof, [point], datasheet=datasheet, title=f"{report.lab} on {report.hardware}")
    picture = io.BytesIO()
    figure.savefig(picture, format="svg")
    return f"data:image/svg+xml;base64,{base64.b64encode(picture.getvalue()).decode()}"


def _measurement(report: Report) -> Measurement | None:
    measurement = report.part(Part.EFFICIENCY).measurement
    return measurement if isinstance(measurement, Measurement) else None


def _compute(measurement: Measurement) -> str:
    """The name of the ceiling that the kernel's arithmetic has; empty if it does none."""
    return next((name for name, amount in measurement.work.items() if name != COPY and amount), "")
