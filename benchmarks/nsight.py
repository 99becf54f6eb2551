"""Runs plans under Nsight Compute and reads the counters it gives for each launch."""

from __future__ import annotations

import csv
import io
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from cupy.cuda import profiler

from warplab.errors import DeviceError
from warplab.gpu import executor
from warplab.hardware.device import architecture_of, present
from warplab.plan.archive import load, save
from warplab.plan.model import Plan

SECONDS = 500


def counters(
    plans: Sequence[tuple[Plan, dict[str, np.ndarray]]], metrics: Sequence[str], folder: Path
) -> list[list[dict[str, int]]]:
    """For each plan (with its inputs), for each of its launches: the metrics' values by name; "a - b" is a difference.

    `folder` takes the files that travel to the profiled process. Raises DeviceError if ncu is missing or fails.
    """
    ncu = shutil.which("ncu")
    if ncu is None:
        raise DeviceError("Nsight Compute's `ncu` is not on the PATH: install it, or add /usr/local/cuda/bin to PATH.")
    for number, (plan, inputs) in enumerate(plans):
        save(plan, folder / f"{number:04}.plan")
        np.savez(folder / f"{number:04}.npz", **inputs)  # type: ignore[arg-type]
    command = [ncu, "--clock-control", "none", "--csv", "--page", "raw", "--print-units", "base"]
    command += ["--profile-from-start", "off"]  # only what lies between start and stop, see _run
    names = ",".join(name for metric in metrics for name in metric.split(" - "))
    command += ["--metrics", names, "--log-file", str(folder / "ncu.csv")]
    command += [sys.executable, "-m", "benchmarks.nsight", str(folder)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    if run.returncode:
        raise DeviceError(f"ncu failed: {(run.stderr or run.stdout).strip().splitlines()[-1:]}")
    rows = rows_of((folder / "ncu.csv").read_text())
    launches = sum(len(plan.launches) for plan, _ in plans)
    if len(rows) != launches:
        raise DeviceError(f"ncu reported {len(rows)} launches where the plans have {launches}.")
    values = iter([{metric: value_of(row, metric) for metric in metrics} for row in rows])
    return [[next(values) for _ in plan.launches] for plan, _ in plans]


def value_of(row: dict[str, str], metric: str) -> int:
    """A launch's count; "a - b" is a difference."""
    first, *others = (int(float(row[name].replace(",", ""))) for name in metric.split(" - "))
    return first - sum(others)


def rows_of(text: str) -> list[dict[str, str]]:
    """The launches in ncu's raw page: what precedes the table is messages, its first row holds units."""
    start = text.index('"ID"')
    return list(csv.DictReader(io.StringIO(text[start:])))[1:]


def _run(folder: Path) -> None:
    """The profiled process: every plan of the folder once, in order, with only its own launches profiled."""
    device = present()
    if device is None:
        raise DeviceError("no GPU answers in this machine")
    with executor.on_stream() as stream:
        for path in sorted(folder.glob("*.plan")):
            loaded = executor.LoadedPlan(load(path), architecture_of(device), stream)
            with np.load(path.with_suffix(".npz"), allow_pickle=False) as inputs:
                loaded.reset(dict(inputs))
            loaded.synchronize()
            profiler.start()
            loaded.launch()
            loaded.synchronize()
            profiler.stop()
            loaded.erase()


if __name__ == "__main__":
    _run(Path(sys.argv[1]))
