"""How NCCL shares a call out among its channels, and the time that follows: a law of a few constants a protocol.

A channel is a thread block that sends, receives and adds a part of the data; all parts are about equal, so a call takes
as long as one of them. What a channel gets is decided by rules that NCCL's source states (2.28.9; a 2.28 is what
PyTorch 2.11 brings: src/enqueue.cc, topoGetAlgoInfo and addP2pToPlan; src/device/common_kernel.h and prims_simple.h).
They say where the curve of times has kinks; the constants, which say how steep it is between them, are fitted:

* **LL and LL128**, whose flags travel with the data: a wait, something for each channel that takes part, and a byte's
  time through a channel. A ring takes one more channel each time that the size grows by 8 bytes a thread and rank
  (LL), 512 threads.
* **Simple, rings**: a wait and the bytes of a channel, in three ranges. A chunk is cut into two slices; up to 64 KiB,
  16 bytes by 8 loads of 512 threads, a slice is one pass of the block's loop, whose latency hides bytes. Up to 1 MiB
  a slice fits one of the eight steps of the channel's buffer, 512 KiB; beyond, it takes more of them. By the source a
  chunk of 2 MiB, four steps, is as likely a place for this kink: the sizes that are fitted decided for the half.
* **Simple, broadcast**: the same, but a chunk is one slice of 512 KiB, and the root runs ahead of the others until the
  channel's buffer of 4 MiB is full.
* **Send and receive** (all-to-all), of which NCCL logs no choice: LL up to 16 KiB a channel, Simple beyond. A message
  takes a channel for each 8 KiB (LL) or 64 KiB (Simple), up to a number that leaves every peer its own; as long as a
  channel's part is above 16 MiB, twice as many. The receiver copies a chunk of 512 KiB out of the buffer while the
  next one comes, so that the last chunk's way out comes on top. Where channels were doubled, the port is the limit.

The rules are those of GPUs on NVLink in one node, without NVLS. Other versions of NCCL may have others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from systems.network.collectives import Collective, bus_factor
from systems.network.links import NetworkError
from systems.network.nccl import Protocol

KIB, MIB = 1 << 10, 1 << 20
CHANNELS = 24  # of a ring over GPUs on NVSwitches of Hopper, where no log says how many
WAIT, CHANNEL = "wait", "start of a channel"  # terms that are times; all others are bytes

_THREADS = {Protocol.LL: 512, Protocol.LL128: 640, Protocol.SIMPLE: 512}
_LEAST = {
    Protocol.LL: 8,
    Protocol.LL128: 8,
    Protocol.SIMPLE: 64,
}  # bytes of the size that a thread is worth; LL: a rank
_RING = ((128 * KIB, "in one pass"), (MIB, "in one step"), (float("inf"), "in further steps"))
CHUNK = 512 * KIB  # of a broadcast and of a message
_BROADCAST = ((CHUNK, "in one chunk"), (4 * MIB, "in one buffer"), (float("inf"), "in further buffers"))
_MESSAGE_LL, _PART_LL, _PART_SIMPLE, _LARGEST_PART = 16 * KIB, 8 * KIB, 64 * KIB, 16 * MIB


@dataclass(frozen=True)
class Call:
    """One call over `ranks` GPUs of one node; `size` in bytes, as systems.network.collectives counts it.

    `protocol` is what NCCL's log names, None for an all-to-all. `channels` are those that the log names for this call,
    None where it is to be found by the rule; `most` is how many channels the communicator has.
    """

    collective: Collective
    ranks: int
    size: int
    protocol: Protocol | None
    channels: int | None = None
    most: int = CHANNELS


def terms(call: Call) -> dict[str, float]:
    """What the call's time is made of: how often each constant counts, by its name.

    A name is a protocol and WAIT (once), CHANNEL (channels that take part) or bytes of one channel, or of the port.
    Raises NetworkError for a call whose protocol is not known.
    """
    if call.collective is Collective.ALL_TO_ALL:
        return _messages(call)
    if call.protocol is None:
        raise NetworkError(f"What {call.collective} takes depends on its protocol, and none is given.")
    channels = call.channels or ring_channels(call)
    through = bus_factor(call.collective, call.ranks) * call.size / channels
    if call.protocol is not Protocol.SIMPLE:
        return {
            f"{call.protocol}: {WAIT}": 1.0,
            f"{call.protocol}: {CHANNEL}": float(channels),
            f"{call.protocol}: a channel": through,
        }
    one = call.collective in (Collective.BROADCAST, Collective.REDUCE)
    step = call.size / channels / (1 if one else call.ranks)
    found = {f"simple: {WAIT}": 1.0}
    before = 0.0
    for last, words in _BROADCAST if one else _RING:
        found[f"simple: a channel, {words}"] = max(0.0, min(step, last) - before) * through / step
        before = last
    return found


def ring_channels(call: Call) -> int:
    """How many channels a ring takes for a size: a further one for each size that its threads are worth."""
    assert call.protocol is not None
    worth = _THREADS[call.protocol] * _LEAST[call.protocol] * (call.ranks if call.protocol is Protocol.LL else 1)
    return max(1, min(call.most, call.size // worth))


def message_channels(call: Call) -> tuple[Protocol, int, int]:
    """The protocol and channels of each message of an all-to-all, and the channels that a message takes at first."""
    size, all_channels = call.size // call.ranks, 1 << (call.most - 1).bit_length()
    usual = all_channels
    while usual * call.ranks > all_channels and usual > 1:
        usual //= 2
    if size <= all_channels * _MESSAGE_LL:
        return Protocol.LL, min(usual, -(-size // _PART_LL)), usual
    channels = min(usual, -(-size // _PART_SIMPLE))
    while size / channels > _LARGEST_PART and channels <= all_channels // 2:
        channels *= 2
    return Protocol.SIMPLE, channels, usual


def _messages(call: Call) -> dict[str, float]:
    protocol, channels, usual = message_channels(call)
    size = call.size / call.ranks
    part = size / channels
    if protocol is Protocol.LL:
        return {f"ll: {WAIT}": 1.0, f"ll: {CHANNEL}": float(channels), "ll: a channel": part}
    limit = ("a channel", part) if channels <= usual else ("the port", (call.ranks - 1) * size)
    last = "simple: a channel, the last chunk's way out"
    return {f"simple: {WAIT}": 1.0, f"simple: {limit[0]}": limit[1], last: min(part, float(CHUNK))}


@dataclass(frozen=True)
class Law:
    """Seconds that each term costs once, by the names of `terms`."""

    constants: Mapping[str, float]

    def knows(self, of: Mapping[str, float]) -> bool:
        """Whether every term that counts was there when the law was fitted."""
        return all(name in self.constants for name, count in of.items() if count)

    def seconds(self, of: Mapping[str, float]) -> float:
        """The time of a call with these terms. Raises KeyError for a term that is not known."""
        return sum(count * self.constants[name] for name, count in of.items() if count)


def fit_law(points: Sequence[tuple[Mapping[str, float], float]]) -> Law:
    """The law with the least squares of relative errors on (terms, seconds), none of whose constants is negative.

    Raises ValueError without points.
    """
    if not points:
        raise ValueError("a law needs points to be fitted to")
    names = sorted({name for of, _ in points for name, count in of.items() if count})
    rows = np.array([[of.get(name, 0.0) / seconds for name in names] for of, seconds in points])
    scale = np.abs(rows).max(axis=0)  # bytes and waits are of different orders
    left = list(range(len(names)))
    while True:  # a constant that would be negative is left out, and the others fitted again
        found, *_ = np.linalg.lstsq(rows[:, left] / scale[left], np.ones(len(rows)), rcond=None)
        if (found >= 0).all():
            break
        left = [index for index, value in zip(left, found, strict=True) if value > 0]
    constants = dict.fromkeys(names, 0.0)
    constants.update({names[index]: float(value / scale[index]) for index, value in zip(left, found, strict=True)})
    return Law(constants)
