"""Machine code of the interpreter's parts that comes with the wheel: which of it fits this processor.

`build_objects` writes it, for Linux. An object needs nothing of the Python or the Numba that it was made with but the
names of functions that every Python and Numba has, so its key is the digest of the sources alone.
"""

from __future__ import annotations

import json
import platform
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from llvmlite import binding

FOLDER = Path(__file__).with_name("objects")
MANIFEST = "manifest.json"  # {part: {"sources": digest, "function": name}}


@dataclass(frozen=True)
class Target:
    """A kind of processor that objects are made for: what LLVM is told of it, and the features that it must have.

    The levels of x86-64 are those of its psABI.
    """

    name: str
    triple: str
    machine: str  # as platform.machine() says
    cpu: str
    reloc: str
    needs: frozenset[str] = frozenset()


_V3 = frozenset({"avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"})
_V4 = _V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
# The best first
TARGETS = (
    Target("x86-64-v4", "x86_64-unknown-linux-gnu", "x86_64", "x86-64-v4", "static", _V4),
    Target("x86-64-v3", "x86_64-unknown-linux-gnu", "x86_64", "x86-64-v3", "static", _V3),
    Target("aarch64", "aarch64-unknown-linux-gnu", "aarch64", "generic", "default"),
)


@cache
def fitting() -> Target | None:
    """The best target whose code this processor runs; None where there is none."""
    if sys.platform != "linux":
        return None
    features = {name for name, there in binding.get_host_cpu_features().items() if there}
    fits = (t for t in TARGETS if t.machine == platform.machine() and t.needs <= features)
    return next(fits, None)


def packaged(part: str, sources: str) -> tuple[str, bytes] | None:
    """The name of a part's function and its object file, if the wheel has it for this processor and these sources."""
    target = fitting()
    if target is None:
        return None
    try:
        made = json.loads((FOLDER / MANIFEST).read_text(encoding="utf-8"))[part]
        if made["sources"] != sources:
            return None
        return made["function"], (FOLDER / target.name / f"{part}.o").read_bytes()
    except (OSError, ValueError, KeyError, TypeError):  # there are none, or they are damaged: it is compiled then
        return None
