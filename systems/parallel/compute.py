"""Seconds of one micro-batch at the slowest pipeline stage, before any traffic.

Three parts that are added up, as kernels follow each other: matrix products at a share of the peak; attention's scores
at FlashAttention's share (its backward has five products where the forward has two); and bytes through HBM, which are
what the products read and write once (a product does not quite hide them) and what norms, residuals, activation
functions and dropout move.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from systems.parallel.calibration import ATTENTION, PASSES
from systems.parallel.layout import Job, Layout, Recompute
from systems.parallel.machines import Machine
from systems.parallel.memory import made
from warplab.hardware.records import Math


@dataclass(frozen=True)
class Stage:
    """Seconds of one micro-batch: forward and backward of each part; `again` is what recomputation adds."""

    forward: float
    backward: float
    weights: float  # the part of the backward that makes weights' gradients
    products: float  # of forward and backward: matrix products and attention
    bytes: float  # of forward and backward: what goes through HBM
    again: float
    layers: int
    moe_layers: float

    @property
    def seconds(self) -> float:
        return self.forward + self.backward


def operands(job: Job, layout: Layout, *, experts: bool) -> float:
    """Bytes that the products of one layer's forward pass read and write once: inputs, weights, outputs, 16-bit."""
    model, tokens = job.model, layout.micro_batch * job.sequence / layout.context
    weights = float(model.attention_parameters) / layout.tensor
    split = model.query_width + model.key_value_width + model.value_width  # and as wide as this, divided
    full = 2.0 * model.hidden  # into the first product and out of the last
    linear = model.matrices
    if experts and model.experts:
        some = model.experts
        weights += (
            model.routed_parameters / layout.expert + some.shared * model.mlp_parameters(some.width)
        ) / layout.tensor
        split += linear * some.width * (some.active + some.shared)
        full += 2.0 * model.hidden * (some.active + some.shared)
    else:
        weights += model.mlp_parameters(model.ffn) / layout.tensor
        split += linear * model.ffn
        full += 2.0 * model.hidden
    return 2 * (weights + tokens * (split / layout.tensor + full))


def slowest(job: Job, layout: Layout, machine: Machine, reached: float) -> Stage:
    """The stage with the most layers, or the last one with the logits: layers are dealt out as evenly as can be.

    Where they do not divide, the last stages have fewer, as Llama 3 leaves out a layer at either end.
    `reached` is the share of the peak of matrix products.
    """
    model, tokens = job.model, layout.micro_batch * job.sequence / layout.context
    rate = reached * machine.peak(job.precision.math)
    plain = reached * machine.peak(Math.BF16_TENSOR)  # logits are not in FP8
    dense, sparse = model.active_layer_parameters
    share = model.moe_layers / model.layers

    linear = 2 * tokens * ((1 - share) * dense + share * sparse) / layout.tensor / rate
    logits = 2 * tokens * model.embedding_parameters / layout.tensor / plain
    scores = tokens * model.attention_flops(job.sequence) / layout.tensor
    if layout.flash:
        scores /= 2 * ATTENTION[machine.generation] * machine.peak(Math.BF16_TENSOR)
        scores_backward = 2.5 * scores
    else:
        scores /= plain
        scores_backward = 2 * scores
    through = (1 - share) * operands(job, layout, experts=False) + share * operands(job, layout, experts=True)
    written = tokens * ((1 - share) * made(job, layout) + share * made(job, layout, experts=True))
    once = (through + written) / machine.chip.bandwidth  # forward: operands, and what the backward needs is written
    twice = (2 * through + (PASSES - 1) * written) / machine.chip.bandwidth

    most = ceil(model.layers / layout.pipeline)
    last = max(0, model.layers - most * (layout.pipeline - 1))
    layer = linear + scores + once
    extra = max(0.0, last * layer + logits - most * layer)  # of a last stage that is slower than the others
    forward = most * layer + extra
    backward = most * (2 * linear + scores_backward + twice) + 2 * extra
    again = 0.0
    if layout.recompute is Recompute.FULL:
        again = most * layer
    elif layout.recompute is Recompute.SELECTIVE and not layout.flash:
        again = most * scores
    return Stage(
        forward=forward,
        backward=backward + again,
        weights=most * linear,
        products=most * (3 * linear + scores + scores_backward) + 3 * extra,
        bytes=most * (once + twice),
        again=again,
        layers=most,
        moe_layers=most * share,
    )
