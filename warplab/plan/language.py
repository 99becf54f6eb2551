"""The language of a kernel, from its PTX rather than from what the capture process says of it.

Numba gives every kernel a variable beside it, `_ZN08NumbaEnv` and the rest of the entry's mangled name; no C++ compiler
does. PTX that was written to look like Numba's cannot be told from it, by this or by anything else: the language is a
rule of a lab, not a limit to what a kernel can do.
"""

from __future__ import annotations

from warplab.plan.model import Kernel, Language

_MANGLED = "_ZN"
_ENVIRONMENT = "_ZN08NumbaEnv"


def language_of(kernel: Kernel) -> Language:
    """The language that the PTX of a kernel shows, for every architecture that it has PTX for."""
    if not kernel.entry.startswith(_MANGLED):
        return Language.CUDA_CPP
    environment = f"{_ENVIRONMENT}{kernel.entry.removeprefix(_MANGLED)};"
    shown = all(environment in text for text in kernel.ptx.values())
    return Language.NUMBA if shown else Language.CUDA_CPP
