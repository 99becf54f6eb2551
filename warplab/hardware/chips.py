"""Datasheets: what is published about a GPU, each figure with the place where it was read.

Peaks are dense: a figure that is published only with 2:4 sparsity is halved, and its source says so. Not every
datasheet could be read itself: `Source.evidence` says whether a figure stands in a document of NVIDIA's that was read,
in somebody else's that was read instead, or is what the driver of such a GPU reports.
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


def _tera(**figures: float) -> Mapping[Math, float]:
    """Peaks from keyword arguments in TFLOP/s, named like the members of Math in lower case."""
    return MappingProxyType({Math[name.upper()]: value * TERA for name, value in figures.items()})


# What an SM holds depends on the compute capability alone.
_GUIDE = Source(
    Evidence.VENDOR,
    "NVIDIA CUDA C++ Programming Guide, release 13",
    "Compute Capabilities: Table 27 (KB are KiB there) and the sections Architecture and Shared Memory of each",
    ("cuda_cores_per_sm", "tensor_cores_per_sm", "register_file_per_sm", "shared_per_sm", "shared_per_block"),
)
_AMPERE = "NVIDIA Ampere Architecture In-Depth, developer.nvidia.com/blog/nvidia-ampere-architecture-in-depth"
_HOPPER = "NVIDIA Hopper Architecture In-Depth, developer.nvidia.com/blog/nvidia-hopper-architecture-in-depth"
_LOCKWOOD = "Glenn K. Lockwood, Digital garden"
_BEKMAN = "Stas Bekman, Machine Learning Engineering, Accelerators"

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
        Source(
            Evidence.VENDOR,
            _AMPERE,
            "Table 3, column Tesla V100 (SXM2, 32 GB); Table 4; section Third-generation NVLink",
            (
                "compute_capability",
                "sms",
                "boost_clock",
                "register_file_per_sm",
                "l2",
                "memory",
                "memory_type",
                "bandwidth",
                "peaks",
                "nvlink",
                "tdp",
            ),
        ),
        _GUIDE,
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
            Evidence.VENDOR,
            _AMPERE,
            "Table 3, column A100 (SXM4, 40 GB; the 80 GB one differs in its memory alone), the figures without"
            " sparsity; Table 4; section Third-generation NVLink",
            ("compute_capability", "sms", "boost_clock", "l2", "peaks", "nvlink", "tdp"),
        ),
        Source(
            Evidence.SECONDARY,
            "Thunder Compute, NVIDIA A100 specifications, thundercompute.com/blog/nvidia-a100-specs-full-guide",
            "A100 Specifications, column A100 SXM 80GB",
            ("memory", "memory_type", "bandwidth"),
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
            Evidence.VENDOR,
            _HOPPER,
            "Table 3, column H100 SXM5 (called preliminary there; its peaks and bandwidth are, and are not used here);"
            " table of compute capabilities; section Fourth-generation NVLink",
            ("compute_capability", "sms", "l2", "memory", "memory_type", "nvlink", "tdp"),
        ),
        Source(
            Evidence.SECONDARY,
            f"{_LOCKWOOD}, H100, glennklockwood.com/garden/processors/h100",
            "Specifications and Performance, after NVIDIA's H100 whitepaper: the dense peaks; 1.98 GHz for high"
            " precision, 1.83 GHz for low",
            ("tensor_clock", "peaks"),
        ),
        Source(
            Evidence.DRIVER,
            "deviceQuery (CUDA samples) on H100 80GB HBM3",
            "published outputs: largest clock 1980 MHz; 2619 MHz memory clock, twice a cycle, on 5120 bits",
            ("boost_clock", "bandwidth"),
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
            Evidence.DRIVER,
            "device attributes in Nsight Compute on an H200, read for this project",
            "SM count, largest SM clock, L2 size (62,914,560 bytes), compute capability",
            ("compute_capability", "sms", "boost_clock", "l2"),
        ),
        Source(
            Evidence.VENDOR,
            "NVIDIA's system descriptions in MLPerf Inference v4.1",
            "github.com/mlcommons/inference_results_v4.1, closed/NVIDIA/systems/H200-SXM-141GBx8_TRT_MaxQ.json",
            ("memory", "memory_type", "nvlink", "tdp"),
        ),
        Source(
            Evidence.SECONDARY,
            f"{_BEKMAN}, github.com/stas00/ml-engineering",
            "TFLOPS comparison table (dense) and table of memories. NVIDIA's H200 page gives its tensor figures with"
            " sparsity (FP16 1,979, FP8 3,958 TFLOPS): halved here",
            ("bandwidth", "peaks"),
        ),
        Source(
            Evidence.SECONDARY,
            "NVIDIA GH200 Grace Hopper datasheet, as copied in github.com/atineoSE/coding-model-seeks-gpu",
            "Product Specifications: the same Hopper GPU with another memory",
            (Math.FP64, Math.FP64_TENSOR),
        ),
        Source(
            Evidence.SECONDARY,
            f"{_LOCKWOOD}, H100, glennklockwood.com/garden/processors/h100",
            "Specifications: 1.83 GHz for low precision; H200: the same GPU as the H100",
            ("tensor_clock",),
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
    bandwidth=7.7e12,
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
            Evidence.VENDOR,
            "NVIDIA Blackwell Tuning Guide, docs.nvidia.com/cuda/blackwell-tuning-guide",
            "Occupancy; High-Bandwidth Memory; Increased L2 Capacity (126 MB, said of the GB200; drivers report"
            " 126.5 MiB on a B200)",
            ("compute_capability", "l2", "memory"),
        ),
        Source(
            Evidence.DRIVER,
            "device properties of a B200, github.com/pytorch/ao pull request 4002",
            "Number of SMs; the 7,680-bit bus at 3996 MHz there makes 7.67 TB/s, as the datasheet's 7.7",
            ("sms",),
        ),
        Source(
            Evidence.DRIVER,
            "device properties and nvidia-smi on B200s",
            "largest SM clock in published captures; no document that was read gives a boost clock",
            ("boost_clock",),
        ),
        Source(
            Evidence.SECONDARY,
            "NVIDIA Blackwell datasheet, as copied in zdszero.github.io/Computer/Artificial_Intelligence/Hardware.html",
            "Individual Blackwell GPU Specifications, HGX B200 (the DGX B200 page is quoted with 64 TB/s for eight, 8"
            " TB/s each); tensor figures but FP64 are published with sparsity and halved here",
            ("memory_type", "bandwidth", "peaks", "nvlink", "tdp"),
        ),
        Source(
            Evidence.SECONDARY,
            f"{_BEKMAN}, github.com/stas00/ml-engineering",
            "TFLOPS comparison table (dense). NVIDIA's HGX page is quoted with 18 PFLOPS for eight GPUs with sparsity:"
            " this is a sixteenth of it; the datasheet rounds 2.25 PFLOPS to 2.2",
            (Math.TF32_TENSOR,),
        ),
    ),
)

GB200 = Chip(
    name="GB200 (one GPU of NVL72)",
    driver_names=("NVIDIA GB200",),
    compute_capability=(10, 0),
    sms=152,
    boost_clock=None,
    tensor_clock=None,
    cuda_cores_per_sm=128,
    tensor_cores_per_sm=4,
    register_file_per_sm=256 * KIB,
    shared_per_sm=228 * KIB,
    shared_per_block=227 * KIB,
    l2=126 * MIB,
    memory=186 * GB,
    memory_type="HBM3e",
    bandwidth=8e12,
    peaks=_tera(
        fp64=40,
        fp64_tensor=40,
        fp32=80,
        tf32_tensor=1250,
        fp16_tensor=2500,
        bf16_tensor=2500,
        fp8_tensor=5000,
        int8_tensor=5000,
        fp4_tensor=10000,
    ),
    nvlink=1800 * GB,
    tdp=1200,
    sources=(
        _GUIDE,
        Source(
            Evidence.VENDOR,
            "NVIDIA Blackwell Tuning Guide, docs.nvidia.com/cuda/blackwell-tuning-guide",
            "Occupancy; Increased L2 Capacity (126 MB, said of the GB200)",
            ("compute_capability", "l2"),
        ),
        Source(
            Evidence.SECONDARY,
            "tests of fastvideo_kernel, github.com/hao-ai-lab/FastVideo",
            "the device properties that they give a GB200: multi_processor_count",
            ("sms",),
        ),
        Source(
            Evidence.SECONDARY,
            "NVIDIA Blackwell datasheet (nvdam.widen.net/s/wwnsxrhm2w/blackwell-datasheet-3384703), read in a copy",
            "Individual Blackwell GPU Specifications, GB200 NVL72; tensor figures but FP64 are published with sparsity"
            " and halved here. No document that was read gives a clock",
            ("memory", "memory_type", "bandwidth", "peaks", "nvlink", "tdp"),
        ),
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
            Evidence.DRIVER,
            "deviceQuery (CUDA samples) on a Tesla T4, gist.github.com/Terminus-IMRC/5e4b7782c27106dec287050b323cd059",
            "compute capability, multiprocessors, largest clock, L2 size; 5001 MHz memory clock, twice a cycle, on 256"
            " bits (NVIDIA's page is quoted with 320+ GB/s, its datasheet with 300)",
            ("compute_capability", "sms", "boost_clock", "l2", "bandwidth"),
        ),
        Source(
            Evidence.SECONDARY,
            "Geektopia, Nvidia presenta la nueva Tesla T4 basada en Turing (13 September 2018)",
            "FP32, FP16 and INT8; Turing has no sparsity to count in",
            ("peaks",),
        ),
        Source(
            Evidence.SECONDARY,
            "Network Outlet, NVIDIA Tesla T4 16GB GPU: Specs, Performance & Use Cases",
            "technical specifications",
            ("memory", "memory_type", "tdp"),
        ),
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
            Evidence.DRIVER,
            "deviceQuery (CUDA 11.8 demo suite) on an L4",
            "published outputs: compute capability, multiprocessors, largest clock, L2 size; 6251 MHz memory clock,"
            " twice a cycle, on 192 bits",
            ("compute_capability", "sms", "boost_clock", "l2", "bandwidth"),
        ),
        Source(
            Evidence.SECONDARY,
            "NVIDIA L4 datasheet (Cisco's copy, nvidia-l4-gpu.pdf), read in an excerpt",
            "Specifications; tensor figures are published with sparsity and halved here",
            ("memory", "peaks"),
        ),
        Source(
            Evidence.SECONDARY,
            "Grokipedia, NVIDIA L4 vs L40S",
            "introduction: 24 GB of GDDR6 in a 72 W card",
            ("memory_type", "tdp"),
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
            Evidence.DRIVER,
            "cuda-device-query (a port of deviceQuery) on an L40S",
            "output in its README: compute capability, multiprocessors, largest clock, L2 size",
            ("compute_capability", "sms", "boost_clock", "l2"),
        ),
        Source(
            Evidence.SECONDARY,
            "Mullet, NVIDIA L40/L40S (a reseller's copy of NVIDIA's table), mullet.se, product 355414",
            "column L40S: of each pair the figure without sparsity. It does not say whether FP16 and BF16 accumulate in"
            " float16 or float32; per SM and clock they are twice the L40's 181 TFLOPS beside them",
            ("memory", "memory_type", "bandwidth", "peaks", "tdp"),
        ),
        Source(
            Evidence.SECONDARY,
            f"{_BEKMAN}, github.com/stas00/ml-engineering",
            "TFLOPS comparison table (dense)",
            (Math.INT8_TENSOR,),
        ),
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
            Evidence.SECONDARY,
            "The FPS Review, NVIDIA GeForce RTX 4090 GPU Family Specifications",
            "basics, memory, chip details (16,384 CUDA cores are 128 SMs of 128) and clock speeds",
            ("sms", "boost_clock", "memory", "memory_type", "bandwidth", "tdp"),
        ),
        Source(
            Evidence.SECONDARY,
            "WareDB, NVIDIA GeForce RTX 4090, waredb.com/processor/nvidia-geforce-rtx-4090",
            "Cache; Matrix Compute, of each pair the figure without sparsity. Float32 accumulation, which this card"
            " does at half the rate of float16; NVIDIA's Ada whitepaper (V2.02, Appendix A, Table 2) is quoted with the"
            " same figures",
            ("l2", "peaks"),
        ),
        Source(
            Evidence.SECONDARY,
            "NVIDIA developer forum, Block Clustering in Ada architecture (thread 305710)",
            "answer: Ada is compute capability 8.9",
            ("compute_capability",),
        ),
    ),
)

CHIPS: tuple[Chip, ...] = (V100, T4, A100, L4, L40S, RTX_4090, H100, H200, B200, GB200)


def find_chip(driver_name: str) -> Chip | None:
    """The datasheet of the GPU that the driver calls `driver_name`, if it is one of CHIPS."""
    return next((chip for chip in CHIPS if driver_name in chip.driver_names), None)
