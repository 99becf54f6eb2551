"""Times that no kernel can have taken: a fault of the measurement or a trick, rejected rather than rewarded."""

from __future__ import annotations

import math
from collections.abc import Mapping

# Datasheets count peak clocks and perfect transfers; anything faster by more than the rounding of their figures is not
# a fast kernel but a broken measurement.
_IMPOSSIBLE = 0.98


def impossible(milliseconds: float, work: Mapping[str, float], datasheet: Mapping[str, float]) -> str:
    """Why a median time cannot be, in words; empty if it can.

    `work` is the bytes or FLOP of a launch by ceiling, `datasheet` the peak rates a second of the same ceilings.
    """
    if not (math.isfinite(milliseconds) and milliseconds > 0):
        return f"{milliseconds} ms is no time: rejected"
    for name, rate in datasheet.items():
        floor = work.get(name, 0.0) / rate * 1e3
        if milliseconds < _IMPOSSIBLE * floor:
            return f"{milliseconds:.4g} ms is below what the datasheet allows ({floor:.4g} ms by {name}): rejected"
    return ""
