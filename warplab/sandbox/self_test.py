"""What a confined process tries as soon as it is confined, so that no isolation has to be believed."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

ATTEMPTS = {
    "network": "open a connection",
    "read": "read a file of the judge",
    "write": "write a file beside its own",
}


@dataclass(frozen=True)
class Bait:
    """What must be out of reach: a port of this machine that answers, and a private folder with the file `secret`."""

    port: int
    folder: str

    def arguments(self) -> tuple[str, ...]:
        """As arguments of a program, for `escapes`."""
        return str(self.port), self.folder


@contextmanager
def bait() -> Iterator[Bait]:
    """Lay out the bait for as long as a process starts."""
    with (
        tempfile.TemporaryDirectory(prefix="warplab-private-") as folder,
        socket.create_server(("127.0.0.1", 0)) as listening,  # the system answers who connects
    ):
        Path(folder, "secret").write_text("secret")
        yield Bait(int(listening.getsockname()[1]), folder)


def escapes(port: str, folder: str) -> list[str]:
    """The names of the ATTEMPTS that succeed in this process."""
    done = []
    with suppress(OSError):
        socket.create_connection(("127.0.0.1", int(port)), timeout=2).close()
        done.append("network")
    with suppress(OSError):
        Path(folder, "secret").read_text()
        done.append("read")
    with suppress(OSError):
        os.close(os.open(os.path.join(folder, "written"), os.O_WRONLY | os.O_CREAT))
        done.append("write")
    return done
