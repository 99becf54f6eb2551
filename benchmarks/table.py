"""Every benchmark: what it is run by, what it needs, which files it writes, and what these say.

`benchmarks/README.md` prints this table (`python -m benchmarks.renew --table`), `renew` runs what is stale.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from course.results import Record

NOTHING, GPU, HOPPER, TWO_GPUS = "nothing", "a GPU", "a Hopper GPU", "two GPUs"


@dataclass(frozen=True)
class Benchmark:
    """One command. `writes` are results files without .json; `needs` is one of the words above, `also` are packages or
    programs beside it. `minutes` is how long all of it takes, 0 where that is not known. `part` gives the arguments
    that renew one record alone, where the command can.
    """

    command: str
    needs: str
    writes: tuple[str, ...]
    says: str
    also: tuple[str, ...] = ()
    minutes: float = 0
    part: Callable[[Record], str] | None = None


def _lab(record: Record) -> str:
    return f"labs {record.name}"


def _subject(record: Record) -> str:
    return record.name


BENCHMARKS: Sequence[Benchmark] = (
    Benchmark("benchmarks.bench_gpu", GPU, ("ceilings", "labs", "rows"), "The GPU's ceilings; every reference and rung against them; softmax by row length.", minutes=12, part=_lab),
    Benchmark("benchmarks.microbench", HOPPER, ("microbench",), "SMs, clocks, instructions, memory levels and tensor cores, beside published figures.", ("torch",), 8),
    Benchmark("benchmarks.stopwatch", GPU, ("stopwatch",), "Two copies of one kernel raced; careless timing; a shared GPU.", minutes=10),
    Benchmark("benchmarks.bench_gemm", HOPPER, ("gemm",), "Rungs of the matrix products beside torch.matmul; drawn shapes.", ("torch",), 9),
    Benchmark("benchmarks.bench_gemm alone", HOPPER, ("gemm_alone",), "Each product alone beside torch.matmul, with clock and power.", ("torch",), 6),
    Benchmark("benchmarks.products", HOPPER, ("products",), "Functions of `systems.kernels` beside PyTorch's, and what the models chose.", ("torch",), 4),
    Benchmark("benchmarks.experts", HOPPER, ("experts",), "Index shuffle, grouped products and a layer of experts, beside PyTorch.", ("torch",), 25, lambda record: {"10_index_shuffle": "shuffle", "11_grouped_gemm": "grouped"}.get(record.name.partition("/")[0], record.name.partition("/")[0])),
    Benchmark("benchmarks.fp8", HOPPER, ("fp8",), "Lab 09's product beside four FP8 products of PyTorch.", ("torch",), 12),
    Benchmark("benchmarks.operators", GPU, ("operators",), "PyTorch's operators beside a copy; a product's power by its numbers.", ("torch",), 2),
    Benchmark("benchmarks.validate", GPU, ("counters",), "The emulator's outputs and counters beside the GPU's and Nsight Compute's.", ("ncu",), 60, _subject),
    Benchmark("benchmarks.sanitizer_agreement", GPU, ("sanitizers",), "The emulator's findings beside compute-sanitizer's.", ("compute-sanitizer",), 15),
    Benchmark("benchmarks.model_errors", GPU, ("cache_model", "estimate"), "The models of caches and of time beside Nsight Compute and the clock.", ("ncu",), 10),
    Benchmark("benchmarks.clock measure", GPU, ("clock_times",), "How long 261 kernels take by the clock, to which no model is fitted.", minutes=3),
    Benchmark("benchmarks.clock compare", NOTHING, ("clock",), "The model of time beside the clock, on the same kernels in two halves.", minutes=10),
    Benchmark("benchmarks.tensor_tiles", HOPPER, ("tensor_tiles",), "100,000 tiles of each mma and wgmma type, bit by bit.", minutes=5),
    Benchmark("benchmarks.gpu_tests", GPU, ("gpu_tests",), "Which of the tests that need a GPU passed.", ("torch",), 12),
    Benchmark("benchmarks.seeds", NOTHING, ("seeds",), "Verdicts of every submission over 200 seeds.", minutes=240),
    Benchmark("benchmarks.rungs", NOTHING, (), "Counters and speeds of every rung, for reports (labs/*/rungs.json).", minutes=10),
    Benchmark("benchmarks.judge", NOTHING, ("judge",), "Whether every right, wrong and cheating submission gets its verdict.", minutes=30),
    Benchmark("benchmarks.bench_emulator", NOTHING, ("emulator",), "The emulator's speed beside Numba's own simulator.", minutes=5),
    Benchmark("benchmarks.races", NOTHING, ("races",), "Which planted races are found, and what the search costs.", minutes=5),
    Benchmark("benchmarks.search_space", NOTHING, ("search_space",), "69 kernels of one template, timed by the emulator's model.", minutes=15),
    Benchmark("benchmarks.search.clock", GPU, ("search_clock",), "The same 69 kernels by the clock; how the model ranks them.", minutes=4),
    Benchmark("benchmarks.search", HOPPER, ("search",), "395 half-precision products per shape, beside PyTorch and cuBLASLt.", ("torch",), 60),
    Benchmark("benchmarks.search.fusion", GPU, ("fusion",), "Masked softmax in one kernel beside PyTorch, eager and compiled.", ("torch", "triton"), 3),
    Benchmark("benchmarks.startup", NOTHING, ("startup",), "How long first and later checks take, step by step.", minutes=30),
    Benchmark("benchmarks.startup --gpu", GPU, ("startup_gpu",), "How long grades take on a GPU machine.", minutes=8),
    Benchmark("benchmarks.collectives", TWO_GPUS, ("collectives",), "NCCL by size, its laws, schedules, and all-reduces by hand.", ("torch",), 20),
    Benchmark("benchmarks.checkpointing", GPU, ("checkpointing",), "Peak memory and time of a training step, kept and recomputed.", ("torch",), 6),
    Benchmark("benchmarks.megakernel", HOPPER, ("megakernel",), "Llama 3.2 1B decoded in one launch, beside PyTorch's step.", ("torch",), 8),
    Benchmark("benchmarks.gradescope", NOTHING, ("gradescope",), "Every reference in a container like Gradescope's.", ("docker",), 30),
    Benchmark("benchmarks.class_grading", NOTHING, ("class",), "How long a class of 200 takes, and whose verdict differs.", minutes=15),
    Benchmark("benchmarks.class_grading --gpu", GPU, ("class_gpu", "class_gpus"), "The same on the GPUs of this machine.", minutes=8),
    Benchmark("benchmarks.class_faults", NOTHING, ("class_faults",), "A hundred killed processes of a class: what was lost.", minutes=20),
    Benchmark("benchmarks.beside_cpu", GPU, ("beside_cpu",), "The same axpy, product and chase of pointers on a processor and a GPU.", minutes=1),
    Benchmark("benchmarks.blackwell", NOTHING, ("blackwell",), "Blackwell on the emulator: its tests, twins and speed; sums beside MMA-Sim; foreign kernels.", minutes=5),
    Benchmark("benchmarks.compaction", GPU, ("compaction",), "Lab 20's reference and tiles of other sizes beside a copy, CUB and PyTorch.", ("torch", "nvcc"), 2),
    Benchmark("benchmarks.sharing", HOPPER, ("sharing",), "A neighbour's cost in time slices, streams and MPS; what is left behind.", ("torch",), 2),
    Benchmark("benchmarks.attention", HOPPER, ("attention",), "Lab 21's last rung beside PyTorch's attention, backend by backend.", ("torch",), 1),
    Benchmark("benchmarks.decode.attention", HOPPER, (), "Decoding with paged keys and values beside a copy and PyTorch (attention.json).", ("torch",), 1),
    Benchmark("benchmarks.transfers", GPU, ("transfers",), "Copies to and from the GPU, their overlap, CUDA graphs, what events time.", minutes=1),
    Benchmark("benchmarks.tools", GPU, ("tools",), "One kernel in Nsight Compute, compute-sanitizer and Nsight Systems.", ("ncu", "compute-sanitizer", "nsys"), 1),
    Benchmark("benchmarks.network", NOTHING, ("network",), "The network simulator's speed, and its results beside closed forms.", minutes=3),
    Benchmark("benchmarks.toolkit_grades", GPU, (), "Every reference's points with the toolkit at hand (toolkits.json).", minutes=10),
    Benchmark("benchmarks.toolkits", NOTHING, ("toolkits",), "The corpus with every supported toolkit, beside CUDA 13's.", ("a package index",), 60),
    Benchmark("benchmarks.fuzz --minutes 60", NOTHING, ("fuzz",), "Hostile kernels, damaged PTX and damaged plan files on the emulator.", minutes=60),
)  # fmt: skip


def table() -> str:
    """The table of benchmarks/README.md."""
    rows = ["| command | needs | writes | says |", "|---|---|---|---|"]
    for one in BENCHMARKS:
        needs = ", ".join((one.needs, *one.also)) if one.needs != NOTHING else ", ".join(one.also) or NOTHING
        writes = ", ".join(f"`{name}.json`" for name in one.writes)
        rows.append(f"| `python -m {one.command}` | {needs} | {writes} | {one.says} |")
    return "\n".join(rows)
