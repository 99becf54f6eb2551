"""The language of a kernel, for which the word of the capture process is not enough.

Numba mangles the name of every kernel with a tag of its own, the number of the function (`B2v1`: a tag of two letters,
"v1"), which C++ compilers give to no function. PTX that was written to look like Numba's cannot be told from it, by
this or by anything else: the language is a rule of a lab, not a limit to what a kernel can do.
"""

from __future__ import annotations

import re

from warplab.plan.model import Kernel, Language

_NUMBAS_NAME = re.compile(r"_ZN\w{0,4000}B\d{1,2}v\d")


def language_of(kernel: Kernel) -> Language:
    """Numba, if that is what the kernel is said to be written in and its entry's name is one of Numba's."""
    numba = kernel.language is Language.NUMBA and _NUMBAS_NAME.match(kernel.entry)
    return Language.NUMBA if numba else Language.CUDA_CPP
