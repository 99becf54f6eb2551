"""How entries of the unseen sets after the first are made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from corpus.emulator.draws import Draw
from corpus.emulator.entry import Approximate, Entry


def maker(folder: str, file: str, prefix: str = "") -> Callable[..., Entry]:
    """A function that makes entries of kernels/{folder}/{file}.py from a host function's name, what it should
    compute, its arguments and, by name, how its arrays are drawn."""

    def make(
        name: str,
        expected: Callable[[dict], dict],
        *arguments: Any,
        tolerance: float = 0.0,
        approximate: Approximate | None = None,
        uncounted: str = "",
        **inputs: Draw,
    ) -> Entry:
        path = f"kernels/{folder}/{file}.py"
        label = f"{folder}/{prefix}{name}"
        return Entry(label, path, name, arguments, inputs, expected, tolerance, approximate, uncounted)

    return make
