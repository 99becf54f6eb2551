"""Runs schedules for real: a process a rank, over sockets, or over torch.distributed with Gloo or NCCL."""

from systems.network.execution.launch import execute
from systems.network.execution.outcome import Backend, Fault, FaultKind, Outcome, Verdict

__all__ = ["Backend", "Fault", "FaultKind", "Outcome", "Verdict", "execute"]
