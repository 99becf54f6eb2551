"""One step of a rank's program, in the capture process: from what the rank has and was given to what it asks for next.

The program is a generator. It is run anew for each step, in a process of its own that has nothing but its own rank's
arrays and what collectives have given this rank so far; whoever computes the collectives sees only what it asks.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warplab.plan.capture.failure import CaptureFailure, CaptureStatus
from warplab.plan.model import HostCall, ScalarArgument

OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "output")
MOST_ELEMENTS = 1 << 18  # of one array
MOST_ARRAYS = 16  # that a program returns

_WAYS = ", ".join(f'yield "{operation}", array' for operation in OPERATIONS)


def encode_arrays(arrays: Sequence[NDArray[np.float64]]) -> list[dict[str, Any]]:
    """JSON-able shapes and bytes."""
    return [{"shape": list(a.shape), "data": base64.b64encode(a.tobytes()).decode()} for a in arrays]


def encode_content(inputs: Sequence[NDArray[np.float64]], received: Sequence[NDArray[np.float64]]) -> str:
    """What a rank has, and was given by each collective so far: what `step_of` takes as `content`."""
    return json.dumps({"inputs": encode_arrays(inputs), "received": encode_arrays(received)})


def step_of(function: Callable[..., Any], call: HostCall, content: str, what: str) -> bytes:
    """What the program asks for after all that it was given, or returns, as JSON {"operation", "arrays"}.

    The operation of what is returned is null. Raises CaptureFailure.
    """
    has = json.loads(content)  # from the judge
    inputs, received = _decoded(has["inputs"]), _decoded(has["received"])
    scalars = [argument.value for argument in call.arguments if isinstance(argument, ScalarArgument)]
    operation, arrays = _run(function(*scalars, *inputs), received, what)
    return json.dumps({"operation": operation, "arrays": encode_arrays(arrays)}).encode()


def _run(program: Any, received: list[NDArray[np.float64]], what: str) -> tuple[str | None, list[NDArray[np.float64]]]:
    if not isinstance(program, Generator):
        raise _wrong(f"{what} is no generator: let it say what it asks for, by {_WAYS}.")
    try:
        asked = next(program)
        for value in received:
            asked = program.send(value)
    except StopIteration as stop:
        returned = stop.value
        if not isinstance(returned, (tuple, list)) or len(returned) > MOST_ARRAYS:
            raise _wrong(f"{what} must end with return and a tuple of gradients.") from None
        return None, [_array(value, f"What {what} returns at place {place}") for place, value in enumerate(returned)]
    if not isinstance(asked, (tuple, list)) or len(asked) != 2:
        raise _wrong(f"{what} yields something else than an operation and an array: {_WAYS}.")
    operation = next((known for known in OPERATIONS if known == str(asked[0])), None)
    if operation is None:
        raise _wrong(f"{what} asks for {str(asked[0])[:40]!r}: operations are {', '.join(OPERATIONS)}.")
    return operation, [_array(asked[1], f"What {what} gives to {operation}")]


def _array(value: Any, what: str) -> NDArray[np.float64]:
    if not isinstance(value, np.ndarray) or value.dtype != np.float64:
        kind = f"an array of {value.dtype}" if isinstance(value, np.ndarray) else f"a {type(value).__name__[:40]}"
        raise _wrong(f"{what} is {kind}: give an array of float64.")
    if value.size > MOST_ELEMENTS or value.ndim > 4:
        raise CaptureFailure(CaptureStatus.RESOURCES, f"{what} has more than {MOST_ELEMENTS:,} elements or 4 axes.")
    return np.array(value, np.float64, order="C")


def _decoded(arrays: list[dict[str, Any]]) -> list[NDArray[np.float64]]:
    return [np.frombuffer(base64.b64decode(a["data"])).reshape(a["shape"]).copy() for a in arrays]


def _wrong(message: str) -> CaptureFailure:
    return CaptureFailure(CaptureStatus.NO_RECORDS, message)
