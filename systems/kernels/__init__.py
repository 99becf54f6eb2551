"""Our matrix products as functions for arrays of CuPy and PyTorch on a Hopper GPU."""

from systems.kernels.errors import KernelError
from systems.kernels.half_matmul import matmul

__all__ = ["KernelError", "matmul"]
