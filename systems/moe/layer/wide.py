"""The chain's products by tiles of 128 x 256, the first with SwiGLU and its quantisation behind it.

The columns of the first are eight gates, the eight values that belong to them, the next gates and so on, by a tensor
map of five axes, so that one thread has both. Two blocks of a cluster have tiles above each other and share the strip
of w that both need; of an odd last row of tiles they have two side by side. Up to 16 rows that are left behind a pair
of tiles go with it, by a product the other way round. wide_tile.cuh and wide.cu are the kernel.
"""

from functools import cache

import cupy
import numpy as np

from warplab.ptx import tensor_map

SOURCE = ""
HEIGHT, WIDTH = 128, 256  # rows of x and rows of w of a tile
REST = 16  # rows that two tiles above each other take besides, at most
SMS = 132  # of an H100 or H200; a block stays on each


def stages(swiglu):
    """Of the ring; SwiGLU's results leave from registers, others by shared memory."""
    return 4 if swiglu else 3


def shared_bytes(swiglu):
    """Of a block: the ring, a tile of results in float16, and room to align."""
    return stages(swiglu) * ((HEIGHT + WIDTH + REST) * 128 + 1024) + (0 if swiglu else HEIGHT * WIDTH * 2) + 1024


@cache
def kernel(swiglu):
    """The kernel, with SwiGLU and quantisation behind the product or without."""
    sums = WIDTH // 4
    options = (
        "-arch=sm_90a",
        "-std=c++17",
        "-default-device",  # for a lambda that is compiled with the rest's rows and without
        f"-DSWIGLU={int(swiglu)}",
        f"-DSTAGES={stages(swiglu)}",
        '-DREGISTERS="' + ", ".join(f"%{i}" for i in range(sums)) + '"',
        "-DOPERANDS=" + ", ".join(f'"+f"(d[{i}])' for i in range(sums)),
    )
    made = cupy.RawModule(code=SOURCE, options=options).get_function("gemm")
    made.max_dynamic_shared_size_bytes = shared_bytes(swiglu)
    return made


def up_wide(x8, x_scale, w8, w_scale, first, count, a8, a_scale):
    """Codes and scales of silu(g) v for the rows of each expert e, where g and v are halves of x w[e]^T."""
    (experts, _, k), f = w8.shape, a8.shape[1]
    of_eight = w8.reshape(experts, 2, f // 8, 8, k).transpose(0, 2, 1, 3, 4)
    map_w = tensor_map(of_eight, (1, WIDTH // 32, 2, 8, 128), l2_promotion=256)
    launch(True, x8, x_scale, map_w, w_scale, first, count, a8, a_scale)


def down_wide(x8, x_scale, w8, w_scale, first, count, y):
    """y = x w[e]^T in float16 for the rows of each expert e."""
    map_w = tensor_map(w8, (1, WIDTH // 2, 128), l2_promotion=256)
    launch(False, x8, x_scale, map_w, w_scale, first, count, y, x_scale)


def launch(swiglu, x8, x_scale, map_w, w_scale, first, count, result, a_scale):
    """The kernel on every pair of SMs; without SwiGLU it does not touch `a_scale`, with it the map of y."""
    k, experts, n = x8.shape[1], len(w_scale), result.shape[1]
    sizes = np.int32(x_scale.shape[1]), np.int32(experts), np.int32(n), np.int32(k)
    map_x = tensor_map(x8, (64, 128), l2_promotion=256)
    map_rest = tensor_map(x8, (REST, 128), l2_promotion=256)
    map_y = map_x if swiglu else tensor_map(result, (64, 64))
    arguments = map_x, map_w, map_y, map_rest, x_scale, w_scale, first, count, result, a_scale, *sizes
    kernel(swiglu)((SMS // 2 * 2,), (384,), arguments, shared_mem=shared_bytes(swiglu))
