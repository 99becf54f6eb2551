"""What the hardware is and can do: datasheets, the GPU present, the roofline."""

from warplab.hardware.chips import CHIPS, Chip, Math, find_chip
from warplab.hardware.device import Device, architecture, architecture_of, count, present
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
