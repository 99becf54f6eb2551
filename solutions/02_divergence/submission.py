"""Lab 02_divergence: rays through glowing layers, one of eight through 256 times as many."""

# BEGIN SOLUTION
# STARTER: from numba import cuda
from numba import cuda, float32, int32, int64, uint32, uint64
from numba.cuda import libdevice

# STARTER:
# END SOLUTION
SHORT, LONG = 16, 4096  # layers that a ray crosses
# BEGIN SOLUTION
# STARTER: BLOCK = 128
BLOCK = 128  # four warps, each on its own until all tiles are looked at
BLOCKS = 396  # three for each SM of an H200
WARPS = BLOCK // 32
EACH = 22  # long rays that a lane marches at once: independent, and fed by the same reads of the layers
FULL = 32 * EACH
FEW = 8  # the same for a warp's first batch, so that it need not look for long
LOOK = 8  # rays that a lane looks at together
TILE = 32 * LOOK
ROOM = FULL + TILE  # of a list of long rays: a warp looks as long as it is not full
STRETCH = 64  # layers that let the same part of a ray through
STRETCHES = LONG // STRETCH
LISTS = WARPS * ROOM


@cuda.jit(device=True, forceinline=True)
def through(opacity):
    """What a layer lets through."""
    return float32(1) - abs(opacity) * float32(1 / 1024)


@cuda.jit(device=True, forceinline=True)
def seed(opacity, i):
    """What ray i draws the rest of its way from."""
    return uint32(int32(opacity * float32(65536)) + uint32(2654435769) * uint32(i))


@cuda.jit(device=True, forceinline=True)
def onward(s):
    """What a stretch lets through: 1 - (32768 - s / 2^17) / 2^24, by the bits of that number."""
    return libdevice.int_as_float(int32((s >> uint32(17)) + uint32(0x3F7F8000)))


def sixteen_layers(rays):
    """A device function that takes `rays` rays through 16 layers, beginning at any.

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
    def sixteen(y, t, layers, k):
        four(y, t, layers, k)  # written out: a loop of four would not be unrolled
        four(y, t, layers, k + uint64(4))
        four(y, t, layers, k + uint64(8))
        four(y, t, layers, k + uint64(12))

    return sixteen


def crosser(rays):
    """Device functions that take `rays` rays through a stretch: one with what it lets through, one that draws that.

    The second has variables of its own for it. If a loop carried them on, the assembler would no longer keep their
    registers in other banks than those of y, and a third of the time would go to reading registers.
    """
    sixteen = sixteen_layers(rays)

    @cuda.jit(device=True, forceinline=True)
    def cross(y, t, layers, first):
        k = first
        while k < first + uint64(STRETCH):
            sixteen(y, t, layers, k)
            k += uint64(16)

    @cuda.jit(device=True, forceinline=True)
    def cross_next(y, s, layers, first):
        t = cuda.local.array(rays, float32)
        for e in range(rays):
            s[e] = uint32(uint32(1664525) * s[e] + uint32(1013904223))
            t[e] = onward(s[e])
        cross(y, t, layers, first)

    return cross, cross_next


cross_few_layers, cross_one_ray = sixteen_layers(LOOK), sixteen_layers(1)
cross_few, cross_few_next = crosser(FEW)
cross_full, cross_full_next = crosser(EACH)


@cuda.jit(device=True, forceinline=True)
def fetch(opacity, kind, opacities, kinds, first):
    """Ask for the lane's rays of the next tile, one look ahead."""
    for e in range(LOOK):
        opacities[e], kinds[e] = opacity[first + uint64(32 * e)], kind[first + uint64(32 * e)]


@cuda.jit(device=True, forceinline=True)
def look(out, layers, lists, start, waiting, warp, opacities, kinds, first):
    """Look at a tile: finish its short rays and list the long ones. Returns how many of those wait now."""
    t = cuda.local.array(LOOK, float32)
    y = cuda.local.array(LOOK, float32)
    mine = int32(0)
    for e in range(LOOK):
        t[e] = through(opacities[e])
        y[e] = float32(0)
        if kinds[e] & uint32(7) == uint32(0):
            mine += int32(1)
    place = uint64(start + cuda.atomic.add(waiting, warp, mine))  # room for all long rays of this lane
    # Long rays march and are stored like short ones, which costs less than a branch. They are stored again later.
    cross_few_layers(y, t, layers, uint64(0))
    for e in range(LOOK):
        out[first + uint64(32 * e)] = y[e]
        if kinds[e] & uint32(7) == uint32(0):
            lists[place] = int32(first + uint64(32 * e))
            place += uint64(1)
    cuda.syncwarp()
    rays = waiting[warp]
    cuda.syncwarp()
    return rays


@cuda.jit(device=True, forceinline=True)
def march_full(
    opacity, kind, out, layers, lists, start, waiting, warp, opacities, kinds, batch, waits, tile, stride, whole
):
    """March a full batch of a warp and look at tiles in between.

    The loads of a look are under way while the march goes on. Returns the warp's next tile and how many rays wait.
    """
    places = cuda.local.array(EACH, int32)
    t = cuda.local.array(EACH, float32)
    s = cuda.local.array(EACH, uint32)
    y = cuda.local.array(EACH, float32)
    lane = uint64(cuda.laneid)
    for e in range(EACH):
        places[e], y[e] = lists[batch + uint64(32 * e)], float32(0)
        light = opacity[uint64(places[e])]
        t[e], s[e] = through(light), seed(light, places[e])
    cuda.syncwarp()  # from here on the list fills anew
    cross_full(y, t, layers, uint64(0))
    for k in range(1, STRETCHES):
        if tile < whole and waits < FULL:
            waits = look(out, layers, lists, start, waiting, warp, opacities, kinds, uint64(tile) + lane)
            tile += stride
            if tile < whole:
                fetch(opacity, kind, opacities, kinds, uint64(tile) + lane)
        cross_full_next(y, s, layers, uint64(k) * uint64(STRETCH))
    for e in range(EACH):
        out[uint64(places[e])] = y[e]
    return tile, waits


@cuda.jit(device=True, forceinline=True)
def march_few(opacity, out, layers, lists, batch):
    """March the first batch of a warp."""
    t = cuda.local.array(FEW, float32)
    s = cuda.local.array(FEW, uint32)
    y = cuda.local.array(FEW, float32)
    for e in range(FEW):
        place = lists[batch + uint64(32 * e)]
        light = opacity[uint64(place)]
        t[e], s[e], y[e] = through(light), seed(light, place), float32(0)
    cross_few(y, t, layers, uint64(0))
    for k in range(1, STRETCHES):
        cross_few_next(y, s, layers, uint64(k) * uint64(STRETCH))
    for e in range(FEW):
        out[uint64(lists[batch + uint64(32 * e)])] = y[e]


def rest_marcher(rays):
    """A device function that marches what all warps of a block have left, from ray `first` on, `rays` a thread."""
    cross, cross_next = crosser(rays)

    @cuda.jit(device=True, forceinline=True)
    def march(opacity, out, layers, lists, starts, waiting, first, count):
        places = cuda.local.array(rays, int32)
        t = cuda.local.array(rays, float32)
        s = cuda.local.array(rays, uint32)
        y = cuda.local.array(rays, float32)
        for e in range(rays):
            i, warp, light = int32(first + e * BLOCK + cuda.threadIdx.x), int32(0), float32(0)
            places[e], y[e] = -1, float32(0)
            if i < count:
                while i >= waiting[warp]:
                    i -= waiting[warp]
                    warp += int32(1)
                places[e] = lists[starts[warp] + i]
                light = opacity[places[e]]
            # The choice is of the opacity, not of t: then the assembler finds t and y registers in different banks.
            t[e], s[e] = through(light), seed(light, places[e])
        cross(y, t, layers, uint64(0))
        for k in range(1, STRETCHES):
            cross_next(y, s, layers, uint64(k) * uint64(STRETCH))
        for e in range(rays):
            if places[e] >= 0:
                out[places[e]] = y[e]

    return march


# Arrays in registers have a constant length, so there are a few copies.
rest_20, rest_3, rest_1 = rest_marcher(20), rest_marcher(3), rest_marcher(1)
# END SOLUTION


@cuda.jit
def march_kernel(opacity, kind, glow, out):
    # BEGIN SOLUTION
    # STARTER: # opacity, kind and out have out.size elements, glow has LONG. March this thread's rays here.
    # STARTER: pass
    lists = cuda.shared.array(LISTS, int32)
    layers = cuda.shared.array(LONG, float32, alignment=16)
    waiting = cuda.shared.array(WARPS, int32)
    starts = cuda.shared.array(WARPS, int32)
    opacities = cuda.local.array(LOOK, float32)
    kinds = cuda.local.array(LOOK, uint32)
    x, n = int32(cuda.threadIdx.x), int32(out.size)
    for k in range(x, LONG, BLOCK):
        layers[k] = glow[k]
    if x < WARPS:
        waiting[x] = 0
    cuda.syncthreads()

    warp, lane = x // int32(32), x % int32(32)
    start = int32(ROOM) * warp
    tile = int32(TILE) * (int32(cuda.blockIdx.x) + int32(cuda.gridDim.x) * warp)
    stride, whole = int32(TILE * WARPS) * int32(cuda.gridDim.x), n // int32(TILE) * int32(TILE)
    waits = int32(0)
    if tile == 0:  # the last rays, which are no whole tile
        for i in range(whole + lane, n, 32):
            opacities[0] = through(opacity[i])
            y = cuda.local.array(1, float32)
            y[0] = float32(0)
            cross_one_ray(y, opacities, layers, uint64(0))
            out[i] = y[0]
            if kind[i] % 8 == 0:
                lists[start + cuda.atomic.add(waiting, warp, 1)] = i
        cuda.syncwarp()
        waits = waiting[warp]
        cuda.syncwarp()
    if tile < whole:
        fetch(opacity, kind, opacities, kinds, uint64(tile + lane))
    full = int32(32 * FEW)
    while True:
        while tile < whole and waits < full:
            waits = look(out, layers, lists, start, waiting, warp, opacities, kinds, uint64(tile + lane))
            tile += stride
            if tile < whole:
                fetch(opacity, kind, opacities, kinds, uint64(tile + lane))
        if waits < full:
            break
        # The last of the list are marched: what is before them stays, and what is found meanwhile is added
        waits -= full
        if lane == 0:
            waiting[warp] = waits
        cuda.syncwarp()
        batch = uint64(start + waits + lane)
        if full == int32(FULL):
            state = tile, stride, whole
            tile, waits = march_full(
                opacity, kind, out, layers, lists, start, waiting, warp, opacities, kinds, batch, waits, *state
            )
        else:
            march_few(opacity, out, layers, lists, batch)
        cuda.syncwarp()
        full = int32(FULL)

    # What is less than a batch is shared out anew among all warps of the block. Sums of int32 are int64: had they begun
    # as int32, Numba would compile the marchers for both.
    if lane == 0:
        starts[warp] = start
    cuda.syncthreads()
    count = int64(0)
    for w in range(WARPS):
        count += waiting[w]
    done = int64(0)
    while done + int32(32) * warp < count:
        each = (count - done - int32(32) * warp + int32(BLOCK - 1)) // int32(BLOCK)  # rays a thread of this warp
        if each > 3:
            rest_20(opacity, out, layers, lists, starts, waiting, done, count)
            done += int32(20 * BLOCK)
        elif each > 1:
            rest_3(opacity, out, layers, lists, starts, waiting, done, count)
            done += int32(3 * BLOCK)
        else:
            rest_1(opacity, out, layers, lists, starts, waiting, done, count)
            done += int32(BLOCK)
    # END SOLUTION


def march(opacity, kind, glow, out):
    """The light of rays. opacity and out are float32 and kind uint8, all of one length; glow has 4096 float32."""
    # BEGIN SOLUTION
    # STARTER: blocks = (out.size + BLOCK - 1) // BLOCK
    # STARTER: march_kernel[blocks, BLOCK](opacity, kind, glow, out)
    tiles = 8 if out.size >= 16 * WARPS * TILE else 2  # for every warp
    blocks = min(BLOCKS, (out.size + tiles * WARPS * TILE - 1) // (tiles * WARPS * TILE))
    march_kernel[blocks, BLOCK](opacity, kind, glow, out)
    # END SOLUTION
