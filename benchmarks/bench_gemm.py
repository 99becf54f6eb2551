"""Times the ladder of matrix products beside torch.matmul (cuBLAS), in the same turns, into results/gemm.json.

squares   every rung at 2048, 4096, 8192 and 16384 cubed in float16, and the best one in bfloat16 too
shapes    the best one for 60 shapes, drawn from sizes of 512 to 16384
odd       the best one for shapes with an odd or unaligned side
alone     every rung at 8192 cubed, the library alone beside it, and the clock and power of each, into gemm_alone.json

Run as `python -m benchmarks.bench_gemm` on a Hopper GPU for the first two, or name the parts; sizes restrict `squares`.
"""

from __future__ import annotations

import itertools
import os
import random
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import numpy as np

from benchmarks.gemm.contest import DRAWN_SECONDS
from benchmarks.gemm.ladder import BEST, Rung, plan_of, rungs
from course import results
from warplab.errors import WarplabError
from warplab.hardware.device import architecture_of, present
from warplab.plan.archive import save
from warplab.plan.assemble import assemble
from warplab.plan.model import Plan
from warplab.plan.occupancy import launch_occupancy
from warplab.worker.process import Worker

FILE = results.DIRECTORY / "gemm.json"
BY_ITSELF = results.DIRECTORY / "gemm_alone.json"  # another regime: its figures are not for gemm.json's tables
SIZES = (2048, 4096, 8192, 16384)
DRAWN_FROM = (512, 1024, 2048, 4096, 8192, 16384)
DRAWN, SEED = 60, 5
ODD: tuple[Shape, ...] = (  # one side odd, each in turn, at two sizes; all odd; and far from a multiple of any tile
    (4095, 4096, 4096), (4096, 4095, 4096), (4096, 4096, 4095), (8191, 8192, 8192), (8192, 8191, 8192),
    (8192, 8192, 8191), (1023, 1023, 1023), (2047, 2049, 2051), (4097, 4097, 4097), (1500, 2500, 3500),
    (5000, 3001, 7003), (333, 7777, 5555),
)  # fmt: skip
ALONE = (8192, 8192, 8192)
SECONDS = {"squares": 3.0, "shapes": 0.25, "odd": 0.25, "alone": 0.8}  # of turns for one shape
PRECISION = {"squares": 0.002, "shapes": 0.01, "odd": 0.01, "alone": 0.004}
BASELINE = "torch.matmul (cuBLAS), same turns"

Shape = tuple[int, int, int]


@dataclass(frozen=True)
class Entry:
    """A rung for one shape and dtype, assembled."""

    rung: Rung
    plan: Plan
    architecture: str

    def figures(self) -> dict[str, Any]:
        """Registers, spills and occupancy of the launch with most blocks' worth of threads, and how many launches."""
        launch = max(self.plan.launches, key=lambda one: one.shared_bytes)
        cubin = self.plan.kernels[launch.kernel].cubins[self.architecture]
        return {
            "registers": cubin.registers,
            "spill_bytes": cubin.spill_stores + cubin.spill_loads,
            "occupancy": launch_occupancy(self.architecture, cubin, launch).fraction,
            "blocks": int(np.prod(launch.grid)),
            "threads": int(np.prod(launch.block)),
            "shared_bytes": launch.shared_bytes + cubin.static_shared,
            "launches": len(self.plan.launches),
        }


def entries(wanted: Iterable[Rung], shape: Shape, architecture: str, dtype: str = "float16") -> list[Entry]:
    """The rungs for one shape, captured and assembled side by side; without those that do not take it."""
    given = "float16" if dtype == "float16" else "uint16"

    def make(rung: Rung) -> Entry | None:
        result = rung.result if given == "float16" else given
        try:
            plan = plan_of(rung.path, *shape, architecture, rung.function, given, result)
            return Entry(rung, assemble(plan, architecture), architecture)
        except WarplabError as error:
            print(f"{rung.name} is left out for {shape}: {error}", file=sys.stderr)
            return None

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return [entry for entry in pool.map(make, wanted) if entry]


def measure(worker: Worker, made: list[Entry], shape: Shape, dtype: str, part: str) -> list[results.Record]:
    """A record for each entry: FLOP/s beside torch.matmul's."""
    with tempfile.TemporaryDirectory() as folder:
        plans = {}
        for number, entry in enumerate(made):
            plans[entry.rung.name] = str(Path(folder) / f"{number}.plan")
            save(entry.plan, Path(plans[entry.rung.name]))
        try:
            answer = worker.call(
                "benchmarks.gemm.contest:timed",
                timeout=180,
                plans=plans,
                shape=shape,
                dtype=dtype,
                seconds=SECONDS[part],
                precision=PRECISION[part],
            )
        except WarplabError as error:
            answer = {"wrong": [f"nothing measured for {shape}: {error}"]}
    for sentence in answer["wrong"]:
        print(sentence, file=sys.stderr, flush=True)
    work = 2.0 * shape[0] * shape[1] * shape[2]
    records = []
    for entry in made:
        name = entry.rung.name
        if name not in answer:
            continue
        time = answer[name]
        library_ms = time["library_ms"]
        library = work / library_ms * 1e3
        records.append(
            results.Record(
                name,
                "rate",
                work / time["ms"] * 1e3,
                "FLOP/s",
                variant=part,
                shape=shape,
                dtype=dtype,
                interval=(work / time["high"] * 1e3, work / time["low"] * 1e3),
                baseline=BASELINE,
                baseline_value=library,
                ratio=library_ms / time["ms"],
                conditions=f"N(0, 1) data, cold L2, CUDA events, {time['turns']} turns",
                extra={**entry.figures(), "ratio_turn_by_turn": time["ratio"]},
            )
        )
        size = "x".join(map(str, shape))
        ours, figures, ratio = work / time["ms"] / 1e9, entry.figures(), library_ms / time["ms"]
        print(
            f"{size:18} {dtype:8} {name:44} {ours:7.1f} TFLOP/s  torch {library / 1e12:6.1f}  {ratio:6.3f}  "
            f"{figures['registers']:3} registers, {figures['spill_bytes']:5} spilled",
            flush=True,
        )
    return records


def squares(worker: Worker, architecture: str, sizes: tuple[int, ...]) -> list[results.Record]:
    """Every rung for square matrices."""
    records = []
    for size in sizes:
        shape = (size, size, size)
        best = [rung for rung in rungs() if rung.name == BEST]
        for dtype in ("float16", "bfloat16"):  # alone with the library, as other rungs draw less power
            records += measure(worker, entries(best, shape, architecture, dtype), shape, dtype, "squares")
        others = [rung for rung in rungs() if rung.name != BEST]
        records += measure(worker, entries(others, shape, architecture), shape, "float16", "squares")
    for dtype in ("float16", "bfloat16"):
        ratios = [r.ratio for r in records if r.name == BEST and r.dtype == dtype and r.ratio]
        if ratios:
            print(f"{BEST} {dtype}: geometric mean {geometric_mean(ratios):.4f}, best {max(ratios):.4f}", flush=True)
    return records


def drawn() -> list[Shape]:
    """The shapes of `shapes`: always the same ones."""
    every: list[Shape] = [(m, n, k) for m, n, k in itertools.product(DRAWN_FROM, repeat=3)]
    return random.Random(SEED).sample(every, DRAWN)


def shapes(worker: Worker, architecture: str, sizes: tuple[int, ...]) -> list[results.Record]:
    """The best rung for rectangular matrices; the sizes do not matter."""
    return _of_best(worker, architecture, drawn(), "shapes")


def odd(worker: Worker, architecture: str, sizes: tuple[int, ...]) -> list[results.Record]:
    """The best rung for shapes with an odd side, or one that tensor maps do not take; the sizes do not matter."""
    return _of_best(worker, architecture, ODD, "odd")


def alone(worker: Worker, architecture: str, sizes: tuple[int, ...]) -> list[results.Record]:
    """Every rung that is fast enough, each in turns with the library alone; the sizes do not matter."""
    records = []
    work = 2.0 * ALONE[0] * ALONE[1] * ALONE[2]
    for entry in entries(rungs(), ALONE, architecture):
        with tempfile.TemporaryDirectory() as folder:
            plan = str(Path(folder) / "rung.plan")
            save(entry.plan, Path(plan))
            try:
                found = worker.call(
                    "benchmarks.gemm.contest:alone",
                    timeout=120, plan=plan, shape=ALONE, seconds=SECONDS["alone"], precision=PRECISION["alone"],
                )  # fmt: skip
            except WarplabError as error:
                print(f"{entry.rung.name} was not measured alone: {error}", file=sys.stderr, flush=True)
                continue
        if not found:
            continue
        ours, library, name = found["ours"], found["torch"], entry.rung.name
        extra = {
            "ratio_turn_by_turn": found["ratio"],
            "ratio_interval": found["ratio_interval"],
            **{f"{key}_{of}": each[key] for of, each in (("ours", ours), ("library", library)) for key in each},
        }
        records.append(
            results.Record(
                name, "rate", work / found["ms"] * 1e3, "FLOP/s", "alone", ALONE, "float16",
                (work / found["high"] * 1e3, work / found["low"] * 1e3), BASELINE, work / found["library_ms"] * 1e3,
                found["library_ms"] / found["ms"],
                f"N(0, 1) data, cold L2, CUDA events, {found['turns']} turns of these two alone; then each back to "
                f"back for {DRAWN_SECONDS} s: ms a launch, SM clock in MHz, power in W, temperature in C",
                extra,
            )
        )  # fmt: skip
        back_to_back = ", ".join(f"{x['ms']:.3f} ms {x['clock']:.0f} MHz {x['power']:.0f} W" for x in (ours, library))
        print(f"{name:44} {records[-1].value / 1e12:7.1f} TFLOP/s {found['ratio']:6.3f}; {back_to_back}", flush=True)
    return records


def _of_best(worker: Worker, architecture: str, every: Sequence[Shape], part: str) -> list[results.Record]:
    best = next(rung for rung in rungs() if rung.name == BEST)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        made = list(pool.map(lambda shape: entries([best], shape, architecture), every))
    records: list[results.Record] = []
    for entry, shape in zip(made, every, strict=True):
        records += measure(worker, entry, shape, "float16", part)
    if ratios := [r.ratio for r in records if r.ratio]:
        print(f"{len(ratios)} shapes: geometric mean {geometric_mean(ratios):.4f}, least {min(ratios):.4f}", flush=True)
    return records


def main(arguments: list[str]) -> int:
    """Measure the parts named, or squares and shapes.

    Exit code 0, or 2 for an unknown part, 3 if it cannot be measured.
    """
    sizes = tuple(int(argument) for argument in arguments if argument.isdecimal())
    named = [argument for argument in arguments if not argument.isdecimal()]
    timed = {"squares": squares, "shapes": shapes, "odd": odd, "alone": alone}
    if unknown := set(named) - timed.keys():
        print(f"There is no part named {unknown.pop()}: parts are {', '.join(timed)}.", file=sys.stderr)
        return 2
    parts = named or ["squares"] * bool(sizes) or ["squares", "shapes"]
    header = results.make_header(" ".join(["python -m benchmarks.bench_gemm", *arguments]))
    try:
        device = present()
        if device is None:
            raise WarplabError("There is no GPU here to time products on.")
        records: list[results.Record] = []
        with Worker() as worker:
            for part, function in timed.items():
                if part in parts:
                    records += function(worker, architecture_of(device), sizes or SIZES)
    except WarplabError as error:
        print(error, file=sys.stderr)
        return 3
    for file, kept in (
        (FILE, [record for record in records if record.variant != "alone"]),
        (BY_ITSELF, [record for record in records if record.variant == "alone"]),
    ):
        if kept:
            results.write(file, header, kept, merge=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
