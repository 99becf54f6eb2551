"""Figures of an HTML report: the submission's point on the roofline of the GPU that timed it."""

from __future__ import annotations

import base64
import io
from html import escape

from autograder.records.report import Report
from autograder.records.status import Part
from warplab.hardware.roofline import Roofline
from warplab.show.roofline import Point, roofline


def roofline_figure(report: Report) -> str:
    """The <figure> of a measured submission; empty if nothing was measured.

    A kernel without arithmetic has no intensity, so it gets its bandwidth in words instead of a point.
    """
    measurement = report.part(Part.EFFICIENCY).measurement
    if not measurement or measurement.get("efficiency") is None:
        return ""
    work, ceilings = measurement["work"], measurement["ceilings"]
    seconds = measurement["median_ms"] / 1e3
    compute = next((name for name in work if name != "copy"), None)
    if not compute or not work[compute]:
        rate, ceiling = work["copy"] / seconds, ceilings["copy"]
        return (
            f"<p>It moves {rate / 1e12:.2f} TB/s of the {ceiling / 1e12:.2f} TB/s that a copy reaches on this GPU "
            f"(measured in the same run): {rate / ceiling:.1%}.</p>"
        )
    roof = Roofline(ceilings[compute], ceilings["copy"], "measured in this run")
    sheet = measurement["datasheet"]
    datasheet = Roofline(sheet[compute], sheet["copy"], "datasheet") if {compute, "copy"} <= set(sheet) else None
    flops = work[compute]
    point = Point(
        report.submission,
        flops / work["copy"],
        flops / seconds,
        (flops / measurement["high_ms"] * 1e3, flops / measurement["low_ms"] * 1e3),
    )
    figure = roofline(roof, [point], datasheet=datasheet, title=f"{report.lab} on {report.hardware}")
    picture = io.BytesIO()
    figure.savefig(picture, format="svg")
    encoded = base64.b64encode(picture.getvalue()).decode()
    # as an image, so that the ids inside several pictures on one page cannot clash
    alt = f"{escape(report.submission)} on the roofline"
    return f'<figure><img alt="{alt}" src="data:image/svg+xml;base64,{encoded}"></figure>'
