"""Captures what host functions ask of Numba's CUDA target; `insides` alone knows what numba-cuda does not document."""
