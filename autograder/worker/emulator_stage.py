"""Runs one case on the emulator, inside a worker process: an endless or crashing case costs only itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from autograder.records.status import Status
from autograder.spec.inputs import generate
from autograder.spec.lab import load_lab
from autograder.spec.task import Task
from autograder.worker import two_ranks
from autograder.worker.judge_case import Run, judge_case
from autograder.worker.module_variables import keeps_state
from autograder.worker.orders import in_orders
from autograder.worker.second_call import OtherSize, later_calls
from autograder.worker.worst_request import worst_request
from warplab.emulator.orders import Order
from warplab.hardware.chips import H200
from warplab.plan.archive import loads
from warplab.plan.execution import COUNTERS_NOTE, Counters, Execution, Writer
from warplab.plan.model import EMULATED_ARCHITECTURE, Buffer, Kernel, Language, Launch, Parameter, Plan, Pointer, Role

MOST_PRINTED = 2000  # characters
INSTRUCTION_BUDGET = 100_000_000  # warp instructions of a case's launches: far more than one takes, a few seconds

_PROBE = """
.version 9.0
.target sm_90a
.address_size 64
.visible .entry probe(.param .u64 probe_param_0)
{
    .reg .b32 %r<3>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [probe_param_0];
    cvta.to.global.u64 %rd2, %rd1;
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd2, %rd2, %rd3;
    st.global.u32 [%rd2], %r1;
    ret;
}
"""


def run(plan: bytes, task: str, case: str, seed: int, other: tuple[str, bytes] | None = None) -> dict[str, Any]:
    """Judge the plan in the bytes of its file on one case of the lab in the folder `task`.

    `other` has the name and the plan of a case of another size, for kernels that keep state from call to call.
    Gives CaseOutcome.to_wire(). Raises PlanError for a plan that leaves what the emulator supports."""
    from warplab import emulator

    start, busy = time.perf_counter(), time.process_time()
    lab = load_lab(Path(task)).drawn(seed)
    executions: list[Execution] = []

    def execute_in(order: Order, loaded: Plan, inputs: dict[str, np.ndarray], **options: Any) -> Execution:
        return emulator.execute(
            loaded,
            inputs,
            architecture=_architecture(loaded),
            instruction_budget=INSTRUCTION_BUDGET,
            reverse=order.reverse,
            seed=order.seed,
            **options,
        )

    def execute(loaded: Plan, inputs: dict[str, np.ndarray]) -> list[Run]:
        # The emulator is deterministic and finds races and uninitialised reads by itself, so each order needs one run.
        # In the fixed one asynchronous operations complete as late as they can; one that must not complete earlier
        # shows in another, and so does a result that depends on which block or warp comes first.
        runs = in_orders(lambda order: execute_in(order, loaded, inputs), loaded, _architecture(loaded), seed)
        executions.extend(execution for _, execution in runs)
        return [
            Run(execution, str(order), partial(find_writer, order, loaded, inputs) if shown else None)
            for order, execution in runs
        ]

    def find_writer(order: Order, loaded: Plan, inputs: dict[str, np.ndarray], output: str, byte: int) -> Writer | None:
        # What sanitizers find is known from the first run.
        return execute_in(order, loaded, inputs, sanitize=False, watch=(output, byte)).writer

    def execute_once(loaded: Plan, inputs: dict[str, np.ndarray]) -> list[Run]:
        return [Run(execute_in(Order(), loaded, inputs))]

    judged, loaded = lab.case(case), loads(plan)
    shown = judged != lab.task.profile  # of that only counters and findings are, and of no other counters
    draw = partial(generate, np, lab.task, judged, seed)
    outcome = judge_case(lab.task, judged, draw(), loaded, execute)
    if not judged.hidden:
        outcome.printed = executions[0].stdout[:MOST_PRINTED]
    launches = [launch for execution in executions for launch in execution.launches]
    outcome.code = sorted({line for launch in launches for line in launch.code_lines})
    outcome.ran = sorted({line for launch in launches for line in launch.ran_lines})
    if not shown:
        outcome.counters = counters_of(lab.task, executions[0], loaded, draw)
        outcome.lines = executions[0].lines
        outcome.counters_note = executions[0].notes.get(COUNTERS_NOTE, "")
        if outcome.status is Status.PASSED:
            outcome.worst_request = worst_request(loaded, draw, executions[0], outcome.counters, _architecture(loaded))
    if outcome.status is Status.PASSED and keeps_state(loaded):
        size = OtherSize.of(lab.task, other)
        again = later_calls(lab.task, judged, seed, loaded, execute_once, size)
        if again.status is not Status.PASSED:
            outcome = replace(
                again,
                findings=outcome.findings,
                counters=outcome.counters,
                lines=outcome.lines,
                code=outcome.code,
                ran=outcome.ran,
                counters_note=outcome.counters_note,
                worst_request=outcome.worst_request,
            )
    outcome.seconds, outcome.processor_seconds = time.perf_counter() - start, time.process_time() - busy
    return outcome.to_wire()


def counters_of(task: Task, execution: Execution, plan: Plan, draw: Callable[[], Mapping[str, Any]]) -> Counters:
    """The counters of all launches, for the budgets. The estimated time, the busiest SM's reads and the traffic between
    two ranks are filled where a budget is on them; for the last two the plan runs again on the values of `draw`."""
    from warplab import emulator
    from warplab.emulator.model.estimate import timed_total

    def again(**options: Any) -> Execution:
        values = draw()
        return emulator.execute(
            plan,
            {name: values[name] for name in plan.buffers if name in values},
            architecture=_architecture(plan),
            instruction_budget=INSTRUCTION_BUDGET,
            sanitize=False,
            **options,
        )

    budgets = {budget.counter for budget in task.budgets}
    total = timed_total(execution) if "estimated_nanoseconds" in budgets else execution.total
    if execution.findings:
        return total
    if budgets & set(two_ranks.LINK):
        return two_ranks.counted(task, execution, plan, again)
    if "busiest_sm_sectors" in budgets:
        launches = again(caches=H200, reads_only=True).launches
        busiest = sum(launch.caches.most_read_by_an_sm for launch in launches if launch.caches)
        return replace(total, busiest_sm_sectors=busiest)
    return total


def _architecture(plan: Plan) -> str:
    return next(iter(next(iter(plan.kernels.values())).ptx))


def parts_needed(plans: Iterable[Plan]) -> list[str]:
    """The parts of `warplab.emulator.compiled` that some kernel of the plans needs beside those that every one does."""
    from warplab.emulator import compiled

    texts = (text for plan in plans for kernel in plan.kernels.values() for text in kernel.ptx.values())
    return [part for part in compiled.parts_for(texts) if part not in compiled.ALWAYS]


def missing_parts(parts: Sequence[str] = ()) -> list[str]:
    """What is not yet compiled of the emulator and these further parts of it."""
    from warplab.emulator import compiled

    needed = (*compiled.ALWAYS, *(compiled.Piece(part) for part in parts))
    return [str(part) for part in needed if not compiled.is_kept(part)]


def warm_up(parts: Sequence[str] = ()) -> dict[str, Any]:
    """Compile and load the emulator, with these further parts of it; gives the seconds that this took.

    What is compiled on first use must not be compiled within a case's time limit: a right kernel would look endless.
    """
    from warplab import emulator
    from warplab.emulator import compiled

    start = time.perf_counter()
    ptx = {EMULATED_ARCHITECTURE: _PROBE}
    kernel = Kernel("probe", "probe", Language.CUDA_CPP, (Parameter("probe_param_0", 8, 8),), ptx)
    buffer = Buffer("out", Role.OUTPUT, "uint32", (32,), (4,))
    launch = Launch("probe", (1, 1, 1), (32, 1, 1), (Pointer("out"),))
    execution = emulator.execute(Plan("probe", {"probe": kernel}, {"out": buffer}, (launch,)), {})
    if execution.outputs["out"].tolist() != list(range(32)):
        raise RuntimeError("the emulator computes wrong results on this machine")
    for part in parts:
        compiled.address(compiled.Piece(part))
    return {"seconds": time.perf_counter() - start}
