"""The emulator: runs a plan's PTX on the CPU, counts what it costs on a GPU, and finds its faults."""

from warplab.simt.executor import execute

__all__ = ["execute"]
