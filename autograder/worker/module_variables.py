"""Variables of a plan's modules (`__device__` in CUDA C++): the memory that they take, and whether they keep state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from warplab.isa.declarations import declarations
from warplab.plan.model import Plan


@dataclass(frozen=True)
class ModuleVariable:
    """A variable of global or constant memory; `size` in bytes."""

    name: str
    size: int
    writable: bool


def device_bytes(plan: Plan) -> int:
    """Bytes of device memory that a plan takes: its buffers and the variables of its modules. Raises PtxError."""
    buffers = sum(buffer.nbytes for buffer in plan.buffers.values())
    return buffers + sum(variable.size for text in _modules(plan) for variable in variables(text))


def keeps_state(plan: Plan) -> bool:
    """Whether a kernel of the plan could leave something for a later launch, beside its buffers. Raises PtxError."""
    return any(_uses_variables(text) for text in _modules(plan))


def _uses_variables(text: str) -> bool:
    mentions = declarations(text).mentions
    return any(variable.writable and mentions[variable.name] > 1 for variable in variables(text))


def variables(ptx: str) -> Iterator[ModuleVariable]:
    """The variables that a PTX text declares in global and constant memory. Raises PtxError if it cannot be read."""
    for v in declarations(ptx).variables:
        if v.space in ("global", "const"):
            yield ModuleVariable(v.name, v.size, v.space == "global")


def _modules(plan: Plan) -> set[str]:
    return {text for kernel in plan.kernels.values() for text in kernel.ptx.values()}
