"""The chain's products by tiles of 128 x 256, the first with SwiGLU and its quantisation behind it.

The columns of the first are eight gates, the eight values that belong to them, the next gates and so on, by a tensor
map of five axes, so that one thread has both. wide.cu is the kernel.
"""

from functools import cache

import cupy
import numpy as np

from warplab.ptx import tensor_map

SOURCE = ""
HEIGHT, WIDTH, STAGES = 128, 256, 4  # rows of x and rows of w of a tile; stages of the ring
SMS = 132  # of an H100 or H200; a block stays on each
SHARED = STAGES * ((HEIGHT + WIDTH) * 128 + 1024) + 128 * 128 + 1024


@cache
def kernel(swiglu):
    """The kernel, with SwiGLU and quantisation behind the product or without."""
    sums = WIDTH // 4
    options = (
        "-arch=sm_90a",
        "-std=c++17",
        f"-DSWIGLU={int(swiglu)}",
        f"-DSTAGES={STAGES}",
        '-DREGISTERS="' + ", ".join(f"%{i}" for i in range(sums)) + '"',
        "-DOPERANDS=" + ", ".join(f'"+f"(d[{i}])' for i in range(sums)),
    )
    made = cupy.RawModule(code=SOURCE, options=options).get_function("gemm")
    made.max_dynamic_shared_size_bytes = SHARED
    return made


def up_wide(x8, x_scale, w8, w_scale, first, count, a8, a_scale):
    """Codes and scales of silu(g) v for the rows of each expert e, where g and v are halves of x w[e]^T."""
    (experts, _, k), f = w8.shape, a8.shape[1]
    of_eight = w8.reshape(experts, 2, f // 8, 8, k).transpose(0, 2, 1, 3, 4)
    map_w = tensor_map(of_eight, (1, WIDTH // 16, 2, 8, 128), l2_promotion=256)
    launch(True, x8, x_scale, map_w, w_scale, first, count, a8, a_scale)


def down_wide(x8, x_scale, w8, w_scale, first, count, y):
    """y = x w[e]^T in float16 for the rows of each expert e."""
    launch(False, x8, x_scale, tensor_map(w8, (1, WIDTH, 128), l2_promotion=256), w_scale, first, count, y, x_scale)


def launch(swiglu, x8, x_scale, map_w, w_scale, first, count, result, a_scale):
    """The kernel on every SM; without SwiGLU it does not touch `a_scale`."""
    k, experts, n = x8.shape[1], len(w_scale), result.shape[1]
    sizes = np.int32(x_scale.shape[1]), np.int32(experts), np.int32(n), np.int32(k)
    map_x = tensor_map(x8, (64, 128), l2_promotion=256)
    arguments = map_x, map_w, x_scale, w_scale, first, count, result, a_scale, *sizes
    kernel(swiglu)((SMS,), (384,), arguments, shared_mem=SHARED)
