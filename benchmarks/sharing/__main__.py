"""Measures what a neighbour on the GPU costs a kernel, and which of its data a neighbour can read.

Run as `python -m benchmarks.sharing`, or with parts of it (slices, streams, mps, memory), on a machine with a GPU and
PyTorch. Writes benchmarks/results/sharing.json after each group of figures. Exit code 2 for an unknown part, 3 where a
part could not be measured. The MPS daemon is a process of this user with a folder of its own, and ends with its part.
No setting of the card is changed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from benchmarks.sharing import mps
from benchmarks.sharing.tenant import CHAIN, COPY, LOAD, LOADS, PROBE, PROBES, PRODUCT, SMALL
from course import results
from course.results import Record
from warplab.errors import WarplabError
from warplab.worker.process import Worker

FILE = results.DIRECTORY / "sharing.json"
COMMAND = "python -m benchmarks.sharing"
ALONE = "nobody"
SLICES, STREAMS, MPS = "time slices", "streams", "MPS"
UNITS = {COPY: "B/s", PRODUCT: "FLOP/s", SMALL: "s", CHAIN: "ns"}
METRICS = {COPY: "rate", PRODUCT: "rate", SMALL: "latency", CHAIN: "latency"}
_WINDOWS = "back to back; the interval is from the least to the greatest of {samples} windows"
CONDITIONS = {
    COPY: f"copies of 256 MiB, {_WINDOWS}",
    PRODUCT: f"4096 x 4096 x 4096 in float16 by PyTorch, {_WINDOWS}",
    SMALL: "one warp, from its launch to its end by the host's clock; {samples} launches",
    CHAIN: "one thread through 8 MiB that a kernel read just before; {samples} samples of 16 loads",
}
TAIL = {"99th percentile": "p99", "mean": "mean", "longest": "most"}
TENANT, LEFT = "benchmarks.sharing.tenant", "benchmarks.sharing.left_behind"
Environment = Mapping[str, str]
Figures = Mapping[str, float]
Call = Callable[..., Any]  # a function's name and its arguments


def caller(worker: Worker, module: str) -> Call:
    """Calls functions of a module in a worker."""
    return lambda function, /, **payload: worker.call(f"{module}:{function}", timeout=60, **payload)


def cells(way: str, probe: Call, load: Call) -> Iterator[list[Record]]:
    """Every probe alone and beside each load: a list of records per neighbour."""
    alone: dict[str, Figures] = {}
    for neighbour in (ALONE, *LOADS):
        if neighbour != ALONE:
            load("start", load=neighbour)
        try:
            found = {name: probe("probe", name=name) for name in PROBES}
        finally:
            if neighbour != ALONE:
                load("stop")
        alone = alone or found
        yield [record for name in PROBES for record in records(way, neighbour, name, found[name], alone[name])]


def records(way: str, neighbour: str, name: str, figures: Figures, alone: Figures) -> list[Record]:
    """A probe's figures beside a neighbour, and as baseline those of the same process alone."""
    unit, metric = UNITS[name], METRICS[name]
    parts = {metric: "value"} | {f"{metric}, {title}": key for title, key in TAIL.items() if key in figures}
    made = []
    for title, key in parts.items():
        value, baseline = figures[key], alone[key]
        made.append(
            Record(
                name, title, value, unit, f"{way}, beside {neighbour}",
                interval=(figures["low"], figures["high"]) if key == "value" else None,
                baseline=f"beside {ALONE}", baseline_value=baseline, ratio=results.better(value, baseline, unit),
                conditions=CONDITIONS[name].format(samples=figures["samples"]),
                extra={"way": way, "neighbour": neighbour},
            )
        )  # fmt: skip
    return made


def fault(way: str, failing: Call, other: Call, role: str) -> Record:
    """Whether a process or a stream still works after its neighbour wrote to an unmapped address."""
    message = failing("write_unmapped", role=role)
    ends = int(not other("still_works", role=PROBE))
    return Record(
        "fault", "ends the neighbour", ends, "1: yes, 0: no", way,
        conditions=f"a write to an unmapped address: {message}", extra={"way": way},
    )  # fmt: skip


def two_processes(way: str, environment: Environment) -> Iterator[list[Record]]:
    """A process that probes beside one that loads. Raises WarplabError if they do not share the GPU in this way."""
    with Worker(environment=environment) as one, Worker(environment=environment) as two:
        probe, load = caller(one, TENANT), caller(two, TENANT)
        for call, role in ((probe, PROBE), (load, LOAD)):
            if call("prepare", role=role)["mps"] != (way == MPS):
                raise WarplabError(f"The processes do not share the GPU by {way}.")
        yield from cells(way, probe, load)
        yield [fault(way, load, probe, LOAD)]


def slices() -> Iterator[list[Record]]:
    """Two processes that share the GPU in time."""
    with mps.no_daemon() as environment:
        yield from two_processes(SLICES, environment)


def streams() -> Iterator[list[Record]]:
    """Two streams of one process."""
    with mps.no_daemon() as environment, Worker(environment=environment) as one:
        call = caller(one, TENANT)
        for role in (PROBE, LOAD):
            call("prepare", role=role)
        yield from cells(STREAMS, call, call)
        yield [fault(STREAMS, call, call, LOAD)]


def through_mps() -> Iterator[list[Record]]:
    """Two clients of an MPS daemon; without one, a record of the reason."""
    try:
        with mps.daemon() as environment:
            yield from left_behind(MPS, environment)
            yield from two_processes(MPS, environment)
    except WarplabError as error:
        print(f"MPS: {error}", flush=True)
        yield [Record(MPS, "measured", 0, "1: yes, 0: no", conditions=str(error))]


def memory() -> Iterator[list[Record]]:
    """What is left behind between processes in time slices."""
    with mps.no_daemon() as environment:
        yield from left_behind(SLICES, environment)


def left_behind(way: str, environment: Environment) -> Iterator[list[Record]]:
    """Which share of fresh memory, and of shared memory before its first write, has words of an earlier kernel."""
    with Worker(environment=environment) as one, Worker(environment=environment) as two:
        first, second = caller(one, LEFT), caller(two, LEFT)
        words = first("fill_memory", words=0)
        yield from _words("fresh memory", f"{way}, the same process", words, first("count_memory", words=words))
        first("fill_memory", words=words)
        yield from _words("fresh memory", f"{way}, another process lives", words, second("count_memory", words=words))
        first("fill_shared")
        yield from _words("shared memory", f"{way}, the same process", 0, first("count_shared"))
        first("fill_shared")
        yield from _words("shared memory", f"{way}, another process lives", 0, second("count_shared"))
        first("fill_memory", words=words)
        one.close()
        yield from _words("fresh memory", f"{way}, another process ended", words, second("count_memory", words=words))


def _words(name: str, variant: str, words: int, found: list[float]) -> Iterator[list[Record]]:
    conditions = f"{4 * words / 1e9:.0f} GB, filled and freed, then allocated again" if words else "227 KiB per block"
    yield [
        Record(name, metric, value, "fraction of words", variant, conditions=conditions)
        for metric, value in zip(("left behind", "zero"), found, strict=True)
    ]


PARTS: Mapping[str, Callable[[], Iterator[list[Record]]]] = {
    "slices": slices,
    "streams": streams,
    "memory": memory,
    "mps": through_mps,
}


def main(arguments: list[str]) -> int:
    """Measure the named parts, or all, and write each group as it comes."""
    if unknown := set(arguments) - set(PARTS):
        print(f"There is no part named {unknown.pop()}: parts are {', '.join(PARTS)}.", file=sys.stderr)
        return 2
    merge, failed = bool(arguments), 0
    header = results.make_header(COMMAND)
    if header.gpu == "none":
        print("There is no GPU here: run this on a machine with one.", file=sys.stderr)
        return 3
    for part in arguments or PARTS:
        try:
            for group in PARTS[part]():
                for record in group:
                    figure = f"{record.value:.4g} {record.unit}"
                    print(f"{record.name:22} {record.metric:26} {record.variant:40} {figure}", flush=True)
                results.write(results.of_gpu(FILE, header.gpu), header, group, merge=merge)
                merge = True
        except WarplabError as error:
            print(f"{part} was not measured to its end: {error}", file=sys.stderr, flush=True)
            failed = 3
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
