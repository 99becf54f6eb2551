"""A rank that measures one thing and waits for another rank, which fails; or, if the environment says so, hangs too."""

from __future__ import annotations

import json
import os
import sys
import time

if __name__ == "__main__":
    if json.loads(sys.argv[1])["rank"] == 0:
        print(json.dumps({"name": "broadcast", "variant": "library", "size": 1024, "samples": [12e-6] * 3}), flush=True)
    elif not os.environ.get("WARPLAB_TEST_HANGS"):
        time.sleep(1)
        print("its reason\n[rank1]: what a library has to say", file=sys.stderr)
        sys.exit(1)
    time.sleep(100)
