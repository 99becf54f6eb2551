"""The backward pass of a layer, and its two products alone, as plans."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import systems.moe.backward
from benchmarks.moe.layer import plans as layer_plans
from benchmarks.moe.layer.plans import Layer
from warplab.plan.model import ArrayArgument, Plan, Role

CHAIN = Path(systems.moe.backward.__path__[0]) / "chain.py"
LAUNCHES = (  # of the chain
    "combine, backward",
    "down, backward",
    "SwiGLU, backward",
    "down, weights",
    "gate and up, backward",
    "gate and up, weights",
    "shuffle, backward",
)


def arguments(layer: Layer, tokens: int) -> tuple[ArrayArgument, ...]:
    """Arrays of the backward pass: what it is given, what the forward pass kept, and the gradients. bf16 is uint16."""
    e, d, f, k = layer.experts, layer.hidden, layer.inside, layer.k
    rows = tokens * k
    given = {
        "dout": ("float32", (tokens, d)),
        "x": ("uint16", (rows, d)),
        "h": ("uint16", (rows, 2 * f)),
        "y": ("uint16", (rows, d)),
        "up": ("uint16", (e, 2 * f, d)),
        "down": ("uint16", (e, d, f)),
        "share": ("float32", (tokens, k)),
        "position": ("int32", (tokens, k)),
        "first": ("int32", (e,)),
        "count": ("int32", (e,)),
    }
    found = {
        "dx": ("float32", (tokens, d)),
        "dup": ("uint16", (e, 2 * f, d)),
        "ddown": ("uint16", (e, d, f)),
        "dshare": ("float32", (tokens, k)),
    }
    inputs = [ArrayArgument(name, dtype, shape, Role.INPUT) for name, (dtype, shape) in given.items()]
    outputs = [ArrayArgument(name, dtype, shape, Role.OUTPUT) for name, (dtype, shape) in found.items()]
    return (*inputs, *outputs)


def captured(function: str, arrays: Sequence[ArrayArgument], architecture: str, sms: int | None = None) -> Plan:
    """A call of one of chain.py's functions, on `sms` SMs if that is given. Raises CaptureFailure."""
    return layer_plans.captured(CHAIN.read_text("utf-8"), function, arrays, architecture, sms)


def work(layer: Layer, tokens: int, active: int) -> dict[str, tuple[float, float]]:
    """Floating-point operations of each launch, and the bytes that it has to move if each is moved once.

    `active` experts have rows: only their weights are read, and gradients of all experts' are written.
    """
    e, d, f, rows = layer.experts, layer.hidden, layer.inside, tokens * layer.k
    one = 2.0 * rows * d * f
    wide, narrow, matrix = 2.0 * rows * d, 2.0 * rows * f, 2.0 * d * f
    numbers = (
        (0.0, 4.0 * tokens * d + 2 * wide),
        (one, wide + narrow + active * matrix),
        (0.0, 6 * narrow),
        (one, wide + narrow + e * matrix),
        (2 * one, wide + 2 * narrow + active * 2 * matrix),
        (2 * one, wide + 2 * narrow + e * 2 * matrix),
        (0.0, wide + 4.0 * tokens * d),
    )
    return dict(zip(LAUNCHES, numbers, strict=True))
