"""Measures collectives on two GPUs or more: times by size, what NCCL chose, fits of alpha and beta, schedules, and
all-reduces by hand (benchmarks/peer) in the same turns as NCCL's. `--part row-parallel`, on two GPUs, measures a layer
that sends while it multiplies beside a product and an all-reduce; `--part sharded` a layer of Llama 3 70B and the
experts of one of DeepSeek-V3, shared by all GPUs, beside what the planner says.

`python -m benchmarks.collectives`, or `make bench NET=1`, writes benchmarks/results/collectives.json, where records of
other numbers of GPUs stay; `--part` measures one part of it. It ends within `--minutes`: what there was no time for is
named, and what was measured before a rank failed is written. `--backend gloo` does the same on processes of this
machine, whose times say nothing of a network, and writes to build/collectives.json unless told otherwise.

Sizes are powers of two and one and a half times these; around the changes of NCCL's protocols, 1 to 16 MiB, also five
and seven quarters of them. The fits (benchmarks.collective_fits) know powers of two and five quarters only, so that
their errors on the others are those of a prediction.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.collective_fits import refit
from benchmarks.peer import layer_records
from benchmarks.sharded import records as sharded_records
from course import results
from course.results import Record
from systems.network.collectives import Collective, bus_bandwidth
from systems.peer.row_parallel import RANKS
from systems.sharded import planned
from warplab.errors import WarplabError
from warplab.gpu.statistics import median_interval

COMMAND = "python -m benchmarks.collectives"
COLLECTIVES = (
    Collective.ALL_REDUCE,
    Collective.ALL_GATHER,
    Collective.REDUCE_SCATTER,
    Collective.ALL_TO_ALL,
    Collective.BROADCAST,
)
LARGEST = 1 << 30
CHANGES = range(1 << 20, (8 << 20) + 1)  # powers of two between which NCCL changes its protocol, and soon after
LIBRARY, SCHEDULES, BY_HAND, ROW_PARALLEL, SHARDED = "library", "schedules", "by-hand", "row-parallel", "sharded"
PARTS = {"nccl": (BY_HAND, LIBRARY, SCHEDULES), "gloo": (LIBRARY, SCHEDULES)}  # what is measured unless told otherwise
MINUTES = 7.0
_GRACE = 30.0  # seconds that ranks have to end by themselves when the time is over
_RANK = "benchmarks.collectives_rank"
_LIBRARY = "NCCL's all_reduce, same turns"
_SEPARATE = "NCCL's all_reduce and our kernel of residual and norm, same turns"
_TURNS = "{} samples in turns, the slowest rank of each; CUDA graphs of 50 calls; zeros; NVLS off; torch's all_reduce"
_CHOICE = re.compile(
    r"NCCL INFO (\w+): \d+ Bytes -> Algo (\w+) proto (\w+)(?: channel\{Lo\.\.Hi\}=\{(\d+)\.\.(\d+)\})?"
)
_NAMES = {"AllReduce": "all_reduce", "AllGather": "all_gather", "ReduceScatter": "reduce_scatter",
          "Broadcast": "broadcast"}  # fmt: skip


class CannotMeasure(WarplabError):
    """This machine has not what a measurement needs, or a rank failed."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, fit, write."""
    parser = argparse.ArgumentParser(prog=COMMAND, description="Measures collectives by size.")
    parser.add_argument("--backend", choices=("nccl", "gloo"), default="nccl")
    parser.add_argument("--part", choices=(*PARTS["nccl"], ROW_PARALLEL, SHARDED),
                        help=f"what to measure (default: all but {ROW_PARALLEL} and {SHARDED})")  # fmt: skip
    parser.add_argument("--ranks", type=int, help="GPUs or processes (default: all GPUs; 2 processes)")
    parser.add_argument("--largest", type=int, default=LARGEST, metavar="BYTES")
    parser.add_argument("--samples", type=int, default=15)
    parser.add_argument("--minutes", type=float, default=MINUTES, help=f"when to end (default: {MINUTES:g})")
    parser.add_argument("--out", type=Path, help="the results file")
    options = parser.parse_args(arguments)
    default = results.DIRECTORY if options.backend == "nccl" else results.DIRECTORY.parents[1] / "build"
    path = options.out or default / "collectives.json"
    parts = (options.part,) if options.part else PARTS[options.backend]
    until = time.time() + 60 * options.minutes - _GRACE
    records: list[Record] = []
    problem = ""
    try:
        ranks = options.ranks or _gpus(options.backend)
        for record in measure(options.backend, parts, ranks, sizes(options.largest), options.samples, until):
            records.append(record)
    except WarplabError as error:
        problem = str(error)
    try:
        if records:
            written = results.write(path, results.make_header(COMMAND), records, merge=True)
            refit(written)
            print(f"written: {written}")
    except WarplabError as error:
        problem = problem or str(error)
    if problem:
        print(f"collectives: {problem}", file=sys.stderr)
    return 1 if problem else 0


def sizes(largest: int) -> list[int]:
    """Bytes: powers of two from 1 KiB, one and a half times these, and more where NCCL changes its protocol."""
    powers = [1 << bit for bit in range(10, largest.bit_length()) if 1 << bit <= largest]
    between = [
        power * quarters // 4 for power in powers[:-1] for quarters in (5, 6, 7) if quarters == 6 or power in CHANGES
    ]
    return sorted({*powers, *between})


def measure(
    backend: str, parts: Sequence[str], ranks: int, of: Sequence[int], samples: int, until: float
) -> Iterator[Record]:
    """A record a collective, way and size. `until` is when to end, as time.time() has it.

    Raises CannotMeasure, after the records of what had been measured before.
    """
    if ranks < 2:
        raise CannotMeasure(f"There is {ranks} GPU: two are needed; `--backend gloo` runs processes on any machine.")
    job = {"backend": backend, "ranks": ranks, "sizes": list(of), "samples": samples, "until": until, "once": False}
    if BY_HAND in parts:
        if backend != "nccl":
            raise CannotMeasure("All-reduces by hand need GPUs: leave `--backend gloo` out.")
        ran = _run("benchmarks.peer.contest", job)
        for one in ran.found:
            yield from by_hand(one, ranks)
        ran.whole()
    if ROW_PARALLEL in parts:
        if backend != "nccl" or ranks != RANKS:
            raise CannotMeasure(f"The row-parallel layer is for {RANKS} GPUs, over NCCL: give `--ranks {RANKS}`.")
        ran = _run("benchmarks.peer.layer_contest", job)
        for one in ran.found:
            yield from layer_records.records(one, ranks)
        ran.whole()
    if SHARDED in parts:
        if backend != "nccl":
            raise CannotMeasure("Sharded layers need GPUs: leave `--backend gloo` out.")
        ran = _run("benchmarks.sharded.contest", job)
        machine = planned.machine_of(results.make_header(COMMAND).gpu)
        for one in ran.found:
            yield from sharded_records.records(one, ranks, machine)
        ran.whole()
    if LIBRARY not in parts and SCHEDULES not in parts:
        return
    kinds = [kind.value for kind in COLLECTIVES] if LIBRARY in parts else []
    job |= {"collectives": kinds, "schedules": False}
    chosen: dict[tuple[str, int], dict[str, Any]] = {}
    if backend == "nccl" and kinds:
        ran = _run(_RANK, {**job, "once": True}, log=True)
        ran.whole()
        if not (chosen := choices(ran.log, of)):
            print("NCCL's log did not say what it chose.", flush=True)
    ran = _run(_RANK, {**job, "schedules": SCHEDULES in parts})
    for one in ran.found:
        yield _time(one, backend, ranks, chosen)
    ran.whole()


def choices(log: str, of: Sequence[int]) -> dict[tuple[str, int], dict[str, Any]]:
    """What NCCL took for each collective and size: "algorithm", "protocol" and, where it says them, "channels".

    From the lines of NCCL_DEBUG_SUBSYS=TUNING, in the order of calls. A collective of which there is not one line a
    size is left out: NCCL sends all-to-all as single messages.
    """
    taken: dict[str, list[dict[str, Any]]] = {}
    for function, algorithm, protocol, first, last in _CHOICE.findall(log):
        channels = {"channels": int(last) - int(first) + 1} if last else {}
        taken.setdefault(_NAMES.get(function, function), []).append(
            {"algorithm": algorithm.lower(), "protocol": protocol.lower(), **channels}
        )
    return {
        (name, size): choice
        for name, lines in taken.items()
        if len(lines) == len(of)
        for size, choice in zip(of, lines, strict=True)
    }


def _time(one: dict[str, Any], backend: str, ranks: int, chosen: dict[tuple[str, int], dict[str, Any]]) -> Record:
    name, size = one["name"], one["size"]
    interval = median_interval([second * 1e6 for second in one["samples"]])
    seconds = interval.value * 1e-6
    extra = {
        "gpus" if backend == "nccl" else "processes": ranks,
        "bus_bandwidth": bus_bandwidth(Collective(name), ranks, size, seconds) / 1e9,
        **(chosen.get((name, size), {}) if one["variant"] == "library" else {}),
    }
    variant = _variant(one["variant"], backend)
    print(f"{name:16}{variant:28}{size:12} B {interval.value:12.1f} us {extra['bus_bandwidth']:8.1f} GB/s", flush=True)
    return Record(
        name, "time", interval.value, "us", variant, (ranks, size), "float32", (interval.low, interval.high),
        conditions=f"{interval.samples} samples, the slowest rank of each; zeros; {_where(backend)}", extra=extra,
    )  # fmt: skip


def by_hand(one: dict[str, Any], ranks: int) -> Iterator[Record]:
    """Records of one size: each way beside NCCL's, whose time in the same turns is the baseline."""
    took = {way: median_interval([second * 1e6 for second in samples]) for way, samples in one["ways"].items()}
    shape, words = (ranks, *one["shape"]), "x".join(map(str, one["shape"]))
    for way, interval in took.items():
        extra: dict[str, Any] = {"gpus": ranks, "memory": one["memory"]}
        if launch := one.get("launches", {}).get(way):
            extra["launch"] = launch
        against = _SEPARATE if "fused" in took else _LIBRARY
        beside: dict[str, Any] = {}
        if way != "nccl":
            rival = took["nccl"].value
            beside = {"baseline": against, "baseline_value": rival, "ratio": rival / interval.value}
        print(
            f"{one['name']:32}{one['dtype']:10}{way:16}{words:>10} {interval.value:9.2f} us"
            f" {interval.value / took['nccl'].value:6.2f} of NCCL's",
            flush=True,
        )
        yield Record(
            one["name"], "time", interval.value, "us", f"by hand: {way}", shape, one["dtype"],
            (interval.low, interval.high), conditions=_TURNS.format(interval.samples), extra=extra, **beside,
        )  # fmt: skip


def _variant(way: str, backend: str) -> str:
    return backend if way == "library" else f"{way} over {backend}"


def _where(backend: str) -> str:
    if backend == "gloo":
        return "processes of one machine: of its cores and memory, not of a network"
    return "in a CUDA graph of 20 calls, from 64 MiB up of 5 or more, NVLS off"


def _gpus(backend: str) -> int:
    if backend == "gloo":
        return 2
    try:
        asked = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        raise CannotMeasure("There is no NVIDIA GPU here; `--backend gloo` runs processes on any machine.") from None
    return sum(line.startswith("GPU ") for line in asked.stdout.splitlines())


@dataclass(frozen=True)
class _Ran:
    """What rank 0 measured, NCCL's log of it, and what went wrong."""

    found: list[dict[str, Any]] = field(default_factory=list)
    log: str = ""
    problem: str = ""

    def whole(self) -> None:
        """Raises CannotMeasure if something went wrong."""
        if self.problem:
            raise CannotMeasure(self.problem)


def environment() -> dict[str, str]:
    """All ranks are on this machine: they meet over its loopback. Multicast over NVLink is never used, by anybody."""
    never = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1"}
    return {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo", **os.environ, **never}


def _run(module: str, job: dict[str, Any], log: bool = False) -> _Ran:
    """Runs a module in a process a rank until all have ended or one has failed."""
    with tempfile.TemporaryDirectory(prefix="warplab-collectives-") as folder:
        place = Path(folder)
        variables = environment()
        if log:
            variables |= {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "TUNING", "NCCL_DEBUG_FILE": f"{place}/log.%p"}
        processes = []
        for rank in range(job["ranks"]):
            said = json.dumps({**job, "rank": rank, "meeting": str(place / "meeting")})
            command = [sys.executable, "-m", module, said]
            with open(place / f"rank_{rank}.out", "wb") as out, open(place / f"rank_{rank}.err", "wb") as err:
                processes.append(subprocess.Popen(command, stdout=out, stderr=err, env=variables))
        try:
            problem = _problem(processes, job["until"] + _GRACE, place)
        finally:
            for process in processes:
                process.kill()
                process.wait()
        lines = (place / "rank_0.out").read_text(errors="replace").splitlines()
        found = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
        for one in found:
            if "cut" in one:
                print(f"There was no time left for {one['cut']} and what comes after it.", flush=True)
        logs = [path.read_text(errors="replace") for path in sorted(place.glob("log.*"))]
        return _Ran([one for one in found if "cut" not in one], _first(logs), problem)


def _problem(processes: Sequence[subprocess.Popen[bytes]], limit: float, place: Path) -> str:
    """What the first rank that failed said, as soon as one has; "" when all have ended well."""
    while time.time() < limit:
        codes = [process.poll() for process in processes]
        if failed := [rank for rank, code in enumerate(codes) if code]:
            time.sleep(1)  # the one that it was waiting for may have more to say
            said = [f"Rank {rank} failed: {_last_words(place / f'rank_{rank}.err')}" for rank in failed]
            return said[0]
        if None not in codes:
            return ""
        time.sleep(0.1)
    return "The ranks did not finish in time."


def _last_words(path: Path) -> str:
    """What a rank said last, without what libraries log (in brackets) while it ends."""
    lines = [line for line in path.read_text(errors="replace").splitlines() if line.strip() and line[0] not in "[ "]
    return (lines or ["no word"])[-1][:600]


def _first(logs: Sequence[str]) -> str:
    """One rank's log: all of them say the same."""
    return next((log for log in logs if _CHOICE.search(log)), "")


if __name__ == "__main__":
    sys.exit(main())
