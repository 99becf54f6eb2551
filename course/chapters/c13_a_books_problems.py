"""Chapter 13: the problems of How to Scale Your Model's chapter on GPUs, with our answers and the book's."""

from __future__ import annotations

from dataclasses import replace

from IPython.display import Markdown

from course.lesson import table
from systems.network.collectives import Collective
from systems.network.costs import Algorithm, cost
from systems.parallel import rooflines
from systems.parallel.layout import MIXED, Job, Layout
from systems.parallel.machines import DGX_B200, DGX_H100
from systems.parallel.memory import memory
from systems.parallel.models import find_model
from systems.parallel.traffic import collective, group
from warplab.hardware import Math, Roofline
from warplab.hardware.chips import B200, H100

GB = 1e9
HEADS = ["problem", "one call", "book"]
Problem = tuple[str, str, str]


def table_of_the_book() -> Markdown:
    """Problems on networks and layouts."""
    return table(HEADS, problems())


def table_of_the_chip() -> Markdown:
    """Problems on the chip and the node."""
    return table(HEADS, chip_problems())


def micro(kind: Collective, size: float, gpus: int) -> float:
    """Microseconds of a collective without latencies: the slower of the two levels."""
    inside, across, _ = collective(kind, size, group(gpus, 1, DGX_H100), DGX_H100, 1.0)
    return 1e6 * max(inside / DGX_H100.inside, across / DGX_H100.across)


def product(rows: int) -> float:
    """Microseconds of fp16[rows, 4096] x fp16[4096, 8192] on a B200 at its roofline."""
    roof = Roofline(B200.peaks[Math.BF16_TENSOR], B200.bandwidth)
    return 1e6 * roof.floor_seconds(2 * rows * 4096 * 8192, 2 * (rows * 4096 + 4096 * 8192 + rows * 8192))


def problems() -> list[Problem]:
    """(problem, our answer, the book's answer)."""
    h100, gather, llama70 = DGX_H100, Collective.ALL_GATHER, find_model("Llama 3 70B")
    plain = Layout(data=8192)
    everybody = cost(Collective.ALL_TO_ALL, Algorithm.DIRECT, 8)
    switch = cost(Collective.ALL_REDUCE, Algorithm.SWITCH, 8)
    ten = memory(Job(llama70, 512, 8192, replace(MIXED, gradient=0, optimizer=8)), Layout(data=512, tensor=8, zero=0))
    return [
        (
            "Pop quiz 1: all-gather of bf16[1024, 16384] in a node",
            f"{micro(gather, 2 * 1024 * 16384, 8):.0f} µs",
            "65 µs",
        ),
        (
            "Pop quiz 2: all-to-all of B bytes in a node, for 1 GB",
            f"{1e6 * everybody.time(GB / 8, 0, h100.inside):.0f} µs",
            "B (N − 1) / (W N²): 243 µs",
        ),
        (
            "Pop quiz 3: all-gather of bf16[8192, 32768] over 256 GPUs",
            f"{micro(gather, 2 * 8192 * 32768, 256):,.0f} µs",
            "2DF · 31/32 / 400e9: 1,300 µs",
        ),
        (
            "Quiz 2, 3: all-gather of bf16[4096, 65536] in a node",
            f"{micro(gather, 2 * 4096 * 65536, 8):,.0f} µs",
            "1,040 µs",
        ),
        (
            "Quiz 4, 1: all-gather of 1 GB over 32 nodes",
            f"{micro(gather, GB, 256):,.0f} µs",
            "B · 31/32 / 400e9: 2,422 µs",
        ),
        (
            "Quiz 4, 2: all-reduce of 1 GB in a node, switches add",
            f"{1e6 * switch.time(GB, 0, h100.inside):,.0f} µs",
            "B / W: 2,222 µs",
        ),
        (
            "Quiz 4, 3: the same, cut in 8 along another axis",
            f"{1e6 * switch.time(GB / 8, 0, h100.inside):,.0f} µs",
            "B / (Y W): 278 µs",
        ),
        ("Quiz 4, 5: all-gather of 1 GB over two nodes", f"{micro(gather, GB, 16):,.0f} µs", "B / 514e9: 1,946 µs"),
        ("Data parallel, in a node: tokens per GPU", f"{rooflines.data_tokens(h100, Layout(data=8)):,.0f}", "2,200"),
        ("Data parallel, beyond: tokens per GPU", f"{rooflines.data_tokens(h100, plain):,.0f}", "2,475"),
        (
            "Data parallel over two nodes: tokens per GPU",
            f"{rooflines.data_tokens(h100, Layout(data=16)):,.0f}",
            "1,237",
        ),
        ("128 experts, 4 active: tokens per GPU", f"{rooflines.data_tokens(h100, plain, 32):,.0f}", "79,200"),
        (
            "Llama 3 on 16,384 GPUs, if data parallel only: tokens per step",
            f"{rooflines.data_tokens(h100, plain) * 16384 / 1e6:.0f} million",
            "40 million",
        ),
        (
            "The same with tensor 8, pipeline 16",
            f"{rooflines.data_tokens(h100, Layout(data=128, tensor=8, pipeline=16)) * 16384 / 1e6:.1f} million",
            "(reduced by 16)",
        ),
        (
            "Tensor parallel, f = 28,672",
            f"{rooflines.tensor_limit(h100, 28672, matrices=2):.1f} GPUs",
            "F / 2200 and F / 1995",
        ),
        (
            "Expert parallel, 64 GPUs, 8 of 256: least width",
            f"{rooflines.expert_width(h100, 256, 8, 64, matrices=2):,.0f}",
            "α (Z − 8) / k: 17,325",
        ),
        ("Quiz 5, 1: B200 in a node, FLOP per byte", f"{rooflines.intensity(DGX_B200, DGX_B200.inside):,.0f}", "2,500"),
        (
            "Quiz 5, 1: B200 beyond, tokens per GPU",
            f"{rooflines.data_tokens(DGX_B200, Layout(data=2**17)):,.0f}",
            "5,625",
        ),
        ("Quiz 5, 2.1: H100s for weights and optimizer of 70B", f"{rooflines.least_gpus(llama70, h100, 10)}", "9"),
        (
            "Quiz 5, 2.2: days for 15T tokens, 4,096 GPUs, 45%",
            f"{rooflines.training_days(llama70, 15e12, 8192, h100, 4096, 0.45):.0f}",
            "40",
        ),
        (
            "Quiz 5, 2.3.1: tensor 8, data 512, no ZeRO, 10 bytes each",
            f"{ten.total / GB - ten.activations / GB:.0f} GB per GPU",
            "87.5 GB",
        ),
        (
            "Quiz 5, 2.3.2: tensor 8 and ZeRO 3, tokens per GPU",
            f"{rooflines.data_tokens(h100, Layout(data=512, tensor=8)):,.0f}",
            "twice 2,475",
        ),
        (
            "Quiz 5, 2.3.3: with a pipeline of 8, tokens per GPU",
            f"{rooflines.data_tokens(h100, Layout(data=64, tensor=8, pipeline=8)):,.0f}",
            "309",
        ),
        (
            "Quiz 5, 3: 16B of Megatron-LM, tokens per GPU that hide",
            f"{rooflines.data_tokens(h100, Layout(data=48, tensor=4)):,.0f} of 4,096",
            "2,472",
        ),
        (
            "Quiz 5, 3: 70B",
            f"{rooflines.data_tokens(h100, Layout(data=48, tensor=8, pipeline=2)):,.0f} of 2,048",
            "about 1,000",
        ),
        (
            "Quiz 5, 3: 314B",
            f"{rooflines.data_tokens(h100, Layout(data=48, tensor=8, pipeline=8)):,.0f} of 2,048",
            "about 300",
        ),
    ]


def chip_problems() -> list[Problem]:
    """The same of its quizzes on the chip and the node."""
    bf16, fp8, h100 = Math.BF16_TENSOR, Math.FP8_TENSOR, DGX_H100
    shared, registers = (H100.sms * size / 2**20 for size in (H100.shared_per_sm, H100.register_file_per_sm))
    return [
        (
            "Quiz 1, 1: float32 lanes of H100 and B200",
            f"{H100.cuda_cores:,} and {B200.cuda_cores:,}",
            "16,896 and 18,944",
        ),
        (
            "Quiz 1, 2: float32 operations a second, additions alone",
            f"{H100.peaks[Math.FP32] / 2e12:.1f} T",
            "33.5 T at boost",
        ),
        (
            "Quiz 1, 3: FLOP per byte of HBM, H100 and B200",
            f"{H100.peaks[bf16] / H100.bandwidth:.0f} and {B200.peaks[bf16] / B200.bandwidth:.0f}",
            "295 and 281",
        ),
        (
            "Quiz 1, 3: in FP8",
            f"{H100.peaks[fp8] / H100.bandwidth:.0f} and {B200.peaks[fp8] / B200.bandwidth:.0f}",
            "590 and 562",
        ),
        (
            "Quiz 1, 4: a product of 64 rows, of 512",
            f"{product(64):.1f} µs and {product(512):.1f} µs",
            "8.6 µs and 15 µs",
        ),
        (
            "Quiz 1, 5: L1 and shared memory of an H100",
            f"{shared:.1f} MiB shared; registers {registers:.1f} MiB",
            "33 MB each",
        ),
        ("Quiz 1, 6: clock of a B200 of 80 TFLOP/s", f"{80e12 / (2 * B200.cuda_cores) / 1e9:.2f} GHz", "2.1 GHz"),
        (
            "Quiz 1, 7: adding two vectors of 2^30 float32",
            f"{1e3 * Roofline(1, H100.bandwidth).floor_seconds(0, 12 * 2**30):.2f} ms",
            "3.84 ms",
        ),
        ("Quiz 2, 1 and 2: of a node, both ways", f"{8 * h100.inside / 1e12:.1f} TB/s", "3.6 TB/s"),
        ("Quiz 3, 1: of a node to the others, each way", f"{8 * h100.across / 1e9:.0f} GB/s", "400 GB/s"),
    ]
