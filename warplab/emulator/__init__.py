"""The emulator: runs a plan's PTX on the CPU, counts what it costs on a GPU, and finds its faults."""

from warplab.emulator.executor import execute
from warplab.emulator.profiling import Profile, profile

__all__ = ["Profile", "execute", "profile"]
