"""Races the best of a templated half-precision product against the vendor's library, for 64 shapes.

For each shape every choice of `systems.search.half_product` is compared with float64 and tried by the clock; the best
one then meets torch.matmul, cuBLAS, cuBLASLt's own choice and the best of its first 16 candidates, which were tried in
the same way, in three protocols (`benchmarks.search.protocols`). Wins and losses, what each choice took and what the
search cost go to benchmarks/results/search.json, after every shape, or if that is of another GPU to one beside it.

Run as `python -m benchmarks.search` on a Hopper GPU with PyTorch. `--first 4` races the first four shapes only; `--from
39` goes on where a run on the same GPU was cut, and keeps what that one has.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import geometric_mean
from time import perf_counter
from typing import Any

from benchmarks.search import shapes
from course import results
from systems.search.half_product import CHOICES, HalfChoice, Shape
from warplab.errors import DeviceError, WarplabError
from warplab.hardware.device import architecture_of, present
from warplab.plan.model import Cubin

COMMAND = "python -m benchmarks.search"
FILE = results.DIRECTORY / "search.json"
NAME = "half product"
ASKED = 16  # candidates of cuBLASLt's heuristic
SECONDS = 0.5  # of turns of one shape on the device
PRECISION = 0.01
OURS, TORCH, CUBLAS = "ours", "torch.matmul", "cuBLAS"
HEURISTIC, AUTOTUNED = "cuBLASLt heuristic", "cuBLASLt autotuned"
CONDITIONS = {
    "device time": "cold L2, CUDA events, in turns",
    "offline time": "host's clock, cold L2, in turns, as called from Python",
    "offline time of a graph": "host's clock, cold L2, in turns, one CUDA graph each",
    "server latency": "exponential gaps, as called from Python",
    "server latency of a graph": "exponential gaps, one CUDA graph each",
}


@dataclass(frozen=True)
class Raced:
    """What came of one shape: milliseconds by protocol and candidate, microseconds of everything tried, seconds that
    comparing and trying our choices took, who won, and which choices gave a wrong product and were not tried."""

    shape: Shape
    best: HalfChoice
    times: Mapping[str, Any]
    tried: Mapping[str, float]
    of_library: Mapping[str, float]
    wrong: list[str]
    seconds: float


class Race:
    """The kernels on this GPU, and a race for one shape after the other."""

    def __init__(self, stream: Any, cubins: Mapping[str, Cubin], sms: int) -> None:
        import torch

        from benchmarks.search import candidates
        from warplab.gpu.stopwatch import ColdCache

        one = torch.ones((64, 64), dtype=torch.float16, device="cuda")
        torch.cuda.synchronize()
        torch.cuda.set_stream(torch.cuda.ExternalStream(int(stream.handle)))
        torch.matmul(one, one)  # loads the library
        self._stream, self._sms, self._cold = stream, sms, ColdCache(stream)
        self._kernels = candidates.load(cubins, CHOICES)
        self.left_out = ""

    def run(self, shape: Shape, number: int) -> Raced:
        """Try all choices whose product is right, then race the best. Raises WarplabError if none is right, or if the
        best one multiplies whole numbers wrongly."""
        from benchmarks.search import candidates, protocols
        from warplab.gpu.stopwatch import time_in_turns

        random = Random(number)
        arena = candidates.Arena(shape, number)
        began = perf_counter()
        possible = {choice.name: choice for choice in CHOICES if choice.takes(shape)}
        ours = {
            name: candidates.Ours(choice, self._kernels[choice.name], arena, self._stream, self._sms)
            for name, choice in possible.items()
        }
        wrong = [name for name, candidate in ours.items() if not _is_right(arena, name, candidate)]
        for name in wrong:
            del ours[name]
        if not ours:
            raise WarplabError(f"No choice gave a right product for {shape}.")
        tried = protocols.choose(ours, self._stream, self._cold, random)
        best = min(tried, key=tried.__getitem__)
        seconds = perf_counter() - began
        if not arena.is_exact(ours[best], number):
            raise WarplabError(f"{best} multiplied whole numbers wrongly for {shape}.")
        with ExitStack() as stack:
            racing: dict[str, Any] = {OURS: ours[best], TORCH: candidates.Torch(arena)}
            of_library = self._library(arena, racing, stack, random)
            turns = time_in_turns(racing, self._stream, budget_seconds=SECONDS, precision=PRECISION)
            times: dict[str, Any] = {"device time": turns}
            graphs = protocols.graphs_of(racing, self._stream)
            for graph in graphs.values():
                stack.callback(graph.close)
            for words, group in (("", racing), (" of a graph", graphs)):
                if OURS not in group:
                    continue
                times[f"offline time{words}"] = alone = protocols.offline(group, self._stream, self._cold)
                slowest = max(alone.time(name).value for name in group)
                times[f"server latency{words}"] = protocols.server(group, self._stream, slowest, random)
        return Raced(shape, possible[best], times, tried, of_library, wrong, seconds)

    def _library(self, arena: Any, racing: dict[str, Any], stack: ExitStack, random: Random) -> dict[str, float]:
        """Add the library's own interfaces to those who race; gives what its candidates took. Where they do not answer
        they are left out of this shape and all others."""
        from benchmarks.search import protocols
        from benchmarks.search.cublas import Cublas, CublasLt

        if self.left_out:
            return {}
        handle = int(self._stream.handle)
        try:
            plain = Cublas(handle, arena.operands())
            stack.callback(plain.close)
            lt = CublasLt(handle, arena.operands(), ASKED)
            stack.callback(lt.close)
            arena.is_right(plain)
        except (OSError, AttributeError, WarplabError) as error:
            self.left_out = f"cuBLAS and cuBLASLt are left out: {error}"
            print(self.left_out, file=sys.stderr, flush=True)
            return {}
        found = {str(place): algorithm for place, algorithm in enumerate(lt.candidates)}
        found = {place: algorithm for place, algorithm in found.items() if _runs(arena, place, algorithm)}
        racing[CUBLAS] = plain
        if not found:
            return {}
        of_library = protocols.choose(found, self._stream, self._cold, random)
        best = min(of_library, key=of_library.__getitem__)
        racing |= {HEURISTIC: next(iter(found.values())), AUTOTUNED: found[best]}
        return of_library


def _runs(arena: Any, place: str, algorithm: Any) -> bool:
    """Whether an algorithm of the library can be launched. One whose sums are less precise than ours races too: it is
    said, and what it is let off helps the rival."""
    try:
        if not arena.is_right(algorithm):
            print(f"candidate {place} of cuBLASLt sums in less than float32 for {arena.shape}", flush=True)
        return True
    except WarplabError as error:
        print(f"candidate {place} of cuBLASLt for {arena.shape}: {error}", file=sys.stderr, flush=True)
        return False


def _is_right(arena: Any, name: str, candidate: Any) -> bool:
    """Whether a choice runs and its product is right; says so if not."""
    try:
        right = bool(arena.is_right(candidate))
        words = "gave a wrong product"
    except RuntimeError as error:  # the driver refuses the launch
        right, words = False, f"cannot be launched ({error})"
    if not right:
        print(f"{name} {words} for {arena.shape} and is left out.", file=sys.stderr, flush=True)
    return right


def records_of(raced: Raced) -> list[results.Record]:
    """The records of one shape: ours beside each rival in each protocol, and the search."""
    kept = []
    for protocol, turns in raced.times.items():
        mine = turns.time(OURS)
        for rival in turns.samples.keys() - {OURS}:
            value, theirs, ratio = mine.value * 1e3, turns.time(rival).value * 1e3, turns.ratio(rival, OURS)
            kept.append(
                results.Record(
                    NAME, protocol, value, "us", rival, raced.shape, "float16",
                    interval=(mine.low * 1e3, mine.high * 1e3), baseline=rival, baseline_value=theirs,
                    ratio=results.better(value, theirs, "us"), conditions=CONDITIONS[protocol],
                    extra={"choice": raced.best.name, "paired_ratio": [ratio.value, ratio.low, ratio.high]},
                )
            )  # fmt: skip
    words = "comparing every choice with float64 and trying it by the clock, without compiling"
    tried = {"tried": _rounded(raced.tried), "library": _rounded(raced.of_library), "wrong": raced.wrong}
    kept.append(
        results.Record(
            NAME,
            "search",
            raced.seconds,
            "s",
            "",
            raced.shape,
            "float16",
            conditions=words,
            extra=tried | {"choice": raced.best.name},
        )
    )
    return kept


def _rounded(times: Mapping[str, float]) -> dict[str, float]:
    return {name: round(time, 3) for name, time in times.items()}


def means_of(records: list[results.Record]) -> list[results.Record]:
    """For each protocol and rival the geometric mean of the ratios, of how many shapes, and how many were lost."""
    kept = []
    for protocol in CONDITIONS:
        for rival in (TORCH, CUBLAS, HEURISTIC, AUTOTUNED):
            ratios = [r.ratio for r in records if r.metric == protocol and r.variant == rival and r.ratio]
            if ratios:
                lost = {"shapes": len(ratios), "lost": sum(ratio < 1 for ratio in ratios)}
                mean = geometric_mean(ratios)
                kept.append(
                    results.Record(
                        NAME, f"geometric mean, {protocol}", mean, "times", rival, (), "float16",
                        conditions=f"times as fast as {rival}; {CONDITIONS[protocol]}", extra=lost,
                    )
                )  # fmt: skip
    return kept


def line_of(raced: Raced) -> str:
    """One line about one shape."""
    device = raced.times["device time"]
    rivals = [f"{name} {device.ratio(name, OURS).value:5.2f}" for name in device.samples if name != OURS]
    shape = " x ".join(f"{size:4}" for size in raced.shape)
    return f"{shape}  {device.time(OURS).value * 1e3:8.2f} us  {'  '.join(rivals)}  {raced.best.name}"


def earlier(path: Path, gpu: str) -> list[results.Record]:
    """The records of single shapes of an earlier run. Raises ResultsError if there is none, or if it was on another
    GPU."""
    kept = results.read(path)
    if kept.header.gpu != gpu:
        raise results.ResultsError(f"{path} was measured on an {kept.header.gpu}, not on an {gpu}: race all shapes.")
    return [record for record in kept.records if record.shape]


def _measure(begin: int, end: int) -> int:
    """Race the shapes from number `begin` up to `end`; the exit code."""
    device = present()
    if device is None:
        raise DeviceError("No GPU answers in this machine: `python -m benchmarks.search_space` needs none.")
    architecture = architecture_of(device)
    if not architecture.startswith("sm_90"):
        raise DeviceError(f"The race needs a Hopper GPU for wgmma, and this is a {device.name}.")
    from benchmarks.search.candidates import compiled

    header = results.make_header(COMMAND)
    file = results.of_gpu(FILE, header.gpu)
    before = earlier(file, header.gpu) if begin else []
    began, threads = perf_counter(), os.cpu_count() or 1
    cubins = compiled(CHOICES, architecture, threads)  # before this process has a context that its children could see
    words = f"{len(cubins)} kernels, {threads} at a time"
    fixed = [results.Record(NAME, "compiling", perf_counter() - began, "s", conditions=words)]
    print(f"compiled in {fixed[0].value:.1f} s", flush=True)

    from cuda.core import Device

    from warplab.gpu import executor

    with executor.on_stream() as stream:
        race = Race(stream, cubins, Device().properties.multiprocessor_count)
        records: list[results.Record] = []
        failed = 0
        for number, shape in list(enumerate(shapes.drawn()))[begin:end]:
            try:
                raced = race.run(shape, number)
            except WarplabError as error:  # a loss that no time says: the others are measured all the same
                print(error, file=sys.stderr, flush=True)
                failed += 1
                continue
            records += records_of(raced)
            print(line_of(raced), flush=True)
            more = [results.Record(NAME, "shapes without a right winner", failed, "shapes")]
            if race.left_out:
                more.append(results.Record(NAME, "rivals left out", 3, "rivals", conditions=race.left_out))
            found = [*fixed, *more, *means_of([*before, *records]), *records]
            results.write(file, header, found, merge=bool(begin))
    for record in means_of([*before, *records]):
        print(f"{record.metric:45} {record.variant:20} {record.value:.3f}  lost {record.extra['lost']}")
    return 1 if failed else 0


def main() -> int:
    """Exit code 0 once the file is written, 1 if a shape has no right winner, 3 without what it needs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=shapes.COUNT, help="race so many of the shapes only")
    parser.add_argument("--from", type=int, default=0, dest="begin", help="leave so many out, which an earlier run has")
    try:
        options = parser.parse_args()
        return _measure(options.begin, options.first)
    except (ImportError, WarplabError) as error:
        print(error, file=sys.stderr)
        return 3


if __name__ == "__main__":
    sys.exit(main())
