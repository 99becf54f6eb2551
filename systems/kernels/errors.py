"""The error of these functions."""

from __future__ import annotations

from warplab.errors import WarplabError


class KernelError(WarplabError):
    """Arrays that a product does not take, a GPU that its kernels are not for, or a launch that the driver refused."""
