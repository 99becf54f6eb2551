"""Datasheets: what is published about a GPU, each figure with the place where it was read.

Peaks are dense: a figure that is published only with 2:4 sparsity is halved, and its source says so. Not every
datasheet could be read itself: `Source.evidence` says whether a figure stands in a document of NVIDIA's that was read,
in somebody else's that was read instead, or is what the driver of such a GPU reports.

The figures are in data/, a file a chip; `datasheets` says what a file holds and in which units, `records` what is made
of it.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from warplab.hardware.records import DATA, Chip

# The datasheets, each read from data/ when it is first asked for: importing this module reads none.
V100: Chip
T4: Chip
A100: Chip
L4: Chip
L40S: Chip
RTX_4090: Chip
H100: Chip
H200: Chip
B200: Chip
GB200: Chip
CHIPS: tuple[Chip, ...]  # all of them, in this order

_NAMES = ("V100", "T4", "A100", "L4", "L40S", "RTX_4090", "H100", "H200", "B200", "GB200")


@cache
def _chip(name: str) -> Chip:
    from warplab.hardware.datasheets import read_chip  # imports msgspec, which takes as long as all of warplab.hardware

    return read_chip(DATA / f"{name.lower()}.toml")


@cache
def _chips() -> tuple[Chip, ...]:
    return tuple(_chip(name) for name in _NAMES)


if not TYPE_CHECKING:  # a type checker knows the names declared above, and should know no others

    def __getattr__(name: str) -> Chip | tuple[Chip, ...]:
        """A datasheet or all of them, by name. Raises DatasheetError if a file is not as it should be."""
        if name == "CHIPS":
            return _chips()
        if name in _NAMES:
            return _chip(name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_NAMES, "CHIPS"})


def find_chip(driver_name: str) -> Chip | None:
    """The datasheet of the GPU that the driver calls `driver_name`, if it is one of CHIPS."""
    return next((chip for chip in _chips() if driver_name in chip.driver_names), None)
