"""Prints the pytest options that run tests side by side, if pytest-xdist is installed; nothing otherwise."""

import os
from importlib.util import find_spec

# Two workers a processor: half of the time a test waits for a process that it started, or for a compiler. Whole files
# go to one of them, so that what a file's tests share is made once.
A_PROCESSOR, MOST = 2, 8

if find_spec("xdist"):
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    print(f"--numprocesses={min(MOST, A_PROCESSOR * processors)} --dist=loadfile")
