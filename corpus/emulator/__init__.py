"""Kernels that test the emulator's two claims: its counters are Nsight Compute's, its outputs are the GPU's bits.

`catalogue` lists the kernels of `kernels/` with their arguments and, where that is simple, what they compute by NumPy;
`faults` lists the faulty ones of `faulty/` with the finding that each must give. `plans` captures either.
"""
