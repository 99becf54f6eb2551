"""transpose, rung 1: one thread an element, straight from a to out.

The lanes of a warp read 32 neighbours of a row of a, 4 sectors. They write 32 elements of a column of out, each in a
sector of its own: 32 sectors for the same 128 bytes.
"""

from numba import cuda


@cuda.jit
def transpose_kernel(a, out):
    j, i = cuda.grid(2)
    if i < a.shape[0] and j < a.shape[1]:
        out[j, i] = a[i, j]


def transpose(a, out):
    """out[j, i] = a[i, j]."""
    m, n = a.shape
    transpose_kernel[((n + 31) // 32, (m + 7) // 8), (32, 8)](a, out)
