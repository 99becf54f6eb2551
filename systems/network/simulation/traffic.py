"""A schedule laid over a topology: each transfer's links, latency and bytes, and which of them are alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from systems.network.links import NetworkError
from systems.network.schedules.model import Schedule, columns, validate
from systems.network.topology import Topology

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
MOST_REPEATS = 1 << 20  # of a phase: a ring of a million ranks has as many
_ROUNDS = 12  # of refinement: what is not settled by then is tried with the topology's period, then given up


@dataclass(frozen=True, eq=False)
class Traffic:
    """The transfers of one repeat of each phase, one after the other; `uses` has each one's links, padded with -1."""

    ranks: int
    repeats: list[int]  # of each phase
    phase: Integers
    step: Integers  # of the source, within a repeat
    received: Integers
    source: Integers
    destination: Integers
    uses: Integers
    latency: Floats
    bytes: float  # of every transfer
    bandwidth: Floats  # of every link
    period: int  # of the topology, in ranks


def lay(schedule: Schedule, topology: Topology, size: float) -> Traffic:
    """The schedule on the topology for `size` bytes. Raises NetworkError if the ranks differ or the size is below 0."""
    validate(schedule)
    if schedule.ranks != topology.ranks:
        raise NetworkError(f"{schedule.name} is for {schedule.ranks} ranks, but {topology.name} has {topology.ranks}.")
    if not 0 <= size < float("inf"):
        raise NetworkError(f"A size of {size} bytes cannot be: give 0 or more.")
    if max((phase.repeats for phase in schedule.phases), default=0) > MOST_REPEATS:
        raise NetworkError(
            f"{schedule.name} repeats a phase more than {MOST_REPEATS} times: nothing that needs it is known."
        )
    if not schedule.phases:
        raise NetworkError(f"{schedule.name} has no transfers: there is nothing to simulate.")
    parts = [columns(phase) for phase in schedule.phases]
    source = np.concatenate([part.source for part in parts])
    destination = np.concatenate([part.destination for part in parts])
    uses = topology.routes(source, destination)
    latency = np.where(uses >= 0, topology.latency[uses], 0).sum(1)
    return Traffic(
        schedule.ranks,
        [phase.repeats for phase in schedule.phases],
        np.repeat(np.arange(len(parts)), [len(part.step) for part in parts]),
        np.concatenate([part.step for part in parts]),
        np.concatenate([part.received for part in parts]),
        source,
        destination,
        uses,
        latency,
        size * schedule.chunk_share(),
        topology.bandwidth,
        topology.period,
    )


def link_bytes(traffic: Traffic) -> Floats:
    """What each link carries in the end, bytes."""
    times = np.asarray(traffic.repeats, np.float64)[traffic.phase]
    used = traffic.uses >= 0
    rows = np.broadcast_to(times[:, None], traffic.uses.shape)
    return np.bincount(traffic.uses[used], rows[used], len(traffic.bandwidth)).astype(np.float64) * traffic.bytes


def exclusive(traffic: Traffic) -> bool:
    """Whether no two transfers can ever share a link, so that each has its path's rate for itself.

    It is so if all that use a link have one end in common, which does its steps one after the other, and do not meet
    in a step of it.
    """
    if (traffic.step != traffic.received).any():
        return False
    row, column = np.nonzero(traffic.uses >= 0)
    link = traffic.uses[row, column]
    common = np.zeros(len(traffic.bandwidth), bool)
    for end in (traffic.source, traffic.destination):
        low, high = np.full(len(common), traffic.ranks), np.full(len(common), -1)
        np.minimum.at(low, link, end[row])
        np.maximum.at(high, link, end[row])
        common |= low >= high
    steps = int(traffic.step.max()) + 1
    meeting = np.unique(
        (link * len(traffic.repeats) + traffic.phase[row]) * steps + traffic.step[row], return_counts=True
    )
    return bool(common[link].all() and (meeting[1] == 1).all())


@dataclass(frozen=True, eq=False)
class Classes:
    """Ranks, transfers and links that behave alike for ever, because all around them does.

    The partition is equitable: transfers of a class have ranks and links of the same classes at the same places, ranks
    of a class have as many transfers of each class, and links of a class carry as many. Max-min rates depend on
    nothing else, so one of each class stands for all, and the result is exact.
    """

    rank: Integers  # the class of each rank
    transfer: Integers  # of each transfer
    link: Integers  # of each link, -1 where unused
    first: Integers  # for each class of transfers, one of them
    # What the links of each class carry: link class, transfer class, how many through one such link.
    carries_link: Integers
    carries_transfer: Integers
    carries_count: Floats
    capacity: Floats  # of a link of each class


def classify(traffic: Traffic) -> Classes:
    """An equitable partition, by refinement of colours until nothing splits (64-bit hashes tell sets apart)."""
    used = traffic.uses >= 0
    row, column = np.nonzero(used)
    link = traffic.uses[row, column]
    count = len(traffic.bandwidth)
    rank_of = np.zeros(traffic.ranks, np.int64)
    link_of = np.unique(traffic.bandwidth, return_inverse=True)[1].reshape(-1)
    fixed = [traffic.phase, traffic.step, traffic.received, np.unique(traffic.latency, return_inverse=True)[1]]
    transfer_of = np.zeros(len(traffic.source), np.int64)
    before = 0
    for rounds in range(2 * _ROUNDS + 1):
        if rounds == _ROUNDS:  # a change far off takes as many rounds to be felt: begin with what may be alike at most
            rank_of = _colours([rank_of, np.arange(traffic.ranks) % traffic.period])
        places = [np.where(used[:, i], link_of[traffic.uses[:, i]], -1) for i in range(traffic.uses.shape[1])]
        transfer_of = _colours([*fixed, rank_of[traffic.source], rank_of[traffic.destination], *places])
        mark = _hash(transfer_of)
        through, out, into = (np.zeros(size, np.uint64) for size in (count, traffic.ranks, traffic.ranks))
        np.add.at(through, link, mark[row])
        np.add.at(out, traffic.source, mark)
        np.add.at(into, traffic.destination, mark)
        link_of, rank_of = _colours([link_of, through]), _colours([rank_of, out, into])
        now = int(link_of.max() + rank_of.max() + transfer_of.max())
        if now == before:
            break
        before = now
        if rounds == 2 * _ROUNDS:  # everything for itself is equitable too
            transfer_of, link_of = np.arange(len(traffic.source)), np.arange(count)
            rank_of = np.arange(traffic.ranks)
    busy = np.zeros(count, bool)
    busy[link] = True
    names, speaker = np.unique(np.where(busy, link_of, -1), return_index=True)
    names, speaker = names[names >= 0], speaker[names >= 0]
    numbered = np.full(int(link_of.max()) + 1, -1)
    numbered[names] = np.arange(len(names))
    speaks = np.zeros(count, bool)
    speaks[speaker] = True
    on = speaks[link]
    pairs, times = np.unique(np.stack([numbered[link_of[link[on]]], transfer_of[row[on]]]), axis=1, return_counts=True)
    return Classes(
        rank_of,
        transfer_of,
        np.where(busy, numbered[link_of], -1),
        np.unique(transfer_of, return_index=True)[1],
        pairs[0],
        pairs[1],
        times.astype(np.float64),
        traffic.bandwidth[speaker],
    )


def _colours(keys: Sequence[NDArray[Any]]) -> Integers:
    """Numbers from 0 for the distinct rows of the keys."""
    mixed = np.zeros(len(keys[0]), np.uint64)
    for key in keys:
        mixed = _hash(mixed * np.uint64(0x9E3779B97F4A7C15) + key.astype(np.uint64))
    return np.unique(mixed, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _hash(values: NDArray[np.int64] | NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Spreads numbers over 64 bits (the finaliser of splitmix64)."""
    mixed = values.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ mixed >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ mixed >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return mixed ^ mixed >> np.uint64(31)
