"""Every layout of a job over a machine's GPUs that fits into memory, best first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from systems.parallel.layout import Job, Layout, Recompute, Schedule
from systems.parallel.machines import Machine
from systems.parallel.shapes import LayoutError
from systems.parallel.step import Step, plan

# Without whole-layer recomputation first: of two plans that take equally long the first one stays.
_RECOMPUTE = (Recompute.NONE, Recompute.FULL)
_CONTEXTS = (1, 2, 4, 8, 16)


def divisors(number: int) -> list[int]:
    """In rising order."""
    return [one for one in range(1, number + 1) if number % one == 0]


def layouts(
    job: Job, machine: Machine, gpus: int, schedules: Sequence[Schedule] = (Schedule.ONE_F_ONE_B,)
) -> Iterator[Layout]:
    """All that can run the job: tensor within a node, context in powers of two, experts within data x context.

    Pipelines are interleaved as far as layers allow in powers of two; with them ZeRO goes to stage 1, without to 3.
    """
    model = job.model
    for tensor in divisors(min(gpus, machine.node)):
        if gpus % tensor or model.heads % tensor:
            continue
        for pipeline in divisors(gpus // tensor):
            if pipeline > model.layers:
                break
            for context in _CONTEXTS:
                if gpus % (tensor * pipeline * context):
                    continue
                data = gpus // (tensor * pipeline * context)
                first = Layout(data=data, tensor=tensor, pipeline=pipeline, context=context)
                yield from _variants(job, first, schedules)


def _variants(job: Job, first: Layout, schedules: Sequence[Schedule]) -> Iterator[Layout]:
    experts = divisors(job.model.experts.count) if job.model.experts else [1]
    chunks = [2**power for power in range(10) if first.pipeline * 2**power <= job.model.layers]
    for schedule in schedules if first.pipeline > 1 else schedules[:1]:
        for many in chunks if schedule is Schedule.ONE_F_ONE_B and first.pipeline > 1 else [1]:
            for expert in experts:
                for micro_batch in (1, 2, 4):
                    for recompute in _RECOMPUTE:
                        for zero in (1, 3) if first.pipeline == 1 else (1,):
                            layout = replace(
                                first, schedule=schedule, chunks=many, expert=expert, micro_batch=micro_batch,
                                recompute=recompute, zero=zero,
                            )  # fmt: skip
                            try:
                                layout.check(job)
                            except LayoutError:
                                continue
                            yield layout


def search(
    job: Job, machine: Machine, gpus: int, schedules: Sequence[Schedule] = (Schedule.ONE_F_ONE_B,)
) -> list[Step]:
    """Plans that fit, the shortest step first. Raises LayoutError if none does, with what the smallest would need."""
    plans = [plan(job, layout, machine) for layout in layouts(job, machine, gpus, schedules)]
    if not plans:
        raise LayoutError(f"No layout of {gpus} GPUs can run {job.batch} sequences: choose sizes with more divisors.")
    fitting = [one for one in plans if one.fits]
    if not fitting:
        least = min(one.memory.total for one in plans)
        raise LayoutError(
            f"No layout of {gpus} GPUs fits: the smallest needs {least / 1e9:.0f} GB a GPU, and a tenth of the "
            f"{machine.chip.name}'s {machine.chip.memory / 1e9:.0f} GB is kept free. Take more GPUs."
        )
    return sorted(fitting, key=lambda one: one.seconds)
