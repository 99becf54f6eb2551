"""Measures the emulator: multiply-adds a second against Numba's CUDASIM in the same run, and instructions a second.

Run as `python -m benchmarks.bench_emulator` (or `make bench-cpu`); needs no GPU.
Writes benchmarks/results/emulator.json.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from course import results
from warplab.hardware.processors import processor, usable_processors
from warplab.plan.model import ArrayArgument, HostCall, Plan, Role, ScalarArgument

KERNELS = Path(__file__).with_name("emulator_kernels.py")
ARCHITECTURE = "sm_90a"
SIZE = 160  # of the matrix product: CUDASIM needs some ten seconds for it
REPEATS = 5
COMMAND = "python -m benchmarks.bench_emulator"

# The simulator is chosen by an environment variable before Numba is imported: another process.
_SIMULATOR = """
import sys, time
import numpy as np
from benchmarks.emulator_kernels import matmul
n = int(sys.argv[1])
rng = np.random.default_rng(0)
a, b = (rng.standard_normal((n, n), dtype=np.float32) for _ in range(2))
c = np.zeros((n, n), np.float32)
start = time.perf_counter()
matmul(a, b, c)
seconds = time.perf_counter() - start
assert np.allclose(c, a @ b, atol=1e-3)
print(seconds)
"""


def simulator_seconds(size: int) -> float:
    """Seconds that CUDASIM takes for the naive matrix product."""
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    command = [sys.executable, "-c", _SIMULATOR, str(size)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=KERNELS.parent.parent)
    if run.returncode:
        sys.exit(f"Numba's simulator failed: {run.stderr.strip().splitlines()[-1]}")
    return float(run.stdout)


def _plan(function: str, *arguments: ArrayArgument | ScalarArgument) -> Plan:
    from warplab.plan.capture.submission import capture

    (plan,) = capture(KERNELS, [HostCall(function, arguments)], (ARCHITECTURE,), timeout=120)
    return plan


def _best(work: Callable[[], object]) -> float:
    """The shortest of some repetitions, in seconds; the first one, which loads the compiled emulator, is left out."""
    work()
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def matrix_product() -> results.Record:
    """Multiply-adds a second of the naive product, whole call, parsing included, beside CUDASIM's."""
    from warplab.emulator import execute

    shape = (SIZE, SIZE)
    arrays = [ArrayArgument(n, "float32", shape, Role.OUTPUT if n == "c" else Role.INPUT) for n in "abc"]
    plan = _plan("matmul", *arrays)
    rng = np.random.default_rng(0)
    inputs = {name: rng.standard_normal(shape, dtype=np.float32) for name in "ab"}
    product = execute(plan, inputs).outputs["c"]
    if not np.allclose(product, inputs["a"] @ inputs["b"], atol=1e-3):
        sys.exit("The emulator's matrix product is wrong.")
    seconds, simulated = _best(lambda: execute(plan, inputs)), simulator_seconds(SIZE)
    mine, theirs = SIZE**3 / seconds, SIZE**3 / simulated
    return results.Record(
        "naive matrix product", "multiply-adds per second", mine, "1/s", shape=(SIZE, SIZE, SIZE), dtype="float32",
        baseline="Numba CUDASIM", baseline_value=theirs, ratio=mine / theirs,
        conditions=f"best of {REPEATS}, sanitizers and counters on, {usable_processors()} cores of: {processor()}",
    )  # fmt: skip


def instruction_rate(name: str, plan: Plan, inputs: dict[str, np.ndarray]) -> results.Record:
    """Warp instructions a second of one core."""
    from warplab.emulator import execute

    issued = execute(plan, inputs, workers=1).total.warp_instructions
    seconds = _best(lambda: execute(plan, inputs, workers=1))
    return results.Record(
        name, "warp instructions per second", issued / seconds, "1/s",
        conditions=f"one core of: {processor()}; best of {REPEATS}, sanitizers and counters on",
    )  # fmt: skip


def memory_needed(name: str, plan: Plan, shape: tuple[int, ...]) -> results.Record:
    """Bytes that a process needs for a plan, beside the most that it may: see peak_memory.py."""
    from benchmarks import peak_memory
    from warplab.plan.archive import save

    with tempfile.TemporaryDirectory(prefix="warplab-") as folder:
        save(plan, Path(folder) / "plan")
        used = peak_memory.measure(Path(folder) / "plan")
    return results.Record(
        name, "memory needed", used["needed"], "bytes", shape=shape, dtype="float32",
        conditions="inputs, outputs, emulator and sanitizers' shadow; over a process that has imported NumPy",
        extra={"buffers": used["buffers"], "allowed": peak_memory.bound(used["buffers"])},
    )  # fmt: skip


def axpy(n: int) -> Plan:
    """Two buffers of n float32, in blocks of 256."""
    x, y = ArrayArgument("x", "float32", (n,), Role.INPUT), ArrayArgument("y", "float32", (n,), Role.OUTPUT)
    return _plan("axpy", x, y, ScalarArgument("a", 2.0))


def turned(n: int) -> Plan:
    """n / 4,096 blocks of 1,024 threads with 16 KiB of shared memory each."""
    x, y = ArrayArgument("x", "float32", (n,), Role.INPUT), ArrayArgument("y", "float32", (n,), Role.OUTPUT)
    return _plan("turned", x, y)


def _array(name: str, role: Role, *shape: int, dtype: str = "float32") -> ArrayArgument:
    return ArrayArgument(name, dtype, shape, role)


def loops() -> list[results.Record]:
    """Warp instructions a second of loops that do one thing."""
    x = np.linspace(0, 1, 1024, dtype=np.float32)
    arithmetic = _plan("arithmetic", _array("x", Role.INOUT, 1024), ScalarArgument("n", 20_000))
    memory = _plan("memory", _array("x", Role.INPUT, 1024), _array("y", Role.INOUT, 1024), ScalarArgument("n", 5_000))
    return [
        instruction_rate("arithmetic loop", arithmetic, {"x": x}),
        instruction_rate("memory loop", memory, {"x": x, "y": x}),
    ]


def scattered_plans() -> Iterator[tuple[str, Plan, dict[str, np.ndarray]]]:
    """Kernels that do little else than scattered accesses to what they write, with inputs."""
    length = 1 << 18
    inputs = {"x": np.random.default_rng(0).standard_normal(length, dtype=np.float32)}
    source = _array("x", Role.INPUT, length)
    yield "store with a stride of 512", _plan("scattered", source, _array("y", Role.OUTPUT, length)), inputs
    yield "tree of sums in global memory", _plan("global_tree", source, _array("work", Role.OUTPUT, length)), inputs


def plans() -> Iterator[tuple[str, Plan, dict[str, np.ndarray]]]:
    """Kernels that students write, with inputs."""
    rng = np.random.default_rng(0)
    n, rows, length = 128, (64, 1024), 1 << 18
    matrices = [_array(name, Role.OUTPUT if name == "c" else Role.INPUT, n, n) for name in "abc"]
    a, b = (rng.standard_normal((n, n), dtype=np.float32) for _ in range(2))
    x = rng.standard_normal(length, dtype=np.float32)
    values, counts = rng.integers(0, 256, length).astype(np.int32), np.zeros(256, np.int32)
    line = [_array("x", Role.INPUT, length), _array("y", Role.OUTPUT, length)]
    counted = [_array("values", Role.INPUT, length, dtype="int32"), _array("counts", Role.INOUT, 256, dtype="int32")]
    softmax = _plan("row_softmax", _array("x", Role.INPUT, *rows), _array("y", Role.OUTPUT, *rows))
    yield "saxpy", _plan("axpy", *line, ScalarArgument("a", 2.0)), {"x": x}
    yield "row softmax", softmax, {"x": x[: rows[0] * rows[1]].reshape(rows)}
    yield "naive product", _plan("matmul", *matrices), {"a": a, "b": b}
    yield "tiled product", _plan("tiled", *matrices), {"a": a, "b": b}
    yield "histogram", _plan("histogram", *counted), {"values": values, "counts": counts}
    yield "scan", _plan("scan", *line), {"x": x}


def kernels() -> Iterator[results.Record]:
    """Warp instructions a second of kernels that students write."""
    for name, plan, inputs in plans():
        yield instruction_rate(name, plan, inputs)
    yield instruction_rate("mma product", *reference("07_tensor_core_hgemm", "submission.py"))
    yield instruction_rate("wgmma product", *reference("08_hopper_hgemm", "submission.py"))


def reference(lab_name: str, file: str) -> tuple[Plan, dict[str, np.ndarray]]:
    """A lab's reference on the case that its traffic is counted on, of nominal size, and inputs for it."""
    from autograder.own_work import capture_submission
    from autograder.spec.inputs import generate
    from autograder.spec.lab import find_lab, solutions_folder

    lab = find_lab(lab_name)
    case = lab.task.profile
    plan = capture_submission(lab, solutions_folder() / lab_name / file, [case], 0, lab.emulated).plans[case.name]
    values = generate(np, lab.task, case, 0)
    return plan, {name: values[name] for name in plan.buffers if name in values}


def main() -> int:
    """Measure, print one line each, write the results file."""
    records = [matrix_product(), *loops(), *kernels()]
    rates = len(records)
    records.append(memory_needed("axpy", axpy(1 << 26), (1 << 26,)))
    records.append(memory_needed("blocks with shared memory", turned(1 << 22), (1 << 22,)))
    for record in records[:rates]:
        line = f"{record.name:22} {record.value / 1e6:8.1f} M {record.metric}"
        if record.ratio is not None and record.baseline_value is not None:
            line += f"   {record.baseline} {record.baseline_value / 1e6:.3f} M   ratio {record.ratio:.0f}"
        print(line)
    for record in records[rates:]:
        print(f"{record.name:26} {record.value / 1e6:8.0f} MB needed, {record.extra['allowed'] / 1e6:.0f} MB allowed")
    header = replace(results.make_header(COMMAND), gpu="none", driver="none")  # whatever GPU there is does nothing here
    results.write(results.DIRECTORY / "emulator.json", header, records, merge=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
