"""A module of a user's own, imported by a test's functions."""

from numba import cuda


@cuda.jit(device=True)
def square(v):
    return v * v


@cuda.jit
def stride(x, out, step):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = square(x[i * step % x.size])
