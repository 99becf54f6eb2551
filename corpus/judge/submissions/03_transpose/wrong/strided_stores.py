# expect: traffic: over budget: the lanes of a warp write down a column, a sector for each element
from numba import cuda


@cuda.jit
def kernel(a, out):
    j, i = cuda.grid(2)
    if i < a.shape[0] and j < a.shape[1]:
        out[j, i] = a[i, j]


def transpose(a, out):
    m, n = a.shape
    kernel[((n + 31) // 32, (m + 7) // 8), (32, 8)](a, out)
