"""Completes asynchronous operations: as late as the waits allow, or at random moments of a seeded run."""

from __future__ import annotations

from warplab.simt.async_events import pending_events, take_event
from warplab.simt.chance import chance
from warplab.simt.layout import E_KIND, EVENT_STORE, EVENTS
from warplab.simt.raw import get
from warplab.simt.remote import complete_remote
from warplab.simt.state import compiled


@compiled
def _make_event(event):
    """Do what an event says."""
    if get(event, E_KIND) == EVENT_STORE:
        complete_remote(event)


@compiled
def complete_one(m):
    """Complete the oldest operation of the cluster that is on its way, or a random one; False if there is none."""
    count = pending_events(m)
    if count == 0:
        return False
    _make_event(take_event(m, chance(m, count)))
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
