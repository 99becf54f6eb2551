"""Seconds, bytes and shapes as chapters write them."""

from __future__ import annotations

from collections.abc import Sequence


def spoken(seconds: float) -> str:
    """Seconds with three digits, in a unit that reads well."""
    for factor, unit in ((1, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= factor:
            return f"{seconds / factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def binary(size: float) -> str:
    """Bytes as B, KiB, MiB or GiB."""
    power = min(3, (int(size).bit_length() - 1) // 10)
    return f"{size / 1024**power:g} {('B', 'KiB', 'MiB', 'GiB')[power]}"


def dimensions(shape: Sequence[int]) -> str:
    """A shape as text, such as 4,096 x 256 x 64."""
    return " x ".join(f"{size:,}" for size in shape)
