"""Warplab: write GPU kernels, run them anywhere, and see where their time and bytes go."""

__version__ = "0.2.0"
