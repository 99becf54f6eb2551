"""Runs the orders of a pipeline for real: a process a rank, on a small stack of layers whose gradients are compared."""

from systems.parallel.execution.train import train
from systems.parallel.execution.work import Work

__all__ = ["Work", "train"]
