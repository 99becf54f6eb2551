"""Times the products of benchmarks/gemm beside torch.matmul (cuBLAS), in the same turns, into results/gemm.json.

Run as `python -m benchmarks.bench_gemm` on a Hopper GPU, with a size behind it for that one alone.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autograder.lab import CHECKOUT
from warplab import results
from warplab.errors import WarplabError
from warplab.gpu.worker import Worker
from warplab.hardware.device import architecture_of, present
from warplab.plan.archive import load, save
from warplab.plan.assemble import assemble
from warplab.plan.capture import capture
from warplab.plan.model import ArrayArgument, HostCall, Plan, Role

FOLDER = CHECKOUT / "benchmarks" / "gemm"
SIZES = (2048, 4096, 8192, 16384)
SECONDS = 4.0  # of turns for one size


def plan_of(path: Path, m: int, n: int, k: int, architecture: str) -> Plan:
    """The plan of a file's `hgemm` for float16 matrices m x k and k x n."""
    shapes = {"a": (m, k), "b": (k, n), "c": (m, n)}
    roles = {"a": Role.INPUT, "b": Role.INPUT, "c": Role.OUTPUT}
    arguments = tuple(ArrayArgument(name, "float16", shape, roles[name]) for name, shape in shapes.items())
    return capture(path, [HostCall("hgemm", arguments)], (architecture,))[0]


def implementations() -> list[Path]:
    """The products, in the order of the alphabet."""
    return sorted(path for path in FOLDER.glob("*.py") if path.stem != "__init__")


def timed(plans: Mapping[str, str], size: int) -> dict[str, Any]:
    """In the worker: race the plans and torch.matmul on N(0, 1) data; each result is compared with torch's."""
    import cupy
    import torch

    from warplab.gpu import executor, library
    from warplab.gpu.stopwatch import race

    device = present()
    assert device is not None
    with executor.on_stream() as stream:
        rng = cupy.random.default_rng(0)
        a, b = (rng.standard_normal((size, size), dtype=cupy.float32).astype(cupy.float16) for _ in range(2))
        rival = library.Matmul(stream, {"m": size, "n": size, "k": size})
        contestants: dict[str, Any] = {"torch": rival}
        for name, path in plans.items():
            contestants[name] = _Product(load(Path(path)), architecture_of(device), stream, a, b)
        expected = (torch.as_tensor(a) @ torch.as_tensor(b)).float()
        for name in plans:
            contestants[name].launch()
            stream.sync()
            # cuBLAS adds in another order: half an ulp of the result, and of the float32 sums, is between them.
            error = (torch.as_tensor(contestants[name].output).float() - expected).abs()
            if not bool((error <= 2.0**-10 * expected.abs() + 2.0**-18 * size).all()):
                raise WarplabError(f"{name} gave a wrong product for {size}: off by up to {float(error.max()):.3g}")
        result = race(contestants, stream, budget_seconds=SECONDS, precision=0.002)
        answer = {}
        for name in contestants:
            time, ratio = result.time(name), result.ratio("torch", name)
            answer[name] = {"ms": time.median, "low": time.low, "high": time.high, "ratio": ratio.median}
        return {"times": answer, "turns": result.turns}


class _Product:
    """A plan as a contestant."""

    launches = 1

    def __init__(self, plan: Plan, architecture: str, stream: Any, a: Any, b: Any) -> None:
        from warplab.gpu.executor import LoadedPlan

        self._loaded = LoadedPlan(plan, architecture, stream)
        self._loaded.reset({"a": a, "b": b})
        self.output = self._loaded.buffers["c"].array

    def prepare(self, turn: int) -> None:
        """Nothing to prepare: the work does not depend on the data."""

    def launch(self) -> None:
        """Queue the product."""
        self._loaded.launch()

    def check(self, turn: int) -> None:
        """Nothing to check: the first launch was compared."""


def measure(sizes: tuple[int, ...]) -> list[results.Record]:
    """A record for each product and size: FLOP/s beside torch.matmul's."""
    device = present()
    if device is None:
        raise WarplabError("There is no GPU here to time products on.")
    architecture, records = architecture_of(device), []
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder, Worker() as worker:
            plans, machine_code = {}, {}
            for path in implementations():
                plan = assemble(plan_of(path, size, size, size, architecture), architecture)
                plans[path.stem] = str(Path(folder) / f"{path.stem}.plan")
                save(plan, Path(plans[path.stem]))
                machine_code[path.stem] = next(iter(plan.kernels.values())).cubins[architecture]
            answer = worker.call("benchmarks.bench_gemm:timed", timeout=180, plans=plans, size=size)
        work = 2.0 * size**3
        library = work / answer["times"]["torch"]["ms"] * 1e3
        for name, code in machine_code.items():
            time = answer["times"][name]
            records.append(
                results.Record(
                    name,
                    "rate",
                    work / time["ms"] * 1e3,
                    "FLOP/s",
                    shape=(size, size, size),
                    dtype="float16",
                    interval=(work / time["high"] * 1e3, work / time["low"] * 1e3),
                    baseline="torch.matmul (cuBLAS), same turns",
                    baseline_value=library,
                    ratio=time["ratio"],
                    conditions=f"N(0, 1) data, cold L2, CUDA events, {answer['turns']} turns",
                    extra={"registers": code.registers, "spill_bytes": code.spill_stores + code.spill_loads},
                )
            )
            ours = work / time["ms"] / 1e9
            print(f"{size:6} {name:14} {ours:7.1f} TFLOP/s  torch {library / 1e12:7.1f}  ratio {time['ratio']:.3f}")
    return records


def main(arguments: list[str]) -> int:
    """Measure all sizes, or those named. Exit code 0, or 2 for a size that is no number, 3 if it cannot be measured."""
    if not all(argument.isdecimal() for argument in arguments):
        print(f"Sizes are whole numbers, not {' '.join(arguments)}.", file=sys.stderr)
        return 2
    header = results.make_header(" ".join(["python -m benchmarks.bench_gemm", *arguments]))
    try:
        records = measure(tuple(map(int, arguments)) or SIZES)
        results.write(results.DIRECTORY / "gemm.json", header, records, merge=bool(arguments))
    except WarplabError as error:
        print(error, file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
