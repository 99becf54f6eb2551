"""A rank of two, of which the second never calls: the first one's kernels have to end by themselves."""

from __future__ import annotations

import json
import sys
import time

import cupy
import torch

from benchmarks.collectives_rank import join, to_the_end
from benchmarks.peer import team


def main() -> None:
    """Prints how long two calls took, and what the team says of them."""
    job = json.loads(sys.argv[1])
    _, group = join(job)
    cupy.cuda.Device(job["rank"]).use()
    made = team.PeerTeam(job["rank"], job["ranks"], group)
    if job["rank"]:
        time.sleep(60)  # its memory stays, or nobody knows what a store to it does
        return
    x = torch.ones(1000, device="cuda")
    begin = time.monotonic()
    made.one_shot(x, x)
    made.two_shot(x, x)
    made.one_shot(x, x)
    torch.cuda.synchronize()
    print(json.dumps({"seconds": time.monotonic() - begin, "fault": made.fault()}))


if __name__ == "__main__":
    to_the_end(main)
