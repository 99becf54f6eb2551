# expect: safety: passed: mma.sync, which Hopper makes of float16, is right, but slower than a warpgroup's products
from numba import cuda, float32, uint16, uint32

from warplab import ptx

product = ptx.mma("e4m3", k=32)


@cuda.jit
def quantise(x, x8, x_scale):
    """A block for eight rows, a warp for each, which walks along k."""
    m, k = x.shape
    lane, row = cuda.threadIdx.x & 31, cuda.blockIdx.x * 8 + (cuda.threadIdx.x >> 5)
    if row >= m:
        return
    for b in range(x_scale.shape[0]):
        largest = float32(0)
        for p in range(128 * b + lane, min(128 * b + 128, k), 32):
            largest = max(largest, abs(float32(x[row, p])))
        for step in range(5):
            largest = max(largest, cuda.shfl_xor_sync(0xFFFFFFFF, largest, 1 << step))
        scale = float32(1) if largest == 0 else float32(2.0**-33)
        while float32(448) * scale < largest:
            scale *= float32(2)
        if lane == 0:
            x_scale[b, row] = scale
        for p in range(128 * b + 2 * lane, min(128 * b + 128, k), 64):
            pair = uint16(ptx.pack_e4m3(float32(x[row, p]) / scale, float32(x[row, p + 1]) / scale))
            x8[row, p] = pair & 0xFF
            x8[row, p + 1] = pair >> 8


@cuda.jit(device=True)
def word(codes, row, column):
    """Four codes of a row; zeros outside."""
    if row < codes.shape[0] and column < codes.shape[1]:
        return ptx.load_global_4(ptx.address(codes, row * codes.shape[1] + column))
    return uint32(0)


@cuda.jit
def multiply(x8, x_scale, w8, w_scale, y):
    """A warp makes 16 x 8, from registers, and promotes 32 steps of k at a time."""
    m, n = y.shape
    lane = cuda.threadIdx.x & 31
    g, q = lane >> 2, lane & 3
    row = (cuda.blockIdx.y * 8 + (cuda.threadIdx.x >> 5)) * 16 + g
    column = cuda.blockIdx.x * 8
    t0 = t1 = t2 = t3 = float32(0)
    for p in range(0, x8.shape[1], 32):
        at = p + 4 * q
        a = (word(x8, row, at), word(x8, row + 8, at), word(x8, row, at + 16), word(x8, row + 8, at + 16))
        b = (word(w8, column + g, at), word(w8, column + g, at + 16))
        zeros = (float32(0), float32(0), float32(0), float32(0))
        d0, d1, d2, d3 = product(a, b, zeros)
        of_w = w_scale[column // 128, p // 128]
        upper = x_scale[p // 128, min(row, m - 1)] * of_w
        lower = x_scale[p // 128, min(row + 8, m - 1)] * of_w
        t0 += d0 * upper
        t1 += d1 * upper
        t2 += d2 * lower
        t3 += d3 * lower
    column += 2 * q
    if row < m:
        y[row, column] = t0
        y[row, column + 1] = t1
    if row + 8 < m:
        y[row + 8, column] = t2
        y[row + 8, column + 1] = t3


def fp8_gemm(x, w8, w_scale, x8, x_scale, y):
    m, n = y.shape
    quantise[(m + 7) // 8, 256](x, x8, x_scale)
    multiply[(n // 8, (m + 127) // 128), 256](x8, x_scale, w8, w_scale, y)
