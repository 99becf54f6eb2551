"""The collectives, and how nccl-tests turns a time into a bandwidth.

A size is nccl-tests' throughout: the bytes of the larger side of one rank's buffers. That is what each rank gives and
gets for all-reduce, broadcast, reduce and send; what it ends with for all-gather; what it starts with for
reduce-scatter; what it sends to all ranks together, itself included, for all-to-all.
"""

from __future__ import annotations

from enum import StrEnum

from systems.network.links import NetworkError


class Collective(StrEnum):
    """An operation of all ranks together, or of two for `SEND_RECV`. Sums, where it reduces."""

    ALL_REDUCE = "all_reduce"
    ALL_GATHER = "all_gather"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_TO_ALL = "all_to_all"
    BROADCAST = "broadcast"
    REDUCE = "reduce"
    SEND_RECV = "send_recv"


def bus_factor(collective: Collective, ranks: int) -> float:
    """What nccl-tests multiplies size / time with to get the bus bandwidth (its doc/PERFORMANCE.md, commit a0b82b2).

    It is the share of `size` that has to cross the busiest port of each rank at least, if ranks exchange messages.
    """
    if ranks < 2:
        raise NetworkError(f"A collective of {ranks} ranks moves nothing: it needs two or more.")
    once = (ranks - 1) / ranks
    if collective is Collective.ALL_REDUCE:
        return 2 * once
    if collective in (Collective.ALL_GATHER, Collective.REDUCE_SCATTER, Collective.ALL_TO_ALL):
        return once
    return 1.0


def algorithm_bandwidth(size: float, seconds: float) -> float:
    """Bytes/s as nccl-tests' column algbw."""
    return size / seconds


def bus_bandwidth(collective: Collective, ranks: int, size: float, seconds: float) -> float:
    """Bytes/s as nccl-tests' column busbw: comparable with a port's bandwidth, whatever the number of ranks."""
    return algorithm_bandwidth(size, seconds) * bus_factor(collective, ranks)
