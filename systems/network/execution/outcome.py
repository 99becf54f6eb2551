"""What a run of a schedule is asked for and gives, and what its processes say to each other."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, BinaryIO

import msgspec
from numpy.typing import NDArray

from systems.network.schedules import Schedule


class Backend(StrEnum):
    """What carries the chunks from process to process."""

    SOCKETS = "sockets"  # pairs of Unix sockets: nothing but Python and NumPy
    GLOO = "gloo"  # torch.distributed on processors
    NCCL = "nccl"  # torch.distributed on GPUs, one a rank


class Verdict(StrEnum):
    """How a run ended."""

    RIGHT = "right"
    WRONG_RESULT = "wrong result"
    WRONG_SIZE = "wrong size"  # a rank sent another number of bytes than the schedule says
    WRONG_MESSAGE = "wrong message"  # a rank sent another chunk than it was to send next
    DIED = "died"
    HUNG = "hung"
    REFUSED = "refused"  # the schedule is wrong: nothing was started
    NOT_STARTED = "not started"  # this machine lacks what the backend needs


class FaultKind(StrEnum):
    """What a rank can be made to do wrong."""

    DIE = "die"
    HANG = "hang"
    SEND_LESS = "send less"


@dataclass(frozen=True)
class Fault:
    """One rank misbehaves when it comes to a step: to see what the others, and the judge, make of it."""

    rank: int
    step: int
    kind: FaultKind


@dataclass(frozen=True, eq=False)
class Outcome:
    """A verdict in one sentence; `rank` and `step` are those to blame, where somebody is.

    `outputs` has what each rank ended with where all ended. `seconds` is wall time from the first step to the last of
    all processes on this machine: of a machine's cores and memory, not of a network.
    """

    verdict: Verdict
    sentence: str
    rank: int | None = None
    step: int | None = None
    outputs: tuple[NDArray[Any], ...] = ()
    seconds: float | None = None


class ScheduleJob(msgspec.Struct, frozen=True):
    """What a rank's process is told first; the bytes of its input follow."""

    schedule: Schedule
    rank: int
    backend: Backend
    dtype: str
    elements: int  # of its own input
    patience: float  # seconds that a peer may take
    sockets: dict[int, int]  # by peer: the number of an inherited file
    rendezvous: str  # a file that all ranks can open
    fault: FaultKind | None = None
    fault_step: int = -1


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a rank's process says, a line each; after "done" the bytes of its output follow."""

    kind: str  # "ready", "step", "blame", "done", "unable"
    step: int = -1
    peer: int = -1
    verdict: Verdict | None = None
    text: str = ""
    bytes: int = 0


def say(target: BinaryIO, message: Message, more: bytes = b"") -> None:
    """Write a message, with the bytes that follow it."""
    target.write(msgspec.json.encode(message) + b"\n" + more)
    target.flush()


class PeerError(Exception):
    """A peer did not do its part: what, which peer, and the transfer if it was one that showed it."""

    def __init__(self, verdict: Verdict, peer: int, text: str, transfer: int | None = None) -> None:
        super().__init__(text)
        self.verdict, self.peer, self.text, self.transfer = verdict, peer, text, transfer


@dataclass(frozen=True, eq=False)
class Send:
    """A chunk that leaves: the number of its transfer and its numbers."""

    peer: int
    transfer: int
    data: NDArray[Any]


@dataclass(frozen=True, eq=False)
class Receive:
    """A chunk that is expected: the number of its transfer and where its numbers go."""

    peer: int
    transfer: int
    into: NDArray[Any]


def check_header(peer: int, expected: Receive, transfer: int, size: int) -> None:
    """Whether a message is the one expected. Raises PeerError."""
    if transfer != expected.transfer:
        raise PeerError(
            Verdict.WRONG_MESSAGE,
            peer,
            f"sent transfer {transfer} where {expected.transfer} was due",
            expected.transfer,
        )
    if size != expected.into.nbytes:
        words = f"sent {size} bytes where the schedule has {expected.into.nbytes}"
        raise PeerError(Verdict.WRONG_SIZE, peer, words, transfer)
