"""A rank of two, of which the second never calls: the first one's kernels have to end by themselves."""

from __future__ import annotations

import json
import sys
import time

import cupy
import torch

from benchmarks.collectives_rank import join, to_the_end
from systems.peer import team
from systems.peer.layer import RowParallel


def main() -> None:
    """Prints how long the calls took, and what the team says of them."""
    job = json.loads(sys.argv[1])
    _, group = join(job)
    cupy.cuda.Device(job["rank"]).use()
    layer = RowParallel(job["rank"], job["ranks"], group, 300, 512)
    made = team.PeerTeam(job["rank"], job["ranks"], group)
    if job["rank"]:
        time.sleep(60)  # its memory stays, or nobody knows what a store to it does
        return
    x = torch.ones(1000, device="cuda")
    a, b = (torch.ones(512, 512, dtype=torch.bfloat16, device="cuda") for _ in range(2))
    begin = time.monotonic()
    made.one_shot(x, x)
    made.two_shot(x, x)
    made.two_shot_ll(x, x)
    made.one_shot(x, x)
    layer(a[:300], b)
    layer(a[:300], b)
    torch.cuda.synchronize()
    print(json.dumps({"seconds": time.monotonic() - begin, "faults": [made.fault(), layer.fault()]}))


if __name__ == "__main__":
    to_the_end(main)
