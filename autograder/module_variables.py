"""Variables of a plan's modules (`__device__` in CUDA C++): the memory that they take, and whether they keep state.

PTX comes from the capture process, so its text is a stranger's: what is not understood counts as much, and as state.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from warplab.plan.model import Plan

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
# A declaration in the state space of a module; an instruction has its own name directly before the space.
_DECLARATION = re.compile(r"(?<![\w.$%])(?:\.(?:visible|weak|common|extern)\s+)*\.(global|const)\s+([^;={]*)")
_ELEMENT = re.compile(r"\.(?:b|u|s|f|bf|pred|f16x|bf16x)(\d+)\b")
_VECTOR = re.compile(r"\.v([248])\b")
_NAME = re.compile(r"([A-Za-z_$%][\w$]*)\s*((?:\[[^\]]*\]\s*)*)$")


@dataclass(frozen=True)
class ModuleVariable:
    """A variable of global or constant memory; `size` in bytes, infinite where it is not understood."""

    name: str
    size: float
    writable: bool


def device_bytes(plan: Plan) -> float:
    """Bytes of device memory that a plan takes: its buffers and the variables of its modules."""
    buffers = sum(buffer.nbytes for buffer in plan.buffers.values())
    return buffers + sum(variable.size for text in _modules(plan) for variable in variables(text))


def keeps_state(plan: Plan) -> bool:
    """Whether a kernel of the plan could leave something for a later launch, beside its buffers."""
    return any(_uses_variables(text) for text in _modules(plan))


@lru_cache(16)  # asked for every case of a submission
def _uses_variables(text: str) -> bool:
    return any(variable.writable and _mentions(text, variable.name) > 1 for variable in variables(text))


def variables(ptx: str) -> Iterator[ModuleVariable]:
    """The variables that a PTX text declares in global and constant memory."""
    for space, declaration in _DECLARATION.findall(_COMMENT.sub(" ", ptx)):
        bits, vector = _ELEMENT.search(declaration), _VECTOR.search(declaration)
        element = max(int(bits[1]) // 8, 1) * (int(vector[1]) if vector else 1) if bits else math.inf
        for declarator in declaration.split(","):
            found = _NAME.search(declarator.strip())
            if found:
                yield ModuleVariable(found[1], element * _count(found[2]), space == "global")


def _count(extents: str) -> float:
    """The number of elements in `[3][1000]`; one without extents, infinite for an expression."""
    count = 1.0
    for extent in re.findall(r"\[([^\]]*)\]", extents):
        try:
            count *= int(extent.strip() or "0", 0)  # without a number the initialiser, which is text, has the size
        except ValueError:
            return math.inf
    return count


def _mentions(text: str, name: str) -> int:
    return len(re.findall(rf"(?<![\w$]){re.escape(name)}(?![\w$])", text))


def _modules(plan: Plan) -> set[str]:
    return {text for kernel in plan.kernels.values() for text in kernel.ptx.values()}
