"""Tensors between ranks over pairs of Unix sockets: who sends goes on at once, who needs something waits for it."""

from __future__ import annotations

import selectors
import socket
import struct
import time
from collections import deque

import numpy as np
from numpy.typing import NDArray

from systems.network.execution.outcome import PeerError, Verdict

_HEADER = struct.Struct("<QQQQ")  # the tag, the bytes that follow
_PART = 1 << 16

Tag = tuple[int, int, int]  # backward or not, stage that made it, micro-batch


class Mail:
    """One end of a pair for each peer, given as numbers of inherited files. Every tensor has the shape `shape`."""

    def __init__(self, files: dict[int, int], shape: tuple[int, ...], patience: float) -> None:
        self._sockets = {peer: socket.socket(fileno=number) for peer, number in files.items()}
        self._outgoing: dict[int, deque[memoryview]] = {peer: deque() for peer in files}
        self._heard = {peer: bytearray() for peer in files}
        self._arrived: dict[Tag, NDArray[np.float64]] = {}
        self._shape, self._patience = shape, patience
        for one in self._sockets.values():
            one.setblocking(False)

    def send(self, peer: int, tag: Tag, data: NDArray[np.float64]) -> None:
        """Send without waiting for the peer: what its socket does not take is kept, and sent while this rank waits."""
        self._outgoing[peer].append(memoryview(_HEADER.pack(*tag, data.nbytes)))
        self._outgoing[peer].append(memoryview(data.tobytes()))
        self._write(peer)

    def receive(self, peer: int, tag: Tag) -> NDArray[np.float64]:
        """The tensor of that tag. Raises PeerError for a peer that is gone, silent, or sends something else."""
        while tag not in self._arrived:
            self._wait(peer)
        return self._arrived.pop(tag)

    def flush(self) -> None:
        """Wait until the sockets have taken all. Raises PeerError."""
        while waiting := [peer for peer, queue in self._outgoing.items() if queue]:
            self._wait(waiting[0])

    def close(self) -> None:
        """Nothing is sent or received any more."""
        for one in self._sockets.values():
            one.close()

    def _wait(self, peer: int) -> None:
        """Until anybody has taken or sent something."""
        begun = time.monotonic()
        with selectors.DefaultSelector() as selector:
            for other, one in self._sockets.items():
                writing = selectors.EVENT_WRITE if self._outgoing[other] else 0
                selector.register(one, selectors.EVENT_READ | writing, other)
            ready = selector.select(max(0.0, begun + self._patience - time.monotonic()))
        if not ready:
            raise PeerError(Verdict.HUNG, peer, f"was silent for {self._patience:g} s")
        for key, events in ready:
            if events & selectors.EVENT_WRITE:
                self._write(key.data)
            if events & selectors.EVENT_READ:
                self._read(key.data)

    def _write(self, peer: int) -> None:
        queue = self._outgoing[peer]
        while queue:
            try:
                sent = self._sockets[peer].send(queue[0])
            except BlockingIOError:
                return
            except OSError:
                raise PeerError(Verdict.DIED, peer, "closed its connection") from None
            queue[0] = queue[0][sent:]
            if not len(queue[0]):
                queue.popleft()

    def _read(self, peer: int) -> None:
        try:
            data = self._sockets[peer].recv(_PART)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            raise PeerError(Verdict.DIED, peer, "closed its connection")
        heard, wanted = self._heard[peer], 8 * int(np.prod(self._shape))
        heard += data
        while len(heard) >= _HEADER.size:
            *tag, size = _HEADER.unpack_from(heard)
            if size != wanted:
                raise PeerError(Verdict.WRONG_SIZE, peer, f"sent {size} bytes where a tensor has {wanted}")
            if len(heard) < _HEADER.size + size:
                return
            content = bytes(heard[_HEADER.size : _HEADER.size + size])
            del heard[: _HEADER.size + size]
            self._arrived[tag[0], tag[1], tag[2]] = np.frombuffer(content, np.float64).reshape(self._shape)
