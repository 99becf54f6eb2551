"""Layers of experts with drawn routes, and what NumPy says of them in float64."""

from __future__ import annotations

import numpy as np

from systems.peer.experts import Sizes
from tests.peer.in_memory import read, stored

SINGLE, ROUNDING = 2.0**-23, 2.0**-8  # of tensor cores' float32 sums, which they cut off; of bfloat16


def drawn(sizes: Sizes, seed: int, favourite: int | None = None) -> dict[str, np.ndarray]:
    """Random rows and weights, and routes; a `favourite` expert is among the choices of every token."""
    draw = np.random.default_rng(seed)
    scores = draw.random((sizes.ranks, sizes.tokens, sizes.experts))
    if favourite is not None:
        scores[:, :, favourite] = -1
    chosen = draw.permuted(np.argsort(scores, axis=2)[:, :, : sizes.choices], axis=2).astype(np.int32)
    of_width, of_hidden = sizes.width**-0.5, sizes.hidden**-0.5
    return {
        "x": stored(draw.standard_normal((sizes.ranks, sizes.tokens, sizes.width)), "bfloat16"),
        "chosen": chosen,
        "weight": draw.random(chosen.shape).astype(np.float32),
        "gate_up": stored(of_width * draw.standard_normal((sizes.experts, 2 * sizes.hidden, sizes.width)), "bfloat16"),
        "down": stored(of_hidden * draw.standard_normal((sizes.experts, sizes.width, sizes.hidden)), "bfloat16"),
    }


def truth(sizes: Sizes, arrays: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The sums, and what each may be off by: a rounding of units and sums, and float32's in both products."""
    x, gate_up, down = (read(arrays[name], "bfloat16") for name in ("x", "gate_up", "down"))
    out, error = np.zeros_like(x), np.zeros_like(x)
    for home, token, choice in np.ndindex(arrays["chosen"].shape):
        expert, weight = arrays["chosen"][home, token, choice], float(arrays["weight"][home, token, choice])
        row = x[home, token]
        both, magnitude = gate_up[expert] @ row, np.abs(gate_up[expert]) @ np.abs(row)
        gate, up = np.split(both, 2)
        of_gate, of_up = np.split((sizes.width + 2) * SINGLE * magnitude, 2)
        unit = gate / (1 + np.exp(-gate)) * up
        off = 1.1 * of_gate * np.abs(up) + np.abs(gate) * of_up + (2 * ROUNDING + 2.0**-18) * np.abs(unit)
        out[home, token] += weight * (down[expert] @ unit)
        part = np.abs(down[expert]) @ (off + (sizes.hidden + 2) * SINGLE * np.abs(unit))
        error[home, token] += weight * (part + ROUNDING * np.abs(down[expert] @ unit))
    return out, error + ROUNDING * np.abs(out)
