"""Runs the orders of a pipeline for real: a process a rank, on a small stack of layers whose gradients are compared."""

from warplab.parallel.execution.train import train
from warplab.parallel.execution.work import Work

__all__ = ["Work", "train"]
