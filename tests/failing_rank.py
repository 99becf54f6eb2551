"""A rank that measures one thing and waits for another, which fails then; or, if the environment says so, hangs."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

if __name__ == "__main__":
    job = json.loads(sys.argv[1])
    spoken = Path(job["meeting"]).with_name("rank_0.out")
    if job["rank"] == 0:
        print(json.dumps({"name": "broadcast", "variant": "library", "size": 1024, "samples": [12e-6] * 3}), flush=True)
    elif not os.environ.get("WARPLAB_TEST_HANGS"):
        while not spoken.stat().st_size:
            time.sleep(0.05)
        print("its reason\n[rank1]: what a library has to say", file=sys.stderr)
        sys.exit(1)
    time.sleep(100)
