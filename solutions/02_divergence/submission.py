"""Lab 02_divergence: rays through glowing layers, one of eight through 256 times as many."""

# BEGIN SOLUTION
# STARTER: from numba import cuda
from numba import cuda, float32, int32, uint64

# STARTER:
# END SOLUTION
SHORT, LONG = 16, 4096  # layers that a ray crosses
BLOCK = 128
# BEGIN SOLUTION
BLOCKS = 528  # four for each SM of an H200; each takes every 528th tile
EACH = 20  # long rays that a thread marches at once: independent, and fed by the same reads of the layers
BATCH = BLOCK * EACH
FEWER = 12  # the same, of the first batch in every other block of an SM, and of a last one that is small
FIRST = BLOCK * FEWER
LOOK = 8  # rays that a thread looks at before the block asks whether a batch is full
TILE = BLOCK * LOOK
QUEUE = BATCH + TILE


@cuda.jit(device=True, forceinline=True)
def through(opacity):
    """What a layer lets through."""
    return float32(1) - abs(opacity) * float32(1 / 1024)


def crosser(rays, depth):
    """A device function that takes `rays` rays through `depth` layers.

    Independent multiply-adds hide the latency of one, and share what is read of the layers.
    """

    @cuda.jit(device=True, forceinline=True)
    def four(y, t, layers, k):
        # Unsigned neighbours, which the compiler reads with one 128-bit access
        a, b, c, d = layers[k], layers[k + uint64(1)], layers[k + uint64(2)], layers[k + uint64(3)]
        for e in range(rays):
            y[e] = y[e] * t[e] + a
        for e in range(rays):
            y[e] = y[e] * t[e] + b
        for e in range(rays):
            y[e] = y[e] * t[e] + c
        for e in range(rays):
            y[e] = y[e] * t[e] + d

    @cuda.jit(device=True, forceinline=True)
    def cross(y, t, layers):
        k = uint64(0)
        while k < uint64(depth):  # written out: a loop of four would not be unrolled
            four(y, t, layers, k)
            four(y, t, layers, k + uint64(4))
            four(y, t, layers, k + uint64(8))
            four(y, t, layers, k + uint64(12))
            k += uint64(16)

    return cross


def looker(whole):
    """A device function that looks at a tile: it finishes the short rays and queues the long ones.

    A `whole` tile needs no checks. The loads come first and the work after them, so that all of them are under way at
    the same time.
    """
    cross = crosser(LOOK, SHORT)

    @cuda.jit(device=True, forceinline=True)
    def look(opacity, kind, out, layers, queue, queued, waiting, first):
        opacities = cuda.local.array(LOOK, float32)
        t = cuda.local.array(LOOK, float32)
        y = cuda.local.array(LOOK, float32)
        kinds = cuda.local.array(LOOK, int32)
        n = uint64(out.size)
        for e in range(LOOK):
            i = first + uint64(e * BLOCK)
            opacities[e], kinds[e] = float32(0), 1
            if whole or i < n:
                opacities[e], kinds[e] = opacity[i], kind[i]
        mine = int32(0)
        for e in range(LOOK):
            t[e] = through(opacities[e])
            y[e] = float32(0)
            if kinds[e] % 8 == 0:
                mine += int32(1)
        place = cuda.atomic.add(waiting, 0, mine)  # room for all long rays of this thread
        # Long rays march and are stored like short ones, which costs less than a branch. They are stored again later.
        cross(y, t, layers)
        for e in range(LOOK):
            i = first + uint64(e * BLOCK)
            if whole or i < n:
                out[i] = y[e]
            if kinds[e] % 8 == 0:
                queue[place] = i
                queued[place] = opacities[e]
                place += 1

    return look


def marcher(rays):
    """A device function that marches the rays queue[first], queue[first + BLOCK] and so on, `rays` a thread at most."""
    cross = crosser(rays, LONG)

    @cuda.jit(device=True)
    def batch(out, layers, queue, queued, first, count):
        t = cuda.local.array(rays, float32)
        y = cuda.local.array(rays, float32)
        for e in range(rays):
            # The choice is of the opacity, not of t: then the assembler finds t and y registers in different banks.
            t[e] = through(queued[first + e * BLOCK] if e * BLOCK < count else float32(0))
            y[e] = float32(0)
        cross(y, t, layers)
        for e in range(rays):
            if e * BLOCK < count:
                out[queue[first + e * BLOCK]] = y[e]

    return batch


# Arrays in registers have a constant length, so there are a few copies, and the smallest that will do is taken.
look_at_all, look_at_some = looker(True), looker(False)
most_each, fewer_each, four_each, one_each = (marcher(rays) for rays in (EACH, FEWER, 4, 1))
# END SOLUTION


@cuda.jit
def march_kernel(opacity, kind, glow, out):
    # BEGIN SOLUTION
    # STARTER: # opacity, kind and out have out.size elements, glow has LONG. March this thread's rays here.
    # STARTER: pass
    layers = cuda.shared.array(LONG, float32, alignment=16)
    queue = cuda.shared.array(QUEUE, int32)
    queued = cuda.shared.array(QUEUE, float32)  # their opacities: to read them again would cost a sector a ray
    waiting = cuda.shared.array(1, int32)
    x, n = cuda.threadIdx.x, out.size
    for k in range(x, LONG, BLOCK):
        layers[k] = glow[k]
    if x == 0:
        waiting[0] = 0
    cuda.syncthreads()

    # Two of the four blocks of an SM begin with a small batch. So they go back to looking at another time than the
    # others, and while one waits for memory, others march.
    full = FIRST if cuda.blockIdx.x * 4 // cuda.gridDim.x % 2 else BATCH
    rays = 0
    tile = cuda.blockIdx.x * TILE
    while tile < n or rays > 0:
        while tile < n and rays < full:
            if tile + TILE <= n:
                look_at_all(opacity, kind, out, layers, queue, queued, waiting, uint64(tile + x))
            else:
                look_at_some(opacity, kind, out, layers, queue, queued, waiting, uint64(tile + x))
            tile += cuda.gridDim.x * TILE
            cuda.syncthreads()
            rays = waiting[0]
            cuda.syncthreads()
        now = min(rays, full)  # only the last batch may be smaller: what is left waits for company
        rays -= now
        each = (now - x // 32 * 32 + BLOCK - 1) // BLOCK  # rays a thread of this warp
        first, count = rays + x, now - x
        if each > FEWER:
            most_each(out, layers, queue, queued, first, count)
        elif each > 4:
            fewer_each(out, layers, queue, queued, first, count)
        elif each > 1:
            four_each(out, layers, queue, queued, first, count)
        elif each > 0:
            one_each(out, layers, queue, queued, first, count)
        cuda.syncthreads()
        if x == 0:
            waiting[0] = rays
        full = BATCH
        cuda.syncthreads()
    # END SOLUTION


def march(opacity, kind, glow, out):
    """The light of rays. opacity and out are float32 and kind uint8, all of one length; glow has 4096 float32."""
    # BEGIN SOLUTION
    # STARTER: blocks = (out.size + BLOCK - 1) // BLOCK
    blocks = min(BLOCKS, (out.size + TILE - 1) // TILE)
    # END SOLUTION
    march_kernel[blocks, BLOCK](opacity, kind, glow, out)
