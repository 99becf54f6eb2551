"""Measures on this GPU: ceilings, every rung of every lab, and rows of all lengths.

Writes benchmarks/results/{ceilings,labs,rows}.json. Run as `make bench` on a machine with a GPU, or name the
parts: `python -m benchmarks.bench_gpu labs`. Labs named after a part restrict it to them; other records stay.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from autograder.judge.runner import EFFICIENCY_SECONDS
from autograder.own_work import capture_submission
from autograder.records import measurement
from autograder.records.machine import choose_machine
from autograder.records.measurement import Measurement
from autograder.spec.lab import CHECKOUT, SUBMISSION_NAMES, Lab, find_lab, kernel_labs
from autograder.spec.task import Ceiling
from course import results
from course.rungs import Rung, climb
from warplab.errors import WarplabError
from warplab.hardware import Math, present
from warplab.plan.archive import dumps
from warplab.worker.process import Worker

ROWS, ELEMENTS = (128, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536), 1 << 26
COUNTERS = ("global_load_sectors", "global_store_sectors", "shared_load_wavefronts", "shared_load_bank_conflicts")
_MATH = {"fp32_fma": Math.FP32, "tensor_fp16": Math.FP16_TENSOR, "tensor_fp8": Math.FP8_TENSOR}
console = Console(width=160)


def ceilings(names: list[str]) -> list[results.Record]:
    """What the GPU sustains, beside its datasheet; the labs' `names` do not matter."""
    device = present()
    assert device is not None
    with Worker() as worker:
        measured = worker.call("benchmarks.bench_gpu:measured_ceilings", timeout=120)
    records = []
    for name in ("copy", *_MATH):
        value = measured[name]
        if value is None:
            continue
        peak = None
        if device.chip:
            peak = device.chip.bandwidth if name == "copy" else device.chip.peak(_MATH[name])
        records.append(
            results.Record(
                name,
                "rate",
                value,
                "B/s" if name == "copy" else "FLOP/s",
                interval=(measured[f"{name}_low"], measured[f"{name}_high"]),
                baseline="datasheet" if peak else None,
                baseline_value=peak,
                ratio=value / peak if peak else None,
            )
        )
        console.print(f"{name:14} {value:.4g}" + (f"  {value / peak:.1%} of the datasheet" if peak else ""))
    return records


def measured_ceilings() -> dict[str, Any]:
    """In the worker: a fresh measurement of the ceilings."""
    from dataclasses import asdict

    from warplab.gpu import calibrate

    device = present()
    assert device is not None
    return asdict(calibrate.measure(device, fresh=True))


def labs(names: list[str]) -> list[results.Record]:
    """Every rung and reference, timed against the ceilings and counted by the emulator."""
    machine = choose_machine("gpu")
    records: list[results.Record] = []
    for name in names:
        lab = find_lab(name)
        for rung in climb(lab, _implementations(lab), machine):
            timing = rung.timing
            if isinstance(timing, Measurement) and timing.counts:
                records += _rung_records(lab, rung, timing)
            else:
                console.print(f"{lab.name:16} {rung.name:24} left out: {timing.message if timing else 'no GPU'}")
    return records


def rows(names: list[str]) -> list[results.Record]:
    """The references of the softmax lab for rows of many lengths, the elements being as many each time."""
    machine, records, lab = choose_machine("gpu"), [], find_lab("05_softmax")
    case = lab.task.timing
    for path in _references(lab) if lab.name in names else ():
        with Worker() as worker:
            for length in ROWS:
                sizes = {"m": ELEMENTS // length, "n": length}
                cases = lab.task.profile, replace(case, dimensions=sizes)
                captured = capture_submission(lab, path, cases, 0, machine.architecture)
                plan = dumps(captured.plans[case.name])
                payload = {"plan": plan, "task": str(lab.folder), "case": case.name, "seed": 0}
                timing = measurement.from_wire(
                    worker.call(
                        "autograder.worker.gpu_stage:efficiency",
                        timeout=EFFICIENCY_SECONDS,
                        dimensions=sizes,
                        **payload,
                    )
                )
                if not isinstance(timing, Measurement) or not timing.counts:
                    raise WarplabError(f"{path} could not be timed for rows of {length}: {timing.message}")
                records.append(
                    results.Record(
                        lab.name,
                        "efficiency",
                        timing.efficiency,
                        "fraction",
                        variant=path.stem,
                        shape=tuple(sizes.values()),
                        interval=(timing.efficiency_low, timing.efficiency_high),
                        conditions=f"floor from the copy ceiling in the same {timing.samples} turns; cold L2",
                    )
                )
                console.print(f"{lab.name} {path.stem:16} rows of {length:6} {timing.efficiency:7.1%}")
    return records


def _references(lab: Lab) -> list[Path]:
    folder = CHECKOUT / "solutions" / lab.name
    return [folder / name for name in SUBMISSION_NAMES if (folder / name).is_file()]


def _implementations(lab: Lab) -> list[Path]:
    folder = CHECKOUT / "solutions" / lab.name
    return [*sorted(folder.glob("rung_*.py")), *sorted(folder.glob("numba_*.py")), *_references(lab)]


def _rung_records(lab: Lab, rung: Rung, timing: Measurement) -> Iterator[results.Record]:
    dimensions = lab.task.timing.dimensions
    shape, name, variant = tuple(dimensions.values()), lab.name, rung.name
    memory = timing.bound == "memory"
    ceiling = Ceiling.COPY.value if memory else lab.task.compute_ceiling.value
    work = lab.task.bytes_moved(dimensions) if memory else lab.task.flops(dimensions)
    rate = work / timing.median_ms * 1e3
    figures = {
        "registers": [k.registers for k in rung.kernels],
        "spill_bytes": [k.spill_bytes for k in rung.kernels],
        "shared": [k.shared for k in rung.kernels],
        "occupancy": [k.occupancy for k in rung.kernels],
    }
    yield results.Record(
        name,
        "efficiency",
        timing.efficiency,
        "fraction",
        variant=variant,
        shape=shape,
        interval=(timing.efficiency_low, timing.efficiency_high),
        conditions=f"t_floor / t, floor from the {ceiling} ceiling in the same {timing.samples} turns; cold L2",
        extra=figures,
    )
    yield results.Record(
        name,
        "time",
        timing.median_ms,
        "ms",
        variant=variant,
        shape=shape,
        interval=(timing.low_ms, timing.high_ms),
        conditions="cold L2, CUDA events",
    )
    yield results.Record(
        name,
        "rate",
        rate,
        "B/s" if memory else "FLOP/s",
        variant=variant,
        shape=shape,
        baseline=f"{ceiling} ceiling, same turns",
        baseline_value=timing.ceilings[ceiling],
        ratio=rate / timing.ceilings[ceiling],
        conditions="cold L2, CUDA events",
    )
    total = rung.profile.total
    for counter in COUNTERS:
        yield results.Record(
            name,
            counter,
            getattr(total, counter),
            "count",
            variant=variant,
            shape=tuple(lab.task.profile.dimensions.values()),
            conditions="emulator, profile case",
        )
    console.print(f"{name:16} {variant:24} {timing.median_ms:9.4f} ms {rate:10.4g}/s {timing.efficiency:7.1%}")


PARTS = {"ceilings": ceilings, "labs": labs, "rows": rows}


def main(arguments: list[str]) -> int:
    """Measure the named parts, or all. Exit code 0, or 2 for an unknown part, 3 if this machine cannot measure."""
    parts = [argument for argument in arguments if argument in PARTS]
    names = [argument for argument in arguments if argument in kernel_labs()]
    if unknown := set(arguments) - set(parts) - set(names):
        print(f"There is no part or lab named {unknown.pop()}: parts are {', '.join(PARTS)}.", file=sys.stderr)
        return 2
    for part in parts or PARTS:
        header = results.make_header(" ".join(["python -m benchmarks.bench_gpu", part, *names]))
        try:
            records = PARTS[part](names or kernel_labs())
            results.write(results.DIRECTORY / f"{part}.json", header, records, merge=bool(names))
        except WarplabError as error:
            print(error, file=sys.stderr)
            return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
