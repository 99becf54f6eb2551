"""Datasheets: what NVIDIA publishes about a GPU, each figure with the document that it comes from.

Peaks are dense: a figure that is published only with 2:4 sparsity is halved, and its source says so. A figure that
NVIDIA does not publish is None, or, where only the driver knows it, its source says "reported by the driver".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

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


@dataclass(frozen=True)
class Source:
    """A document, the place in it, and the fields of `Chip` that it gives."""

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
        """Where a figure comes from; `figure` is the name of a field."""
        return next((s for s in self.sources if figure in s.fields), None)


def _tera(**figures: float) -> Mapping[Math, float]:
    """Peaks from keyword arguments in TFLOP/s, named like the members of Math in lower case."""
    return MappingProxyType({Math[name.upper()]: value * TERA for name, value in figures.items()})


# Shared memory and registers depend on the compute capability alone.
_GUIDE = Source(
    "CUDA C++ Programming Guide 13.0",
    "Compute Capabilities: technical specifications, and the architecture section of each capability",
    ("compute_capability", "register_file_per_sm", "shared_per_sm", "shared_per_block", "cuda_cores_per_sm"),
)

V100 = Chip(
    name="V100 SXM2 32GB",
    driver_names=("Tesla V100-SXM2-32GB",),
    compute_capability=(7, 0),
    sms=80,
    boost_clock=1530e6,
    tensor_clock=None,
    cuda_cores_per_sm=64,
    tensor_cores_per_sm=8,
    register_file_per_sm=256 * KIB,
    shared_per_sm=96 * KIB,
    shared_per_block=96 * KIB,
    l2=6144 * KIB,
    memory=32 * GB,
    memory_type="HBM2",
    bandwidth=900 * GB,
    peaks=_tera(fp64=7.8, fp32=15.7, fp16_tensor=125),
    nvlink=300 * GB,
    tdp=300,
    sources=(
        _GUIDE,
        Source(
            "NVIDIA Tesla V100 GPU Architecture (WP-08608-001)",
            "Table 1: Comparison of NVIDIA Tesla GPUs",
            ("sms", "boost_clock", "tensor_cores_per_sm", "l2", "tdp"),
        ),
        Source(
            "NVIDIA V100 Tensor Core GPU datasheet (January 2020)",
            "Specifications, V100 SXM2",
            ("memory", "memory_type", "bandwidth", "peaks", "nvlink"),
        ),
    ),
)

A100 = Chip(
    name="A100 SXM 80GB",
    driver_names=("NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB"),
    compute_capability=(8, 0),
    sms=108,
    boost_clock=1410e6,
    tensor_clock=None,
    cuda_cores_per_sm=64,
    tensor_cores_per_sm=4,
    register_file_per_sm=256 * KIB,
    shared_per_sm=164 * KIB,
    shared_per_block=163 * KIB,
    l2=40 * MIB,
    memory=80 * GB,
    memory_type="HBM2e",
    bandwidth=2039 * GB,
    peaks=_tera(
        fp64=9.7, fp64_tensor=19.5, fp32=19.5, tf32_tensor=156, fp16_tensor=312, bf16_tensor=312, int8_tensor=624
    ),
    nvlink=600 * GB,
    tdp=400,
    sources=(
        _GUIDE,
        Source(
            "NVIDIA A100 Tensor Core GPU Architecture whitepaper, V1.0",
            "Table 4: Comparison of NVIDIA data center GPUs",
            ("sms", "boost_clock", "tensor_cores_per_sm", "l2"),
        ),
        Source(
            "NVIDIA A100 Tensor Core GPU datasheet (June 2021)",
            "Technical specifications, A100 80GB SXM; the figures without the sparsity mark",
            ("memory", "memory_type", "bandwidth", "peaks", "nvlink", "tdp"),
        ),
    ),
)

H100 = Chip(
    name="H100 SXM",
    driver_names=("NVIDIA H100 80GB HBM3",),
    compute_capability=(9, 0),
    sms=132,
    boost_clock=1980e6,
    tensor_clock=1830e6,
    cuda_cores_per_sm=128,
    tensor_cores_per_sm=4,
    register_file_per_sm=256 * KIB,
    shared_per_sm=228 * KIB,
    shared_per_block=227 * KIB,
    l2=50 * MIB,
    memory=80 * GB,
    memory_type="HBM3",
    bandwidth=3352 * GB,
    peaks=_tera(
        fp64=33.5,
        fp64_tensor=66.9,
        fp32=66.9,
        tf32_tensor=494.7,
        fp16_tensor=989.4,
        bf16_tensor=989.4,
        fp8_tensor=1978.9,
        int8_tensor=1978.9,
    ),
    nvlink=900 * GB,
    tdp=700,
    sources=(
        _GUIDE,
        Source(
            "NVIDIA H100 Tensor Core GPU Architecture whitepaper, V1.04",
            "Comparison of NVIDIA A100 and H100 data center GPUs, H100 SXM5; 1830 MHz is the clock that it gives for"
            " the FP8, FP16, BF16 and TF32 tensor peaks",
            (
                "sms",
                "boost_clock",
                "tensor_clock",
                "tensor_cores_per_sm",
                "l2",
                "memory",
                "memory_type",
                "bandwidth",
                "peaks",
                "nvlink",
                "tdp",
            ),
        ),
    ),
)

H200 = Chip(
    name="H200 SXM",
    driver_names=("NVIDIA H200",),
    compute_capability=(9, 0),
    sms=132,
    boost_clock=1980e6,
    tensor_clock=1830e6,
    cuda_cores_per_sm=128,
    tensor_cores_per_sm=4,
    register_file_per_sm=256 * KIB,
    shared_per_sm=228 * KIB,
    shared_per_block=227 * KIB,
    l2=60 * MIB,
    memory=141 * GB,
    memory_type="HBM3e",
    bandwidth=4.8e12,
    peaks=_tera(
        fp64=34,
        fp64_tensor=67,
        fp32=67,
        tf32_tensor=494.5,
        fp16_tensor=989.5,
        bf16_tensor=989.5,
        fp8_tensor=1979,
        int8_tensor=1979,
    ),
    nvlink=900 * GB,
    tdp=700,
    sources=(
        _GUIDE,
        Source(
            "NVIDIA H200 Tensor Core GPU datasheet (November 2024)",
            "Technical specifications, H200 SXM; tensor figures are published with sparsity and halved here",
            ("memory", "memory_type", "bandwidth", "peaks", "nvlink", "tdp"),
        ),
        Source(
            "reported by the driver", "NVIDIA H200: SM count, largest SM clock, L2 size", ("sms", "boost_clock", "l2")
        ),
        Source(
            "NVIDIA H100 Tensor Core GPU Architecture whitepaper, V1.04",
            "the H200 has the same GH100 die and the same tensor peaks as the H100 SXM5",
            ("tensor_clock", "tensor_cores_per_sm"),
        ),
    ),
)

B200 = Chip(
    name="B200 (HGX)",
    driver_names=("NVIDIA B200",),
    compute_capability=(10, 0),
    sms=148,
    boost_clock=1965e6,
    tensor_clock=None,
    cuda_cores_per_sm=128,
    tensor_cores_per_sm=4,
    register_file_per_sm=256 * KIB,
    shared_per_sm=228 * KIB,
    shared_per_block=227 * KIB,
    l2=126 * MIB,
    memory=180 * GB,
    memory_type="HBM3e",
    bandwidth=8e12,
    peaks=_tera(
        fp64=37,
        fp64_tensor=37,
        fp32=75,
        tf32_tensor=1125,
        fp16_tensor=2250,
        bf16_tensor=2250,
        fp8_tensor=4500,
        int8_tensor=4500,
        fp4_tensor=9000,
    ),
    nvlink=1800 * GB,
    tdp=1000,
    sources=(
        _GUIDE,
        Source(
            "CUDA C++ Programming Guide 13.0",
            "Compute capability 10.0: architecture",
            ("tensor_cores_per_sm",),
        ),
        Source("NVIDIA Blackwell Tuning Guide 13.0", "Increased L2 capacity", ("l2",)),
        Source(
            "NVIDIA HGX platform specifications",
            "HGX B200, an eighth of the figures for eight GPUs; tensor figures but FP4 are published with sparsity and"
            " halved here",
            ("peaks", "nvlink"),
        ),
        Source(
            "NVIDIA DGX B200 datasheet",
            "GPU memory (1,440 GB, 64 TB/s), an eighth of it",
            ("memory", "memory_type", "bandwidth"),
        ),
        Source("NVIDIA Blackwell Architecture Technical Brief", "HGX B200: TDP", ("tdp",)),
        Source("reported by the driver", "NVIDIA B200: SM count, largest SM clock", ("sms", "boost_clock")),
    ),
)

T4 = Chip(
    name="T4",
    driver_names=("Tesla T4", "NVIDIA T4"),
    compute_capability=(7, 5),
    sms=40,
    boost_clock=1590e6,
    tensor_clock=None,
    cuda_cores_per_sm=64,
    tensor_cores_per_sm=8,
    register_file_per_sm=256 * KIB,
    shared_per_sm=64 * KIB,
    shared_per_block=64 * KIB,
    l2=4 * MIB,
    memory=16 * GB,
    memory_type="GDDR6",
    bandwidth=320 * GB,
    peaks=_tera(fp32=8.1, fp16_tensor=65, int8_tensor=130),
    nvlink=None,
    tdp=70,
    sources=(
        _GUIDE,
        Source(
            "NVIDIA T4 Tensor Core GPU datasheet (March 2019)",
            "Specifications; 2,560 CUDA cores and 320 tensor cores are 40 SMs of 64 and 8",
            ("sms", "tensor_cores_per_sm", "peaks", "tdp"),
        ),
        Source(
            "NVIDIA T4 product brief (PB-09256-001)",
            "Product specifications",
            ("boost_clock", "memory", "memory_type", "bandwidth"),
        ),
        Source("reported by the driver", "Tesla T4: L2 size", ("l2",)),
    ),
)

L4 = Chip(
    name="L4",
    driver_names=("NVIDIA L4",),
    compute_capability=(8, 9),
    sms=58,
    boost_clock=2040e6,
    tensor_clock=None,
    cuda_cores_per_sm=128,
    tensor_cores_per_sm=4,
    register_file_per_sm=256 * KIB,
    shared_per_sm=100 * KIB,
    shared_per_block=99 * KIB,
    l2=48 * MIB,
    memory=24 * GB,
    memory_type="GDDR6",
    bandwidth=300 * GB,
    peaks=_tera(fp32=30.3, tf32_tensor=60, fp16_tensor=121, bf16_tensor=121, fp8_tensor=242.5, int8_tensor=242.5),
    nvlink=None,
    tdp=72,
    sources=(
        _GUIDE,
        Source(
            "NVIDIA Ada GPU Architecture whitepaper, V2.02",
            "Appendix: NVIDIA L4 specifications",
            ("sms", "boost_clock", "tensor_cores_per_sm", "l2"),
        ),
        Source(
            "NVIDIA L4 Tensor Core GPU datasheet (March 2023)",
            "Technical specifications; tensor figures are published with sparsity and halved here",
            ("memory", "memory_type", "bandwidth", "peaks", "tdp"),
        ),
    ),
)

L40S = Chip(
    name="L40S",
    driver_names=("NVIDIA L40S",),
    compute_capability=(8, 9),
    sms=142,
    boost_clock=2520e6,
    tensor_clock=None,
    cuda_cores_per_sm=128,
    tensor_cores_per_sm=4,
    register_file_per_sm=256 * KIB,
    shared_per_sm=100 * KIB,
    shared_per_block=99 * KIB,
    l2=96 * MIB,
    memory=48 * GB,
    memory_type="GDDR6",
    bandwidth=864 * GB,
    peaks=_tera(fp32=91.6, tf32_tensor=183, fp16_tensor=362.05, bf16_tensor=362.05, fp8_tensor=733, int8_tensor=733),
    nvlink=None,
    tdp=350,
    sources=(
        _GUIDE,
        Source(
            "NVIDIA L40S GPU datasheet (January 2024)",
            "Specifications, the figures without the sparsity mark; 18,176 CUDA cores and 568 tensor cores are 142 SMs"
            " of 128 and 4",
            ("sms", "tensor_cores_per_sm", "memory", "memory_type", "bandwidth", "peaks", "tdp"),
        ),
        Source("reported by the driver", "NVIDIA L40S: largest SM clock, L2 size", ("boost_clock", "l2")),
    ),
)

RTX_4090 = Chip(
    name="GeForce RTX 4090",
    driver_names=("NVIDIA GeForce RTX 4090",),
    compute_capability=(8, 9),
    sms=128,
    boost_clock=2520e6,
    tensor_clock=None,
    cuda_cores_per_sm=128,
    tensor_cores_per_sm=4,
    register_file_per_sm=256 * KIB,
    shared_per_sm=100 * KIB,
    shared_per_block=99 * KIB,
    l2=73728 * KIB,
    memory=24 * GB,
    memory_type="GDDR6X",
    bandwidth=1008 * GB,
    peaks=_tera(fp32=82.6, tf32_tensor=82.6, fp16_tensor=165.2, bf16_tensor=165.2, fp8_tensor=330.3, int8_tensor=660.6),
    nvlink=None,
    tdp=450,
    sources=(
        _GUIDE,
        Source(
            "NVIDIA Ada GPU Architecture whitepaper, V2.02",
            "Appendix A, Table 2: GeForce RTX 4090; tensor figures with float32 accumulation, which this card does at"
            " half the rate of float16 accumulation",
            (
                "sms",
                "boost_clock",
                "tensor_cores_per_sm",
                "l2",
                "memory",
                "memory_type",
                "bandwidth",
                "peaks",
                "tdp",
            ),
        ),
    ),
)

CHIPS: tuple[Chip, ...] = (V100, T4, A100, L4, L40S, RTX_4090, H100, H200, B200)


def find_chip(driver_name: str) -> Chip | None:
    """The datasheet of the GPU that the driver calls `driver_name`, if it is one of CHIPS."""
    return next((chip for chip in CHIPS if driver_name in chip.driver_names), None)
