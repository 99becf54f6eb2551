"""Measures collectives on two GPUs or more: times by size, what NCCL chose, fits of alpha and beta, schedules.

`python -m benchmarks.collectives`, or `make bench NET=1`, writes benchmarks/results/collectives.json, where records of
other numbers of GPUs stay. `--backend gloo` does the same on processes of this machine, whose times say nothing of a
network, and writes to build/collectives.json unless told otherwise.

Sizes are powers of two and one and a half times these; the fits know the powers of two only, so that their errors on
the others are those of a prediction. A fit is up to three lines, alpha + size / bandwidth each, one for each range of
sizes: a library that changes its protocol changes its line.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from warplab import results
from warplab.errors import WarplabError
from warplab.gpu.statistics import median_interval
from warplab.network.collectives import Collective, bus_bandwidth
from warplab.network.fits import fit, predicted
from warplab.results import Record

COMMAND = "python -m benchmarks.collectives"
COLLECTIVES = (
    Collective.ALL_REDUCE,
    Collective.ALL_GATHER,
    Collective.REDUCE_SCATTER,
    Collective.ALL_TO_ALL,
    Collective.BROADCAST,
)
LARGEST = 1 << 30
_MINUTES = 9.0
_CHOICE = re.compile(r"NCCL INFO (\w+): (\d+) Bytes -> Algo (\w+) proto (\w+)")
_NAMES = {"AllReduce": "all_reduce", "AllGather": "all_gather", "ReduceScatter": "reduce_scatter",
          "Broadcast": "broadcast"}  # fmt: skip


class CannotMeasure(WarplabError):
    """This machine has not what a measurement needs, or a rank failed."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, fit, write."""
    parser = argparse.ArgumentParser(prog=COMMAND, description="Measures collectives by size.")
    parser.add_argument("--backend", choices=("nccl", "gloo"), default="nccl")
    parser.add_argument("--ranks", type=int, help="GPUs or processes (default: all GPUs; 2 processes)")
    parser.add_argument("--largest", type=int, default=LARGEST, metavar="BYTES")
    parser.add_argument("--samples", type=int, default=15)
    parser.add_argument("--out", type=Path, help="the results file")
    options = parser.parse_args(arguments)
    default = results.DIRECTORY if options.backend == "nccl" else results.DIRECTORY.parents[1] / "build"
    path = options.out or default / "collectives.json"
    try:
        ranks = options.ranks or _gpus(options.backend)
        records = list(measure(options.backend, ranks, sizes(options.largest), options.samples))
        results.write(path, results.make_header(COMMAND), records, merge=True)
    except WarplabError as error:
        print(f"collectives: {error}", file=sys.stderr)
        return 1
    print(f"written: {path}")
    return 0


def sizes(largest: int) -> list[int]:
    """Bytes: powers of two from 1 KiB, and one and a half times these."""
    powers = [1 << bit for bit in range(10, largest.bit_length()) if 1 << bit <= largest]
    return sorted({*powers, *(power * 3 // 2 for power in powers[:-1])})


def measure(backend: str, ranks: int, of: Sequence[int], samples: int) -> Iterator[Record]:
    """A record a collective, way and size, then those of the fits. Raises CannotMeasure."""
    if ranks < 2:
        raise CannotMeasure(f"There is {ranks} GPU: two are needed; `--backend gloo` runs processes on any machine.")
    kinds = [kind.value for kind in COLLECTIVES]
    job = {"backend": backend, "ranks": ranks, "sizes": list(of), "samples": samples, "collectives": kinds}
    chosen = choices(_run({**job, "once": True}, log=True)[1], of) if backend == "nccl" else {}
    found = _run({**job, "once": False})[0]
    for one in found:
        yield _time(one, backend, ranks, chosen)
    for key, group in itertools.groupby(found, key=lambda one: (one["name"], one["variant"])):
        yield from _fitted(*key, list(group), backend, ranks)


def choices(log: str, of: Sequence[int]) -> dict[tuple[str, int], tuple[str, str]]:
    """What NCCL took for each collective and size, from the lines of NCCL_DEBUG_SUBSYS=TUNING, in the order of calls.

    A collective of which there is not one line a size is left out: NCCL sends all-to-all as single messages.
    """
    taken: dict[str, list[tuple[str, str]]] = {}
    for function, _, algorithm, protocol in _CHOICE.findall(log):
        taken.setdefault(_NAMES.get(function, function), []).append((algorithm.lower(), protocol.lower()))
    return {
        (name, size): choice
        for name, lines in taken.items()
        if len(lines) == len(of)
        for size, choice in zip(of, lines, strict=True)
    }


def _time(one: dict[str, Any], backend: str, ranks: int, chosen: dict[tuple[str, int], tuple[str, str]]) -> Record:
    name, size = one["name"], one["size"]
    interval = median_interval([second * 1e6 for second in one["samples"]])
    way = chosen.get((name, size)) if one["variant"] == "library" else None
    seconds = interval.value * 1e-6
    extra = {
        "gpus" if backend == "nccl" else "processes": ranks,
        "bus_bandwidth": bus_bandwidth(Collective(name), ranks, size, seconds) / 1e9,
        **({"algorithm": way[0], "protocol": way[1]} if way else {}),
    }
    variant = _variant(one["variant"], backend)
    print(f"{name:16}{variant:28}{size:12} B {interval.value:12.1f} us {extra['bus_bandwidth']:8.1f} GB/s", flush=True)
    return Record(
        name, "time", interval.value, "us", variant, (ranks, size), "float32", (interval.low, interval.high),
        conditions=f"{interval.samples} samples, the slowest rank of each; zeros; {_where(backend)}", extra=extra,
    )  # fmt: skip


def _fitted(name: str, way: str, found: Sequence[dict[str, Any]], backend: str, ranks: int) -> Iterator[Record]:
    """Alpha and bandwidth of each line, and the largest errors on sizes that the fit has not seen."""
    points = [(float(one["size"]), float(np.median(one["samples"]))) for one in found]
    seen = [point for point in points if not int(point[0]) & (int(point[0]) - 1)]
    if len(seen) < 2:
        return
    lines, variant = fit(seen), _variant(way, backend)
    extra = {"gpus" if backend == "nccl" else "processes": ranks}
    for number, line in enumerate(lines):
        where = f"sizes from {line.first:.0f} to {line.last:.0f} bytes; {_where(backend)}"
        more = {**extra, "first": line.first, "last": line.last}
        shape = (ranks, number)
        yield Record(name, "alpha", line.alpha * 1e6, "us", variant, shape, "float32", conditions=where, extra=more)
        if line.bandwidth < 1e15:
            bandwidth = line.bandwidth / 1e9
            yield Record(name, "bandwidth", bandwidth, "GB/s", variant, shape, "float32", conditions=where, extra=more)
    for metric, unseen in (
        ("error below 1 MiB", [p for p in points if p not in seen and p[0] < 1 << 20]),
        ("error from 1 MiB up", [p for p in points if p not in seen and p[0] >= 1 << 20]),
    ):
        if unseen:
            worst = max(abs(predicted(lines, size) / time - 1) for size, time in unseen)
            where = f"the largest of {len(unseen)} sizes that were not fitted; {_where(backend)}"
            yield Record(name, metric, worst, "1", variant, (ranks,), "float32", conditions=where, extra=extra)


def _variant(way: str, backend: str) -> str:
    return backend if way == "library" else f"{way} over {backend}"


def _where(backend: str) -> str:
    if backend == "gloo":
        return "processes of one machine: of its cores and memory, not of a network"
    return "in a CUDA graph of 20 calls up to 256 KiB, else by events around up to 20 calls"


def _gpus(backend: str) -> int:
    if backend == "gloo":
        return 2
    try:
        asked = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        raise CannotMeasure("There is no NVIDIA GPU here; `--backend gloo` runs processes on any machine.") from None
    return sum(line.startswith("GPU ") for line in asked.stdout.splitlines())


def _run(job: dict[str, Any], log: bool = False) -> tuple[list[dict[str, Any]], str]:
    """What rank 0 measured, and NCCL's log of it. Raises CannotMeasure with the words of the first rank that failed."""
    with tempfile.TemporaryDirectory(prefix="warplab-collectives-") as folder:
        place = Path(folder)
        environment = dict(os.environ)
        if log:
            environment |= {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "TUNING", "NCCL_DEBUG_FILE": f"{place}/log.%p"}
        processes = []
        for rank in range(job["ranks"]):
            said = json.dumps({**job, "rank": rank, "meeting": str(place / "meeting")})
            command = [sys.executable, "-m", "benchmarks.collectives_rank", said]
            with open(place / f"rank_{rank}.out", "wb") as out, open(place / f"rank_{rank}.err", "wb") as err:
                processes.append(subprocess.Popen(command, stdout=out, stderr=err, env=environment))
        try:
            failed = _failed(processes)
        finally:
            for process in processes:
                process.kill()
                process.wait()
        if failed:
            words = (place / f"rank_{failed[0]}.err").read_text(errors="replace").strip().splitlines() or ["no word"]
            raise CannotMeasure(f"Rank {failed[0]} failed: {words[-1][:300]}")
        lines = (place / "rank_0.out").read_text().splitlines()
        logs = [path.read_text(errors="replace") for path in sorted(place.glob("log.*"))]
        return [json.loads(line) for line in lines if line.startswith("{")], _first(logs)


def _failed(processes: Sequence[subprocess.Popen[bytes]]) -> list[int]:
    """The first ranks that failed, as soon as one has; nobody if all have ended. Raises CannotMeasure."""
    limit = time.monotonic() + _MINUTES * 60
    while time.monotonic() < limit:
        codes = [process.poll() for process in processes]
        if failed := [rank for rank, code in enumerate(codes) if code]:
            return failed
        if None not in codes:
            return []
        time.sleep(0.1)
    raise CannotMeasure(f"The ranks did not finish within {_MINUTES:g} minutes.")


def _first(logs: Sequence[str]) -> str:
    """One rank's log: all of them say the same."""
    return next((log for log in logs if _CHOICE.search(log)), "")


if __name__ == "__main__":
    sys.exit(main())
