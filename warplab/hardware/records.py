"""What a datasheet says, as records: GPUs, TPUs, and where each figure was read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

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


@dataclass(frozen=True)
class Tpu:
    """One TPU chip. Sizes in bytes, rates a second; `bf16` in dense FLOP/s; `ici` in both directions together."""

    name: str
    tensor_cores: int  # Google's TensorCore: a whole core, with matrix, vector and scalar units
    matrix_units: int | None  # MXUs of the chip; None: no figure is given
    matrix_side: int | None  # multipliers along each side of one
    bf16: float
    fp8: float | None  # None: the chip has none, or no figure is given
    memory: int
    bandwidth: float
    ici: float
    source: str

    @property
    def intensity(self) -> float:
        """FLOP for each byte of memory traffic from which the matrix units can be kept busy (bf16)."""
        return self.bf16 / self.bandwidth
