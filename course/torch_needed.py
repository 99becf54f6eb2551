"""The extra that a chapter may need, asked for in its first cell."""

from __future__ import annotations

import importlib.util

from warplab.errors import WarplabError


class TorchMissing(WarplabError):
    """PyTorch is not installed, and the chapter cannot go on without."""


def need_torch() -> None:
    """Raises TorchMissing where torch is not installed."""
    if importlib.util.find_spec("torch") is None:
        raise TorchMissing("This chapter needs torch: run `make torch` in the checkout, then restart the kernel.")
