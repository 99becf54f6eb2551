"""What the hardware is and can do: datasheets, the GPU present, the roofline."""

from typing import TYPE_CHECKING

from warplab.hardware import chips
from warplab.hardware.chips import find_chip
from warplab.hardware.device import Device, architecture, architecture_of, count, present
from warplab.hardware.records import Chip, Math
from warplab.hardware.roofline import Bound, Roofline

__all__ = [
    "CHIPS",
    "Bound",
    "Chip",
    "Device",
    "Math",
    "Roofline",
    "architecture",
    "architecture_of",
    "count",
    "find_chip",
    "present",
]

if TYPE_CHECKING:
    from warplab.hardware.chips import CHIPS
else:

    def __getattr__(name: str) -> tuple[Chip, ...]:
        """CHIPS, whose files are read when it is first asked for."""
        if name == "CHIPS":
            return chips.CHIPS
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
