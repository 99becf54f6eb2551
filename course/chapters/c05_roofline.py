"""Chapter 05: roofs of an H200, operators below them, and the bytes that kernels request of each memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from IPython.display import Markdown, display
from matplotlib.figure import Figure

from autograder.own_work import capture_submission
from autograder.spec.inputs import generate
from course import experiment
from course.captures import process_for
from course.figures.explore import Explorer
from course.figures.hierarchical_roofline import LevelIntensities, hierarchical_roofline
from course.kernel_cell import KernelCell
from course.lesson import Lesson, ceilings, solution, table
from course.magics import submission_path
from course.measured import known, needed
from course.results import Record
from warplab import emulator
from warplab.errors import WarplabError
from warplab.figures.roofline import Point, roofline
from warplab.hardware import Math, Roofline
from warplab.hardware.chips import A100, B200, H100, H200, V100
from warplab.hardware.operators import OPERATORS, Operator, attention, gemm
from warplab.plan.execution import Execution
from warplab.plan.model import Role

PUBLISHED = {
    "copy": H200.bandwidth,
    "fp32_fma": known(H200.peak(Math.FP32)),
    "tensor_fp16": known(H200.peak(Math.FP16_TENSOR)),
}
REQUESTED = ("requested from L1, times that", "requested from L2 (modelled)", "read from memory (modelled)")
_NAMES = {"copy": "copy, TB/s", "fp32_fma": "float32 multiply-adds, TFLOP/s", "tensor_fp16": "tensor cores, TFLOP/s"}
_DATA = ("zeros", "ones", "N(0, 1)")
_TENSOR = (Math.FP16_TENSOR, Math.BF16_TENSOR)
_RUNGS = ("rung_1_naive", "rung_2_coalesced", "rung_3_shared_tile", "rung_4_register_tile", "submission")
_L1 = "L1 and shared memory"
_NEAR = 0.7  # of a copy's rate: an operator below it is far from its roof


def ceiling(name: str) -> float:
    """What an H200 sustains, per second: bytes of a copy, or operations."""
    return needed("ceilings", name, "rate").value


def table_of_ridges() -> Markdown:
    """The ridges of five chips for three kinds of arithmetic, by their datasheets."""
    rows = []
    for chip in (V100, A100, H100, H200, B200):
        peaks = [chip.peak(kind) for kind in (Math.FP32, Math.FP16_TENSOR, Math.FP8_TENSOR)]
        ridges = [f"{peak / chip.bandwidth:.0f}" if peak else "no such unit" for peak in peaks]
        rows.append([chip.name, chip.bandwidth / 1e12, *ridges])
    return table(["chip (datasheet)", "memory, TB/s", "ridge: float32", "fp16 tensor", "fp8 tensor"], rows)


def table_of_ceilings() -> Markdown:
    """Three ceilings of an H200: published, sustained, and their share."""
    rows = [
        (_NAMES[name], peak / 1e12, f"{ceiling(name) / 1e12:.2f}", f"{100 * ceiling(name) / peak:.1f}%")
        for name, peak in PUBLISHED.items()
    ]
    return table(["ceiling of an H200", "datasheet", "sustained", "share"], rows)


def table_of_traffic() -> Markdown:
    """The main memory's bandwidth: published, for reads alone, and for a copy."""
    rows = [
        ("datasheet", H200.bandwidth / 1e12),
        ("reads alone", f"{needed('microbench', 'hbm', 'bandwidth').value / 1e12:.2f}"),
        ("copy: half is writes", f"{ceiling('copy') / 1e12:.2f}"),
    ]
    return table(["traffic", "TB/s on an H200"], rows)


def product_of(data: str) -> Record:
    """The sustained rate of a matrix product of such numbers."""
    return needed("operators", "matrix product", "sustained rate", variant=data)


def table_of_energy() -> Markdown:
    """Rate, power and energy of one matrix product on three kinds of numbers."""
    rows = []
    for data in _DATA:
        record = product_of(data)
        watts = record.extra["watts"]
        rows.append((data, f"{record.value / 1e12:.0f}", f"{watts:.0f}", f"{watts / record.value * 1e12:.2f}"))
    return table(["matrices", "TFLOP/s", "watts", "pJ per FLOP"], rows)


def intensity(name: str) -> float:
    """FLOP per byte of an operator of the table."""
    return next(operator for operator in OPERATORS if operator.name == name).intensity


def roof_for(operator: Operator, memory: float | None = None) -> Roofline:
    """The roof over an operator from ceilings that an H200 sustains; `memory` is another slope, in bytes per second."""
    peak = ceiling("tensor_fp16" if operator.math in _TENSOR else "fp32_fma")
    return Roofline(peak, memory or ceiling("copy"))


def limited_by(tokens: int) -> str:
    """Whether memory or compute limits a linear layer of 14,336 x 4,096 weights in fp16 on so many tokens."""
    layer = gemm("linear", tokens, 14336, 4096)
    return str(roof_for(layer).bound(layer.intensity))


def table_of_operators() -> Markdown:
    """Operators by their intensity, what limits them, and their least time on an H200."""
    rows = []
    for operator in sorted(OPERATORS, key=lambda one: one.intensity):
        roof = roof_for(operator)
        least = roof.floor_seconds(operator.flops, operator.bytes)
        sizes = " × ".join(f"{size:,}" for size in operator.dimensions.values())
        written = format(operator.intensity, ",.0f" if operator.intensity >= 100 else ".3g")
        bound = str(roof.bound(operator.intensity))
        rows.append((operator.name, operator.dtype, sizes, written, bound, f"{least * 1e6:.1f}"))
    return table(["operator", "type", "size", "FLOP per byte", "limited by", "least time, µs"], rows)


def explore_tokens() -> Explorer:
    """A linear layer at the highest point that its roof allows, by the tokens of a batch."""

    def drawn(tokens: int) -> Figure:
        return _on_the_roof(gemm("linear", tokens, 14336, 4096), f"linear layer, {tokens} tokens")

    return Explorer(drawn, tokens=(16, range(16, 513, 16)))


def explore_decode() -> Explorer:
    """Attention of one new token, by the query heads that share a head of keys and values."""

    def drawn(heads_that_share: int) -> Figure:
        keys = 32 // heads_that_share
        operator = attention("decode", 1, 32, keys, 1, 4096, 128)
        return _on_the_roof(operator, f"decode, {heads_that_share} query heads per head of keys")

    return Explorer(drawn, heads_that_share=(4, [1, 2, 4, 8, 16, 32]))


def table_of_pytorch() -> Markdown:
    """The time of each operator in PyTorch on an H200, beside its least time."""
    rows = []
    for operator in OPERATORS:
        record = _operator(operator)
        least = roof_for(operator, record.baseline_value).floor_seconds(operator.flops, operator.bytes)
        took = record.extra["ms"] / 1e3
        rate = f"{record.extra['flop_rate'] / 1e12:.3g}" if operator.flops else ""
        call = record.conditions.split(";")[0]
        rows.append((operator.name, f"{took * 1e6:.1f}", f"{least * 1e6:.1f}", f"{least / took:.0%}", rate, call))
    return table(["operator", "took, µs", "least, µs", "of its roof", "TFLOP/s", "PyTorch's call"], rows)


def figure_of_tensor_operators() -> Figure:
    """The operators with matrix products as points below the roof of the tensor cores."""
    sheet = Roofline(PUBLISHED["tensor_fp16"], H200.bandwidth, "datasheet")
    roof = Roofline(ceiling("tensor_fp16"), ceiling("copy"), "sustained by an H200")
    return roofline(
        roof, _points(tensor=True), datasheet=sheet, title="Operators on tensor cores, as PyTorch runs them"
    )


def figure_of_other_operators() -> Figure:
    """The operators in float32 as points below the roof of the float32 units."""
    sheet = Roofline(PUBLISHED["fp32_fma"], H200.bandwidth, "H200, datasheet")
    roof = Roofline(ceiling("fp32_fma"), ceiling("copy"), "sustained by an H200")
    title = "Operators without a matrix product, as PyTorch runs them"
    return roofline(roof, _points(tensor=False), datasheet=sheet, title=title)


def table_of_slow_operators() -> Markdown:
    """The operators that memory limits and that are far below a copy's rate in PyTorch."""
    rows = []
    for operator in OPERATORS:
        ratio = _operator(operator).ratio
        assert ratio is not None
        if roof_for(operator).bound(operator.intensity) == "memory" and ratio < _NEAR:
            rows.append((operator.name, f"{ratio:.0%}", f"{1 / ratio:.1f}"))
    return table(["far below", "of a copy's rate", "a perfect kernel, times as fast"], rows)


def table_of_references() -> Markdown:
    """How near the references of labs 03 and 05 come to a copy's rate."""
    rows = []
    for lab in ("03_transpose", "05_softmax"):
        share = needed("labs", lab, "efficiency", variant="submission").value
        rows.append((lab, f"{100 * share:.0f}%"))
    return table(["lab", "of a copy's rate"], rows)


def requested(run: Execution) -> list[int]:
    """Bytes that the warps request, that L1 requests from L2, and that come from the main memory (both modelled)."""
    total, caches = run.total, run.launches[0].caches
    assert caches is not None
    l1 = total.global_load_sectors + total.global_store_sectors
    l2 = caches.l2_read_sectors + caches.l2_write_sectors
    return [32 * sectors for sectors in (l1, l2, caches.dram_read_sectors)]


def runs_of_three_kernels(cell: KernelCell) -> dict[str, tuple[Execution, int]]:
    """A stencil, a matrix-vector product and an embedding of the cell: the run, and the bytes that must move.

    Raises ValueError where a result is wrong: nothing that the counters say would count then.
    """
    rng = np.random.default_rng(0)
    x = rng.standard_normal((512, 512), dtype=np.float32)
    rows = rng.standard_normal((4096, 256), dtype=np.float32)
    picks, vector = rng.permutation(4096)[:512], x[0].copy()
    cases: dict[str, tuple[dict[str, Any], int, np.ndarray]] = {
        "stencil": ({"x": x}, 2 * x.nbytes, _stencil(x)),
        "gemv": ({"a": x, "x": vector}, x.nbytes + 2 * vector.nbytes, x @ vector),
        "embedding": ({"table": rows, "index": picks}, 2 * 512 * 1024 + picks.nbytes, rows[picks]),
    }
    runs = {}
    for name, (inputs, must, expected) in cases.items():
        case = {**inputs, "out": np.zeros(expected.shape, np.float32)}
        (run,) = experiment.emulate(cell, [case], name, caches=H200)
        known = ~np.isnan(expected)
        if not np.allclose(run.outputs["out"][known], expected[known], atol=1e-3):
            raise ValueError(f"{name} computes something else: undo the change of its kernel.")
        runs[name] = run, must
    return runs


def table_of_requests(runs: Mapping[str, tuple[Execution, int]]) -> Markdown:
    """What kernels request of each memory, in multiples of what must move."""
    rows = [[name, must, *(f"{value / must:.2f}" for value in requested(run))] for name, (run, must) in runs.items()]
    return table(["kernel", "must move, bytes", *REQUESTED], rows)


def levels_of(rung: str) -> dict[str, float]:
    """FLOP per byte of L1 and shared memory, of L2 and of the main memory, for a rung of lab 06."""
    lesson = Lesson("06_tiled_gemm")
    task, case = lesson.lab.task, lesson.lab.task.profile
    values = generate(np, task, case, 0)
    path = solution("06_tiled_gemm", rung)
    architecture, process = lesson.machine.architecture, process_for(path)
    plan = capture_submission(lesson.lab, path, (case,), 0, architecture, captured_in=process).plans[case.name]
    inputs = {name: values[name] for name in plan.arguments(Role.INPUT)}
    run = emulator.execute(plan, inputs, caches=H200, sanitize=False)
    total = run.total
    requests = total.global_load_requests + total.global_store_requests
    sectors = total.global_load_sectors + total.global_store_sectors
    wavefronts = total.shared_load_wavefronts + total.shared_store_wavefronts
    l1 = 128 * (max(requests, sectors * 32 / 128) + wavefronts)
    work = task.flops(case.dimensions)
    m, n, k = _timed()
    compulsory = 2 * m * n * k / (2 * m * k + 2 * k * n + 4 * m * n)
    return {_L1: work / l1, "L2": work / requested(run)[1], "main memory": compulsory}


def slopes() -> dict[str, float]:
    """Bytes per second of each level of an H200."""
    per_cycle = needed("microbench", "l1", "bandwidth").value
    l2 = needed("microbench", "l2", "bandwidth").value
    return {_L1: per_cycle * H200.sms * known(H200.boost_clock), "L2": l2, "main memory": ceiling("copy")}


def table_of_slopes() -> Markdown:
    """The bandwidth of each level, and where it is from."""
    origins = ("measured per cycle, at the boost clock", "measured", "a copy, measured")
    rows = [
        (name, f"{slope / 1e12:.1f}", origin) for (name, slope), origin in zip(slopes().items(), origins, strict=True)
    ]
    return table(["level", "TB/s", "from"], rows)


def rungs_of_the_product() -> list[LevelIntensities]:
    """The rungs of lab 06, timed on an H200, with an intensity for each level."""
    m, n, k = _timed()
    rungs = []
    for rung in _RUNGS:
        seconds = needed("labs", "06_tiled_gemm", "time", variant=rung).value / 1e3
        name = "reference" if rung == "submission" else rung.split("_", 2)[-1].replace("_", " ")
        rungs.append(LevelIntensities(name, 2 * m * n * k / seconds, levels_of(rung)))
    return rungs


def figure_of_levels(rungs: list[LevelIntensities]) -> Figure:
    """A roofline with a slope for each level, and a row of marks for each rung."""
    return hierarchical_roofline(
        ceiling("fp32_fma"), slopes(), rungs, title="A matrix product, seen by each level of memory"
    )


def table_of_levels(rungs: list[LevelIntensities]) -> Markdown:
    """Of each rung the lowest roof, and how near to it the rung is."""
    rows, peak = [], ceiling("fp32_fma")
    for rung in rungs:
        suspect = rung.tightest(slopes())
        roof = min(peak, rung.intensities[suspect] * slopes()[suspect])
        lowest = suspect if roof < peak else "arithmetic"
        rows.append((rung.name, f"{rung.flops / 1e12:.2f}", lowest, f"{rung.flops / roof:.0%}"))
    return table(["kernel", "TFLOP/s", "lowest roof", "of that roof"], rows)


def show_axpy(lesson: Lesson) -> None:
    """The reader's axpy of chapter 00, if there is one, beside the rungs of lab 01, as points below the roof."""
    mine = submission_path("01_axpy")
    steps = [lesson.climb(name) for name in ("rung_1_one_element", "rung_2_grid_stride", "submission")]
    if mine.exists():
        try:
            steps.append(lesson.climb(mine))
        except WarplabError as problem:
            print(f"Your axpy cannot be measured: {problem}")
    fp32, copy, where = ceilings()
    names = ["yours" if step.rung.source == mine else step.name for step in steps]
    timed = [Point(name, 2 / 12, step.time.flops) for name, step in zip(names, steps, strict=True) if step.time]
    display(Markdown(f"Roof: {where}. {lesson.source_of_times}"))
    if timed:
        display(roofline(Roofline(fp32, copy, where), timed, title="axpy"))


def softmax_run(cell: KernelCell, rows: int = 128, columns: int = 1000) -> tuple[Execution, bool, float]:
    """A softmax of random rows: the run, whether it is right, and how often it reads an element."""
    scores = np.random.default_rng(1).standard_normal((rows, columns), dtype=np.float32)
    (run,) = experiment.emulate(cell, [{"x": scores, "out": np.zeros_like(scores)}], caches=H200)
    exact = np.exp(scores.astype(np.float64) - scores.max(axis=1, keepdims=True))
    exact /= exact.sum(axis=1, keepdims=True)
    near = np.nan_to_num(np.abs(run.outputs["out"] / exact - 1), nan=1).max() < 1e-5
    return run, bool(near) and not run.findings, 32 * run.total.global_load_sectors / scores.nbytes


def judged(
    cell: KernelCell, reads_allowed: float, columns: int = 1000, spills_allowed: bool = True
) -> tuple[bool, str]:
    """Whether a softmax is right and reads each element so often at most, and the sentence that says so."""
    run, right, reads = softmax_run(cell, rows=128 if columns < 2000 else 16, columns=columns)
    spilled = run.total.local_load_sectors + run.total.local_store_sectors
    words = f"Elements are read {reads:.2f} times, the result is {'right' if right else 'wrong'}"
    if not spills_allowed:
        words += f", local memory gets {spilled:,} sectors"
    reached = right and reads <= 1.05 * reads_allowed and (spills_allowed or not spilled)
    wanted = f"read {'once' if reads_allowed == 1 else 'twice'}" + ("" if spills_allowed else ", 0 sectors")
    return reached, f"{words}; the goal: {wanted}, and right."


def judged_with_mask(cell: KernelCell) -> tuple[bool, str]:
    """Whether a softmax of masked rows is right, and the sentence that says so: row 2 has no element that counts."""
    rng = np.random.default_rng(1)
    x, mask = rng.standard_normal((8, 200), dtype=np.float32), rng.integers(0, 2, (8, 200), dtype=np.uint8)
    x[1, ::2], mask[1] = 100, np.arange(200) % 2  # the largest elements do not count
    mask[2] = 0
    (run,) = experiment.emulate(cell, [{"x": x, "mask": mask, "out": np.zeros_like(x)}])
    weights = np.exp(x.astype(np.float64)) * (mask != 0)
    exact = weights / np.maximum(weights.sum(axis=1, keepdims=True), 1e-30)
    right = np.isclose(run.outputs["out"], exact, rtol=1e-5, atol=0).all(axis=1)
    words = f"{right.sum()} of 8 rows are right"
    if not right[2]:
        words += f", and row 2, without any element that counts, begins with {run.outputs['out'][2, 0]:g}"
    return bool(right.all()) and not run.findings, f"{words}; the goal: all of them, and row 2 is 0."


def table_of_rows(cells: Mapping[str, KernelCell]) -> Markdown:
    """What softmaxes request of each memory, for rows of three lengths, in multiples of what must move."""
    lines = []
    for columns in (1000, 16384, 131072):
        for name, cell in cells.items():
            rows = 131072 // columns
            run, _, reads = softmax_run(cell, rows, columns)
            ratios = [f"{value / (2 * 4 * rows * columns):.2f}" for value in requested(run)]
            lines.append((f"{columns:,}", name, f"{reads:.2f}", *ratios))
    return table(["columns", "kernel", "reads", *REQUESTED], lines)


def _operator(operator: Operator) -> Record:
    return needed("operators", operator.name, "rate")


def _points(tensor: bool) -> list[Point]:
    return [
        Point(operator.name, operator.intensity, _operator(operator).extra["flop_rate"])
        for operator in OPERATORS
        if operator.flops and (operator.math is not Math.FP32) == tensor
    ]


def _on_the_roof(operator: Operator, label: str) -> Figure:
    roof = roof_for(operator)
    title = f"{label}: {operator.intensity:.3g} FLOP per byte, limited by {roof.bound(operator.intensity)}"
    return roofline(roof, [Point(label, operator.intensity, roof.attainable(operator.intensity))], title=title)


def _timed() -> tuple[int, int, int]:
    dimensions = Lesson("06_tiled_gemm").lab.task.timing.dimensions
    return dimensions["m"], dimensions["n"], dimensions["k"]


def _stencil(x: np.ndarray) -> np.ndarray:
    """The stencil of the inner points; the edge, which the kernel leaves alone, is NaN."""
    out = np.full_like(x, np.nan)
    neighbours = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
    out[1:-1, 1:-1] = 0.5 * x[1:-1, 1:-1] + 0.125 * neighbours
    return out
