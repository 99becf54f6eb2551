"""Lab 10_index_shuffle: the experts that tokens choose, and the rows in the order of their experts."""

# BEGIN SOLUTION
# STARTER: # Parts 1 to 3 are yours, one after the other; each earns points by itself. README.md says what each is.
# STARTER:
# STARTER: from numba import cuda, float32, int32
from functools import cache

import cupy
import numpy as np
from numba import cuda, int32, uint32

from warplab import ptx

# STARTER:
# STARTER: BLOCK = 128
# STARTER: LOWEST = float32(-float("inf"))
# STARTER:
# STARTER:
# STARTER: @cuda.jit
# STARTER: def choose_kernel(scores, chosen):
# STARTER:     """Part 1: the best experts of a thread's token. Of equal scores the lower expert wins; NaN is LOWEST."""
# STARTER:     token = cuda.grid(1)
# STARTER:     if token < scores.shape[0]:
# STARTER:         for choice in range(chosen.shape[1]):
# STARTER:             chosen[token, choice] = int32(choice)
# STARTER:
# STARTER:
# STARTER: @cuda.jit
# STARTER: def count_kernel(chosen, count, first):
# STARTER:     """Part 2: a thread's expert, how many rows it has and where they begin. This is enough for one row."""
# STARTER:     expert = cuda.grid(1)
# STARTER:     if expert < count.size:
# STARTER:         count[expert] = 1 if chosen[0, 0] == expert else 0
# STARTER:         first[expert] = 1 if chosen[0, 0] < expert else 0
# STARTER:
# STARTER:
# STARTER: @cuda.jit
# STARTER: def place_kernel(chosen, first, order, position):
# STARTER:     """Part 3: a thread's expert, its rows in the order of their numbers. This is enough for one token."""
# STARTER:     expert = cuda.grid(1)
# STARTER:     if expert < first.size:
# STARTER:         for choice in range(chosen.shape[1]):
# STARTER:             if chosen[0, choice] == expert:
# STARTER:                 position[0, choice] = first[expert]
# STARTER:                 order[first[expert]] = choice
# STARTER:
# STARTER:
# One launch, and each score is read once. A block has a stretch of neighbouring tokens, each of its warps a stretch of
# that. A warp chooses for one token after the other and counts its rows by expert; then all blocks wait for each other,
# and a block that knows what those before it have counted knows where its rows go. Blocks need no barrier where there
# is one, that of a cluster where there are few, and else that of a cooperative grid.
THREADS = 1024
WARPS = THREADS // 32
SHARE = 128  # tokens that are worth a block: four a warp
CLUSTER = 8  # blocks that may wait for each other without a cooperative launch
GRID = 132  # and with one: an H100 SXM or H200 has a place for each
ALL = 0xFFFFFFFF  # lanes that take part
NOBODY = uint32(0xFFFFFFFF)
INFINITY = uint32(0x7F800000)


@cuda.jit(device=True)
def nothing():
    pass


@cuda.jit(device=True)
def wait_for_cluster():
    ptx.cluster_arrive()
    ptx.cluster_wait()


@cuda.jit(device=True)
def wait_for_grid():
    cuda.cg.this_grid().sync()


@cuda.jit(device=True)
def key(bits):
    """Unsigned numbers in the order of scores, above 0: NaN as minus infinity, -0 as +0."""
    magnitude = bits & uint32(0x7FFFFFFF)
    above = INFINITY + magnitude if bits == magnitude else INFINITY - magnitude
    return uint32(1) if magnitude > INFINITY else uint32(above + uint32(1))


@cache
def kernel_for(k, experts, cluster, blocks_share_the_grid):
    """A kernel for a number of choices and of experts, which NVVM must know to keep a lane's scores in registers."""
    vector = 4 if experts >= 128 else 1  # scores of a load
    each = (experts + 32 * vector - 1) // (32 * vector) * vector  # scores of a lane
    group = 32 // k  # tokens whose rows a warp holds at a time, one a lane
    share = THREADS // experts  # threads that add up the counts of one expert
    span = (experts + 31) // 32  # experts of a lane in the sum over all of them
    alone = cluster == 1 and not blocks_share_the_grid  # there is one block
    in_clusters = ptx.cluster_size(cluster) if cluster > 1 else nothing
    wait_for_all_blocks = wait_for_grid if blocks_share_the_grid else wait_for_cluster if cluster > 1 else nothing

    @cuda.jit(device=True)
    def load(scores, token, end, lane, bits):
        """A lane's scores of a token: lanes read neighbours, and its own are in ascending order."""
        for e in range(0, each, vector):
            expert = e * 32 + lane * vector
            if token < end and expert < experts:
                if vector == 4:
                    four = ptx.load_global_16(ptx.address(scores, token * experts + expert))
                    for i in range(4):
                        bits[e + i] = four[i]
                else:
                    bits[e] = ptx.load_global_4(ptx.address(scores, token * experts + expert))

    @cuda.jit(max_registers=64)  # an SM has room for the threads of one block
    def index_shuffle_kernel(scores, chosen, count, first, order, position, counted):
        in_clusters()
        following = cuda.shared.array((WARPS, experts), int32)  # rows of a warp by expert, then where its next one goes
        total = cuda.shared.array(experts, int32)
        before = cuda.shared.array(experts, int32)
        thread, block = int32(cuda.threadIdx.x), int32(cuda.blockIdx.x)
        blocks, tokens = int32(cuda.gridDim.x), int32(scores.shape[0])
        lane, warp = thread % int32(32), thread // int32(32)
        lower = (uint32(1) << uint32(lane)) - uint32(1)  # the lanes before this one

        # This warp's tokens, from `start` to `end`.
        a_block = (tokens + blocks - int32(1)) // blocks
        a_warp = (a_block + int32(WARPS - 1)) // int32(WARPS)
        block_end = min((block + int32(1)) * a_block, tokens)
        start = min(block * a_block + warp * a_warp, block_end)
        end = min(start + a_warp, block_end)

        keys = cuda.local.array(each, uint32)
        bits = cuda.local.array(each, uint32)
        load(scores, start, end, lane, bits)
        for e in range(lane, experts, 32):
            following[warp, e] = 0
        for e in range(thread, experts, THREADS):
            total[e] = 0
            before[e] = 0
        cuda.syncwarp()

        row = NOBODY
        for tile in range(start, end, group):
            row = NOBODY
            for t in range(min(int32(group), end - tile)):
                for e in range(each):
                    expert = e // vector * 32 * vector + lane * vector + e % vector
                    keys[e] = key(bits[e]) if expert < experts else uint32(0)
                load(scores, tile + t + 1, end, lane, bits)  # on their way while this token chooses
                for i in range(k):
                    largest = keys[0]
                    for e in range(1, each):
                        largest = max(largest, keys[e])
                    largest = ptx.redux_max(largest)
                    mine = NOBODY
                    for e in range(each - 1, -1, -1):
                        expert = e // vector * 32 * vector + lane * vector + e % vector
                        mine = uint32(expert) if keys[e] == largest else mine
                    best = ptx.redux_min(mine)  # of equal scores that of the lowest index
                    for e in range(each):
                        expert = e // vector * 32 * vector + lane * vector + e % vector
                        keys[e] = uint32(0) if uint32(expert) == best else keys[e]
                    row = best if uint32(lane) == uint32(t * k + i) else row
            if row != NOBODY:
                chosen[tile + lane // k, lane % k] = row
            peers = uint32(cuda.match_any_sync(ALL, int32(row)))  # lanes whose rows go to the same expert
            if row != NOBODY and peers & lower == 0:
                following[warp, row] += cuda.popc(peers)
            cuda.syncwarp()
        cuda.syncthreads()

        # Rows of earlier warps of this block, by expert, and what the block has of each.
        for e in range(thread, experts, THREADS):
            rows = int32(0)
            for w in range(WARPS):
                of_warp = following[w, e]
                following[w, e] = rows
                rows += of_warp
            if alone:
                total[e] = rows
            else:
                counted[block, e] = rows
        cuda.syncthreads()
        wait_for_all_blocks()

        # Rows of earlier blocks and of all, by expert. Several threads share an expert.
        if not alone and thread < share * experts:
            e = thread % int32(experts)
            everybody = earlier = int32(0)
            for b in range(thread // int32(experts), blocks, share):
                rows = counted[b, e]
                everybody += rows
                earlier += rows if b < block else int32(0)
            cuda.atomic.add(total, e, everybody)
            cuda.atomic.add(before, e, earlier)
        cuda.syncthreads()
        if warp == 0:  # where each expert begins: an exclusive sum, of which a lane has neighbouring experts
            rows = int32(0)
            for e in range(lane * span, min((lane + 1) * span, experts)):
                rows += total[e]
            until = rows
            for step in range(5):
                below = cuda.shfl_up_sync(ALL, until, 1 << step)
                until += below if lane >= 1 << step else int32(0)
            begins = until - rows
            for e in range(lane * span, min((lane + 1) * span, experts)):
                if block == 0:
                    count[e] = total[e]
                    first[e] = begins
                before[e] += begins
                begins += total[e]
        cuda.syncthreads()
        for e in range(lane, experts, 32):
            following[warp, e] += before[e]
        cuda.syncwarp()

        # Each row to its place. A lane reads what it wrote; the last tile's row it still has.
        for tile in range(start, end, group):
            mine = row
            if tile + group < end:
                mine = uint32(chosen[tile + lane // k, lane % k]) if lane < group * k else NOBODY
            peers = uint32(cuda.match_any_sync(ALL, int32(mine)))
            to = int32(0)
            if mine != NOBODY:
                to = following[warp, mine] + int32(cuda.popc(peers & lower))
            cuda.syncwarp()
            if mine != NOBODY and peers & lower == 0:
                following[warp, mine] += cuda.popc(peers)
            cuda.syncwarp()
            if mine != NOBODY:
                position[tile + lane // k, lane % k] = to
                order[to] = tile * k + lane

    return index_shuffle_kernel


# END SOLUTION
def index_shuffle(k, scores, chosen, count, first, order, position):
    """Chooses k of the experts for every token and sorts the rows by expert; all but k are arrays (README.md)."""
    tokens, experts = scores.shape
    # BEGIN SOLUTION
    # STARTER: choose_kernel[(tokens + BLOCK - 1) // BLOCK, BLOCK](scores, chosen)
    # STARTER: count_kernel[(experts + BLOCK - 1) // BLOCK, BLOCK](chosen, count, first)
    # STARTER: place_kernel[(experts + BLOCK - 1) // BLOCK, BLOCK](chosen, first, order, position)
    blocks = min((tokens + SHARE - 1) // SHARE, GRID)
    if 1 < blocks <= CLUSTER:
        blocks = CLUSTER
    index_shuffle_kernel = kernel_for(k, experts, blocks if blocks <= CLUSTER else 1, blocks > CLUSTER)
    counted = cupy.empty((blocks, experts), dtype=np.int32)
    index_shuffle_kernel[blocks, THREADS](scores, chosen, count, first, order, position, counted)
    # END SOLUTION
