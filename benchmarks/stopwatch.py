"""How far the stopwatch can be trusted; `python -m benchmarks.stopwatch [PART ...] [LAB ...]` writes stopwatch.json,
or if that is of another GPU one beside it.

copies    two copies of one kernel are raced twenty times: how far from 1 is their ratio, is 1 within its interval?
naive     the same kernels timed as one would at first: one launch by the host's clock, events without a warm-up, back
          to back without emptying the L2; the spread of each, and how far it is off
arguments copies of 1 MiB whose arguments are so many bytes, with a cold L2: does every fourth launch take longer?
shared    a reference timed alone and while another process loads the GPU: is that noticed?
regrades  every reference timed thirty times: the spread of its efficiency, does one's interval hold the median of all?

Without names it does all parts; a part named alone replaces only its own numbers.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder.own_work import capture_submission
from autograder.records.machine import choose_machine
from autograder.records.measurement import Measurement, from_wire
from autograder.spec.lab import SUBMISSION_NAMES, find_lab, kernel_labs, solutions_folder
from autograder.spec.score import efficiency_points
from course import results
from course.results import Record
from warplab.errors import WarplabError
from warplab.plan.archive import dumps
from warplab.worker.process import Worker

FILE = results.DIRECTORY / "stopwatch.json"
RUNS = 20
REGRADES = 30
CLOSE = 0.005  # two copies of one kernel should differ by less
IDLE_SECONDS = 0.05  # before a naive measurement, as between two cells of a notebook
SEED = 1
LONG = (64, 128, 192, 256, 384, 512, 1024, 2048)  # bytes of arguments
PLACE_TURNS, WARM_TURNS = 480, 80
_LONG = """
extern "C" __global__ void copy_%(n)d(const uint4* in, uint4* out, const __grid_constant__ Long<%(n)d> more) {
    unsigned i = blockIdx.x * 256 + threadIdx.x;
    uint4 v = in[i];
    v.x += more.words[%(n)d / 4 - 1];
    out[i] = v;
}"""


@dataclass(frozen=True)
class Work:
    """A kernel of known work: `size` is 16-byte elements to copy or steps of multiply-adds."""

    name: str
    kernel: str
    size: int
    repeats: int  # launches of a back-to-back measurement


WORKS = (
    Work("copy of 1 MiB", "copy", 1 << 15, 20),
    Work("copy of 64 MiB", "copy", 1 << 21, 20),
    Work("copy of 1 GiB", "copy", 1 << 25, 20),
    Work("multiply-adds, 5 ms", "fma_fp32", 4096, 5),
    Work("multiply-adds, 100 ms", "fma_fp32", 85_000, 2),
)


class Launcher:
    """A candidate that does one Work on buffers of its own."""

    launches = 1

    def __init__(self, stream: Any, work: Work) -> None:
        import cupy
        import numpy as np
        from cuda.core import Device

        self._stream, self._work = stream, work
        size = 16 * work.size if work.kernel == "copy" else 4096
        self._in, self._out = (cupy.zeros(size, dtype=cupy.uint8) for _ in range(2))
        pointers = np.uint64(self._in.data.ptr), np.uint64(self._out.data.ptr)
        if work.kernel == "copy":
            self._grid, self._block = -(-work.size // 256), 256
            self._arguments: tuple[Any, ...] = (*pointers, np.uint64(work.size))
        else:
            self._grid, self._block = 4 * Device().properties.multiprocessor_count, 512
            self._arguments = (pointers[1], np.float32(0.999), np.float32(0.001), np.int32(work.size))

    def prepare(self, turn: int) -> None:
        """Nothing to prepare."""

    def launch(self) -> None:
        """Queue the work."""
        from warplab.gpu import trusted

        trusted.run(self._stream, self._work.kernel, self._grid, self._block, *self._arguments)

    def check(self, turn: int) -> None:
        """Nothing to check."""


def copies(labs: list[str]) -> Iterator[list[Record]]:
    """Two copies of one kernel, raced."""
    with Worker() as worker:
        for number, work in enumerate(WORKS):
            runs = worker.call("benchmarks.stopwatch:race_copies", timeout=300, number=number, runs=RUNS)
            ratios = sorted(abs(run["ratio"] - 1) for run in runs)
            close = sum(ratio < CLOSE for ratio in ratios) / RUNS
            covered = sum(run["low"] <= 1 <= run["high"] for run in runs) / RUNS
            times = sorted(run["ms"] for run in runs)
            middle = times[RUNS // 2]
            held = sum(run["low_ms"] <= middle <= run["high_ms"] for run in runs) / RUNS
            conditions = f"{RUNS} races of two copies, cold L2, in turns"
            records = [
                Record(
                    work.name, "time", middle, "ms", "in turns", interval=(times[0], times[-1]), conditions=conditions
                ),
                Record(
                    work.name, "spread", (times[-1] - times[0]) / middle, "fraction", "in turns", conditions=conditions
                ),
                Record(work.name, "two copies within 0.5%", close, "fraction of runs", conditions=conditions),
                Record(work.name, "two copies, largest difference", ratios[-1], "fraction", conditions=conditions),
                Record(
                    work.name, "interval holds the median of all races", held, "fraction of runs", conditions=conditions
                ),
                Record(work.name, "interval of the ratio holds 1", covered, "fraction of runs", conditions=conditions),
            ]
            if work.kernel == "copy":
                apart = worker.call(
                    "benchmarks.stopwatch:race_copies", timeout=300, number=number, runs=RUNS // 4, other_memory=True
                )
                most = max(abs(run["ratio"] - 1) for run in apart)
                where = f"{RUNS // 4} races of two copies, each on buffers of its own"
                records.append(
                    Record(
                        work.name, "two copies, largest difference", most, "fraction", "other memory", conditions=where
                    )
                )
                print(f"{work.name:24} on other buffers they differ by up to {most:.2%}", flush=True)
            words = f"{close:.0%} within 0.5%, worst {ratios[-1]:.2%}, 1 held {covered:.0%}, median held {held:.0%}"
            print(
                f"{work.name:24} {middle:9.4f} ms  spread {(times[-1] - times[0]) / middle:7.2%}  {words}", flush=True
            )
            yield records


def race_copies(number: int, runs: int, other_memory: bool = False) -> list[dict[str, float]]:
    """In the worker: `runs` races of two copies of WORKS[number], on the same buffers or each on its own."""
    from warplab.gpu.executor import on_stream
    from warplab.gpu.stopwatch import time_in_turns

    found = []
    with on_stream() as stream:
        launcher = Launcher(stream, WORKS[number])  # the same buffers: where memory lies makes a difference of its own
        pair = {"one": launcher, "two": launcher}
        if other_memory:
            pair["two"] = Launcher(stream, WORKS[number])
        for _ in range(runs):
            result = time_in_turns(pair, stream, budget_seconds=1.0, precision=0.004, compare=("one", "two"))
            ratio, one = result.ratio("one", "two"), result.time("one")
            times = {"ms": one.value, "low_ms": one.low, "high_ms": one.high}
            found.append({**times, "ratio": ratio.value, "low": ratio.low, "high": ratio.high})
    return found


def naive(labs: list[str]) -> Iterator[list[Record]]:
    """The same kernels, timed carelessly."""
    with Worker() as worker:
        for number, work in enumerate(WORKS):
            honest, ways = worker.call("benchmarks.stopwatch:time_naively", timeout=300, number=number, runs=RUNS)
            records = []
            for way, times in ways.items():
                times.sort()
                middle = times[RUNS // 2]
                spread = (times[-1] - times[0]) / middle
                conditions = f"{RUNS} measurements; the baseline in turns, cold L2, warmed up"
                records += [
                    Record(
                        work.name,
                        "time",
                        middle,
                        "ms",
                        way,
                        interval=(times[0], times[-1]),
                        baseline="in turns",
                        baseline_value=honest,
                        ratio=honest / middle,
                        conditions=conditions,
                    ),
                    Record(work.name, "spread", spread, "fraction", way, conditions=conditions),
                ]
                print(
                    f"{work.name:24} {middle:9.4f} ms  spread {spread:7.2%}  {middle / honest:6.2f}x  {way}", flush=True
                )
            yield records


def time_naively(number: int, runs: int) -> tuple[float, dict[str, list[float]]]:
    """In the worker: milliseconds of WORKS[number], as the stopwatch has it, and by each careless way, `runs` times."""
    from cuda.core import Device, EventOptions

    from warplab.gpu.executor import on_stream
    from warplab.gpu.stopwatch import time_in_turns

    work = WORKS[number]
    with on_stream() as stream:
        launcher = Launcher(stream, work)
        honest = time_in_turns({"one": launcher}, stream, budget_seconds=1.0).time("one").value
        begin, end = (Device().create_event(EventOptions(timing_enabled=True)) for _ in range(2))

        def by_the_hosts_clock() -> float:
            start = time.time()
            launcher.launch()
            stream.sync()
            return (time.time() - start) * 1e3

        def by_events(launches: int = 1) -> float:
            stream.record(begin)
            for _ in range(launches):
                launcher.launch()
            stream.record(end)
            end.sync()
            return (end - begin) / launches

        ways: dict[str, Callable[[], float]] = {
            "one launch, time.time": by_the_hosts_clock,
            "one launch, events": by_events,
            "back to back, events": lambda: by_events(work.repeats),
        }
        times: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(runs):
            for way, measure in ways.items():
                stream.sync()
                time.sleep(IDLE_SECONDS)
                times[way].append(measure())
    return honest, times


def arguments(labs: list[str]) -> Iterator[list[Record]]:
    """The same copy with more and more bytes of arguments."""
    with Worker() as worker:
        found = worker.call("benchmarks.stopwatch:time_by_place", timeout=300)
    records = []
    for size, places in found:
        *others, slowest = sorted(places)
        conditions = f"cold L2, {PLACE_TURNS} turns of three launches; the baseline is the median of the other places"
        records.append(
            Record(
                "copy of 1 MiB", "time of every fourth launch", slowest, "us", f"{size} bytes of arguments",
                baseline="other launches", baseline_value=others[1], ratio=others[1] / slowest, conditions=conditions,
            )
        )  # fmt: skip
        print(f"{size:5} bytes of arguments: {slowest:.2f} us, other launches {others[1]:.2f} us", flush=True)
    yield records


def time_by_place() -> list[tuple[int, list[float]]]:
    """In the worker: for each size of arguments the median microseconds of every fourth launch, from each of the four
    first ones on. A turn is three launches, so four turns have the copy in each place once."""
    import cupy
    import numpy as np
    from cuda.core import Device, EventOptions, Program, ProgramOptions

    from warplab.gpu import trusted
    from warplab.gpu.executor import on_stream
    from warplab.gpu.raw_launch import RawLaunch
    from warplab.gpu.stopwatch import HIDE_MICROSECONDS, ColdCache
    from warplab.plan.model import Launch

    source = "template <int N> struct Long { unsigned words[N / 4]; };\n" + "\n".join(_LONG % {"n": n} for n in LONG)
    found = []
    with on_stream() as stream:
        architecture = "".join(map(str, Device().compute_capability))
        program = Program(source, "c++", ProgramOptions(arch=f"sm_{architecture}"))
        code = program.compile("cubin")
        cold, (a, b) = ColdCache(stream), (cupy.zeros(1 << 20, cupy.uint8) for _ in range(2))
        begin, end = (Device().create_event(EventOptions(timing_enabled=True)) for _ in range(2))
        for size in LONG:
            values: list[Any] = [
                np.asarray(np.uint64(a.data.ptr)),
                np.asarray(np.uint64(b.data.ptr)),
                np.zeros(size, np.uint8),
            ]
            item = Launch(f"copy_{size}", (256, 1, 1), (256, 1, 1), ())
            copy = RawLaunch(item, code.get_kernel(item.kernel), values)
            times = []
            for _ in range(PLACE_TURNS):
                stream.sync()
                cold.sweep()
                trusted.spin(stream, 2 * HIDE_MICROSECONDS)
                stream.record(begin)
                copy(stream)
                stream.record(end)
                end.sync()
                times.append((end - begin) * 1e3)
            found.append((size, [float(np.median(times[WARM_TURNS + place :: 4])) for place in range(4)]))
    return found


def shared(labs: list[str]) -> Iterator[list[Record]]:
    """A reference timed alone, and while another process uses the GPU."""
    records = []
    timing = captured("01_axpy", "submission.py")
    with Worker() as worker:
        alone = timing(worker)
        for name, load in (("all the time", 1.0), ("a fifth of the time", 0.2)):
            with busy_gpu(load):
                disturbed = timing(worker)
            error = disturbed.efficiency / alone.efficiency - 1
            conditions = f"01_axpy while another process computes {name}"
            noticed = 1 if disturbed.shared else 0
            records += [
                Record("shared GPU", "noticed", noticed, "1: yes, 0: no", name, conditions=conditions),
                Record("shared GPU", "time lost", disturbed.shared_fraction, "fraction", name, conditions=conditions),
                Record("shared GPU", "efficiency off by", error, "fraction", name, conditions=conditions),
            ]
            print(f"{name}: noticed {noticed}, {disturbed.shared_fraction:.1%} lost, {error:+.1%}", flush=True)
        after = timing(worker)
        for name, m in (("alone, before", alone), ("alone, after", after)):
            noticed = 1 if m.shared else 0
            records += [
                Record("shared GPU", "noticed", noticed, "1: yes, 0: no", name, conditions="01_axpy alone"),
                Record("shared GPU", "time lost", m.shared_fraction, "fraction", name, conditions="01_axpy alone"),
            ]
            print(f"{name}: noticed {noticed}, {m.shared_fraction:.2%} lost", flush=True)
    yield records


@contextmanager
def busy_gpu(load: float) -> Iterator[None]:
    """Another process that uses the GPU `load` of the time."""
    command = [sys.executable, "-m", "benchmarks.stopwatch", "--load", str(load)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield
        finally:
            process.kill()


def keep_busy(load: float) -> None:
    """Use the GPU `load` of the time until killed; says so once it does."""
    from warplab.gpu.executor import on_stream

    with on_stream() as stream:
        launcher = Launcher(stream, WORKS[3])
        launcher.launch()
        stream.sync()
        print("busy", flush=True)
        while True:
            start = time.perf_counter()
            for _ in range(4):
                launcher.launch()
            stream.sync()
            time.sleep((time.perf_counter() - start) * (1 / load - 1))


def captured(lab: str, file: str) -> Callable[[Worker], Measurement]:
    """A function that times a reference once, as a grade does. It raises WarplabError if that cannot be done."""
    found, path = find_lab(lab), solutions_folder() / lab / file
    case = found.task.timing
    plan = capture_submission(found, path, [case, found.task.profile], SEED, choose_machine("gpu").architecture)
    payload = {
        "plan": dumps(plan.plans[case.name]),
        "task": str(found.folder),
        "case": case.name,
        "seed": SEED,
        "dimensions": dict(case.dimensions),
    }

    def timing(worker: Worker) -> Measurement:
        measured = from_wire(worker.call("autograder.worker.gpu_stage:efficiency", timeout=120, **payload))
        if not isinstance(measured, Measurement) or not measured.counts:
            raise WarplabError(f"{path} could not be timed: {measured.message}")
        return measured

    return timing


def regrades(labs: list[str]) -> Iterator[list[Record]]:
    """Thirty timings of each reference."""
    for name in labs:
        lab = find_lab(name)
        for file in SUBMISSION_NAMES:
            if not (solutions_folder() / name / file).is_file():
                continue
            timing = captured(name, file)
            with Worker() as worker:
                measured = [timing(worker) for _ in range(REGRADES)]
            values = sorted(m.efficiency for m in measured)
            points = {efficiency_points(value, lab.efficiency, lab.points.efficiency) for value in values}
            spread = (values[-1] - values[0]) / values[0]
            label, conditions = f"{name}/{Path(file).stem}", f"{REGRADES} timings in one worker"
            noticed = sum(bool(m.shared) for m in measured)
            middle = values[REGRADES // 2]
            held = sum(m.efficiency_low <= middle <= m.efficiency_high for m in measured) / REGRADES
            records = [
                Record(
                    label,
                    "efficiency",
                    middle,
                    "fraction",
                    interval=(values[0], values[-1]),
                    conditions=f"{conditions}; the interval is from the least to the greatest",
                ),
                Record(label, "efficiency, spread", spread, "fraction", conditions=conditions),
                Record(
                    label,
                    "interval holds the median of all timings",
                    held,
                    "fraction of timings",
                    conditions=conditions,
                ),
                Record(label, "wrongly called shared", noticed, "count", conditions=conditions),
            ]
            if library := measured[-1].library:
                records.append(
                    Record(
                        label,
                        "time",
                        measured[-1].median_ms,
                        "ms",
                        baseline=library.name,
                        baseline_value=library.median_ms,
                        ratio=library.median_ms / measured[-1].median_ms,
                        conditions="cold L2, CUDA events, in turns",
                    )
                )
            scatter = f"{values[0]:.4f} to {values[-1]:.4f}: {spread:.2%}; held {held:.0%}"
            print(f"{label:28} {scatter}; points {sorted(points)}", flush=True)
            yield records


PARTS = {"copies": copies, "naive": naive, "arguments": arguments, "shared": shared, "regrades": regrades}


def main(arguments: list[str]) -> int:
    """Measure the named parts, or all. Exit code 0, or 2 for an unknown part, 3 if this machine cannot measure."""
    if arguments[:1] == ["--load"]:
        keep_busy(float(arguments[1]))
    parts = [argument for argument in arguments if argument in PARTS]
    labs = [argument for argument in arguments if argument in kernel_labs()]
    if unknown := set(arguments) - set(parts) - set(labs):
        print(f"There is no part or lab named {unknown.pop()}: parts are {', '.join(PARTS)}.", file=sys.stderr)
        return 2
    try:
        merge = bool(parts)
        for part in parts or PARTS:
            for records in PARTS[part](labs or kernel_labs()):  # each takes a minute: what there is, is kept
                header = results.make_header(" ".join(["python -m benchmarks.stopwatch", part, *labs]))
                results.write(results.of_gpu(FILE, header.gpu), header, records, merge=merge)
                merge = True
    except WarplabError as error:
        print(error, file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
