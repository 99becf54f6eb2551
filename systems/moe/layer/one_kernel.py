"""A mixture-of-experts layer in one kernel, from router scores to combined outputs, for 1 to 256 tokens.

Few tokens make reading weights the whole work. A block stays on each SM, and one thread of it streams weights through a
ring of shared memory without ever waiting for a result: when the blocks have to wait for each other, what comes next is
on its way. The steps of the layer:

route     every block chooses the experts of all tokens by itself, which takes less than telling others would
quantise  each token once, into one row for each of its experts, in the order and the form that products want
up        64 gates and the 64 values of the same columns: a thread has both, applies SwiGLU and quantises; for more than
          64 tokens a block takes the next 64 too, so that 128 columns share a scale and *down* has half as many scales
down      equal shares of all products for every block; results are added to their tokens in global memory

The rung before it has the same source in three launches, which end before the next one begins.
The source is in one_kernel_work.cuh and one_kernel.cu: plans.py puts it in front of this file before it is recorded.
"""

from functools import cache

import cupy
import numpy as np

from warplab.ptx import tensor_map

SMS = 132  # of an H100 or H200; a block stays on each
THREADS = 3 * 128
# For so many tokens at most: rows of a tile, stages of the ring of weights and of that of rows. Fewer rows leave more
# room for weights that come while blocks wait; more than 80 would not leave registers for sums and two accumulators.
RINGS = {32: (32, 11, 7), 64: (64, 10, 6), 256: (80, 8, 5)}
SOURCE = ""  # of the kernel


@cache
def kernel(d, f, experts, k, most_tokens, part):
    """The kernel for these sizes: all of it as part 0, or one of three."""
    most_n, w_stages, x_stages = RINGS[most_tokens]
    options = {"D": d, "F": f, "E": experts, "K": k, "MOST_TOKENS": most_tokens, "PART": part}
    options |= {"MOST_N": most_n, "W_STAGES": w_stages, "X_STAGES": x_stages}
    made = cupy.RawKernel(
        SOURCE,
        "moe_layer",
        tuple(f"-D{name}={value}" for name, value in options.items()),
        enable_cooperative_groups=True,  # all blocks are there at once, as they wait for each other
    )
    made.max_dynamic_shared_size_bytes = shared_bytes(most_tokens)
    return made


def shared_bytes(most_tokens):
    """Of a block: both rings, and room to begin at a multiple of 1,024."""
    most_n, w_stages, x_stages = RINGS[most_tokens]
    return w_stages * 128 * 128 + x_stages * -(-(most_n * 136) // 1024) * 1024 + 1024


def layer_by(launches, k, x, scores, up8, up_scale, down8, down_scale, out):
    """As `layer`, in one launch or three."""
    (tokens, d), (experts, _, f) = x.shape, down8.shape
    slots = (tokens * k + 7 * experts + 7) // 8 * 8
    # Eight gates and their eight values in turn: a warp's 16 rows of a product
    by_eights = up8.reshape(experts, 2, f // 8, 8, d).transpose(0, 2, 1, 3, 4)
    maps = tensor_map(by_eights, (1, 8, 2, 8, 128)), tensor_map(down8.reshape(experts * d, f), (128, 128))
    x8, x_scale = cupy.empty((d // 128, slots, 128), np.uint8), cupy.empty((d // 64, slots), np.float32)
    a8, a_scale = cupy.empty((f // 128, slots, 128), np.uint8), cupy.empty((f // 64, slots), np.float32)
    counters = cupy.zeros(34, np.int32)
    arguments = (*maps, x, scores, up_scale, down_scale, x8, x_scale, a8, a_scale, out, counters)
    most_tokens = min(most for most in RINGS if most >= tokens)
    for part in (0,) if launches == 1 else (1, 2, 3):
        made = kernel(d, f, experts, k, most_tokens, part)
        sizes = np.int32(tokens), np.int32(slots)
        made((SMS,), (THREADS,), (*arguments, *sizes), shared_mem=shared_bytes(most_tokens))


def layer(k, x, scores, up8, up_scale, down8, down_scale, out):
    """out[t] = sum of share * down[e] @ SwiGLU(up[e] @ x[t]) over the k experts e with the best scores of token t.

    x is tokens x d of float16, of 1 to 256 tokens; scores tokens x experts of float32, finite; up8 experts x 2 f x d
    and down8 experts x d x f codes of e4m3 with a scale for each block of 128 x 128 (up_scale, down_scale), gates in
    the first f rows; out tokens x d of float32. The share is the softmax of the scores that were chosen. d and f are
    multiples of 128, and there are at most 32 experts.
    """
    layer_by(1, k, x, scores, up8, up_scale, down8, down_scale, out)
