"""Prints the pytest options that run tests side by side, if pytest-xdist is installed; nothing otherwise.

    python scripts/test_workers.py WORKERS_PER_PROCESSOR

Tests that start processes want two: half of the time such a test waits for a process or a compiler. Whole files go to
one worker, so that what a file's tests share is made once.
"""

import os
import sys
from importlib.util import find_spec

MOST = 8

if find_spec("xdist"):
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    print(f"--numprocesses={min(MOST, int(sys.argv[1]) * processors)} --dist=loadfile")
