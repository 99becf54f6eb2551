"""What the emulator makes of Blackwell's kernels: `python -m benchmarks.blackwell` writes results/blackwell.json.

No GPU. Each part renews its own records:

    tests             the cases of the tests about Blackwell, by test function: how many pass
    twins             a GEMM in CUDA C++ and its faulty twins: in which the fault is found, and on which line
    speed             the same GEMM of 512 cubed on two workers, with all sanitizers on
    bits=FOLDER       sums beside MMA-Sim's (a checkout of it; needs PyTorch)
    foreign=FOLDER    others' kernels, compiled elsewhere: which are right, and what is found in them

A folder of foreign kernels has a manifest.json. For each kernel it has the `name`, the `source` that it comes from,
`kernel`, `grid`, `threads`, `shared` bytes, `cluster` if there is one, and the absolute `tolerance`. `arguments` are
{"array": name}, {"value": [dtype, number]} or {"map": fields of a TensorMap}; `outputs` are {name: [dtype, shape]}.
Beside it lie NAME.ptx and NAME.npz, with the inputs and "expected NAME" for each output.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from corpus.emulator.blackwell_gemm import ARCHITECTURE, SOURCE, TWINS, gemm_plan, operands
from course import results
from course.results import Record
from warplab import emulator
from warplab.isa.entry import entries
from warplab.plan.capture.nvrtc import compile_cpp
from warplab.plan.execution import Execution
from warplab.plan.model import Buffer, Kernel, Language, Launch, Parameter, Plan, Pointer, Role, TensorMap, Value

COMMAND = "python -m benchmarks.blackwell"
PATH = results.DIRECTORY / "blackwell.json"
ROOT = results.DIRECTORY.parent.parent
SIZE, TURNS, WORKERS = 512, 5, 2
BUDGET = 400_000_000  # warp instructions of a foreign kernel
TESTS = (
    "tensor/test_tcgen05.py", "tensor/test_tcgen05_order.py", "tensor/test_tcgen05_pairs.py",
    "tensor/test_blackwell_gemm.py", "tensor/test_scaled_mma.py", "asynchronous/test_launch_control.py",
    "asynchronous/test_pair_copies.py", "test_blackwell.py", "test_narrow_floats.py",
    "tensor/test_tcgen05_sparse.py", "tensor/test_tcgen05_stationary.py", "tensor/test_byte_matrices.py",
    "asynchronous/test_four_rows.py", "test_conversions_elsewhere.py",
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the parts that are named, all that need no folder if none is, and write their records."""
    options = _parser().parse_args(arguments)
    records: list[Record] = []
    for part in options.parts or ("tests", "twins", "speed"):
        name, _, folder = part.partition("=")
        records += PARTS[name](Path(folder))
    renewed = {record.variant for record in records}
    kept = [r for r in (results.read(PATH).records if PATH.exists() else ()) if r.variant not in renewed]
    results.write(PATH, results.make_header(COMMAND), [*kept, *records])
    print(f"Written: {PATH}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help="tests, twins, speed, bits=FOLDER, foreign=FOLDER")
    return parser


# Tests


class _Outcomes:
    """A pytest plugin that counts cases by test function: all, and those that pass."""

    def __init__(self) -> None:
        self.all: Counter[str] = Counter()
        self.passed: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Called by pytest for each phase of each test."""
        if report.when == "call":
            name = report.nodeid.replace("\\", "/").partition("[")[0].removeprefix("tests/emulator/")
            self.all[name] += 1
            self.passed[name] += report.passed


def tests(_folder: Path) -> Iterator[Record]:
    """Values against independent ones, and faulty kernels beside fixed ones, as the tests have them."""
    import pytest

    outcomes = _Outcomes()
    pytest.main(
        ["-q", "-n0", "-p", "no:cacheprovider", *(str(ROOT / "tests" / "emulator" / t) for t in TESTS)], [outcomes]
    )
    for name, cases in outcomes.all.items():
        yield Record(name, "cases that pass", outcomes.passed[name], "1", variant="tests", conditions=f"of {cases}")


# A GEMM and its twins


def _compiled(source: str) -> str:
    return compile_cpp(source, "submission.py", ("-lineinfo",), (), ARCHITECTURE).ptx


def _run(source: str, size: tuple[int, int, int], **options: Any) -> tuple[Execution, np.ndarray]:
    inputs = operands(*size)
    plan = gemm_plan(_compiled(source), source, *size)
    result = emulator.execute(plan, inputs, architecture=ARCHITECTURE, **options)
    return result, inputs["a"].astype(np.float64) @ inputs["b"].astype(np.float64).T


def twins(_folder: Path) -> Iterator[Record]:
    """The GEMM without a finding and right; each faulty twin with its finding."""
    result, exact = _run(SOURCE, (128, 128, 64))
    right = not result.findings and np.allclose(result.outputs["c"], exact, rtol=0, atol=1e-3)
    yield Record("GEMM", "right, without a finding", int(right), "1: yes, 0: no", variant="twins")
    found = 0
    for name, (old, new, kind, words, _place) in TWINS.items():
        execution, _ = _run(SOURCE.replace(old, new), (128, 128, 64))
        hit = any(f.kind is kind and words in f.message for f in execution.findings)
        found += hit
        print(f"{name:32} {'found' if hit else 'NOT FOUND'}", flush=True)
    yield Record("GEMM", "faulty twins found", found, "1", variant="twins", conditions=f"of {len(TWINS)}")


def speed(_folder: Path) -> Iterator[Record]:
    """Seconds of an emulated GEMM, with everything on."""
    inputs = operands(SIZE, SIZE, SIZE)
    plan = gemm_plan(_compiled(SOURCE), SOURCE, SIZE, SIZE, SIZE)
    times = []
    for _turn in range(TURNS + 1):
        start = time.perf_counter()
        result = emulator.execute(plan, inputs, architecture=ARCHITECTURE, workers=WORKERS)
        times.append(time.perf_counter() - start)
        assert result.findings == ()
    seconds = float(np.median(times[1:]))
    print(f"{SIZE} cubed: {seconds:.2f} s", flush=True)
    conditions = f"{WORKERS} workers, all sanitizers on; the median of {TURNS} runs after a first one"
    yield Record(
        "GEMM", "time", seconds, "s", variant="speed", shape=(SIZE,) * 3, dtype="float16", conditions=conditions
    )


# Bits


def bits(folder: Path) -> Iterator[Record]:
    """Sums of random operands beside MMA-Sim's, bit by bit, for each pair of types that it knows."""
    sys.path.insert(0, str(folder))
    from benchmarks.blackwell_bits import compared

    for name, differing, sums in compared():
        print(f"{name:44} {differing} of {sums} differ", flush=True)
        yield Record(name, "sums that differ", differing, "1", variant="bits", conditions=f"of {sums}; beside MMA-Sim")


# Foreign kernels


def foreign(folder: Path) -> Iterator[Record]:
    """Each kernel: is it right; and over all of a source, how many are, and what was found in them."""
    entries_of = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    right: dict[str, int] = defaultdict(int)
    kinds: dict[str, Counter[str]] = defaultdict(Counter)
    count: Counter[str] = Counter(entry["source"] for entry in entries_of)
    for entry in entries_of:
        words, is_right, found = _foreign_kernel(folder, entry)
        right[entry["source"]] += is_right
        kinds[entry["source"]].update(found)
        print(f"{entry['name']:44} {words}", flush=True)
        yield Record(entry["name"], "right", int(is_right), "1: yes, 0: no", variant=entry["source"], conditions=words)
    for source, number in count.items():
        yield Record(source, "foreign kernels", number, "1", variant="foreign")
        yield Record(source, "foreign kernels that are right", right[source], "1", variant="foreign")
        for kind, kernels in sorted(kinds[source].items()):
            yield Record(source, f"foreign kernels with a finding: {kind}", kernels, "1", variant="foreign")


def _foreign_kernel(folder: Path, entry: dict[str, Any]) -> tuple[str, bool, set[str]]:
    """What to say of a kernel, whether its outputs are right, and the kinds of its findings."""
    data = np.load(folder / f"{entry['name']}.npz")
    inputs = {name: data[name] for name in data.files if not name.startswith("expected ")}
    text = (folder / f"{entry['name']}.ptx").read_text(encoding="utf-8")
    start = time.perf_counter()
    try:
        plan = _plan(text, entry, inputs)
        result = emulator.execute(plan, inputs, architecture=ARCHITECTURE, instruction_budget=BUDGET)
    except Exception as error:  # of a stranger's kernel anything may come
        return f"{type(error).__name__}: {error}"[:200], False, set()
    seconds = time.perf_counter() - start
    worst = 0.0
    for name in entry["outputs"]:
        got = result.outputs[name]
        if got.dtype == np.uint16:  # the bits of bfloat16
            got = (got.astype(np.uint32) << 16).view(np.float32)
        difference = np.abs(got.astype(np.float64) - data[f"expected {name}"])
        worst = max(worst, float(np.nan_to_num(difference, nan=np.inf).max()))
    found = {finding.kind.value for finding in result.findings}
    faults = [finding for finding in result.findings if finding.is_fault]
    words = f"largest error {worst:.2g}, {seconds:.1f} s" + (f"; {', '.join(sorted(found))}" if found else "")
    return words + (f": {faults[0].message[:120]}" if faults else ""), worst <= entry["tolerance"], found


def _plan(text: str, entry: dict[str, Any], inputs: dict[str, np.ndarray]) -> Plan:
    buffers = {n: Buffer(n, Role.INPUT, x.dtype.name, x.shape, x.strides) for n, x in inputs.items()}
    for output, (dtype, shape) in entry["outputs"].items():
        made = np.empty(shape, dtype)
        buffers[output] = Buffer(output, Role.OUTPUT, dtype, made.shape, made.strides)
    arguments: list[Any] = []
    for argument in entry["arguments"]:
        if "array" in argument:
            arguments.append(Pointer(argument["array"]))
        elif "map" in argument:
            fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in argument["map"].items()}
            arguments.append(TensorMap(fields.pop("array"), 0, **fields))
        else:
            arguments.append(Value(*argument["value"]))
    parameters = tuple(Parameter("", p.size, p.align) for p in entries(text)[entry["kernel"]].parameters)
    name, shared = entry["kernel"], entry["shared"]
    kernel = Kernel(name, name, Language.CUDA_CPP, parameters, {ARCHITECTURE: text}, max_dynamic_shared=shared)
    grid = (*entry["grid"], 1, 1)[:3]
    cluster = tuple(entry.get("cluster", (1, 1, 1)))
    threads = (entry["threads"], 1, 1)
    launch = Launch(name, grid, threads, tuple(arguments), shared, cluster=cluster)
    return Plan("host", {name: kernel}, buffers, (launch,), text, "kernel.ptx")


PARTS = {"tests": tests, "twins": twins, "speed": speed, "bits": bits, "foreign": foreign}

if __name__ == "__main__":
    sys.exit(main())
