"""A rank of three whose rank 1 closes its connections a while before its process ends; the others say so at once."""

from __future__ import annotations

import json
import os
import socket
import sys
import time

from systems.network.execution.outcome import Message, Verdict, say

DYING, STATUS = 1, 3
SECONDS = 0.3  # between both ends


def main() -> None:
    """Told its rank and its sockets by peer, as JSON in a line."""
    job = json.loads(sys.stdin.readline())
    sockets = {int(peer): socket.socket(fileno=number) for peer, number in job["sockets"].items()}
    say(sys.stdout.buffer, Message("ready"))
    sys.stdin.readline()
    if job["rank"] == DYING:
        for one in sockets.values():
            one.close()
        time.sleep(SECONDS)
        os._exit(STATUS)
    sockets[DYING].recv(1)
    blame = Message("blame", 0, DYING, Verdict.DIED, "closed its connection")
    say(sys.stdout.buffer, blame)


if __name__ == "__main__":
    main()
