"""Reads the compiled form of a submission, in a worker: what its kernels do, without the names in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from autograder.records.shape import MOST_OPERATIONS
from autograder.spec.inputs import host_calls
from autograder.spec.lab import load_lab
from warplab.errors import PlanError
from warplab.isa.parser import parse
from warplab.isa.syntax import Instruction
from warplab.plan.capture.failure import CaptureFailure
from warplab.plan.capture.protocol import Request, decode_response
from warplab.plan.language import language_of
from warplab.plan.model import Plan

_MEMORY = {"ld", "st", "atom", "red", "ldmatrix", "stmatrix", "cp", "ldu"}
_SPACES = {"global", "shared", "local"}
_FLOATS = {"f16", "f16x2", "bf16", "bf16x2", "f32", "f64"}
_ARITHMETIC = {"add", "sub", "mul", "fma", "mad", "min", "max", "div", "neg", "abs"}
_ALWAYS = {"bar", "barrier", "shfl", "vote", "match", "redux", "mma", "wgmma", "wmma", "mbarrier", "tcgen05"}
_ALWAYS |= {"ex2", "lg2", "rcp", "sqrt", "rsqrt", "sin", "cos", "tanh"}
_WIDTHS = {"v2": 2, "v4": 4, "v8": 8}


def shape(task: str, name: str, text: str, seed: int, architecture: str, content: bytes) -> dict[str, Any]:
    """In the worker: what `Shape.from_wire` takes, of the profile case of the lab in the folder `task`; or
    {"refused": sentence} if the submission cannot be read."""
    lab = load_lab(Path(task)).drawn(seed)
    request = Request(text, name, tuple(host_calls(lab.task, [lab.task.profile], seed)), (architecture,), 0)
    try:
        (plan,) = decode_response(content, request)
        return shape_of(plan, architecture)
    except (CaptureFailure, PlanError) as error:
        return {"refused": str(error)}


def shape_of(plan: Plan, architecture: str) -> dict[str, Any]:
    """The shape of a plan, as plain data. Raises PlanError for PTX that cannot be read."""
    kernels = [plan.kernels[key] for key in dict.fromkeys(launch.kernel for launch in plan.launches)]
    instructions = [one for kernel in kernels for one in _instructions(kernel.ptx[architecture])][:MOST_OPERATIONS]
    work = [(name, one.line) for one in instructions for name in _work(one.opcode)][:MOST_OPERATIONS]
    languages = {language_of(kernel).value for kernel in kernels}
    return {
        "language": " + ".join(sorted(languages)),
        "all_operations": [one.opcode for one in instructions],
        "all_lines": [one.line for one in instructions],
        "work": [name for name, _ in work],
        "work_lines": [line for _, line in work],
    }


def _instructions(ptx: str) -> Iterator[Instruction]:
    for function in parse(ptx).functions.values():
        yield from (one for one in function.body if isinstance(one, Instruction))


def _work(opcode: str) -> list[str]:
    """The operations that an opcode stands for in every language: a load of a vector is as many loads."""
    head, *rest = opcode.split(".")
    kind = rest[-1] if rest else ""
    if head in _MEMORY:
        space = next((part for part in rest if part in _SPACES), "")
        if not space and ("param" in rest or "const" in rest):
            return []
        return [f"{head}.{space}"] * next((_WIDTHS[part] for part in rest if part in _WIDTHS), 1)
    if head in _ALWAYS or (head in _ARITHMETIC and kind in _FLOATS):
        return [head if head in _ALWAYS else f"{head}.{kind}"]
    return []
