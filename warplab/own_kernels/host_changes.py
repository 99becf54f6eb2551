"""Whether host code depends on what kernels did to NumPy arrays, which it cannot know while it is recorded."""

from __future__ import annotations

from typing import Any

import numpy as np

from warplab.own_kernels.messages import Recorded
from warplab.plan.execution import Execution


def changed_copies(recorded: Recorded, execution: Execution) -> frozenset[int]:
    """Which of the arrays that launches were given, by the numbers of their copies, the kernels have changed."""
    changed = set()
    for index, name in enumerate(recorded.copies):
        buffer = recorded.plan.buffers[name]
        if not buffer.content:
            continue
        before = np.empty(buffer.nbytes, np.uint8)
        before.reshape(-1, len(buffer.content))[...] = np.frombuffer(buffer.content, np.uint8)
        held = np.ndarray(buffer.shape, buffer.dtype, before, strides=buffer.strides)
        if held.tobytes() != execution.outputs[name].tobytes():
            changed.add(index)
    return frozenset(changed)


def alike(one: Recorded, other: Recorded) -> bool:
    """Whether the host code did the same in two recordings."""
    a, b = one.plan, other.plan
    same = a.buffers == b.buffers and a.launches == b.launches and one.arguments == other.arguments
    texts = {key: kernel.ptx for key, kernel in a.kernels.items()}, {key: k.ptx for key, k in b.kernels.items()}
    return same and texts[0] == texts[1] and _equal(one.returned, other.returned) and one.printed == other.printed


def _equal(one: Any, other: Any) -> bool:
    """Equality, also of what holds arrays and NaNs."""
    if isinstance(one, np.ndarray | np.generic) and isinstance(other, np.ndarray | np.generic):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_equal, one, other))
    return bool(one == other) or (one != one and other != other)
