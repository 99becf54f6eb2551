"""The FP8 product over tokens as a plan."""

from __future__ import annotations

from pathlib import Path

import systems.moe.gradients_fp8
from benchmarks.moe.layer import plans as layer_plans
from systems.moe.gradients_fp8.quantise import BLOCK
from warplab.plan.model import ArrayArgument, Plan, Role

FUNCTION = "k_grouped_fp8"
PRODUCT = Path(systems.moe.gradients_fp8.__path__[0]) / "product.py"


def arguments(slots: int, experts: int, m: int, n: int) -> tuple[ArrayArgument, ...]:
    """Arrays of the host function: gradients of m x n of every expert from lines of `slots` tokens."""
    return (
        ArrayArgument("dy8", "uint8", (m, slots), Role.INPUT),
        ArrayArgument("dy_scale", "float32", (slots // BLOCK, m), Role.INPUT),
        ArrayArgument("x8", "uint8", (n, slots), Role.INPUT),
        ArrayArgument("x_scale", "float32", (slots // BLOCK, n), Role.INPUT),
        ArrayArgument("first", "int32", (experts,), Role.INPUT),
        ArrayArgument("count", "int32", (experts,), Role.INPUT),
        ArrayArgument("dw", "float32", (experts, m, n), Role.OUTPUT),
    )


def captured(
    arrays: tuple[ArrayArgument, ...], architecture: str, sms: int | None = None, text: str | None = None
) -> Plan:
    """A call of the host function, on `sms` SMs if that is given; `text` is another source than product.py's.

    Raises CaptureFailure.
    """
    return layer_plans.captured(text or PRODUCT.read_text("utf-8"), FUNCTION, arrays, architecture, sms)
