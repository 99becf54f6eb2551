"""Runs schedules for real: a process a rank, over sockets, or over torch.distributed with Gloo or NCCL."""

from warplab.network.execution.launch import execute
from warplab.network.execution.outcome import Backend, Fault, FaultKind, Outcome, Verdict

__all__ = ["Backend", "Fault", "FaultKind", "Outcome", "Verdict", "execute"]
