"""What laws of two GPUs (systems.network.channels) say of more in one node: no constant is fitted to times of those.

A ring over n GPUs has 2(n - 2) steps more than one over two in an all-reduce, n - 2 in an all-gather or
reduce-scatter. With S = size / n / channels bytes in a channel and step,

    T(n, S) = T(2, S) + (further steps) x (S / B + hop).

* T(2, S) is the law of the same collective over two GPUs where a step has as many bytes.
* B is the rate at which a channel passes bytes on. The law of broadcast has it: its root does nothing but send.
* `hop` is what NCCL's tuner has for the protocol's hop over NVLink (data/nccl.toml).
* A **broadcast** passes chunks on while others come. Each further rank adds a bare hop, LL's, and with Simple the time
  in which its memory reads and writes the last chunk of every channel once, by the datasheet's bandwidth. The form was
  found on the times of four H200s, to which it fits; why the port, which is slower, does not count is not known.
* **LL128**, which NCCL does not take for two: the law of LL, but 120 of 128 bytes are data, not 4 of 8, and its wait is
  longer by what the tuner says.
* The messages of an **all-to-all** go no faster together than one does over two GPUs by all its channels: three
  messages of 8 channels each took as long as by 16, on four H200s. With channels doubled the port is the limit, as in
  the law.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from systems.network.channels import CHANNEL, CHUNK, WAIT, Call, Law, message_channels, terms
from systems.network.collectives import Collective
from systems.network.links import NetworkError
from systems.network.nccl import PROTOCOLS, Method, Protocol, constants

_PASSED_ON = {
    Protocol.LL: "ll: a channel",
    Protocol.SIMPLE: "simple: a channel, in further buffers",
}  # of the law of broadcast
_LL128 = (120 / 128) / (4 / 8)  # how much more of what travels is data
_FURTHER = {Collective.ALL_REDUCE: 2, Collective.ALL_GATHER: 1, Collective.REDUCE_SCATTER: 1}  # a further rank


def seconds(laws: Mapping[Collective, Law], call: Call, memory: float) -> float:
    """Time of a call over two GPUs or more, from laws that were fitted to two.

    `memory` is the bandwidth of a GPU's memory in bytes per second. Raises NetworkError for a collective without a law,
    a ring whose channels are not given, or a term that no law has.
    """
    try:
        if call.collective is Collective.ALL_TO_ALL:
            return _messages(laws[call.collective], call)
        return _ring(laws, call, memory)
    except KeyError as missing:
        raise NetworkError(f"The laws of two GPUs have no {missing}: fit them to more sizes or collectives.") from None


def _ring(laws: Mapping[Collective, Law], call: Call, memory: float) -> float:
    if call.protocol is None or call.channels is None:
        raise NetworkError(f"What {call.collective} takes depends on its protocol and channels: give both.")
    law = laws[call.collective]
    if call.collective is Collective.BROADCAST:
        chunks = min(call.size, call.channels * CHUNK) if call.protocol is Protocol.SIMPLE else 0
        return _of_two(law, call, call.size) + (call.ranks - 2) * (_tuner(Protocol.LL)[0] + 2 * chunks / memory)
    step = call.size / call.ranks / call.channels
    passed_on = _rate(laws[Collective.BROADCAST], call.protocol)
    further = _FURTHER[call.collective] * (call.ranks - 2)
    return _of_two(law, call, 2 * step * call.channels) + further * (step * passed_on + _tuner(call.protocol)[0])


def _of_two(law: Law, call: Call, size: float) -> float:
    """Seconds over two GPUs, by the law or, for LL128, by that of LL."""
    if call.protocol is not Protocol.LL128:
        return law.seconds(terms(replace(call, ranks=2, size=round(size))))
    of = terms(replace(call, ranks=2, size=round(size), protocol=Protocol.LL))
    longer = _tuner(Protocol.LL128)[1] - _tuner(Protocol.LL)[1]
    return longer + sum(
        count * law.constants[name] / (1.0 if name.endswith((WAIT, CHANNEL)) else _LL128) for name, count in of.items()
    )


def _rate(broadcast: Law, protocol: Protocol) -> float:
    """Seconds of a byte that a channel passes on; with LL128 no faster than with Simple."""
    if protocol is not Protocol.LL128:
        return broadcast.constants[_PASSED_ON[protocol]]
    of = broadcast.constants
    return max(of[_PASSED_ON[Protocol.LL]] / _LL128, of[_PASSED_ON[Protocol.SIMPLE]])


def _messages(law: Law, call: Call) -> float:
    of = terms(call)
    found = law.seconds(of)
    protocol, channels, usual = message_channels(call)
    name = f"{protocol}: a channel"
    if protocol is Protocol.SIMPLE and channels > usual:
        return found  # by the port
    _, _, of_two = message_channels(replace(call, ranks=2))
    all_messages = (call.ranks - 1) * call.size / call.ranks / of_two
    return found + max(0.0, all_messages - of[name]) * law.constants[name]


def _tuner(protocol: Protocol) -> tuple[float, float]:
    """Seconds of a hop over NVLink and of the start of a ring, as NCCL's tuner has them."""
    index, of = PROTOCOLS.index(protocol), constants()
    return of.hop["nvlink"][Method.RING][index] * 1e-6, of.base_latency[Method.RING][index] * 1e-6
