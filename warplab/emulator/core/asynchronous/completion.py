"""Completes asynchronous operations: as late as the waits allow, or at random moments of a seeded run."""

from __future__ import annotations

from warplab.emulator.core.asynchronous.bulk_calls import finish_bulk
from warplab.emulator.core.asynchronous.events import pending_events, take_event
from warplab.emulator.core.asynchronous.remote import complete_remote
from warplab.emulator.core.asynchronous.tensor_calls import finish_tensor
from warplab.emulator.core.state.faults import compiled
from warplab.emulator.core.state.layout import E_KIND, EVENT_STORE, EVENT_TENSOR, EVENTS
from warplab.emulator.core.state.random_order import random_below
from warplab.emulator.core.state.raw import get


@compiled
def _make_event(event):
    """Do what an event says."""
    if get(event, E_KIND) == EVENT_STORE:
        complete_remote(event)
    elif get(event, E_KIND) == EVENT_TENSOR:
        finish_tensor(event)
    else:
        finish_bulk(event)


@compiled
def complete_one(m):
    """Complete the oldest operation of the cluster that is on its way, or a random one; False if there is none."""
    count = pending_events(m)
    if count == 0:
        return False
    _make_event(take_event(m, random_below(m, count)))
    return True


@compiled
def make_room(m, events):
    """Before so many operations are issued: complete old ones while the queue cannot take them."""
    while pending_events(m) + events > EVENTS and complete_one(m):
        pass


@compiled
def complete_all(m):
    """The cluster has ended: nothing may be left."""
    while complete_one(m):
        pass
