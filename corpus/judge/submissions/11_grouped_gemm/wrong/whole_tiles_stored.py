# expect: correctness: wrong answer: a tile of 16 rows is stored whole, over rows of the next expert or of nobody
from numba import cuda, float32, uint32

from warplab import ptx


product = ptx.mma("e4m3", k=32)


@cuda.jit(device=True)
def word(codes, row, column, end):
    """Four codes of a row; zeros behind the last row and column."""
    if row < end and column < codes.shape[1]:
        return ptx.load_global_4(ptx.address(codes, row * codes.shape[1] + column))
    return uint32(0)


@cuda.jit
def multiply(x8, x_scale, w8, w_scale, first, count, y):
    """A warp makes 16 x 8, from registers, and promotes 32 steps of k at a time. It looks for the expert of its tile."""
    n = y.shape[1]
    lane = cuda.threadIdx.x & 31
    g, q = lane >> 2, lane & 3
    tile = cuda.blockIdx.y * 8 + (cuda.threadIdx.x >> 5)
    expert = 0
    while expert < count.size and tile >= (count[expert] + 15) // 16:
        tile -= (count[expert] + 15) // 16
        expert += 1
    if expert == count.size:
        return
    row, end = first[expert] + 16 * tile + g, first[expert] + count[expert]
    column = cuda.blockIdx.x * 8
    t0 = t1 = t2 = t3 = float32(0)
    for p in range(0, x8.shape[1], 32):
        at = p + 4 * q
        a = (
            word(x8, row, at, end),
            word(x8, row + 8, at, end),
            word(x8, row, at + 16, end),
            word(x8, row + 8, at + 16, end),
        )
        w_row = expert * n + column + g
        b = (word(w8, w_row, at, w_row + 1), word(w8, w_row, at + 16, w_row + 1))
        zeros = (float32(0), float32(0), float32(0), float32(0))
        d0, d1, d2, d3 = product(a, b, zeros)
        of_w = w_scale[expert, column // 128, p // 128]
        upper = x_scale[p // 128, min(row, end - 1)] * of_w
        lower = x_scale[p // 128, min(row + 8, end - 1)] * of_w
        t0 += d0 * upper
        t1 += d1 * upper
        t2 += d2 * lower
        t3 += d3 * lower
    column += 2 * q
    if row < y.shape[0]:
        y[row, column] = t0
        y[row, column + 1] = t1
    if row + 8 < y.shape[0]:
        y[row + 8, column] = t2
        y[row + 8, column + 1] = t3


def grouped_gemm(most, x8, x_scale, w8, w_scale, first, count, y):
    (slots, n), experts = y.shape, w8.shape[0]
    tall = min(experts * ((most + 15) // 16), slots // 16 + experts)
    multiply[(n // 8, (tall + 7) // 8), 256](x8, x_scale, w8.reshape(experts * n, x8.shape[1]), w_scale, first, count, y)
