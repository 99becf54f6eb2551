"""Prints the pytest options that run tests side by side, if pytest-xdist is installed; nothing otherwise."""

from importlib.util import find_spec

if find_spec("xdist"):
    print("--numprocesses=auto --maxprocesses=4 --dist=worksteal")
