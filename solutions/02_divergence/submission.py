"""Lab 02_divergence: rays through glowing layers, one of eight through 256 times as many."""

# BEGIN SOLUTION
# STARTER: from numba import cuda
from numba import cuda, float32, int32, uint64

# STARTER:
# END SOLUTION
SHORT, LONG = 16, 4096  # layers that a ray crosses
BLOCK = 256
# BEGIN SOLUTION
BLOCKS = 528  # four for each SM of an H200; each takes every 528th tile
EACH = 8  # long rays that a thread marches at once: independent, and fed by the same reads of the layers
BATCH = BLOCK * EACH
LOOK = 4  # rays that a thread looks at before the block asks whether a batch is full
TILE = BLOCK * LOOK
QUEUE = BATCH + TILE


@cuda.jit(device=True, forceinline=True)
def through(opacity):
    """What a layer lets through."""
    return float32(1) - abs(opacity) * float32(1 / 1024)


def marcher(rays):
    """A device function that marches up to `rays` long rays a thread."""

    @cuda.jit(device=True)
    def batch(opacity, out, layers, queue, first, count):
        t = cuda.local.array(rays, float32)
        y = cuda.local.array(rays, float32)
        x = cuda.threadIdx.x
        for e in range(rays):
            place = e * BLOCK + x
            t[e] = through(opacity[queue[first + place]]) if place < count else float32(0)
            y[e] = float32(0)
        if x // 32 * 32 < count:  # a warp without a ray has nothing to do
            k = uint64(0)
            while k < uint64(LONG):  # unsigned and in fours, which the compiler reads with one 128-bit access
                a, b, c, d = layers[k], layers[k + uint64(1)], layers[k + uint64(2)], layers[k + uint64(3)]
                for e in range(rays):
                    y[e] = y[e] * t[e] + a
                for e in range(rays):
                    y[e] = y[e] * t[e] + b
                for e in range(rays):
                    y[e] = y[e] * t[e] + c
                for e in range(rays):
                    y[e] = y[e] * t[e] + d
                k += uint64(4)
        for e in range(rays):
            place = e * BLOCK + x
            if place < count:
                out[queue[first + place]] = y[e]

    return batch


eight_each, four_each, two_each, one_each = marcher(8), marcher(4), marcher(2), marcher(1)
# END SOLUTION


@cuda.jit
def march_kernel(opacity, kind, glow, out):
    # BEGIN SOLUTION
    # STARTER: # opacity, kind and out have out.size elements, glow has LONG. March this thread's rays here.
    # STARTER: pass
    layers = cuda.shared.array(LONG, float32, alignment=16)
    queue = cuda.shared.array(QUEUE, int32)
    waiting = cuda.shared.array(1, int32)
    x, n = cuda.threadIdx.x, out.size
    for k in range(x, LONG, BLOCK):
        layers[k] = glow[k]
    if x == 0:
        waiting[0] = 0
    cuda.syncthreads()

    t = cuda.local.array(LOOK, float32)
    y = cuda.local.array(LOOK, float32)
    is_long = cuda.local.array(LOOK, int32)
    for tile in range(cuda.blockIdx.x * TILE, n, cuda.gridDim.x * TILE):
        for e in range(LOOK):
            i = tile + e * BLOCK + x
            t[e], y[e], is_long[e] = float32(0), float32(0), 0
            if i < n:
                t[e] = through(opacity[i])
                is_long[e] = kind[i] % 8 == 0
        # All rays march the short way: a step more for the long ones costs nothing, they would have waited.
        for k in range(SHORT):
            for e in range(LOOK):
                y[e] = y[e] * t[e] + layers[k]
        for e in range(LOOK):
            i = tile + e * BLOCK + x
            if is_long[e] != 0:
                queue[cuda.atomic.add(waiting, 0, 1)] = i
            elif i < n:
                out[i] = y[e]
        cuda.syncthreads()
        rays = waiting[0]
        if rays >= BATCH:  # only full batches here: what is left waits for company from the next tile
            eight_each(opacity, out, layers, queue, rays - BATCH, BATCH)
            cuda.syncthreads()
            if x == 0:
                waiting[0] = rays - BATCH
        cuda.syncthreads()

    rays = waiting[0]
    if rays > 4 * BLOCK:
        eight_each(opacity, out, layers, queue, 0, rays)
    elif rays > 2 * BLOCK:
        four_each(opacity, out, layers, queue, 0, rays)
    elif rays > BLOCK:
        two_each(opacity, out, layers, queue, 0, rays)
    else:
        one_each(opacity, out, layers, queue, 0, rays)
    # END SOLUTION


def march(opacity, kind, glow, out):
    """The light of rays. opacity and out are float32 and kind uint8, all of one length; glow has 4096 float32."""
    # BEGIN SOLUTION
    # STARTER: blocks = (out.size + BLOCK - 1) // BLOCK
    blocks = min(BLOCKS, (out.size + TILE - 1) // TILE)
    # END SOLUTION
    march_kernel[blocks, BLOCK](opacity, kind, glow, out)
