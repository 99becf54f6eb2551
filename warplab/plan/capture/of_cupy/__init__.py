"""Captures what host functions ask of CuPy: arrays, kernels in CUDA C++ and generated ones, streams and events."""
