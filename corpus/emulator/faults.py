"""The faulty kernels, each with the finding that it must give and compute-sanitizer's tool that reports the same."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import numpy as np

from corpus.emulator import draws
from corpus.emulator.entry import Fault, read, update, write
from warplab.plan.execution import FindingKind

_MARK = re.compile(r"(?:#|//) <- finding: (.+?)\s*$")

OUT_OF_BOUNDS, MISALIGNED, NULL = FindingKind.OUT_OF_BOUNDS, FindingKind.MISALIGNED, FindingKind.NULL_POINTER
RACE, UNINITIALISED, MODIFIED = FindingKind.RACE, FindingKind.UNINITIALISED, FindingKind.INPUT_MODIFIED
DIVERGENT, DEADLOCK = FindingKind.DIVERGENT_BARRIER, FindingKind.DEADLOCK
ENDLESS, TRAP = FindingKind.ENDLESS, FindingKind.TRAP


def marked_lines(fault: Fault) -> dict[int, FindingKind]:
    """The marked lines that belong to a fault's host function: line numbers with the kind that each names.

    A mark belongs to the first host function below it, or, in a block of CUDA C++, to the kernel that the function
    names.
    """
    lines, functions, names = _structure(fault.path)
    start, end = functions[fault.function]
    wanted = {}
    for number, kind, kernel in lines:
        if kernel in names[fault.function] or (not kernel and start <= number <= end):
            wanted[number] = kind
    return wanted


@cache
def _structure(
    path: Path,
) -> tuple[list[tuple[int, FindingKind, str]], dict[str, tuple[int, int]], dict[str, set[str]]]:
    """The marks (line, kind, CUDA C++ kernel or ""), each function's part of the file, the names that it mentions."""
    text = path.read_text()
    marks, kernel = [], ""
    for number, line in enumerate(text.splitlines(), 1):
        if found := re.search(r"__global__ void (\w+)", line):
            kernel = found.group(1)
        elif line.startswith("def ") or line.startswith("@cuda"):
            kernel = ""
        if found := _MARK.search(line):
            marks.append((number, FindingKind(found.group(1)), kernel))
    parts: dict[str, tuple[int, int]] = {}
    names: dict[str, set[str]] = {}
    start = 1
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and not node.decorator_list:
            parts[node.name] = (start, node.end_lineno or node.lineno)
            constants = (n.value for n in ast.walk(node) if isinstance(n, ast.Constant))
            names[node.name] = {c for c in constants if isinstance(c, str)}
            start = (node.end_lineno or node.lineno) + 1
    return marks, parts, names


def _race(
    function: str, n: int = 128, dtype: str = "float32", out: int = 128, rows: tuple[int, ...] = (), gap: str = ""
) -> Fault:
    arguments = (read("a", dtype, *rows, n), write("out", dtype, out))
    return Fault(
        f"race/{function}", "faulty/races.py", function, arguments, {}, RACE, "racecheck", (UNINITIALISED,), gap=gap
    )


def _bounds(function: str, *arguments, gap: str = "", **inputs) -> Fault:
    name, file = f"bounds/{function}", "faulty/bounds.py"
    return Fault(name, file, function, arguments, inputs, OUT_OF_BOUNDS, "memcheck", gap=gap)


def _address(kind: FindingKind, function: str, *arguments) -> Fault:
    return Fault(f"address/{function}", "faulty/bounds.py", function, arguments, {}, kind, "memcheck")


def _reads(kind: FindingKind, tool: str, function: str, n: int = 64, dtype: str = "float32", out: str = "") -> Fault:
    size = 32 if out else n
    arguments = (read("a", dtype, n), write("out", out or dtype, size))
    return Fault(f"reads/{function}", "faulty/reads.py", function, arguments, {}, kind, tool)


def _waiting(kind: FindingKind, tool: str, function: str, n: int = 64, dtype: str = "int32", **inputs) -> Fault:
    arguments = (read("a", dtype, n), write("out", dtype, max(n, 64)))
    # A barrier that some threads pass early lets the others meet in it with threads from elsewhere, or not at all.
    extra = (DEADLOCK, RACE) if kind is DIVERGENT else ()
    return Fault(f"waiting/{function}", "faulty/waiting.py", function, arguments, inputs, kind, tool, extra)


def _copies(kind: FindingKind, tool: str, *functions: str) -> tuple[Fault, ...]:
    arguments = (read("a", "float32", 64), write("out", "float32", 64))
    return tuple(Fault(f"copies/{f}", "faulty/copies.py", f, arguments, {}, kind, tool) for f in functions)


def _bulk(kind: FindingKind, *functions: str, extra: tuple[FindingKind, ...] = ()) -> tuple[Fault, ...]:
    arguments = (read("a", "float32", 64), write("out", "float32", 64))
    return tuple(Fault(f"bulk/{f}", "faulty/bulk_copies.py", f, arguments, {}, kind, "", extra) for f in functions)


def _clusters(kind: FindingKind, *functions: str, tool: str = "") -> tuple[Fault, ...]:
    arguments = (read("a", "float32", 128), write("out", "float32", 128))
    # What is read too early may not have been written at all yet.
    extra = (UNINITIALISED,) if kind is RACE else ()
    return tuple(Fault(f"cluster/{f}", "faulty/clusters.py", f, arguments, {}, kind, tool, extra) for f in functions)


def _products(kind: FindingKind, *functions: str, extra: tuple[FindingKind, ...] = ()) -> tuple[Fault, ...]:
    file, arguments = "faulty/warpgroups.py", (read("a", "uint32", 640), write("out", "float32", 128))
    inputs = {"a": draws.packed_halves}
    return tuple(Fault(f"wgmma/{f}", file, f, arguments, inputs, kind, "", extra) for f in functions)


def _hopper(kind: FindingKind, tool: str, *functions: str) -> tuple[Fault, ...]:
    arguments = (read("a", "float32", 128), write("out", "float32", 128))
    extra = (UNINITIALISED,) if kind is RACE else ()  # what is read before it was written
    return tuple(Fault(f"hopper/{f}", "faulty/hopper.py", f, arguments, {}, kind, tool, extra) for f in functions)


def _floats(name: str, *shape: int):
    return read(name, "float32", *shape)


_OUT = write("out", "float32", 64)

FAULTS: tuple[Fault, ...] = (
    *_clusters(
        RACE, "block_barrier_only", "read_after_arrival", "relaxed_arrival", "ends_too_early", "starts_too_late"
    ),
    *_clusters(RACE, "overwritten", "store_not_awaited"),
    *_clusters(OUT_OF_BOUNDS, "past_the_peers_tile", tool="memcheck"),
    *_clusters(UNINITIALISED, "peer_never_wrote"),
    *_clusters(DIVERGENT, "arrives_twice"),
    *_clusters(DEADLOCK, "one_block_waits", "too_many_bytes_expected"),
    *(_race(name) for name in ("missing_barrier", "barrier_too_early", "shift_in_place", "same_slot")),
    *(_race(name) for name in ("reduction_without_barriers", "last_warp_assumption", "barrier_of_half")),
    _race("tile_reused", rows=(3,)),
    _race("plain_histogram", 128, "int32"),
    _race("warp_without_syncwarp", 32, out=32),
    _race("count_read_early", 128, "int32"),
    _race("verdict_overwritten", 4, "int32"),
    _race("wrong_buffer", 512),
    _race("initialised_by_one_warp", 128, "int32"),
    _bounds("neighbour", _floats("a", 50), write("out", "float32", 50)),
    _bounds("no_guard", _floats("a", 50), write("out", "float32", 50)),
    _bounds("rows_for_columns", _floats("a", 30, 40), write("out", "float32", 30, 40)),
    _bounds("shared_halo", _floats("a", 64), _OUT),
    _bounds("dynamic_too_small", _floats("a", 64), _OUT),
    _bounds(
        "local_array",
        read("a", "int32", 32, 12),
        write("out", "int32", 32),
        a=draws.fixed(np.arange(32 * 12).reshape(32, 12) % 9),
    ),
    _bounds("at_most_n", _floats("a", 64), _OUT),
    _bounds("before_the_first", _floats("a", 64), _OUT),
    _bounds("last_vector", _floats("a", 50), write("out", "float32", 16)),
    _bounds("bad_index", read("index", "int32", 64), _OUT, index=draws.fixed(np.where(np.arange(64) == 40, 64, 3))),
    _bounds("bad_bin", read("a", "int32", 64), update("out", "int32", 16), a=draws.integers(0, 20), out=draws.bits),
    _bounds("overflow", _floats("a", 80000 * 2), write("out", "float32", 32)),
    _bounds("too_many_warps", _floats("a", 96), write("out", "float32", 1)),
    _address(MISALIGNED, "cut_in_two", _floats("a", 160), write("out", "float32", 32)),
    _address(MISALIGNED, "double_at_a_float", _floats("a", 32), write("out", "float32", 66)),
    _address(MISALIGNED, "odd_row", _floats("a", 128), write("out", "float32", 32)),
    _address(MISALIGNED, "odd_atomic", update("out", "uint8", 64)),
    _address(NULL, "optional", _floats("a", 64), _OUT),
    _address(NULL, "optional_output", _floats("a", 64), _OUT),
    _reads(UNINITIALISED, "initcheck", "scratch_never_cleared"),
    _reads(UNINITIALISED, "initcheck", "last_element_missing"),
    _reads(UNINITIALISED, "", "half_a_tile"),  # initcheck knows global memory only
    _reads(UNINITIALISED, "", "no_store"),
    _reads(UNINITIALISED, "", "counter_never_cleared", dtype="int32"),
    _reads(UNINITIALISED, "", "bytes_of_a_word", 128, "uint8", "uint32"),
    _reads(MODIFIED, "", "in_place"),
    _reads(MODIFIED, "", "sorted_in_place"),
    _waiting(DIVERGENT, "synccheck", "barrier_in_branch", dtype="float32"),
    _waiting(DIVERGENT, "synccheck", "unequal_trips", dtype="float32"),
    _waiting(DIVERGENT, "synccheck", "both_branches"),
    _waiting(DIVERGENT, "synccheck", "early_break", 8, a=draws.integers(0, 2000)),
    _waiting(DEADLOCK, "synccheck", "different_barriers"),
    _waiting(DEADLOCK, "synccheck", "one_arrival_missing", 96),
    _waiting(ENDLESS, "", "endless", dtype="float32"),
    _waiting(ENDLESS, "", "flag_that_nobody_sets"),
    Fault(
        "waiting/lock_not_released",
        "faulty/waiting.py",
        "lock_not_released",
        (update("lock", "int32", 1), write("out", "int32", 32)),
        {"lock": draws.fixed([0])},
        ENDLESS,
    ),
    _waiting(ENDLESS, "", "counter_stands_still"),
    *_copies(RACE, "", "never_awaited", "older_group_awaited", "awaited_by_one_warp"),
    *_copies(RACE, "racecheck", "awaited_after_the_barrier", "refilled_while_read"),
    *_copies(UNINITIALISED, "", "barrier_never_made"),
    *_copies(DEADLOCK, "", "arrival_missing", "wrong_phase"),
    *_products(RACE, "never_awaited", "not_committed", "older_group_awaited", "no_fence_at_all"),
    *_products(RACE, "sums_scaled_without_fence", "overwritten_before_the_wait", "copies_not_awaited"),
    *_products(RACE, "no_proxy_fence", "handed_back_before_the_wait"),
    *_products(RACE, "no_barrier_before_the_product", extra=(UNINITIALISED,)),
    *_products(UNINITIALISED, "half_a_tile_written"),
    *_products(DIVERGENT, "three_warps_only", "block_of_two_warps"),
    *_bulk(RACE, "load_not_awaited", "one_warp_waits", extra=(UNINITIALISED,)),
    *_bulk(RACE, "store_without_fence", "source_used_again", "block_ends_first"),
    *_bulk(DEADLOCK, "too_few_bytes"),
    *_bulk(MISALIGNED, "odd_bytes", extra=(UNINITIALISED,)),
    *_bulk(MISALIGNED, "odd_column"),
    *_copies(DIVERGENT, "", "product_in_a_branch"),
    *_copies(MISALIGNED, "memcheck", "rows_of_eight_bytes"),
    *_hopper(RACE, "", "sum_used_early", "never_committed", "sum_changed_unfenced", "operand_refilled"),
    *_hopper(DIVERGENT, "", "three_warps"),
    *_hopper(RACE, "", "peer_not_started", "peer_ended", "arrived_only"),
    *_hopper(OUT_OF_BOUNDS, "", "beyond_the_peer"),
    *_hopper(RACE, "", "load_not_awaited", "wrong_parity", "bytes_not_expected", "stage_refilled"),
    *_hopper(RACE, "", "source_overwritten", "ended_before_the_copy"),
    *_hopper(DEADLOCK, "", "too_many_expected"),
    _waiting(TRAP, "memcheck", "trapped", dtype="float32", a=draws.uniform(0, 5)),
    _waiting(TRAP, "memcheck", "trap_in_one_warp", a=draws.integers(0, 200)),
)
