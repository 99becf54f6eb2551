"""What one block of a launch did, made from its trace: accesses, a timeline, and the counters as a table."""

from warplab.emulator.profiling.profile import Profile, profile

__all__ = ["Profile", "profile"]
