"""Published training runs of data/runs.toml, and how far the planner is off from each.

All are compared as model FLOPs utilisation in one convention, `Model.step_flops`: what a document gives as seconds,
tokens or TFLOP/s is turned into it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from math import log
from pathlib import Path
from typing import Annotated

import msgspec

from systems.parallel import step
from systems.parallel.layout import PRECISIONS, Axis, Job, Layout, Recompute, Schedule
from systems.parallel.machines import MACHINES, Machine
from systems.parallel.models import DATA, Count, Text, find_model, read
from systems.parallel.shapes import LayoutError, gpt
from warplab.hardware.records import Math

Positive = Annotated[float, msgspec.Meta(gt=0)]
_FIGURES = ("seconds", "tokens", "model_tflops", "hardware_tflops")


class _Shape(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    layers: Count
    hidden: Count
    heads: Count
    vocabulary: Count


class _Layout(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    data: Count
    tensor: Count = 1
    pipeline: Count = 1
    expert: Count = 1
    context: Count = 1
    micro_batch: Count = 1
    chunks: Count = 1
    schedule: Schedule = Schedule.ONE_F_ONE_B
    zero: int = 1
    recompute: Recompute = Recompute.NONE
    sequence: bool = True
    flash: bool = True
    overlapped: frozenset[Axis] = frozenset(Axis)


class _Run(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: Text
    document: Text
    place: Text
    machine: Text
    batch: Count
    sequence: Count
    layout: _Layout
    model: str | None = None
    gpt: _Shape | None = None
    precision: str = "megatron"
    seconds: Positive | None = None
    tokens: Positive | None = None
    model_tflops: Positive | None = None
    hardware_tflops: Positive | None = None
    assumed: tuple[str, ...] = ()
    fit: bool = False


class _Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    title: Text
    url: Text


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    documents: dict[str, _Document]
    runs: tuple[_Run, ...]


@dataclass(frozen=True)
class Run:
    """A published run. `published` is its utilisation, `assumed` what its document does not say."""

    name: str
    title: str
    url: str
    place: str
    job: Job
    layout: Layout
    machine: Machine
    published: float
    assumed: tuple[str, ...]
    fit: bool

    def planned(self, products: float | None = None) -> float:
        """The planner's utilisation; `products` instead of the calibrated constant."""
        if products is None:
            return step.plan(self.job, self.layout, self.machine).utilisation
        return step.plan(self.job, self.layout, self.machine, products).utilisation

    @property
    def error(self) -> float:
        """Planned over published, less one."""
        return self.planned() / self.published - 1


@cache
def runs() -> tuple[Run, ...]:
    """All published runs. Raises LayoutError for a file that is not as it should be."""
    return read_runs(DATA / "runs.toml")


def read_runs(path: Path) -> tuple[Run, ...]:
    """The runs of a file. Raises LayoutError, whose text names the file, the run and what is wrong."""
    file = read(path, _File)
    return tuple(_run(path, file, one) for one in file.runs)


def _run(path: Path, file: _File, one: _Run) -> Run:
    if sum(getattr(one, name) is not None for name in _FIGURES) != 1:
        raise LayoutError(f"{path}: {one.name!r} needs exactly one of {', '.join(_FIGURES)}.")
    if (one.model is None) == (one.gpt is None):
        raise LayoutError(f"{path}: {one.name!r} needs either a model or a gpt.")
    if one.document not in file.documents or one.machine not in MACHINES or one.precision not in PRECISIONS:
        raise LayoutError(f"{path}: {one.name!r} names a document, machine or precision that does not exist.")
    shape = find_model(one.model) if one.model else None
    if one.gpt is not None:
        shape = gpt(one.name, one.gpt.layers, one.gpt.hidden, one.gpt.heads, one.gpt.vocabulary)
    assert shape is not None
    job = Job(shape, one.batch, one.sequence, PRECISIONS[one.precision])
    machine = MACHINES[one.machine]
    layout = _settled(job, Layout(**msgspec.structs.asdict(one.layout)), machine, one.assumed)
    document = file.documents[one.document]
    published = _utilisation(one, job, layout, machine)
    return Run(one.name, document.title, document.url, one.place, job, layout, machine, published, one.assumed, one.fit)


def _settled(job: Job, layout: Layout, machine: Machine, assumed: tuple[str, ...]) -> Layout:
    """What a document does not say is as the planner would choose it: the fastest that fits, else the least memory."""
    micro_batches = (1, 2, 4) if "micro_batch" in assumed else (layout.micro_batch,)
    chunks = [layout.chunks]
    if "chunks" in assumed:
        chunks = [many for many in range(1, 9) if layout.pipeline * many <= job.model.layers + 2]
    choices = []
    for micro_batch in micro_batches:
        for many in chunks:
            choice = replace(layout, micro_batch=micro_batch, chunks=many)
            try:
                choices.append(step.plan(job, choice, machine))
            except LayoutError:
                continue
    fitting = [one for one in choices if one.fits]
    if fitting:
        return min(fitting, key=lambda one: one.seconds).layout
    return min(choices, key=lambda one: one.memory.total).layout


def _utilisation(one: _Run, job: Job, layout: Layout, machine: Machine) -> float:
    peak, flops = machine.peak(Math.BF16_TENSOR), job.model.step_flops(job.tokens, job.sequence)
    if one.seconds:
        return flops / (one.seconds * layout.gpus * peak)
    if one.tokens:
        return one.tokens * flops / job.tokens / peak
    if one.model_tflops:
        return one.model_tflops * 1e12 / peak
    assert one.hardware_tflops is not None
    logits = 6.0 * job.tokens * job.model.embedding_parameters  # not computed again
    return one.hardware_tflops * 1e12 / peak * flops / ((flops - logits) * 4 / 3 + logits)


def without(one: Run) -> float:
    """The planner's utilisation of a run with the constant fitted anew to the `fit` runs of its generation but this."""
    others = tuple(r for r in runs() if r.fit and r.machine.generation == one.machine.generation and r.name != one.name)
    return one.planned(fitted(others))


def fitted(some: tuple[Run, ...]) -> float:
    """The share of the peak for products that makes the mean of log(planned / published) zero, to a thousandth."""
    low, high = 0.05, 1.5
    while high - low > 1e-4:
        middle = (low + high) / 2
        if sum(log(run.planned(middle) / run.published) for run in some) > 0:
            high = middle
        else:
            low = middle
    return (low + high) / 2
