# submission: in_float64
# expect: all: passed: computing in float64 and rounding once is more precise than asked
from numba import cuda, float64


@cuda.jit
def kernel(x, out):
    for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):
        out[i] = float64(2) * x[i]


def attention(x, out):
    kernel[64, 192](x, out)


# submission: backwards
# expect: all: passed: a multiplication, and threads that begin at the end
from numba import cuda, float32


@cuda.jit
def kernel(x, out):
    for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):
        out[out.size - 1 - i] = float32(2) * x[out.size - 1 - i]


def attention(x, out):
    kernel[(out.size + 511) // 512, 256](x, out)


# submission: whole_blocks_and_the_rest
# expect: all: passed: whole blocks and the rest are launched one after the other
from numba import cuda


@cuda.jit
def kernel(x, out):
    i = cuda.grid(1)
    out[i] = x[i] + x[i]


def attention(x, out):
    whole = out.size // 512 * 512
    if whole:
        kernel[whole // 512, 512](x[:whole], out[:whole])
    if whole < out.size:
        kernel[1, out.size - whole](x[whole:], out[whole:])
