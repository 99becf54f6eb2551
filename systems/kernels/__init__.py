"""Our products as functions for arrays of CuPy and PyTorch on a Hopper GPU."""

from systems.kernels.errors import KernelError
from systems.kernels.fp8 import fp8_matmul
from systems.kernels.grouped import grouped_matmul
from systems.kernels.half_matmul import matmul
from systems.kernels.routing import Shuffled, shuffle

__all__ = ["KernelError", "Shuffled", "fp8_matmul", "grouped_matmul", "matmul", "shuffle"]
