"""Machine code of a kernel, compiled once and kept in the user's cache."""

from __future__ import annotations

from functools import cache

from systems.kernels.recipes import Code
from warplab.errors import CompileError
from warplab.plan import assembler
from warplab.plan import cache as kept
from warplab.plan.capture import nvrtc

CACHE_KIND = "product-1"  # of the cache; the number changes with the form of its entries
_SECONDS = 60.0  # of the assembler, at most


def ptx_of(code: Code, architecture: str) -> str:
    """PTX for an architecture such as "sm_90a"."""
    return nvrtc.compile_cpp(code.source, code.files[-1], (), (), architecture).ptx


@cache
def image_of(code: Code, architecture: str) -> bytes:
    """A cubin for an architecture such as "sm_90a": from the cache, or compiled, which takes one or two seconds."""
    key = kept.key_of(code.source, architecture, nvrtc.version(), assembler.version(), *assembler.FLAGS)
    image = kept.read(CACHE_KIND, key)
    if image is None:
        done = assembler.run(ptx_of(code, architecture), architecture, _SECONDS)
        image = done.image
        if not image:
            raise CompileError(f"The kernel {code.entry} does not assemble for {architecture}: {done.log[-300:]}")
        kept.write(CACHE_KIND, key, image)
    return image
