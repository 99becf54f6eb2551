"""Asynchronous operations that complete at an mbarrier: one queue a cluster, which nobody waits for in program order.

An event says what is to be done when its operation completes. `completion.py` decides which completes when, and
does it. The queue is a ring: its first event and their number, then the events.
"""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.state.faults import compiled
from warplab.emulator.core.state.layout import (
    E_KIND,
    E_LANE,
    E_MACHINE,
    E_PC,
    E_WARP,
    EVENT_BYTES,
    EVENT_FIELDS,
    EVENTS,
    M_EVENTS,
)
from warplab.emulator.core.state.raw import copy_bytes, get, increase, put

_FIRST, _COUNT, _HEAD = 0, 1, 2
EVENTS_BYTES = 8 * _HEAD + (EVENTS + 1) * EVENT_BYTES  # the last one is for the event that is being completed


@compiled
def _event_at(queue, place):
    return queue + 8 * _HEAD + (place & (EVENTS - 1)) * EVENT_BYTES


@compiled
def clear_events(m):
    """An empty queue, as at the start of a cluster."""
    queue = get(m, M_EVENTS)
    if queue:
        put(queue, _FIRST, 0)
        put(queue, _COUNT, 0)


@compiled
def pending_events(m):
    """How many operations of the cluster are on their way."""
    queue = get(m, M_EVENTS)
    return get(queue, _COUNT) if queue else np.int64(0)


@compiled
def new_event(m, kind, warp, lane, pc):
    """The address of a fresh event of the block's; its fields from E_0 on are 0. There has to be room in the queue."""
    queue = get(m, M_EVENTS)
    event = _event_at(queue, get(queue, _FIRST) + get(queue, _COUNT))
    increase(queue, _COUNT, 1)
    for place in range(EVENT_FIELDS):
        put(event, place, 0)
    put(event, E_KIND, kind)
    put(event, E_MACHINE, m)
    put(event, E_WARP, warp)
    put(event, E_LANE, lane)
    put(event, E_PC, pc)
    return event


@compiled
def take_event(m, index):
    """Take the index-th event off the queue; returns the address of a copy, good until the next one is taken."""
    queue = get(m, M_EVENTS)
    taken = queue + 8 * _HEAD + EVENTS * EVENT_BYTES
    first = _event_at(queue, get(queue, _FIRST))
    chosen = _event_at(queue, get(queue, _FIRST) + index)
    copy_bytes(taken, chosen, EVENT_BYTES)
    if index:
        copy_bytes(chosen, first, EVENT_BYTES)
    put(queue, _FIRST, (get(queue, _FIRST) + 1) & (EVENTS - 1))
    increase(queue, _COUNT, -1)
    return taken
