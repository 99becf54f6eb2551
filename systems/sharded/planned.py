"""What the planner says of the layers that are measured: one layer's forward and backward pass, nothing overlapped.

The planner's constants are fitted to published runs of training (systems.parallel.calibration), not to these layers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from systems.parallel.layout import MIXED, Axis, Job, Layout
from systems.parallel.machines import DGX_H100, DGX_H200, Machine
from systems.parallel.models import find_model
from systems.parallel.shapes import Model
from systems.parallel.step import plan

TENSOR, EXPERT = "tensor-parallel layer", "expert-parallel layer"
# A layer of Llama 3 70B; the routed experts of one of DeepSeek-V3, with next to no attention and no shared expert.
LLAMA = replace(find_model("Llama 3 70B"), layers=1, vocabulary=1)
_DEEPSEEK = find_model("DeepSeek-V3")
assert _DEEPSEEK.experts is not None
EXPERTS = replace(_DEEPSEEK.experts, shared=0, dense_layers=0, nodes=None)
DEEPSEEK = replace(
    _DEEPSEEK, layers=1, vocabulary=1, heads=1, kv_heads=1, head_width=1, latent=None, experts=EXPERTS
)  # fmt: skip


@dataclass(frozen=True)
class Planned:
    """Seconds of one layer: what a GPU computes, and its traffic."""

    work: float
    traffic: float

    @property
    def whole(self) -> float:
        return self.work + self.traffic


def machine_of(gpu: str) -> Machine:
    """The planner's machine for a GPU's name; an H100 unless it is an H200."""
    return DGX_H200 if "H200" in gpu else DGX_H100


def model_of(name: str) -> Model:
    """The model whose layer TENSOR or EXPERT is."""
    return LLAMA if name == TENSOR else DEEPSEEK


def planned(name: str, ranks: int, tokens: int, machine: Machine) -> Planned:
    """Of TENSOR with `tokens` over all ranks, or of EXPERT with `tokens` on each."""
    if name == TENSOR:
        job, layout = Job(LLAMA, 1, tokens, MIXED), Layout(tensor=ranks, sequence=False)
    else:
        job, layout = Job(DEEPSEEK, ranks, tokens, MIXED), Layout(data=ranks, expert=ranks)
    step = plan(job, replace(layout, zero=0, overlapped=frozenset()), machine)
    return Planned(step.products + step.hbm, step.exposed[Axis.TENSOR if name == TENSOR else Axis.EXPERT])
