"""Chapter 17: tensor memory, pairs of SMs, few bits, larger nodes and other chips, computed and drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from IPython.display import Markdown
from matplotlib.figure import Figure

from course.captures import captured
from course.chapters import c09_fp8
from course.lesson import Lesson, table
from systems.parallel import rooflines
from systems.parallel.layout import Layout
from systems.parallel.machines import DGX_B200, DGX_H100, NVL72, Machine
from systems.parallel.models import find_model
from warplab.emulator import execute
from warplab.figures import style
from warplab.hardware.small_floats import E2M1, E4M3
from warplab.plan import assembler
from warplab.plan.disassembler import disassembled
from warplab.plan.model import ArrayArgument, HostCall, Role

LANES, COLUMNS = 128, 512  # of tensor memory, of 4 bytes each
PER_CYCLE = 8192  # FLOP of float16 per cycle and SM: a B200's published peak at 1.86 GHz, and twice a Hopper's
DEPTH = 16  # of k, that a product of float16 takes
ARCHITECTURE = "sm_100a"
PRODUCT = Path(__file__).parents[2] / "systems" / "block_scaled" / "product.py"
LADDER = (  # rungs of lab 19, and the TFLOP/s that a ladder of the same steps reached on a B200
    ("rung_1_one_product", 255),
    ("rung_2_swizzle", 695),
    ("rung_3_pipeline", 940),
    ("rung_4_roles", 1209),
    ("rung_5_pair", 1302),
    ("rung_6_two_accumulators", 1476),
    ("rung_7_launch_control", None),
)
CUBLAS = 1507  # TFLOP/s, of the same measurement
TAILS = (2.0, 2.5, 3.0, 4.0, 6.0, 10.0, 30.0)  # degrees of freedom: the fewer, the heavier
_WHOLE = (1 << 30, 1 << 30)
FEW_BITS: dict[str, tuple[float, Callable[[np.ndarray], np.ndarray]]] = {
    "e4m3, one scale": (8, lambda x: c09_fp8.scaled(x, _WHOLE)),
    "MXFP8": c09_fp8.FORMATS["MXFP8"],
    "e2m1, one scale": (4, lambda x: c09_fp8.scaled(x, _WHOLE, E2M1)),
    "MXFP4": c09_fp8.FORMATS["MXFP4"],
    "NVFP4": c09_fp8.FORMATS["NVFP4"],
}
EXPERTS, ACTIVE, WIDTH = 256, 8, 2048  # DeepSeek-V3's
PACKED = """.version 9.0
.target {target}
.address_size 64
.visible .entry k(.param .u64 p) {{
    .reg .b64 %a<8>; .reg .b32 %r<2>;
    ld.param.u64 %a0, [p];
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %a6, %r0, 32;
    add.s64 %a0, %a0, %a6;
    ld.global.v2.b64 {{%a1, %a2}}, [%a0];
    ld.global.b64 %a3, [%a0+16];
    fma.rn.f32x2 %a4, %a1, %a2, %a3;
    st.global.b64 [%a0], %a4;
    ret;
}}"""


def registers(m: int, n: int, threads: int) -> float:
    """Registers per thread that m x n float32 sums fill, spread over so many threads."""
    return m * n / threads


def table_of_sums() -> Markdown:
    """Tiles, the registers or the tensor memory that their sums fill, and what is left."""
    rows = []
    for name, m, n, threads, memory in (
        ("Hopper, a warpgroup", 64, 256, 128, False),
        ("Hopper, two warpgroups", 128, 256, 256, False),
        ("Blackwell, one block", 128, 256, 128, True),
        ("Blackwell, a block of a pair", 128, 256, 128, True),
        ("the same, two sets of sums", 128, 512, 128, True),
    ):
        used = f"{m * n / (LANES * COLUMNS):.0%} of tensor memory" if memory else "none"
        held = 0 if memory else registers(m, n, threads)
        rows.append((name, f"{m} x {n}", f"{held:.0f} of 255", used))
    return table(["", "sums of an SM's tile", "registers per thread", "tensor memory"], rows)


def product_cycles(n: int = 256) -> float:
    """Cycles of a B200's SM for 128 x n x 16 multiply-adds, by the published peak."""
    return LANES * n * DEPTH * 2 / PER_CYCLE


def operand_bytes(blocks: int) -> int:
    """Bytes of operands per SM and product of 128 x 256 x 16: all rows of b, or its share of them."""
    return 2 * DEPTH * (LANES + 256 // blocks)


def table_of_pairs() -> Markdown:
    """Bytes that an SM's shared memory receives and gives per cycle, by a block alone and by one of a pair."""
    rows = []
    for name, blocks in (("a block alone", 1), ("a block of a pair", 2)):
        rate = operand_bytes(blocks) / product_cycles()
        rows.append((name, f"{blocks * 128} x 256", operand_bytes(blocks), f"{rate:.0f}", f"{2 * rate:.0f}"))
    heads = ["", "tile", "bytes of operands per SM and product", "bytes per cycle, read", "read and written"]
    return table(heads, rows)


def rungs() -> Markdown:
    """Lab 19's rungs: counters over their least, on the emulator, beside the published speed of the same steps."""
    lesson, rows = Lesson("19_blackwell_gemm"), []
    for name, published in LADDER:
        step = lesson.climb(name)
        size = step.lab.task.profile.dimensions
        least = {budget.counter: float(budget.limit(size)) for budget in step.lab.task.budgets}
        loads, products = (step.total.amount(one) for one in ("bulk_load_sectors", "tensor_instructions"))
        threads = step.total.amount("thread_read_sectors")
        moved = (loads + threads) / least["bulk_load_sectors"]
        speed = f"{published:,}" if published else ""
        rows.append((step.name, f"{moved:.2g}", f"{products / least['tensor_instructions']:.2g}", speed))
    heads = ["rung", "sectors of a and b over the least", "products over the least", "TFLOP/s, published"]
    return table(heads, rows)


def tails(tokens: int = 64, depth: int = 1024, seed: int = 17) -> dict[float, np.ndarray]:
    """Matrices of Student's t, one per number of degrees of freedom."""
    rng = np.random.default_rng(seed)
    return {degrees: rng.standard_t(degrees, (tokens, depth)) for degrees in TAILS}


def product_error(x: np.ndarray, back: Callable[[np.ndarray], np.ndarray], seed: int = 18) -> float:
    """The relative error of x w, in the root mean square, where x and normal weights w come back from a format."""
    w = np.random.default_rng(seed).standard_normal((64, x.shape[1]))
    return c09_fp8.error(back(x) @ back(w).T, x @ w.T)


def errors_of_products(data: Mapping[float, np.ndarray]) -> dict[str, list[float]]:
    """`product_error` of each format, tail by tail."""
    return {name: [product_error(x, back) for x in data.values()] for name, (_, back) in FEW_BITS.items()}


def table_of_formats(data: Mapping[float, np.ndarray], shown: Sequence[float] = (3.0, 30.0)) -> Markdown:
    """Bits, bytes of a layer's weights and errors of products, by format."""
    found = errors_of_products(data)
    rows = []
    for name, (bits, _) in FEW_BITS.items():
        errors = (found[name][list(data).index(degrees)] for degrees in shown)
        rows.append((name, bits, f"{weight_bytes(bits) / 1e9:.0f}", *(f"{one:.1%}" for one in errors)))
    rows.insert(0, ("bfloat16", 16, f"{weight_bytes(16) / 1e9:.0f}", *["" for _ in shown]))
    heads = [f"error of a product, t with {degrees:g} degrees" for degrees in shown]
    return table(["format", "bits per element", "GB of Llama 3 70B's weights", *heads], rows)


def weight_bytes(bits: float) -> float:
    """Bytes of Llama 3 70B's parameters in elements of so many bits, with their scales."""
    return find_model("Llama 3 70B").parameters * bits / 8


def figure_of_tails(data: Mapping[float, np.ndarray]) -> Figure:
    """Errors of products by format against the weight of the tails."""
    made, (axes,) = style.figure(7.2, 4.4)
    found = errors_of_products(data)
    for (name, values), colour, mark in zip(found.items(), style.PALETTE, "soD^v", strict=False):
        label = f"{name}: {FEW_BITS[name][0]:g} bits"
        axes.plot(range(len(data)), values, f"{mark}-", color=colour, markersize=7, label=label)
    axes.set_yscale("log")
    axes.set_ylim(0.02, 4)
    axes.set_yticks([0.03, 0.1, 0.3, 1], ["3%", "10%", "30%", "100%"])
    axes.legend(frameon=False, fontsize=style.TEXT, ncols=2, loc="upper right")
    axes.minorticks_off()
    axes.set_xticks(range(len(data)), [f"{degrees:g}" for degrees in data])
    axes.set_xlabel("degrees of freedom of the activations: heavy tails at the left, nearly normal at the right")
    axes.set_ylabel("error of a product")
    axes.grid(True, axis="y")
    style.headline(
        made,
        "Block scales take the tails out of the error",
        "activations of Student's t times normal weights, computed",
    )
    return made


def codes(x: np.ndarray, kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Codes and scales of a matrix as the tensor core takes them, and the matrix that they stand for.

    `kind` is mxfp8 or nvfp4, without the tensor's own scale; columns are a multiple of 256.
    """
    if kind == "mxfp8":
        exponent = np.floor(np.log2(c09_fp8.largest_of(x, (1, 32)))) - 8
        elements = E4M3.encode(x / 2.0**exponent)
        scales = (exponent[:, ::32] + 127).astype(np.uint8)
        return elements, scales.view(np.uint32), E4M3.decode(elements) * 2.0**exponent
    scales = E4M3.encode(c09_fp8.largest_of(x, (1, 16))[:, ::16] / E2M1.largest)
    spread = np.repeat(E4M3.decode(scales), 16, axis=1)
    four = E2M1.encode(x / np.where(spread == 0, 1, spread))
    return (four[:, ::2] | four[:, 1::2] << 4).astype(np.uint8), scales.view(np.uint32), E2M1.decode(four) * spread


def table_of_products(x: np.ndarray, seed: int = 18) -> Markdown:
    """x times normal weights by the emulated tensor core in both formats: what it does, and how far off it is."""
    weights, rows = np.random.default_rng(seed).standard_normal((64, x.shape[1])), []
    for kind in ("mxfp8", "nvfp4"):
        (a, scales_a, left), (b, scales_b, right) = codes(x, kind), codes(weights, kind)
        arrays = {"a": a, "b": b, "scales_a": scales_a, "scales_b": scales_b}
        arguments = [ArrayArgument(name, str(one.dtype), one.shape, Role.INPUT) for name, one in arrays.items()]
        arguments.append(ArrayArgument("c", "float32", (len(x), len(weights)), Role.OUTPUT))
        (plan,) = captured(PRODUCT, [HostCall(kind, tuple(arguments))], ARCHITECTURE)
        run = execute(plan, arrays, architecture=ARCHITECTURE)
        assert not run.findings, run.findings[0].message
        exact = left @ right.T
        off, lost = c09_fp8.error(run.outputs["c"], exact), c09_fp8.error(exact, x @ weights.T)
        sectors = run.total.amount("bulk_load_sectors")
        rows.append((kind, run.total.tensor_instructions, f"{sectors:,}", f"{off:.0e}", f"{lost:.1%}"))
    heads = ["products of the tensor core", "sectors of a and b", "error of its sums", "error of the format"]
    return table(["format", *heads], rows)


def of_node(gpus: int) -> Machine:
    """GB200s with so many per NVLink domain and nothing else changed."""
    return replace(NVL72, name=f"GB200, {gpus} per domain", node=gpus)


def table_of_domains() -> Markdown:
    """Chapter 13's bounds for nodes of eight and racks of 72."""
    model = find_model("Llama 3 405B")
    machines = (DGX_H100, DGX_B200, of_node(8), NVL72)
    rows: list[tuple[str, ...]] = []
    rows.append(("GPUs that NVLink joins", *(f"{one.node}" for one in machines)))
    limits = [rooflines.tensor_limit(one, model.ffn, matrices=model.matrices) for one in machines]
    rows.append(("tensor parallelism: most GPUs, by width", *(f"{limit:.0f}" for limit in limits)))
    usable = [min(limit, one.node) for limit, one in zip(limits, machines, strict=True)]
    rows.append(("the same, within one domain", *(f"{limit:.0f}" for limit in usable)))
    for name, layout in (("8,192 replicas", Layout(data=8192)), ("tensor 8", Layout(data=1024, tensor=8))):
        tokens = (rooflines.data_tokens(one, layout) for one in machines)
        rows.append((f"tokens per GPU that hide gradients, {name}", *(f"{one:,.0f}" for one in tokens)))
    widths = (rooflines.expert_width(one, EXPERTS, ACTIVE, 64, matrices=3) for one in machines)
    rows.append(("least width of 256 experts on 64 GPUs", *(f"{one:,.0f}" for one in widths)))
    return table(
        ["bound of chapter 13", *(one.name.split(",")[0] for one in machines[:2]), "GB200, 8", "GB200, 72"], rows
    )


def least_width(gpus: int) -> float:
    """The least width of 256 gated experts on 64 GB200s, so many of them per domain."""
    return rooflines.expert_width(of_node(gpus), EXPERTS, ACTIVE, 64, matrices=3)


def figure_of_domains() -> Figure:
    """Two bounds of chapter 13 against the size of the NVLink domain."""
    sizes = (4, 8, 16, 32, 64, 72)
    made, (left, right) = style.figure(8.2, 4.0, widths=(1, 1))
    widths = [least_width(gpus) for gpus in sizes]
    tokens = [rooflines.data_tokens(of_node(gpus), Layout(data=9216)) for gpus in sizes]
    for axes, values, colour, what in (
        (left, widths, style.BLUE, "least width of an expert"),
        (right, tokens, style.ORANGE, "tokens per GPU that hide gradients"),
    ):
        axes.plot(range(len(sizes)), values, "o-", color=colour, markersize=7)
        axes.set_xticks(range(len(sizes)), [str(size) for size in sizes])
        axes.set_ylim(0, 1.1 * max(values))
        axes.set_xlabel("GPUs per NVLink domain")
        axes.set_title(what, loc="left", fontsize=style.TEXT)
        axes.grid(True, axis="y")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    left.axhline(WIDTH, color=style.RED, linewidth=1.5)
    left.annotate("DeepSeek-V3's 2,048", (0, WIDTH), xytext=(0, 5), textcoords="offset points",
                  ha="left", color=style.RED, fontsize=style.SMALL)  # fmt: skip
    style.headline(made, "A larger domain moves both bounds", "GB200s with one 400 Gb/s NIC each, calculated")
    return made


def table_of_packed() -> Markdown:
    """What ptxas makes of one fma.rn.f32x2 for each Blackwell target: machine instructions by name."""
    rows = []
    for target in ("sm_100a", "sm_103a", "sm_120a"):
        done = assembler.run(PACKED.format(target=target), target, 60)
        code = disassembled(done.image) or {}
        names = [one.opcode for body in code.values() for one in body if one.opcode.startswith("FFMA")]
        rows.append((target, ", ".join(names)))
    return table(["target", "machine instructions of one fma.rn.f32x2"], rows)


def lanes_case(seed: int = 3) -> dict[str, np.ndarray]:
    """Exercise 1: a and b of 128 x 64 float16, whole numbers."""
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(-4, 5, (128, 64)).astype(np.float16) for _ in range(2))
    return {"a": a, "b": b, "out": np.zeros((128, 128), np.float32)}


def is_product(case: Mapping[str, np.ndarray], out: np.ndarray | None) -> bool:
    """Whether out is a bᵀ, exactly."""
    return out is not None and np.array_equal(out, case["a"].astype(np.float64) @ case["b"].astype(np.float64).T)


def judged_tile(m: int, n: int, sets: int, stages: int) -> bool:
    """Exercise 2: whether a pair's tile fits tensor memory and shared memory, and needs at most 64 bytes per cycle."""
    columns, shared = n * sets, stages * 2 * 64 * (m // 2 + n // 2) if m and n else 0
    cycles = product_cycles(n) * (m / 2 / LANES) if n else 1
    rate = 2 * DEPTH * (m / 2 + n / 2) / cycles if cycles else 0
    print(f"{columns} columns, {shared / 1024:.0f} KiB per block, {rate:.0f} bytes read per cycle")
    legal = m in (128, 256) and n % 16 == 0 and 16 <= n <= 256 and sets >= 1 and stages >= 1
    return legal and sets == 2 and columns <= COLUMNS and stages >= 6 and shared <= 227 * 1024 and rate <= 64
