"""Tests of the emulator as a whole.

This folder has many files because each tests one promise of the emulator, whichever of its stages keep it, and those of
one part that is large enough have a folder (`asynchronous`, `profiling`, `tensor`, `corpus`).
"""
