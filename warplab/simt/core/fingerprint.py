"""A digest of this package's sources, part of the key of everything compiled that is kept on disk."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

_PYTHON_ONLY = (
    "contract.", "decoder.", "executor.", "findings.", "flow.", "liveness.", "machine.", "memory.", "parser.",
    "printing.", "registers.",
)  # fmt: skip


@cache
def source_fingerprint() -> str:
    """Hex digest of the package. Numba's disk cache by itself only watches the file that a function is written in.

    What reads PTX, sets the machine up and words its faults is Python only: changing it changes nothing compiled.
    """
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        if not path.name.startswith(("lower_", *_PYTHON_ONLY)):
            digest.update(path.read_bytes())
    return digest.hexdigest()
