"""Two ranks over Gloo: one is gone long before the other begins to send it something. The other says which rank it
blames, and for what."""

from __future__ import annotations

import os
import sys
import time

import numpy as np

from systems.network.execution.distributed import Distributed
from systems.network.execution.outcome import Backend, PeerError, Send

if __name__ == "__main__":
    rank = int(sys.argv[1])
    group = Distributed(Backend.GLOO, rank, 2, sys.argv[2], 30.0)
    if rank == 1:
        os._exit(0)
    time.sleep(1)  # Gloo notices
    try:
        group.exchange([Send(1, 0, np.ones(4, np.float32))], [])
    except PeerError as error:
        print(error.verdict.name, error.peer, flush=True)
    os._exit(0)  # there is no group any more to leave
