"""The emulator: runs a plan's PTX on the CPU, counts what it costs on a GPU, and finds its faults."""

from warplab.simt.executor import execute
from warplab.simt.machine import compile_parts
from warplab.simt.profiling import Profile, profile

__all__ = ["Profile", "compile_parts", "execute", "profile"]
