# expect: correctness: wrong answer: x is cut to e4m3, not rounded to the nearest
from numba import cuda, float32, uint8, uint16

from warplab import ptx


@cuda.jit
def quantise(x, x8, x_scale):
    i, b = cuda.grid(2)
    m, k = x.shape
    if i >= m or b >= x_scale.shape[0]:
        return
    largest = float32(0)
    for p in range(128 * b, min(128 * b + 128, k)):
        largest = max(largest, abs(float32(x[i, p])))
    scale = float32(1) if largest == 0 else float32(2.0**-33)
    while float32(448) * scale < largest:
        scale *= float32(2)
    x_scale[b, i] = scale
    for p in range(128 * b, min(128 * b + 128, k)):
        ratio = float32(x[i, p]) / scale
        code = uint8(ptx.pack_e4m3(ratio, float32(0)))
        rounded, _ = ptx.unpack_e4m3(uint16(code))
        if abs(rounded) > abs(ratio):
            code -= uint8(1)  # the next number toward zero
        x8[i, p] = code


@cuda.jit(device=True)
def four(a, b):
    """The sum of four products of e4m3."""
    a0, a1 = ptx.unpack_e4m3(uint16(a))
    a2, a3 = ptx.unpack_e4m3(uint16(a >> 16))
    b0, b1 = ptx.unpack_e4m3(uint16(b))
    b2, b3 = ptx.unpack_e4m3(uint16(b >> 16))
    return a0 * b0 + a1 * b1 + a2 * b2 + a3 * b3


@cuda.jit
def multiply(x8, x_scale, w8, w_scale, y):
    j, i = cuda.grid(2)
    (m, n), k = y.shape, x8.shape[1]
    if i < m and j < n:
        total = float32(0)
        for b in range(x_scale.shape[0]):
            part = float32(0)
            for p in range(128 * b, min(128 * b + 128, k), 4):
                x_word = ptx.load_global_4(ptx.address(x8, i * k + p))
                part += four(x_word, ptx.load_global_4(ptx.address(w8, j * k + p)))
            total += part * (x_scale[b, i] * w_scale[j // 128, b])
        y[i, j] = total


def fp8_gemm(x, w8, w_scale, x8, x_scale, y):
    m, n = y.shape
    quantise[((m + 31) // 32, x_scale.shape[0]), (32, 1)](x, x8, x_scale)
    multiply[((n + 31) // 32, (m + 7) // 8), (32, 8)](x8, x_scale, w8, w_scale, y)
