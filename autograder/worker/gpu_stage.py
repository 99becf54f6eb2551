"""What the judge asks of the process that holds the GPU: run a plan on given inputs, and time one against the roofline.

These functions are called by name through warplab.worker.process; what they take and give is plain data.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import cupy
import numpy as np
from cuda.core import Stream

from autograder.records.measurement import Library, Measurement, Unmeasured
from autograder.records.status import Status
from autograder.spec import inputs as families
from autograder.spec.lab import Lab, load_lab
from autograder.spec.score import efficiency_points
from autograder.spec.seeds import uniform
from autograder.spec.task import Array, Case, Ceiling, Family, Task, Values
from autograder.worker.compare import worst_ratio
from autograder.worker.judge_case import Run, judge_case
from autograder.worker.module_variables import keeps_state
from autograder.worker.physical_floor import impossible
from autograder.worker.second_call import OtherSize, later_calls
from warplab.errors import DeviceError
from warplab.gpu import calibrate, executor, library, trusted
from warplab.gpu.executor import LoadedPlan, on_stream
from warplab.gpu.sharing import TOLERATED, SharingProbe
from warplab.gpu.stopwatch import Candidate, Placed, TurnTimes, time_in_turns
from warplab.gpu.throttle import Throttle
from warplab.hardware.device import Device, architecture_of, present
from warplab.hardware.records import Math
from warplab.plan.archive import loads
from warplab.plan.capture.arrays import contiguous_strides
from warplab.plan.model import Buffer, Plan, Role

BUDGET_SECONDS = 1.0
PLACEMENTS = 4  # of all buffers: where they lie in the GPU's memory makes a difference, seen in docs/measuring.md
AUDITED = 4  # one turn of so many, drawn by the secret seed, is preceded by a launch that must be exactly right
PRECISION = 0.004  # width of the 95% interval of the efficiency at which sampling stops


class WrongOutput(Exception):
    """A timed launch computed something wrong."""


def correctness(plan: bytes, task: str, case: str, seed: int, other: tuple[str, bytes] | None = None) -> dict[str, Any]:
    """Judge the plan in the bytes of its file on one case of the lab in the folder `task`; `other` is that of
    `emulator_stage.run`.

    Gives CaseOutcome.to_wire()."""
    start = time.perf_counter()
    lab, device = load_lab(Path(task)).drawn(seed), _device()

    def execute(loaded: Plan, inputs: dict[str, np.ndarray], runs: int = 2) -> list[Run]:
        return [Run(execution) for execution in executor.execute(loaded, inputs, architecture_of(device), runs=runs)]

    def once(loaded: Plan, inputs: dict[str, np.ndarray]) -> list[Run]:
        return execute(loaded, inputs, runs=1)

    judged, captured = lab.case(case), loads(plan)
    outcome = judge_case(lab.task, judged, _on_the_host(lab.task, judged, seed), captured, execute)
    if outcome.status is Status.PASSED and keeps_state(captured):
        again = later_calls(lab.task, judged, seed, captured, once, OtherSize.of(lab.task, other))
        outcome = outcome if again.status is Status.PASSED else replace(again, findings=outcome.findings)
    outcome.seconds = time.perf_counter() - start
    return outcome.to_wire()


def _on_the_host(task: Task, case: Case, seed: int) -> Values:
    """The inputs of a case in the host's memory, drawn on the GPU, which is quicker, with no kernel of the submission
    there."""
    values = families.generate(cupy, task, case, seed)
    return {name: cupy.asnumpy(value) if isinstance(value, cupy.ndarray) else value for name, value in values.items()}


def make_context() -> None:
    """Make a context on the GPU and import what every lab takes, which takes some seconds. No kernel is run."""
    cupy.zeros(1)
    importlib.import_module("cupyx.scipy")  # CuPy does, SciPy and all, at its first reduction
    trusted.module()


def take(task: str, others_wait: bool = False) -> None:
    """Make a context on the GPU and import the library that `efficiency` times beside the lab in the folder `task`.

    No kernel is run: this has no turn, and whoever measures meanwhile would see the GPU shared."""
    make_context()
    lab = load_lab(Path(task))
    if not _is_hurried(lab, others_wait):
        library.load(lab.task.library)


def _is_hurried(lab: Lab, others_wait: bool) -> bool:
    """Whether the timing ends as soon as the points are certain. The mean of several cases gives no such points."""
    return others_wait and len(lab.task.timed_cases) == 1


def calibrate_once() -> None:
    """Measure this GPU's ceilings if none are kept, with nobody beside."""
    calibrate.measure(_device())


def warm_up(task: str) -> dict[str, Any]:
    """Compile what drawing inputs, running a plan and checking its outputs takes of CuPy for the lab in the folder
    `task`, into the cache on disk; gives the seconds that this took. Runs nothing of a submission."""
    start = time.perf_counter()
    device, lab = _device(), load_lab(Path(task))
    trusted.module()
    timed = [lab.case(name) for name in lab.task.timed_cases]
    families_drawn = {case.family for case in (*lab.task.correctness, *timed)} | {Family.INTEGERS}
    with on_stream() as stream:
        # CuPy compiles a reduction anew for other orders of magnitude: the sizes are those that will come
        for case in [*lab.task.correctness, *timed, *(replace(lab.task.profile, family=f) for f in families_drawn)]:
            with suppress(DeviceError, cupy.cuda.memory.OutOfMemoryError):  # what does not fit will not come
                loaded = LoadedPlan(_without_kernels(lab.task, case), architecture_of(device), stream)
                values = families.generate(cupy, lab.task, case, 0)
                loaded.reset(values)
                loaded.findings(values)
                if case in timed:
                    _try_checks(_Timed(lab.task, case, loaded, 0), values)
                loaded.erase()
        stream.sync()
    return {"seconds": time.perf_counter() - start}


def _try_checks(timed: _Timed, values: Values) -> None:
    """Let a candidate that computes nothing be prepared and checked, as it is in every turn."""
    with suppress(WrongOutput):
        timed.prepare(0)
    timed.loaded.reset(values)  # an audit has left other numbers there
    with suppress(WrongOutput):
        timed.check(0)


def _without_kernels(task: Task, case: Case) -> Plan:
    """A plan that launches nothing, with the buffers of the case's arrays."""
    buffers = {}
    for spec in task.arrays(Role.INPUT, Role.OUTPUT, Role.INOUT):
        shape = task.shape(spec, case.dimensions)
        strides = contiguous_strides(shape, np.dtype(spec.dtype).itemsize)
        buffers[spec.name] = Buffer(spec.name, spec.role, spec.dtype, shape, strides, zeroed=True)
    return Plan(task.function, {}, buffers, ())


def efficiency(
    plan: bytes,
    task: str,
    case: str,
    seed: int,
    dimensions: Mapping[str, int] | None = None,
    others_wait: bool = False,
) -> dict[str, Any]:
    """Time the plan in the bytes of its file on `case` of the lab in the folder `task`, with scalars drawn from `seed`.

    `dimensions` are other sizes than what the seed draws, as lessons and benchmarks want. The plan is loaded
    PLACEMENTS times, into buffers that lie elsewhere; times and ratios are means of the places' medians. Where
    `others_wait` for the GPU, the timing of a lab's only timed case ends as soon as its points are certain, and no
    library is timed beside it.
    Gives Measurement.to_wire(), or Unmeasured.to_wire() if a timed launch computed something wrong.
    """
    device, lab = _device(), load_lab(Path(task)).drawn(seed)
    timed = replace(lab.case(case), dimensions=dimensions or lab.case(case).dimensions)
    judged = loads(plan)
    with on_stream() as stream:
        placed: list[LoadedPlan] = []
        try:
            for _ in range(_placements(judged)):
                placed.append(LoadedPlan(judged, architecture_of(device), stream))
            hurried = lab if _is_hurried(lab, others_wait) else None
            return _against_the_roofline(device, lab.task, timed, placed, stream, seed, hurried).to_wire()
        finally:
            for loaded in placed:
                loaded.erase()


def _placements(plan: Plan) -> int:
    """How many times the plan's buffers are there: PLACEMENTS, or as often as a quarter of the memory has room for."""
    free, _ = cupy.cuda.runtime.memGetInfo()
    needed = sum(spec.nbytes for spec in plan.buffers.values())  # and again for the inputs that they are compared with
    return max(1, min(PLACEMENTS, int(free // (4 * max(needed, 1)))))


def _against_the_roofline(
    device: Device,
    task: Task,
    case: Case,
    placed: Sequence[LoadedPlan],
    stream: Stream,
    seed: int,
    hurried: Lab | None = None,
) -> Measurement | Unmeasured:
    """The submission's efficiency; for a `hurried` lab only as precise as its points need."""
    work = {Ceiling.COPY: task.bytes_moved(case.dimensions), task.compute_ceiling: task.flops(case.dimensions)}
    ceilings = {name.value: calibrate.CANDIDATES[name.value](stream) for name in work if name is not Ceiling.COPY}
    copies = calibrate.copies(stream, len(placed))
    launched = {name: ceiling.work for name, ceiling in ceilings.items()} | {Ceiling.COPY.value: copies[0].work}
    candidates: dict[str, Candidate] = {
        "submission": Placed([_Timed(task, case, loaded, seed) for loaded in placed]),
        Ceiling.COPY.value: Placed(copies),
        **ceilings,
    }
    rival = None if hurried else library.candidate(task.library, stream, case.dimensions)
    if rival is not None:
        candidates["library"] = rival
    sharing = candidates["sharing"] = SharingProbe(stream)
    expected_bound = _bounding(work)

    def points_certain(seen: TurnTimes) -> bool:
        assert hurried is not None
        name = expected_bound.value
        shares = seen.ratio(name, "submission")
        scale = work[expected_bound] / launched[name]
        least, most = (
            efficiency_points(scale * share, hurried.efficiency, hurried.points.efficiency)
            for share in (shares.low, shares.high)
        )
        return least == most

    with Throttle(device) as throttle:
        try:
            result = time_in_turns(
                candidates,
                stream,
                budget_seconds=BUDGET_SECONDS,
                precision=PRECISION,
                compare=("submission", expected_bound.value),
                placements=len(placed),
                enough=points_certain if hurried is not None else None,
            )
        except WrongOutput as wrong:
            return Unmeasured("wrong", str(wrong))
    measured = {name: amount / result.time(name).value * 1e3 for name, amount in launched.items()}
    floors = {name: work[Ceiling(name)] / rate * 1e3 for name, rate in measured.items()}
    bounding = max(floors, key=lambda name: floors[name])
    time = result.time("submission")
    ratio = result.ratio(bounding, "submission")
    scale = work[Ceiling(bounding)] / launched[bounding]
    datasheet = _datasheet(device)
    amounts = {name.value: amount for name, amount in work.items()}
    return Measurement(
        median_ms=time.value,
        low_ms=time.low,
        high_ms=time.high,
        samples=time.samples,
        floor_ms=floors[bounding],
        bound="memory" if bounding == Ceiling.COPY.value else "compute",
        efficiency=scale * ratio.value,
        efficiency_low=scale * ratio.low,
        efficiency_high=scale * ratio.high,
        ceilings=measured,
        datasheet=datasheet,
        throttled=throttle.seen,
        shared=sharing.share > TOLERATED,
        shared_fraction=sharing.share,
        library=_library(result, rival),
        throttle_reasons=tuple(throttle.reasons),
        work=amounts,
        message=impossible(time.value, amounts, datasheet),
    )


def _library(result: TurnTimes, rival: Any | None) -> Library | None:
    if rival is None:
        return None
    ratio = result.ratio("library", "submission")
    return Library(rival.label, result.time("library").value, ratio.value)


class _Timed:
    """The submission as a candidate: fresh inputs every turn, every output verified.

    For a task with an audit, some turns begin with a launch on whole numbers, which the device code cannot tell from a
    timed one by anything but its data, and whose output must be exactly right.
    """

    def __init__(self, task: Task, case: Case, loaded: LoadedPlan, seed: int) -> None:
        self.launches = len(loaded.plan.launches)
        self._task, self._case, self.loaded, self._seed = task, case, loaded, seed

    def prepare(self, turn: int) -> None:
        """Draw inputs that no launch has seen and poison the outputs. Raises WrongOutput if an audit fails."""
        if self._task.audit is not None and (turn == 0 or uniform(self._seed, "audit", turn) < 1 / AUDITED):
            self._audit(turn)
        self.loaded.reset(self._values(self._case, turn))

    def _values(self, case: Case, turn: int) -> Values:
        """The inputs of a turn, drawn anew: a copy that lay on the device while the submission's kernels ran could have
        been changed by them, together with the inputs, so that a wrong answer would look right."""
        return families.generate(cupy, self._task, case, self._seed, iteration=turn)

    def _audit(self, turn: int) -> None:
        assert self._task.audit is not None
        whole = replace(self._case, family=Family.INTEGERS)
        self.loaded.reset(self._values(whole, turn))
        self.loaded.launch()
        values, outputs = self._outputs(whole, turn)
        if not self._task.audit(cupy, values, outputs, self._seed ^ (turn & 0xFFFF)):
            raise WrongOutput("a launch among the timed ones gave a wrong result for whole numbers")

    def launch(self) -> None:
        """Queue the plan."""
        self.loaded.launch()

    def check(self, turn: int) -> None:
        """Verify this turn's output on the device. Raises WrongOutput."""
        worst = self._worst(*self._outputs(self._case, turn), turn)
        if not worst <= 1.0:
            raise WrongOutput(f"a timed launch gave a wrong result (error {worst:.3g} times what is allowed)")

    def _outputs(self, case: Case, turn: int) -> tuple[Values, dict[str, Array]]:
        """Inputs and outputs on the device, after the launch. Raises WrongOutput if it damaged anything else."""
        self.loaded.synchronize()
        values = self._values(case, turn)
        for finding in self.loaded.findings(values):
            raise WrongOutput(finding.message)
        outputs = {
            name: buffer.array
            for name, buffer in self.loaded.buffers.items()
            if buffer.spec.role in (Role.OUTPUT, Role.INOUT)
        }
        return values, outputs

    def _worst(self, values: Values, outputs: Mapping[str, Array], turn: int) -> float:
        if self._task.verify is not None:
            return float(self._task.verify(cupy, values, outputs, self._seed ^ (turn & 0xFFFF)))
        expected = self._task.expected(cupy, values)
        exact = self._task.exact(self._case)
        bounds = None if exact else self._task.bound(cupy, values)
        return max(
            worst_ratio(cupy, outputs[name], expected[name], cupy.zeros(1) if bounds is None else bounds[name])
            for name in outputs
        )


def _bounding(work: Mapping[Ceiling, float]) -> Ceiling:
    """The ceiling that bounds the work by the rates kept for this GPU; settles which ratio must become precise."""
    kept = calibrate.measure(_device())
    return max(work, key=lambda name: work[name] / getattr(kept, name.value))


def _datasheet(device: Device) -> dict[str, float]:
    """Peak rates of the GPU's datasheet by ceiling name; empty for a GPU whose datasheet is not on file."""
    chip = device.chip
    if chip is None:
        return {}
    peaks = {
        Ceiling.COPY.value: chip.bandwidth,
        Ceiling.FP32_FMA.value: chip.peak(Math.FP32),
        Ceiling.TENSOR_FP16.value: chip.peak(Math.FP16_TENSOR),
        Ceiling.TENSOR_FP8.value: chip.peak(Math.FP8_TENSOR),
    }
    return {name: float(peak) for name, peak in peaks.items() if peak}


def _device() -> Device:
    device = present()
    if device is None:
        raise DeviceError("no GPU answers in this machine; `autograder doctor` says more")
    return device
