"""What a lab rules out, whatever it would earn: languages and instructions."""

from __future__ import annotations

import re

from autograder.records.text import clean
from autograder.spec.task import Task
from warplab.plan.model import Plan

# A comment to the end of its line, or an opcode that is no part of a longer name.
_TENSOR_CORES = re.compile(r"//[^\n]*|(?<![\w$%.])((?:wgmma|wmma|mma|tcgen05)\s*\.[a-z0-9_]{1,20})")


def uses_tensor_cores(task: Task, plan: Plan) -> tuple[str, int] | None:
    """A sentence and a line about the first kernel that uses tensor cores where the lab asks for CUDA cores.

    Any kernel of the plan counts, whether or not a case reaches the instruction. What hides from this search of the
    text does not hide from the emulator, whose count of such instructions has a budget of none.
    """
    if task.tensor_cores:
        return None
    for kernel in plan.kernels.values():
        for text in kernel.ptx.values():
            found = next((match[1] for match in _TENSOR_CORES.finditer(text) if match[1]), "")
            if found:
                words = f"Kernel {clean(kernel.name)} uses tensor cores ({found}); this lab asks for CUDA cores"
                return f"{words}: multiply and add in float32.", kernel.line
    return None
