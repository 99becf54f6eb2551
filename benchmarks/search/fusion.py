"""One kernel beside PyTorch's five, and beside what torch.compile makes of them: `python -m benchmarks.search.fusion`.

The operator is lab 05's masked softmax, for which PyTorch has no single call: scale, mask, softmax, and zeros where a
whole row is masked. Lab 05's references and PyTorch read the same inputs on the GPU, every output is checked by the
lab's own verification, and all take turns in two protocols of benchmarks.search.protocols: device time with a cold L2,
and the host's clock from the call to its end. Writes benchmarks/results/fusion.json. Needs a GPU, PyTorch and Triton.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from autograder.own_work import capture_submission
from autograder.records.machine import choose_machine
from autograder.spec.inputs import generate
from autograder.spec.lab import SUBMISSION_NAMES, find_lab, solutions_folder
from autograder.spec.task import Task, Values
from course import results
from course.results import Record
from warplab.plan.archive import dumps
from warplab.worker.process import Worker

COMMAND = "python -m benchmarks.search.fusion"
NAME = "masked softmax"
LAB = "05_softmax"
EAGER, COMPILED = "torch, eager", "torch.compile"
# Rows and elements of a row: 2^26 elements in all, as rows.json has them, and what is small enough for launches to show
SHAPES = ((131072, 512), (16384, 4096), (1024, 65536), (4096, 4096), (256, 4096), (32, 1024))
BUDGET_SECONDS = 2.0
TORCH_LAUNCHES = 12  # five, each as long on the host as two of ours: the stopwatch hides that
CONDITIONS = "float32, a mask of bytes, half of it set"


def masked_softmax(scale: float, x: Any, mask: Any) -> Any:
    """What the lab asks for, in PyTorch's operators: x float32 and mask uint8, m x n; a masked row is one of zeros."""
    return (scale * x).masked_fill(mask == 0, float("-inf")).softmax(dim=1).nan_to_num(0.0)


def main() -> int:
    """Measure every shape and write; what was measured before a failure is kept. Raises WarplabError."""
    machine, lab = choose_machine("gpu"), find_lab(LAB)
    header, records = results.make_header(COMMAND), []
    paths = [path for name in SUBMISSION_NAMES if (path := solutions_folder() / LAB / name).exists()]
    for shape in SHAPES:
        case = replace(lab.task.timing, dimensions=dict(zip(("m", "n"), shape, strict=True)))
        plans = {}
        for path in paths:
            captured = capture_submission(lab, path, (case, lab.task.profile), 0, machine.architecture)
            plans[f"lab 05, {path.stem}"] = dumps(captured.plans[case.name])
        with Worker() as worker:  # a fresh process: what torch.compile kept of other shapes would be reused
            said = worker.call("benchmarks.search.fusion:raced", timeout=600, plans=plans, shape=list(shape))
        for record in records_of(shape, said):
            records.append(record)
            print(
                f"{shape} {record.metric} {record.variant}: {record.value:.2f} us, {record.ratio or 1:.2f}", flush=True
            )
        results.write(results.DIRECTORY / "fusion.json", header, records)
    return 0


def records_of(shape: tuple[int, ...], said: Mapping[str, Mapping[str, Any]]) -> Iterator[Record]:
    """A record a way and protocol; `ratio` is how many times as fast the first of ours is as that way."""
    for metric, ways in said.items():
        ours = next(iter(ways))
        for way, found in ways.items():
            yield Record(
                NAME,
                metric,
                found["us"],
                "us",
                variant=way,
                shape=shape,
                dtype="float32",
                interval=(found["low"], found["high"]),
                baseline=None if way == ours else ours,
                baseline_value=None if way == ours else ways[ours]["us"],
                ratio=None if way == ours else ways[ours]["us"] / found["us"],
                conditions=f"{CONDITIONS}, {found['turns']} turns",
            )


class _Way:
    """A way to the output as a candidate, on the same inputs as all; so many launches, as the stopwatch counts them."""

    def __init__(self, launches: int, work: Callable[[], Any], check: Callable[[Any], None]) -> None:
        self.launches = launches
        self._work, self._check = work, check
        self._out: Any = None

    def prepare(self, turn: int) -> None:
        """Nothing: the inputs are there."""

    def launch(self) -> None:
        """Queue the work."""
        self._out = self._work()

    def check(self, turn: int) -> None:
        """Verify the output in the first turns, which are not counted."""
        if turn < 0:
            self._check(self._out)


def raced(plans: Mapping[str, bytes], shape: list[int]) -> dict[str, dict[str, dict[str, float]]]:
    """In a process with the GPU: by metric and way the microseconds, their interval and turns. Raises ValueError for a
    wrong output."""
    import cupy
    import torch

    from benchmarks.search import protocols
    from warplab.gpu.executor import LoadedPlan, on_stream
    from warplab.gpu.stopwatch import ColdCache, TurnTimes, time_in_turns
    from warplab.hardware.device import architecture_of, present
    from warplab.plan.archive import loads

    task, device = find_lab(LAB).task, present()
    assert device is not None
    case = replace(task.timing, dimensions=dict(zip(("m", "n"), shape, strict=True)))

    def by_plan(loaded: LoadedPlan) -> Any:
        loaded.launch()
        return loaded.buffers["out"].array

    def by_torch(call: Callable[[], Any]) -> Any:
        with torch.cuda.stream(beside):
            return call()

    with on_stream() as stream:
        values = generate(cupy, task, case, 0)
        candidates: dict[str, Any] = {}
        for name, content in plans.items():
            loaded = LoadedPlan(loads(content), architecture_of(device), stream)
            loaded.reset(values)
            candidates[name] = _Way(
                len(loaded.plan.launches), partial(by_plan, loaded), _checker(cupy, task, values, name)
            )
        beside = torch.cuda.ExternalStream(int(stream.handle))
        x, mask, scale = torch.from_dlpack(values["x"]), torch.from_dlpack(values["mask"]), float(values["scale"])
        for name, call in ((EAGER, masked_softmax), (COMPILED, torch.compile(masked_softmax))):
            work = partial(by_torch, partial(call, scale, x, mask))
            candidates[name] = _Way(TORCH_LAUNCHES, work, _checker(cupy, task, values, name))
        found = {"device time": time_in_turns(candidates, stream, budget_seconds=BUDGET_SECONDS)}
        found["offline time"] = protocols.offline(candidates, stream, ColdCache(stream))

    def of(times: TurnTimes) -> dict[str, dict[str, float]]:
        ways = {}
        for name in candidates:
            time = times.time(name)
            ways[name] = {"us": time.value * 1e3, "low": time.low * 1e3, "high": time.high * 1e3, "turns": times.turns}
        return ways

    return {metric: of(times) for metric, times in found.items()}


def _checker(cupy: Any, task: Task, values: Values, name: str) -> Callable[[Any], None]:
    def check(out: Any) -> None:
        assert task.verify is not None
        worst = task.verify(cupy, values, {"out": cupy.asarray(out)}, 0)
        if not worst <= 1:
            raise ValueError(f"{name} is wrong: {worst:.3g} times the error that lab 05 allows")

    return check


if __name__ == "__main__":
    sys.exit(main())
