"""When a kind of parallelism becomes bound by its traffic: closed forms of an MLP, with all of it overlapped.

An MLP of M matrices of d x f costs a token 2 M d f FLOP forward and twice that backward: M is 2, as in How to Scale
Your Model (chapter 12), or 3 if the MLP is gated (SwiGLU), as in Llama and DeepSeek-V3. Peaks and links are those of
datasheets, so these are the kindest bounds: no product reaches the peak and no collective the port's rate.
`Machine.across` is one GPU's share of its node's NICs.
"""

from __future__ import annotations

from math import ceil

from systems.parallel.layout import Layout
from systems.parallel.machines import Machine
from systems.parallel.shapes import LayoutError, Model
from systems.parallel.traffic import Group, group
from warplab.hardware.records import Math

_DAY = 86_400.0


def intensity(machine: Machine, bandwidth: float) -> float:
    """FLOP that a GPU does in the time of one byte: alpha = C / W, bfloat16."""
    return machine.peak(Math.BF16_TENSOR) / bandwidth


def data_tokens(machine: Machine, layout: Layout, sparsity: float = 1.0) -> float:
    """Tokens a GPU and step from which gradients hide behind the backward pass; 16-bit gradients.

    A replica of m GPUs holds 1/m of the parameters P on each. Its backward pass takes 4 T P / (m C) for its T tokens,
    its all-reduce 4 (P / m) x the larger of (g - 1) / g / W and (n - 1) / n / (g w), with g of the group's GPUs in each
    of n nodes. So T >= C x that, and a GPU has T / m of it. `sparsity`: all experts over active ones, E / k.
    ZeRO-3 needs as many: its backward pass gathers weights and scatters gradients, 4 (P / m) together; its forward pass
    gathers half of that beside half of the work.
    """
    members, model_gpus = group(layout.replicas, layout.tensor, machine), layout.tensor * layout.pipeline
    return sparsity * machine.peak(Math.BF16_TENSOR) * _slowness(members, machine) / model_gpus


def _slowness(members: Group, machine: Machine) -> float:
    """Seconds a byte of a reduce-scatter's size: of the slower level."""
    inside = (members.near - 1) / members.near / machine.inside
    across = (members.nodes - 1) / members.nodes / (members.near * machine.across)
    return max(inside, across)


def tensor_limit(machine: Machine, ffn: int, *, matrices: int, across: bool = False) -> float:
    """The most GPUs that tensor parallelism can use before its activations take longer than an MLP's products.

    Forward: 2 M B d f / (Y C) of products of `matrices` M against 4 B d / W for a gather and a scatter: Y <= M/2 f W/C.
    W is a GPU's port in a node, and a node's NICs together across nodes.
    """
    return matrices / 2 * ffn / intensity(machine, machine.across * machine.node if across else machine.inside)


def expert_width(machine: Machine, experts: int, active: int, gpus: int, *, matrices: int) -> float:
    """The least expert width f with which two all-to-alls over `gpus` hide behind an expert's products.

    A GPU with T tokens does 2 M T k d f FLOP in `matrices` M and sends each token, 2 d bytes, to the nodes of its k
    experts and back: M/2 k f / C >= that number x (1 - 1/n) / w. Over NVLink each of g GPUs sends k (1 - 1/g) copies:
    M/2 f >= (1 - 1/g) C / W. The larger one counts.
    """
    if gpus < 2 or experts % gpus:
        raise LayoutError(f"{experts} experts cannot be shared by {gpus} GPUs evenly: choose a divisor above 1.")
    members = group(gpus, 1, machine)
    inside = (1 - 1 / gpus) * intensity(machine, machine.inside) if members.near > 1 else 0.0
    visited = members.nodes * (1 - (1 - 1 / members.nodes) ** active)
    across = visited * (1 - 1 / members.nodes) / active * intensity(machine, machine.across)
    return 2 / matrices * max(inside, across)


def context_tokens(machine: Machine, model: Model, *, across: bool) -> float:
    """Tokens of a sequence that a GPU must have for a ring of keys and values to hide behind attention itself.

    A block of t queries meets t keys in 2 t^2 (q + v) / 2 FLOP with a causal mask's half; the next block's keys and
    values are 2 t kv bytes. So t >= 2 kv / (q + v) x C / W, whatever the number of GPUs is (Liu et al., Ring
    Attention, 2023).
    """
    rate = machine.across if across else machine.inside
    ratio = 2 * model.key_value_width / (model.query_width + model.value_width)
    return ratio * intensity(machine, rate)


def least_gpus(model: Model, machine: Machine, bytes_each: float) -> int:
    """GPUs whose memory holds `bytes_each` for every parameter and nothing else."""
    return ceil(model.parameters * bytes_each / machine.chip.memory)


def training_days(model: Model, tokens: float, sequence: int, machine: Machine, gpus: int, utilisation: float) -> float:
    """Days for `tokens` at a model FLOPs utilisation."""
    rate = gpus * utilisation * machine.peak(Math.BF16_TENSOR)
    return model.step_flops(tokens, sequence) / rate / _DAY
