"""Carries chunks over pairs of Unix sockets, all sends and receives of a step at once, so that no buffer can block."""

from __future__ import annotations

import selectors
import socket
import struct
import time
from collections import deque

import numpy as np

from systems.network.execution.outcome import PeerError, Receive, Send, Verdict, check_header

_HEADER = struct.Struct("<QQ")  # the number of the transfer, the bytes that follow


class Sockets:
    """One end of a pair for each peer, given as numbers of inherited files."""

    def __init__(self, files: dict[int, int], patience: float) -> None:
        self._sockets = {peer: socket.socket(fileno=number) for peer, number in files.items()}
        self._patience = patience
        for one in self._sockets.values():
            one.setblocking(False)

    def exchange(self, sends: list[Send], receives: list[Receive]) -> None:
        """Send and receive all. Raises PeerError for a peer that is gone, silent too long, or sends something else."""
        outgoing: dict[int, deque[memoryview]] = {}
        for send in sends:
            queue = outgoing.setdefault(send.peer, deque())
            queue.append(memoryview(_HEADER.pack(send.transfer, send.data.nbytes)))
            queue.append(memoryview(send.data.tobytes()))
        incoming: dict[int, deque[_Incoming]] = {}
        for receive in receives:
            incoming.setdefault(receive.peer, deque()).append(_Incoming(receive))
        with selectors.DefaultSelector() as selector:
            for peer in outgoing.keys() | incoming.keys():
                selector.register(self._sockets[peer], _interest(peer, outgoing, incoming), peer)
            last = time.monotonic()
            while selector.get_map():
                ready = selector.select(max(0.0, last + self._patience - time.monotonic()))
                if not ready:
                    peer = min(key.data for key in selector.get_map().values())
                    raise PeerError(Verdict.HUNG, peer, f"was silent for {self._patience:g} s")
                last = time.monotonic()
                for key, events in ready:
                    peer = key.data
                    if events & selectors.EVENT_WRITE:
                        self._write(peer, outgoing[peer])
                    if events & selectors.EVENT_READ:
                        self._read(peer, incoming[peer])
                    interest = _interest(peer, outgoing, incoming)
                    if interest:
                        selector.modify(key.fileobj, interest, peer)
                    else:
                        selector.unregister(key.fileobj)

    def _write(self, peer: int, queue: deque[memoryview]) -> None:
        try:
            sent = self._sockets[peer].send(queue[0])
        except BlockingIOError:
            return
        except OSError:
            raise PeerError(Verdict.DIED, peer, "closed its connection") from None
        queue[0] = queue[0][sent:]
        while queue and not len(queue[0]):
            queue.popleft()

    def _read(self, peer: int, queue: deque[_Incoming]) -> None:
        try:
            count = self._sockets[peer].recv_into(queue[0].room())
        except BlockingIOError:
            return
        except OSError:
            count = 0
        if not count:
            raise PeerError(Verdict.DIED, peer, "closed its connection")
        if queue[0].got(count):
            queue.popleft()

    def close(self) -> None:
        for one in self._sockets.values():
            one.close()


class _Incoming:
    """A message that is being read: its header first, then its bytes into their place; never a byte beyond."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._header = bytearray(_HEADER.size)
        self._room = memoryview(self._header)
        self._in_header = True

    def room(self) -> memoryview:
        return self._room

    def got(self, count: int) -> bool:
        """Whether the message is complete after `count` more bytes. Raises PeerError for another one than expected."""
        self._room = self._room[count:]
        if len(self._room):
            return False
        if not self._in_header:
            return True
        self._in_header = False
        check_header(self._receive.peer, self._receive, *_HEADER.unpack(self._header))
        self._room = self._receive.into.view(np.uint8).data
        return not len(self._room)


def _interest(peer: int, outgoing: dict[int, deque[memoryview]], incoming: dict[int, deque[_Incoming]]) -> int:
    writing = selectors.EVENT_WRITE if outgoing.get(peer) else 0
    return writing | (selectors.EVENT_READ if incoming.get(peer) else 0)
