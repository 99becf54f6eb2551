"""Pipeline schedules in closed form: the time that a stage waits, and how many micro-batches it holds.

A step of m micro-batches over p stages takes m (F + B) of work at each stage, plus a bubble. F, B and W are the times
of a micro-batch at one GPU: forward, backward whole, and the part of the backward that makes weights' gradients.

| schedule | bubble | held, in micro-batches of a whole GPU | source |
|---|---|---|---|
| GPipe | (p - 1)(F + B) | m | Huang et al. 2019; Narayanan et al. 2021, section 2.2 |
| 1F1B | (p - 1)(F + B) | p | the same |
| interleaved, v chunks | (p - 1)(F + B) / v | p (1 + (p - 1) / (p v)) | and Korthikanti et al. 2022, 4.2.3 |
| ZB-H1 | (p - 1)(F + B - 2 W) | p | Qi et al. 2023; DeepSeek-V3, table 2 |
| ZB-V | 0 | p | Qi et al. 2023, if F, B - W and W are equal |
| DualPipe | (p/2 - 1)(F&B + B - 3 W) | p + 1 | DeepSeek-V3, table 2: two copies of the parameters |

F&B is a forward and a backward that run at once. Where nothing but communication is hidden it takes F + B.
"""

from __future__ import annotations

from systems.parallel.layout import Schedule


def bubble(schedule: Schedule, stages: int, forward: float, backward: float, weights: float, chunks: int = 1) -> float:
    """Seconds that a stage waits in a step, for a micro-batch's `forward`, whole `backward` and its `weights` part."""
    if stages == 1:
        return 0.0
    if schedule is Schedule.ZERO_BUBBLE:
        return (stages - 1) * max(0.0, forward + backward - 2 * weights)
    if schedule is Schedule.ZERO_BUBBLE_V:
        return 0.0
    if schedule is Schedule.DUALPIPE:
        return (stages / 2 - 1) * max(0.0, forward + 2 * backward - 3 * weights)
    return (stages - 1) * (forward + backward) / chunks


def least_bubble(
    stages: int, micro_batches: int, forward: float, input_part: float, weights: float, chunks: int = 1,
    transfer: float = 0.0, split: bool = False,
) -> float:  # fmt: skip
    """Seconds that no schedule waits less than, of one pipeline whose last GPU has the last stage of every chunk.

    A GPU's last stage can begin only after a pass and a transfer of each GPU before it. After the last backward pass
    there, each GPU before it has one more to do. Whole backward passes wait for both. With `split` ones the last GPU
    can make weights' gradients meanwhile: it waits for the first alone, unless it has too few of them to make.
    """
    fill = (stages - 1) * (forward / chunks + transfer)
    drain = (stages - 1) * (input_part / chunks + transfer)
    if not split:
        return fill + drain + (stages - 1) * weights / chunks
    return max(fill, fill + drain - (micro_batches - 1 / chunks) * weights)


def held(schedule: Schedule, stages: int, micro_batches: int, chunks: int = 1) -> float:
    """Micro-batches whose activations, of all its layers, the fullest GPU holds at once."""
    if schedule is Schedule.GPIPE:
        return float(micro_batches)
    if schedule is Schedule.DUALPIPE:
        return min(float(micro_batches), stages + 1.0)
    if chunks > 1:
        return min(float(micro_batches), stages * (1 + (stages - 1) / (stages * chunks)))
    return float(min(micro_batches, stages))


def copies(schedule: Schedule) -> int:
    """How many stages' parameters a GPU holds: DualPipe's pipeline runs both ways."""
    return 2 if schedule is Schedule.DUALPIPE else 1
