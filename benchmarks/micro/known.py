"""What is known about each measurement from elsewhere, with its source, and why ours differs where it does by over 5%.

A figure is only here if it was published for this chip or for its architecture, or follows from a published rule.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from course.results import Record
from warplab.hardware.chips import H200
from warplab.hardware.records import Math

GUIDE = "NVIDIA CUDA C++ Programming Guide, docs.nvidia.com/cuda/cuda-c-programming-guide"
ARITHMETIC = f"{GUIDE}: Throughput of Native Arithmetic Instructions, column 9.0"
JIA = (
    "Jia, Maggioni, Staiger, Scarpazza: Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking,"
    " arxiv.org/abs/1804.06826"
)
LUO = (
    "Luo, Fan, Li, Du, Wang, Chu: Benchmarking and Dissecting the Nvidia Hopper GPU Architecture,"
    " arxiv.org/abs/2402.13499"
)
STRIDES = (
    f"{GUIDE}: Device Memory Accesses: 32-byte transactions; CUDA Runtime API: cudaLimitMaxL2FetchGranularity: the"
    " memory is read 64 bytes at a time; so the memory's bandwidth over the stride, but at most over 16"
)
VOLTA = (
    "NVIDIA Volta Tuning Guide, docs.nvidia.com/cuda/volta-tuning-guide: Instruction Scheduling: dependent core FMA"
    " operations four cycles apart"
)
TOLERANCE = 0.05  # a deviation beyond this wants an explanation


@dataclass(frozen=True)
class Known:
    """A figure in the unit of the record that it is compared with."""

    value: float
    source: str


def _datasheet(figure: str) -> str:
    source = H200.source(figure)
    return f"{source.document}: {source.place}" if source else "warplab/hardware/data/h200.toml"


def _tensor(math: Math, clock: float | None) -> Known:
    """FLOP per cycle and SM that a peak of the datasheet comes to."""
    peak = H200.peak(math)
    assert peak and clock
    return Known(peak / H200.sms / clock, f"{_datasheet(math)}; over {H200.sms} SMs at {clock / 1e9:g} GHz")


TENSOR = {
    "float16": _tensor(Math.FP16_TENSOR, H200.tensor_clock),
    "bfloat16": _tensor(Math.BF16_TENSOR, H200.tensor_clock),
    "tfloat32": _tensor(Math.TF32_TENSOR, H200.tensor_clock),
    "float8_e4m3": _tensor(Math.FP8_TENSOR, H200.tensor_clock),
    "int8": _tensor(Math.INT8_TENSOR, H200.tensor_clock),
    "float64": _tensor(Math.FP64_TENSOR, H200.boost_clock),
}
PEAK = {
    "float16": Math.FP16_TENSOR,
    "bfloat16": Math.BF16_TENSOR,
    "tfloat32": Math.TF32_TENSOR,
    "float8_e4m3": Math.FP8_TENSOR,
    "int8": Math.INT8_TENSOR,
}
SINGLE = {
    ("sm count", "count"): Known(H200.sms, _datasheet("sms")),
    ("sm clock", "rate"): Known(H200.boost_clock or 0.0, _datasheet("boost_clock")),
    ("fma.f32", "latency"): Known(4, VOLTA),
    ("fma.f32", "rate"): Known(128, ARITHMETIC),
    ("fma.f16x2", "rate"): Known(256, ARITHMETIC),
    ("fma.f64", "rate"): Known(64, ARITHMETIC),
    ("mad.s32", "rate"): Known(64, ARITHMETIC),
    ("ex2.f32", "rate"): Known(16, ARITHMETIC),
    ("popc.b32", "rate"): Known(16, ARITHMETIC),
    ("shfl.b32", "rate"): Known(32, ARITHMETIC),
    ("register file", "size"): Known(H200.register_file_per_sm, _datasheet("register_file_per_sm")),
    ("shared memory", "bandwidth"): Known(128, f"{GUIDE}: Shared Memory: 32 banks of 4 bytes a cycle"),
    ("l1", "bandwidth"): Known(128, f"{JIA}: the theoretical bandwidth of L1 on Volta"),
    ("hbm", "bandwidth"): Known(H200.bandwidth, _datasheet("bandwidth")),
    ("distributed shared memory", "latency"): Known(180, f"{LUO}: SM-to-SM network"),
}


def known_of(record: Record, all_records: Iterable[Record]) -> Known | None:
    """The figure to hold a record against; None where nothing was published that it could be held against."""
    if found := SINGLE.get((record.name, record.metric)):
        return None if record.name == "shared memory" and record.shape not in ((), (1,)) else found
    if record.name == "tensor core":
        return TENSOR[record.dtype]
    if record.name in ("tensor core sustained", "matmul"):
        math = PEAK[record.dtype]
        peak = H200.peak(math)
        return Known(peak, _datasheet(math)) if peak else None
    if record.name == "shared request":
        return Known(
            record.shape[0], f"{GUIDE}: Shared Memory: lanes that meet in a bank are served one after the other"
        )
    if record.name == "divergence":
        one = next(r.value for r in all_records if r.name == "divergence" and r.shape == (1,))
        return Known(
            one * record.shape[0], f"{GUIDE}: SIMT Architecture: a warp takes each path in turn; paths x one path"
        )
    if record.name == "strided read":
        memory = next(r.value for r in all_records if r.name == "hbm" and r.metric == "bandwidth")  # of the same run
        return Known(memory / min(16, record.shape[0]), STRIDES)
    return None


# Why a figure differs from the known one, by name and metric, or by name, metric and variant.
EXPLANATIONS: dict[tuple[str, ...], str] = {
    ("hbm", "bandwidth"): (
        "The datasheet gives what the memory's pins could carry. Refreshing rows, and closing one to open another, take"
        " their part of the time; no read on this GPU has come nearer."
    ),
    ("strided read", "bandwidth"): (
        "At a stride of 32 only every second piece of 64 bytes is read, so that the memory opens its rows for half as"
        " much; shorter strides keep to the rule."
    ),
    ("fma.f16x2", "rate"): (
        "ptxas gives the instructions to two pipes in turn (HFMA2 and HFMA2.MMA), half of the rate each; chains of 8"
        " cycles of latency, two pipes and the loop leave a few slots empty."
    ),
    ("divergence", "latency"): (
        "Finding the path and meeting again is paid once for all; from the second on, each path adds only its length."
    ),
    ("distributed shared memory", "latency"): (
        "It depends on which two SMs form the cluster (least and most are recorded); the published figure is for one."
    ),
    ("tensor core", "rate", "mma.sync"): (
        "mma.sync takes its operands from registers and cannot keep Hopper's tensor cores fed; Luo and others"
        " (arXiv:2402.13499) see the same on an H100. wgmma is the instruction that can."
    ),
    ("tensor core sustained", "rate"): (
        "The tensor cores do all of their work in each cycle, but under this load the SMs do not keep the 1.83 GHz of"
        " the datasheet's figure: see sm_clock, and beside it the power and what the driver says holds the clock."
    ),
    ("matmul", "rate"): (
        "The clock, as for the tensor cores alone, lower still with random numbers, which take all of the power; and"
        " the product has to move its matrices as well."
    ),
}


def compare(records: list[Record]) -> list[Record]:
    """The records with what is known, its source, how far they are from it and, beyond TOLERANCE, why."""
    compared = []
    for record in records:
        known = known_of(record, records)
        extra = dict(record.extra)
        if known is not None:
            deviation = record.value / known.value - 1
            extra |= {"known": known.value, "known_from": known.source, "deviation": round(deviation, 4)}
            if abs(deviation) > TOLERANCE:
                extra["explanation"] = explanation(record)
        compared.append(replace(record, extra=extra))
    return compared


def explanation(record: Record) -> str:
    """Why this record may differ from what is known; empty where nobody has said so yet."""
    keys = (
        (record.name, record.metric, record.variant, record.dtype),
        (record.name, record.metric, record.variant),
        (record.name, record.metric),
    )
    return next((EXPLANATIONS[key] for key in keys if key in EXPLANATIONS), "")
