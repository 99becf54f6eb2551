"""How entries of kernels/unseen_second/*.py are made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from corpus.emulator.entry import Approximate, Draw, Entry


def maker(file: str, prefix: str = "") -> Callable[..., Entry]:
    """A function that makes entries of kernels/unseen_second/{file}.py from a host function's name, what it should
    compute, its arguments and, by name, how its arrays are drawn."""

    def make(
        name: str,
        expected: Callable[[dict], dict],
        *arguments: Any,
        tolerance: float = 0.0,
        approximate: Approximate | None = None,
        **inputs: Draw,
    ) -> Entry:
        path = f"kernels/unseen_second/{file}.py"
        label = f"unseen_second/{prefix}{name}"
        return Entry(label, path, name, arguments, inputs, expected, tolerance, approximate)

    return make
