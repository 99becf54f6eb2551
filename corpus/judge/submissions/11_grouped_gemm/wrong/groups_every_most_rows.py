# expect: correctness: wrong answer: every expert is taken to have room for the most rows, whatever first says
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
def expert_of(most, count, i):
    for e in range(count.size):
        if most * e <= i < most * e + count[e]:
            return e
    return -1


@cuda.jit
def multiply(most, x8, x_scale, w8, w_scale, first, count, y):
    j, i = cuda.grid(2)
    (slots, n), k = y.shape, x8.shape[1]
    if i >= slots or j >= n:
        return
    e = expert_of(most, count, i)
    if e < 0:
        return
    total = float32(0)
    for b in range(x_scale.shape[0]):
        part = float32(0)
        for p in range(128 * b, min(128 * b + 128, k), 4):
            x_word = ptx.load_global_4(ptx.address(x8, i * k + p))
            part += four(x_word, ptx.load_global_4(ptx.address(w8, (e * n + j) * k + p)))
        total += part * (x_scale[b, i] * w_scale[e, j // 128, b])
    y[i, j] = total


def grouped_gemm(most, x8, x_scale, w8, w_scale, first, count, y):
    slots, n = y.shape
    multiply[((n + 31) // 32, (slots + 7) // 8), (32, 8)](most, x8, x_scale, w8, w_scale, first, count, y)
