"""Where the lines that tests name are in kernels.py."""

from __future__ import annotations

from pathlib import Path

from tests.emulator import kernels

TEXT = Path(kernels.__file__).read_text().splitlines()


def line_of(mark: str) -> int:
    (line,) = (i for i, text in enumerate(TEXT, 1) if f"# MARK {mark}" in text)
    return line
