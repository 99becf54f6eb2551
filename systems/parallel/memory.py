"""Memory a GPU: weights, gradients, optimizer and activations, in bytes.

What is stored of a layer's activations for the backward pass is counted as by Korthikanti et al. 2022 (section 4),
tensor by tensor, for any widths: 16-bit values, one-byte dropout masks. For a GPT of width h that is their
s b h (34 + 5 a s / h), of which 10 s b h are outside of what tensor parallelism splits.
"""

from __future__ import annotations

from dataclasses import dataclass

from systems.parallel.bubbles import copies, held
from systems.parallel.layout import Job, Layout, Recompute
from systems.parallel.shapes import Model


@dataclass(frozen=True)
class Memory:
    """Bytes on the fullest GPU."""

    weights: float
    gradients: float
    optimizer: float
    activations: float

    @property
    def total(self) -> float:
        return self.weights + self.gradients + self.optimizer + self.activations


@dataclass(frozen=True)
class Shard:
    """Parameters that one GPU computes with: what all of a data-parallel group have, and its routed experts."""

    common: float
    experts: float

    @property
    def total(self) -> float:
        return self.common + self.experts


def shard(model: Model, layout: Layout) -> Shard:
    """The fullest GPU's parameters: its share of the layers and one embedding table; both without a pipeline."""
    layers = layout.pipeline / copies(layout.schedule)
    dense = model.dense_layers * (model.attention_parameters + model.mlp_parameters(model.ffn))
    sparse = model.moe_layers * model.common_parameters
    tables = 1 if layout.pipeline > 1 or model.tied else 2
    common = ((dense + sparse) / layers + tables * model.embedding_parameters) / layout.tensor
    experts = model.moe_layers * model.routed_parameters / layers / (layout.tensor * layout.expert)
    return Shard(common, experts)


def layer_activations(job: Job, layout: Layout, *, experts: bool = False) -> float:
    """Bytes of one micro-batch in one layer on one GPU, as the layout recomputes. `experts`: a layer of experts."""
    model, tokens = job.model, layout.micro_batch * job.sequence / layout.context
    if layout.recompute is Recompute.FULL:
        return 2 * tokens * model.hidden
    inside, outside = _sides(job, experts=experts)
    if model.latent:  # queries, keys and values are made again from their latents (DeepSeek-V3, section 3.2.3)
        inside -= model.query_width + model.key_value_width
    kept = job.precision.activation * inside + (0 if layout.recompute is Recompute.SELECTIVE else _scores(job, layout))
    return tokens * (kept / layout.tensor + outside / (layout.tensor if layout.sequence else 1))


def made(job: Job, layout: Layout, *, experts: bool = False) -> float:
    """Bytes a token that one layer writes for its backward pass on one GPU, whether they are kept or made again."""
    inside, outside = _sides(job, experts=experts)
    whole = 2 * inside + _scores(job, layout)
    return whole / layout.tensor + outside / (layout.tensor if layout.sequence else 1)


def _sides(job: Job, *, experts: bool) -> tuple[int, int]:
    """Of one token: values that tensor parallelism splits, and bytes that it does not."""
    model = job.model
    outside = model.hidden * (2 + 2 + 4 + 2)  # inputs of both blocks, of both norms, two dropout masks
    inside = model.query_width + model.key_value_width + model.value_width
    if model.latent:
        inside += model.latent.query_rank + model.latent.key_value_rank + model.latent.rotary_width
    linear = 3 if model.gated else 2  # what the non-linearity takes, and what it gives
    if experts and model.experts:
        chosen = model.experts.active
        inside += linear * model.experts.width * (chosen + model.experts.shared) + model.hidden * chosen
    else:
        inside += linear * model.ffn
    return inside, outside


def _scores(job: Job, layout: Layout) -> float:
    """Bytes a token of softmax's input, mask and output, which FlashAttention never writes."""
    return 0.0 if layout.flash else 5.0 * job.model.heads * job.sequence


def activations(job: Job, layout: Layout) -> float:
    """Bytes of all micro-batches that the fullest GPU holds: the first stage's, and the logits without a pipeline."""
    model, tokens = job.model, layout.micro_batch * job.sequence / layout.context
    dense, sparse = layer_activations(job, layout), layer_activations(job, layout, experts=True)
    layers = (model.dense_layers * dense + model.moe_layers * sparse) / layout.pipeline
    total = held(layout.schedule, layout.pipeline, layout.micro_batches(job), layout.chunks) * layers
    if layout.recompute is Recompute.FULL:  # one layer is there in full while its backward runs
        total += tokens * made(job, layout, experts=model.moe_layers > 0)
    if layout.pipeline == 1:
        total += 4 * tokens * (model.hidden + model.vocabulary) / layout.tensor
    return total


def memory(job: Job, layout: Layout) -> Memory:
    """Bytes on the fullest GPU. ZeRO stages 1, 2, 3 share optimizer, gradients, weights out over the replicas.

    A routed expert has replicas only on data x context / expert GPUs.
    """
    own, precision = shard(job.model, layout), job.precision

    def share(size: float, stage: int) -> float:
        sharded = layout.zero >= stage
        common = own.common / (layout.replicas if sharded else 1)
        experts = own.experts / (layout.replicas / layout.expert if sharded else 1)
        return size * (common + experts)

    # DualPipe's two copies are one parameter each at two GPUs: there is one optimizer state for both.
    once = copies(layout.schedule)
    return Memory(
        weights=share(precision.weight, 3),
        gradients=share(precision.gradient, 2),
        optimizer=share(precision.optimizer, 1) / (once if layout.zero else 1),
        activations=activations(job, layout),
    )
