"""What a GPU sends in a step for each axis, over which links, and how long the links need for it.

| axis | what, for each micro-batch and layer unless said otherwise | source |
|---|---|---|
| tensor | four all-reduces of activations, two forward; or pairs of halves | Shoeybi et al. 2019, section 3 |
| context | keys and values gathered, forward and backward; their gradients scattered | Llama 3, section 3.3.2 |
| expert | tokens to their experts and back, forward and backward: four all-to-alls | Shazeer et al. 2017 |
| pipeline | activations to the next stage and their gradients back, for each chunk | Narayanan et al. 2021 |
| data | a step: gradients reduced, or scattered and weights gathered | ZeRO 2020, section 7 |
| data, ZeRO-2 | gradients scattered in every micro-batch, as no GPU keeps all of them | DeepSpeed, pull request 338 |
| data, ZeRO-3 | the same, and weights gathered twice in every micro-batch | ZeRO 2020, section 7 |

Each is a cost of `systems.network.costs`: inside the node where the axis has room there, in two levels where it has
not. An axis lies outside all that are named before it in `Layout`.
"""

from __future__ import annotations

from dataclasses import dataclass

from systems.network.collectives import Collective, bus_factor
from systems.network.costs import Algorithm, Level, cost, hierarchical
from systems.parallel.bubbles import copies
from systems.parallel.layout import Axis, Job, Layout
from systems.parallel.machines import Machine
from systems.parallel.memory import Shard, shard

GATHER, SCATTER, REDUCE = Collective.ALL_GATHER, Collective.REDUCE_SCATTER, Collective.ALL_REDUCE


@dataclass(frozen=True)
class Flow:
    """One GPU's traffic of an axis in a step: bytes it sends within its node and across, and the links' seconds."""

    axis: Axis
    inside: float
    across: float
    seconds: float


@dataclass(frozen=True)
class Group:
    """GPUs that exchange: `near` of them in each of `nodes` nodes."""

    near: int
    nodes: int

    @property
    def size(self) -> int:
        return self.near * self.nodes


def group(size: int, within: int, machine: Machine) -> Group:
    """A group of `size` GPUs, `within` GPUs apart from each other in rank order."""
    near = max(1, min(size, machine.node // within))
    while size % near:
        near -= 1
    return Group(near, size // near)


def collective(kind: Collective, size: float, members: Group, machine: Machine, reached: float) -> tuple[float, ...]:
    """Bytes inside, bytes across and seconds of a collective of `size` bytes, links at `reached` of their rate."""
    if members.size == 1:
        return 0.0, 0.0, 0.0
    near = Level(members.near, machine.inside_latency, machine.inside * reached)
    far = Level(members.nodes, machine.across_latency, machine.across * reached)
    share = size / members.near
    inside = bus_factor(kind, members.near) * size if members.near > 1 else 0.0
    across = bus_factor(kind, members.nodes) * share if members.nodes > 1 else 0.0
    if members.nodes == 1:
        inner = Algorithm.TWO_SHOT if kind is REDUCE else Algorithm.ONE_SHOT
        return inside, 0.0, cost(kind, inner, members.near).time(size, near.alpha, near.bandwidth)
    if members.near == 1:
        return 0.0, across, cost(kind, Algorithm.RING, members.nodes).time(size, far.alpha, far.bandwidth)
    return inside, across, hierarchical(kind, size, near, far)


def tensor(job: Job, layout: Layout, machine: Machine, reached: float, layers: float) -> Flow:
    """Of the stage with `layers` layers. With sequence parallelism the halves of each all-reduce are apart."""
    size = 2.0 * layout.micro_batch * job.sequence / layout.context * job.model.hidden
    times = 4 * layers * layout.micro_batches(job)
    inside, across, seconds = collective(REDUCE, size, group(layout.tensor, 1, machine), machine, reached)
    return Flow(Axis.TENSOR, times * inside, times * across, times * seconds)


def context(job: Job, layout: Layout, machine: Machine, reached: float, layers: float) -> Flow:
    """Keys and values of the whole sequence gathered at every GPU, as Llama 3 does; three times the bytes of once."""
    size = 2.0 * layout.micro_batch * job.sequence * job.model.key_value_width / layout.tensor
    times = 3 * layers * layout.micro_batches(job)
    members = group(layout.context, layout.tensor, machine)
    inside, across, seconds = collective(GATHER, size, members, machine, reached)
    return Flow(Axis.CONTEXT, times * inside, times * across, times * seconds)


def expert(job: Job, layout: Layout, machine: Machine, reached: float, moe_layers: float) -> Flow:
    """A token goes once to each node of its experts over the network, and from there to each expert over NVLink.

    Each GPU of a tensor-parallel group sends its share of the group's tokens.

    The nodes that `active` experts lie on, chosen at random of N, are N (1 - (1 - 1/N)^active), at most `nodes`.
    """
    experts, members = job.model.experts, group(layout.expert, layout.tensor * layout.context, machine)
    if experts is None or members.size == 1:
        return Flow(Axis.EXPERT, 0, 0, 0)
    tokens = layout.micro_batch * job.sequence / (layout.context * layout.tensor)
    visited = members.nodes * (1 - (1 - 1 / members.nodes) ** experts.active)
    visited = min(visited, experts.nodes or visited) * (members.nodes - 1) / members.nodes
    chosen = experts.active * (members.size - 1) / members.size
    width = job.model.hidden * (job.precision.dispatch + 2.0)  # there, and the results back
    times = 2 * moe_layers * layout.micro_batches(job) * tokens * width
    inside, across = (times * chosen if members.near > 1 else 0.0), times * visited
    return Flow(Axis.EXPERT, inside, across, max(inside / machine.inside, across / machine.across) / reached)


def pipeline(job: Job, layout: Layout, machine: Machine, reached: float) -> Flow:
    """Between stages, which lie in different nodes unless all else is small."""
    if layout.pipeline == 1:
        return Flow(Axis.PIPELINE, 0, 0, 0)
    tokens = layout.micro_batch * job.sequence / layout.context / layout.tensor
    size = 2 * layout.micro_batches(job) * layout.chunks * 2.0 * tokens * job.model.hidden
    near = layout.gpus // layout.pipeline * 2 <= machine.node
    rate = (machine.inside if near else machine.across) * reached
    return Flow(Axis.PIPELINE, size if near else 0, 0 if near else size, size / rate)


def data(job: Job, layout: Layout, machine: Machine, reached: float) -> tuple[Flow, Flow]:
    """Gradients, and weights, of a step. Experts' gradients have fewer replicas, further apart."""
    own = shard(job.model, layout)
    once = Shard(own.common / copies(layout.schedule), own.experts / copies(layout.schedule))
    common = group(layout.replicas, layout.tensor, machine)
    routed = group(layout.replicas // layout.expert, layout.tensor * layout.expert, machine)
    # A GPU that shards gradients (ZeRO-2) or weights (ZeRO-3) holds none in full between micro-batches.
    # DualPipe's two copies of a stage add up their gradients besides.
    many = layout.micro_batches(job)
    scatters = many if layout.zero >= 2 else 1
    gathers = 2 * many if layout.zero == 3 else 1  # for the forward pass, and again for the backward

    def both(kind: Collective, size: float, times: int) -> tuple[float, ...]:
        one = collective(kind, size * once.common, common, machine, reached)
        two = collective(kind, size * once.experts, routed, machine, reached)
        return tuple(times * (a + b) for a, b in zip(one, two, strict=True))

    gradients = both(SCATTER if layout.zero else REDUCE, job.precision.gradient, scatters)
    weights = both(GATHER, job.precision.weight, gathers) if layout.zero else (0.0, 0.0, 0.0)
    return Flow(Axis.DATA, *gradients), Flow(Axis.DATA, *weights)
