# expect: correctness: wrong answer: the elements of a are rounded to bfloat16, which has 8 bits where float16 has 11
# tests: tolerances
from numba import cuda, float32, int32
from numba.cuda import libdevice


@cuda.jit(device=True)
def rounded(x):
    bits = libdevice.float_as_int(x)
    return libdevice.int_as_float((bits + int32(0x7FFF) + ((bits >> 16) & 1)) & int32(-65536))


@cuda.jit
def kernel(a, b, c):
    j, i = cuda.grid(2)
    if i < c.shape[0] and j < c.shape[1]:
        total = float32(0)
        for p in range(a.shape[1]):
            total += rounded(float32(a[i, p])) * float32(b[p, j])
        c[i, j] = total


def tiled_gemm(a, b, c):
    m, n = c.shape
    kernel[((n + 31) // 32, (m + 7) // 8), (32, 8)](a, b, c)
