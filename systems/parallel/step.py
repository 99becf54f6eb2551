"""How long a step takes: compute, what of the traffic is not hidden, the bubble, the optimizer.

    step = m x (slowest stage's forward and backward + its exposed traffic) + bubble + exposed data traffic + update

A stage's compute is matrix products at a share of the peak, and element-wise work at HBM's rate. Traffic of an
overlapped axis is exposed only where it takes longer than the compute beside it: the backward pass of the last
micro-batch for gradients, the forward pass of the first for weights, all of the work for the rest together.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from systems.parallel import traffic
from systems.parallel.bubbles import bubble
from systems.parallel.calibration import LINKS, PRODUCTS, UPDATE
from systems.parallel.compute import slowest
from systems.parallel.layout import Axis, Job, Layout
from systems.parallel.machines import Machine
from systems.parallel.memory import Memory, memory, shard
from systems.parallel.traffic import Flow
from warplab.hardware.records import Math


@dataclass(frozen=True)
class Step:
    """One step of a job: its parts in seconds on the GPU that is busiest, memory in bytes, traffic a GPU."""

    job: Job
    layout: Layout
    machine: Machine
    memory: Memory
    flows: tuple[Flow, ...]
    products: float
    hbm: float
    recomputed: float
    exposed: dict[Axis, float]
    bubble: float
    update: float

    @cached_property
    def seconds(self) -> float:
        work = self.products + self.hbm + self.recomputed
        return work + sum(self.exposed.values()) + self.bubble + self.update

    @property
    def utilisation(self) -> float:
        """Model FLOPs utilisation (MFU): model FLOP over what the bfloat16 peak could have done in the time.

        It can be above 1 with FP8 or long sequences: model FLOP contain the half of attention that a mask spares.
        """
        peak = self.machine.peak(Math.BF16_TENSOR) * self.layout.gpus
        return self.job.model.step_flops(self.job.tokens, self.job.sequence) / (self.seconds * peak)

    @property
    def tokens_a_second(self) -> float:
        """Of one GPU."""
        return self.job.tokens / self.seconds / self.layout.gpus

    @property
    def fits(self) -> bool:
        """Whether the fullest GPU's bytes leave a tenth of its memory for the allocator, NCCL and the context."""
        return self.memory.total <= 0.9 * self.machine.chip.memory

    @property
    def parts(self) -> dict[str, float]:
        """The seconds by name; traffic is what is exposed of it."""
        parts = {"matrix products": self.products, "HBM": self.hbm, "recomputed": self.recomputed}
        parts |= {f"{axis} traffic": seconds for axis, seconds in self.exposed.items()}
        return parts | {"bubble": self.bubble, "update": self.update}

    @property
    def bound(self) -> str:
        """The largest part that is not matrix products, or "compute" if they are more than all others together."""
        if self.products >= self.seconds / 2:
            return "compute"
        return max((name for name in self.parts if name != "matrix products"), key=self.parts.__getitem__)


def plan(job: Job, layout: Layout, machine: Machine, products: float | None = None) -> Step:
    """The step. Raises LayoutError if the layout cannot run the job; a job that is too large for memory has a plan.

    `products` is the share of the peak that matrix products reach; None: that of `calibration`.
    """
    layout.check(job)
    reached = products or PRODUCTS[machine.generation]
    stage, many = slowest(job, layout, machine, reached), layout.micro_batches(job)
    flows = [
        traffic.tensor(job, layout, machine, LINKS, stage.layers),
        traffic.context(job, layout, machine, LINKS, stage.layers),
        traffic.expert(job, layout, machine, LINKS, stage.moe_layers),
        traffic.pipeline(job, layout, machine, LINKS),
    ]
    work = many * stage.seconds
    gradients, weights = traffic.data(job, layout, machine, LINKS)
    beside = (stage.backward, stage.forward) if Axis.DATA in layout.overlapped else (0.0, 0.0)
    # ZeRO-3 moves all of it while micro-batches run; of ZeRO-2 the last scatter comes when no work is left.
    last = gradients.seconds / many if layout.zero == 2 else gradients.seconds
    running = gradients.seconds + weights.seconds if layout.zero == 3 else gradients.seconds - last
    late = max(0.0, last - beside[0]) + max(0.0, weights.seconds - beside[1]) if layout.zero < 3 else 0.0
    exposed = _exposed([*flows, Flow(Axis.DATA, 0, 0, running)], layout, work)
    slow = sum(exposed.values()) / many  # of one micro-batch
    exposed[Axis.DATA] += late
    waits = bubble(
        layout.schedule, layout.pipeline, stage.forward + slow / 3, stage.backward + slow * 2 / 3, stage.weights,
        layout.chunks,
    )  # fmt: skip
    own, sharded = shard(job.model, layout), layout.zero > 0
    updated = own.common / (layout.replicas if sharded else 1)
    updated += own.experts / (layout.replicas / layout.expert if sharded else 1)
    all_data = (getattr(gradients, what) + getattr(weights, what) for what in ("inside", "across", "seconds"))
    return Step(
        job=job,
        layout=layout,
        machine=machine,
        memory=memory(job, layout),
        flows=(*flows, Flow(Axis.DATA, *all_data)),
        products=many * stage.products,
        hbm=many * stage.bytes,
        recomputed=many * stage.again,
        exposed=exposed,
        bubble=waits,
        update=updated * UPDATE / machine.chip.bandwidth,
    )


def _exposed(flows: list[Flow], layout: Layout, work: float) -> dict[Axis, float]:
    """Seconds of each axis that are not hidden: all of it, or its share of what is more than `work` together."""
    hidden = sum(flow.seconds for flow in flows if flow.axis in layout.overlapped)
    share = max(0.0, 1 - work / hidden) if hidden else 0.0
    return {flow.axis: flow.seconds * (share if flow.axis in layout.overlapped else 1.0) for flow in flows}
