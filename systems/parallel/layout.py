"""A job, and how it is laid out over GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from systems.parallel.shapes import LayoutError, Model
from warplab.hardware.records import Math


class Axis(StrEnum):
    """A kind of parallelism; also the traffic that it causes."""

    DATA = "data"
    TENSOR = "tensor"
    PIPELINE = "pipeline"
    EXPERT = "expert"
    CONTEXT = "context"


class Recompute(StrEnum):
    """Which activations the backward pass computes again: none, those of attention's scores, or whole layers."""

    NONE = "none"
    SELECTIVE = "selective"
    FULL = "full"


class Schedule(StrEnum):
    """The order in which pipeline stages do forward and backward passes."""

    GPIPE = "gpipe"
    ONE_F_ONE_B = "1f1b"  # with `chunks` above 1: interleaved
    ZERO_BUBBLE = "zero-bubble"  # ZB-H1 (ZB1P): weights' gradients put off, memory of 1F1B
    ZERO_BUBBLE_V = "zero-bubble-v"  # each GPU has the two ends of a V
    DUALPIPE = "dualpipe"  # from both ends at once, parameters twice


@dataclass(frozen=True)
class Precision:
    """Bytes a parameter for weights, gradients and optimizer; `math` is that of matrix products."""

    name: str
    weight: float
    gradient: float
    optimizer: float
    math: Math
    dispatch: float = 2  # bytes of a value sent to an expert
    activation: float = 2  # bytes of a value kept for the backward pass


# Adam keeps a float32 copy of the weights and two moments: 12 bytes (Rajbhandari et al. 2020, section 3.1).
MIXED = Precision("mixed, 16-bit gradients", 2, 2, 12, Math.BF16_TENSOR)  # the ZeRO paper's 16 bytes
MEGATRON = Precision("mixed, float32 gradients", 2, 4, 12, Math.BF16_TENSOR)  # Megatron-LM's 18 bytes
# DeepSeek-V3 has moments in bfloat16, master weights and gradients in float32, and keeps and dispatches activations in
# FP8 (section 3.3).
DEEPSEEK_FP8 = Precision("FP8 products, bfloat16 moments", 2, 4, 8, Math.FP8_TENSOR, dispatch=1, activation=1)
MEGATRON_FP8 = Precision("mixed, FP8 products", 2, 4, 12, Math.FP8_TENSOR)
PRECISIONS = {"mixed": MIXED, "megatron": MEGATRON, "megatron_fp8": MEGATRON_FP8, "deepseek_fp8": DEEPSEEK_FP8}


@dataclass(frozen=True)
class Job:
    """What a step has to do: `batch` sequences of `sequence` tokens."""

    model: Model
    batch: int
    sequence: int
    precision: Precision = MEGATRON

    def __post_init__(self) -> None:
        if min(self.batch, self.sequence) < 1:
            raise LayoutError(
                f"A batch of {self.batch} sequences of {self.sequence} tokens cannot be: both are 1 or more."
            )

    @property
    def tokens(self) -> int:
        return self.batch * self.sequence


@dataclass(frozen=True)
class Layout:
    """Sizes of the axes, from the innermost out: tensor, context, (expert within) data, pipeline, as in Megatron-LM.

    `expert` is a part of data x context and needs no GPUs of its own. `chunks` is how many separate groups of layers a
    GPU has (interleaving, "virtual stages"). `zero` shards optimizer (1), gradients (2) and weights (3) over data x
    context. `sequence` splits what tensor parallelism replicates (Korthikanti et al.). `flash`: attention's scores
    never reach memory and a causal mask halves them. `overlapped` traffic hides behind compute where there is enough.
    """

    data: int = 1
    tensor: int = 1
    pipeline: int = 1
    expert: int = 1
    context: int = 1
    micro_batch: int = 1
    chunks: int = 1
    schedule: Schedule = Schedule.ONE_F_ONE_B
    zero: int = 1
    recompute: Recompute = Recompute.NONE
    sequence: bool = True
    flash: bool = True
    overlapped: frozenset[Axis] = frozenset(Axis)

    @property
    def gpus(self) -> int:
        return self.data * self.tensor * self.pipeline * self.context

    @property
    def replicas(self) -> int:
        """GPUs that hold the same share of what is not an expert: ZeRO shards over them."""
        return self.data * self.context

    def micro_batches(self, job: Job) -> int:
        """How many a pipeline works through in a step."""
        return job.batch // (self.data * self.micro_batch)

    def check(self, job: Job) -> None:
        """Raise LayoutError, which says which size divides what not, unless the layout can run the job."""
        model, sizes = job.model, (self.data, self.tensor, self.pipeline, self.expert, self.context)
        if min(*sizes, self.micro_batch, self.chunks) < 1:
            raise LayoutError("Every size of a layout is 1 or more.")
        if self.zero not in (0, 1, 2, 3):
            raise LayoutError(f"ZeRO has stages 0 to 3, not {self.zero}.")
        if job.batch % (self.data * self.micro_batch):
            raise LayoutError(f"A batch of {job.batch} cannot be cut into micro-batches of {self.micro_batch} over "
                            f"{self.data} replicas: choose sizes whose product divides it.")  # fmt: skip
        if model.heads % self.tensor:
            raise LayoutError(f"{model.heads} heads cannot be shared by {self.tensor} GPUs: tensor must divide them.")
        if self.pipeline * self.chunks > model.layers + 2:  # embedding and logits may be chunks of their own
            raise LayoutError(f"{model.layers} layers cannot fill {self.pipeline} stages of {self.chunks} chunks.")
        if job.sequence % (self.context * (2 if self.context > 1 else 1)):
            raise LayoutError(f"A sequence of {job.sequence} cannot be cut into two pieces for each of {self.context}.")
        if self.expert > 1 and model.experts is None:
            raise LayoutError(f"{model.name} has no experts to share: expert must be 1.")
        if model.experts and (model.experts.count % self.expert or self.replicas % self.expert):
            raise LayoutError(f"{self.expert} must divide both the {model.experts.count} experts and data x context = "
                            f"{self.replicas}.")  # fmt: skip
        if self.chunks > 1 and self.schedule is not Schedule.ONE_F_ONE_B:
            raise LayoutError(f"Only 1f1b is interleaved here: {self.schedule} takes chunks = 1.")
        if self.schedule is Schedule.DUALPIPE and (self.pipeline % 2 or self.micro_batches(job) < self.pipeline):
            raise LayoutError("DualPipe needs an even number of stages and at least as many micro-batches.")
