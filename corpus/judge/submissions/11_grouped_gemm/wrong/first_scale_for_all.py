# expect: correctness: wrong answer: all of k is summed up and scaled once, by the first block's scales
from numba import cuda, float32, uint16

from warplab import ptx


@cuda.jit(device=True)
def four(a, b):
    """The sum of four products of e4m3."""
    a0, a1 = ptx.unpack_e4m3(uint16(a))
    a2, a3 = ptx.unpack_e4m3(uint16(a >> 16))
    b0, b1 = ptx.unpack_e4m3(uint16(b))
    b2, b3 = ptx.unpack_e4m3(uint16(b >> 16))
    return a0 * b0 + a1 * b1 + a2 * b2 + a3 * b3


@cuda.jit(device=True)
def expert_of(first, count, i):
    for e in range(count.size):
        if first[e] <= i < first[e] + count[e]:
            return e
    return -1


@cuda.jit
def multiply(x8, x_scale, w8, w_scale, first, count, y):
    j, i = cuda.grid(2)
    (slots, n), k = y.shape, x8.shape[1]
    if i >= slots or j >= n:
        return
    e = expert_of(first, count, i)
    if e < 0:
        return
    total = float32(0)
    for p in range(0, k, 4):
        x_word = ptx.load_global_4(ptx.address(x8, i * k + p))
        total += four(x_word, ptx.load_global_4(ptx.address(w8, (e * n + j) * k + p)))
    y[i, j] = total * (x_scale[0, i] * w_scale[e, j // 128, 0])


def grouped_gemm(most, x8, x_scale, w8, w_scale, first, count, y):
    slots, n = y.shape
    multiply[((n + 31) // 32, (slots + 7) // 8), (32, 8)](x8, x_scale, w8, w_scale, first, count, y)
