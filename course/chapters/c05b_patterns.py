"""Chapter 05b: inputs of its kernels, checks of what they give, and tables of counters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from IPython.display import Markdown

from course.chapters.c03_warps_and_latency import lanes_at_work
from course.lesson import Lesson, table
from course.measured import results_of
from warplab.plan.execution import Execution

NAMES = {
    "barriers": "arrivals at barriers",
    "shared_store_requests": "stores to shared memory",
    "thread_fadd": "additions",
    "global_atomic_requests": "atomic requests",
    "global_load_sectors": "sectors requested",
}
FORMS = {"by_rows": "by rows", "spmv": "by warps", "merge": "merge-based"}
KEPT, OTHER, LOST = "in the order of x", "in another order", "some are lost"
WHY_ORDER = "Each block takes the next free places, and which block comes first is the machine's choice."
OTHER_ORDERS = {
    KEPT: "Within a block, yes: ballots and sums see to it. Between blocks, the atomic serves the first to arrive.",
    LOST: "The atomic gives each block places of its own, so none are lost.",
}
RELAXED = {
    "wrong sums": "The emulator's memory is coherent, so this run saw every value. Another machine may not.",
    "right sums, and nothing is found": "The finder looks at what orders the accesses, not at the values.",
}
_RUNGS = ("rung_1_three_launches", "rung_2_one_thread_looks_back", "rung_3_a_warp_looks_back", "submission")


def whole_numbers(count: int, dtype: Any = np.float32) -> np.ndarray:
    """Whole numbers of -4 to 4, whose sums are exact in any order."""
    return np.random.default_rng(0).integers(-4, 5, count).astype(dtype)


def bytes_of(count: int) -> np.ndarray:
    """Uniform bytes."""
    return np.random.default_rng(0).integers(0, 256, count).astype(np.uint8)


def signed(count: int) -> np.ndarray:
    """Different floats, about half of them positive, none zero."""
    values = np.random.default_rng(0).permutation(count).astype(np.float32) - np.float32(count // 2)
    return values + np.float32(0.5)


def agree(expected: np.ndarray, *runs: Execution) -> None:
    """Raises AssertionError unless each run's `out` is what NumPy says."""
    for run in runs:
        np.testing.assert_array_equal(run.outputs["out"], expected.astype(run.outputs["out"].dtype))


def compare(runs: Mapping[str, Execution], count: float, per: str, counters: Sequence[str]) -> Markdown:
    """A row per run with its counters, divided by `count` of what `per` names."""
    heads = ["kernel", *(f"{NAMES[counter]} per {per}" for counter in counters)]
    return table(heads, [(name, *(getattr(run.total, c) / count for c in counters)) for name, run in runs.items()])


def additions_of_tree(count: int) -> float:
    """Additions per element of the work-efficient inclusive scan of `count` elements, a power of two."""
    steps = count.bit_length() - 1
    up, down = count - 1, count - 1 - steps  # down: a group's sum goes to the middle of each group but the first
    return (up + down) / count


def first_finding(run: Execution) -> str:
    """The first sentence of the first finding."""
    return run.findings[0].message.split(": the thread")[0] + "."


def traffic(run: Execution, data: int) -> Markdown:
    """Sectors read and written per sector of `data` bytes of input and output together."""
    total = run.total
    read = total.global_load_sectors + total.global_atomic_sectors
    written = total.global_store_sectors + total.global_atomic_sectors
    rows = [
        ("one pass, counted", read * 64 / data, written * 64 / data),
        ("three launches, calculated", 2.0, 1.0),
    ]
    return table(["scan", "sectors read per sector of x", "written per sector of out"], rows)


def histograms(run: Callable[[str], Sequence[Execution]]) -> dict[str, Sequence[Execution]]:
    """The runs of both forms by name, each for two inputs."""
    return {name: run(name) for name in ("contended", "histogram")}


def histogram_table(runs: Mapping[str, Sequence[Execution]], warps: int) -> Markdown:
    """Atomics of each form and input, per warp of input."""
    rows = []
    for name, form in (("contended", "global counters"), ("histogram", "counters per block")):
        for run, kind in zip(runs[name], ("uniform bytes", "one value"), strict=True):
            total = run.total
            globally = (total.global_reduction_requests + total.global_atomic_requests) / warps
            rows.append((form, kind, globally, total.shared_atomic_wavefronts / warps))
    return table(["form", "input", "global atomic requests per warp", "shared atomic wavefronts per warp"], rows)


def order_of(x: np.ndarray, run: Execution) -> str:
    """What became of the positive elements of x in `out`: KEPT, OTHER or LOST."""
    right, found = x[x > 0], run.outputs["out"]
    if np.array_equal(found, right):
        return KEPT
    return OTHER if np.array_equal(np.sort(found), np.sort(right)) else LOST


def matrix(rows: int, mean: int, longest: int = 0) -> dict[str, np.ndarray]:
    """A square matrix in CSR form, of `mean` entries per row; with `longest`, so many in the first and fewer elsewhere.

    Also a vector `v` and `out`, by the names of the kernels' arguments. All are whole numbers.
    """
    draw = np.random.default_rng(0)
    lengths = np.full(rows, mean)
    if longest:
        rest = rows * mean - longest
        lengths[0] = longest
        lengths[1:] = rest // (rows - 1)
        lengths[1 : 1 + rest % (rows - 1)] += 1
    first = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return {
        "first": first,
        "column": draw.integers(0, rows, first[-1]).astype(np.int32),
        "value": draw.integers(-4, 5, first[-1]).astype(np.float32),
        "v": draw.integers(-4, 5, rows).astype(np.float32),
        "out": np.zeros(rows, np.float32),
    }


def matrices() -> dict[str, dict[str, np.ndarray]]:
    """Rows of 4 entries, rows of 64, and rows of 4 on average with one of 512."""
    return {"rows of 4": matrix(512, 4), "rows of 64": matrix(128, 64), "one long row": matrix(512, 4, longest=512)}


def compaction_rates() -> Markdown:
    """Measured rates of lab 20's reference in CUDA C++ and of two variants, beside a copy and CUB in the same run."""
    found = results_of("compaction")
    if not found:
        return Markdown("*Not measured yet: `python -m benchmarks.compaction` does, on a machine with a GPU.*")
    names = {
        ("cub::DeviceSelect::If", ""): "CUB's DeviceSelect",
        ("reference", "words of neighbouring tiles 8 bytes apart"): "the reference, words of four tiles in a sector",
        ("reference", ""): "the reference",
        ("reference", "no ticket"): "the reference without tickets: all blocks must be resident",
    }
    rates = {(one.name, one.variant, one.shape[0]): one for one in found.records}
    rows = [
        (f"{n:,}", label, f"{rates[*key, n].value / 1e12:.2f} TB/s", f"{rates[*key, n].ratio:.2f}")
        for n in (1 << 24, 1 << 28)
        for key, label in names.items()
    ]
    made = table(["elements", "compaction", "rate", "times the copy's rate"], rows)
    return Markdown(
        f"{made.data}\n\nMeasured on {found.header.where}, in one run with the copy; half of the elements are kept."
    )


def product(one: Mapping[str, np.ndarray]) -> np.ndarray:
    """The matrix times v, by NumPy."""
    row = np.repeat(np.arange(one["out"].size), np.diff(one["first"]))
    return np.bincount(row, one["value"] * one["v"][one["column"]], minlength=one["out"].size).astype(np.float32)


def products(
    matrices: Mapping[str, dict[str, np.ndarray]],
    run: Callable[[str, list[dict[str, np.ndarray]]], Sequence[Execution]],
    names: Sequence[str] = ("by_rows", "spmv"),
) -> dict[str, dict[str, Execution]]:
    """The runs of each form, by the matrix's name; AssertionError if one is not NumPy's product."""
    found = {}
    for name in names:
        runs = run(name, list(matrices.values()))
        for one, done in zip(matrices.values(), runs, strict=True):
            agree(product(one), done)
        found[name] = dict(zip(matrices, runs, strict=True))
    return found


def sparse_table(runs: Mapping[str, Mapping[str, Execution]]) -> Markdown:
    """Working lanes, and warp instructions and sectors per 32 entries, of each form for each of `matrices`."""
    entries = {kind: one["value"].size / 32 for kind, one in matrices().items()}
    rows = []
    for kind, count in entries.items():
        for name in runs:
            total = runs[name][kind].total
            share = f"{lanes_at_work(total):.0%}"
            rows.append((kind, FORMS[name], share, total.warp_instructions / count, total.global_load_sectors / count))
    return table(["matrix", "form", "lanes that work", "warp instructions", "sectors"], rows)


def rungs() -> Markdown:
    """Lab 20's rungs: sectors read per sector of x, atomics and instructions per 32 elements."""
    lesson, rows = Lesson("20_compaction"), []
    for name in _RUNGS:
        step = lesson.climb(name)
        total, n = step.total, step.lab.task.profile.dimensions["n"]
        read, atomics = total.amount("global_read_sectors"), total.amount("global_updates")
        rows.append((step.name, read * 8 / n, atomics * 1024 / n, total.warp_instructions * 32 / n))
    heads = ["rung", "sectors read per sector of x", "atomics per 1,024 elements", "warp instructions per 32 elements"]
    return table(heads, rows)


def is_exclusive(x: np.ndarray, out: np.ndarray | None) -> bool:
    """Whether `out` is the exclusive scan of each warp's 32 positive elements, to 1e-5 of each sum."""
    if out is None:
        return False
    warps = x.reshape(-1, 32).astype(np.float64)
    right = np.zeros_like(warps)
    right[:, 1:] = np.cumsum(warps, axis=1)[:, :-1]
    return bool((np.abs(out.reshape(-1, 32) - right) <= 1e-5 * right).all())
