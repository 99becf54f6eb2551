"""Datasheets: what is published about a GPU, each figure with the place where it was read.

Peaks are dense: a figure that is published only with 2:4 sparsity is halved, and its source says so. Not every
datasheet could be read itself: `Source.evidence` says whether a figure stands in a document of NVIDIA's that was read,
in somebody else's that was read instead, or is what the driver of such a GPU reports.

The figures are in data/, a file a chip; `datasheets` says what a file holds and in which units.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

DATA = Path(__file__).resolve().parent / "data"

KIB = 1024
MIB = 1024 * KIB
GB = 10**9  # memory sizes and bandwidths are decimal in datasheets
TERA = 1e12


class Math(StrEnum):
    """A kind of arithmetic with a peak of its own. Tensor kinds name the input type."""

    FP64 = "fp64"
    FP64_TENSOR = "fp64 tensor"
    FP32 = "fp32"
    TF32_TENSOR = "tf32 tensor"
    FP16_TENSOR = "fp16 tensor"  # accumulating in float32
    BF16_TENSOR = "bf16 tensor"  # accumulating in float32
    FP8_TENSOR = "fp8 tensor"  # accumulating in float32
    INT8_TENSOR = "int8 tensor"
    FP4_TENSOR = "fp4 tensor"


class Evidence(StrEnum):
    """How far a figure has been confirmed."""

    VENDOR = "vendor document"  # read in NVIDIA's own text or a full copy of it
    SECONDARY = "secondary document"  # read in somebody else's text, which may quote NVIDIA's
    DRIVER = "reported by the driver"  # what the CUDA driver or nvidia-smi says on such a GPU


@dataclass(frozen=True)
class Source:
    """Where figures were read: a document, the place in it, and the figures that it gives.

    `fields` are names of fields of `Chip`; a member of `Math` stands for one peak, "peaks" for all not named elsewhere.
    """

    evidence: Evidence
    document: str
    place: str
    fields: tuple[str, ...]


@dataclass(frozen=True)
class Chip:
    """One GPU product as published. Sizes in bytes, rates per second, peaks in dense FLOP/s (OP/s for integers)."""

    name: str
    driver_names: tuple[str, ...]  # what the driver calls it
    compute_capability: tuple[int, int]
    sms: int
    boost_clock: float | None  # Hz
    tensor_clock: float | None  # Hz, where the tensor peaks are published at another clock than the boost clock
    cuda_cores_per_sm: int  # float32 lanes
    tensor_cores_per_sm: int
    register_file_per_sm: int
    shared_per_sm: int  # the largest carve-out
    shared_per_block: int  # the most that one block can ask for
    l2: int | None
    memory: int
    memory_type: str
    bandwidth: float
    peaks: Mapping[Math, float] = field(hash=False)
    nvlink: float | None  # both directions together; None: no NVLink
    tdp: float  # watts
    sources: tuple[Source, ...]

    def peak(self, math: Math) -> float | None:
        """Dense peak in FLOP/s (OP/s for integers); None if the chip has no such units or NVIDIA gives no figure."""
        return self.peaks.get(math)

    @property
    def cuda_cores(self) -> int:
        """Float32 lanes of the whole chip."""
        return self.sms * self.cuda_cores_per_sm

    def source(self, figure: str) -> Source | None:
        """Where a figure comes from; `figure` is the name of a field, or a member of Math for one peak."""
        names = (figure, "peaks") if figure in self.peaks else (figure,)
        return next((source for name in names for source in self.sources if name in source.fields), None)


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
