"""One SM, cycle by cycle: its resident blocks' warps, its four schedulers, its pipes, and its share of L2 and DRAM.

Each scheduler issues one instruction per cycle, of the warp that can go first. A warp waits for its control code, for
its barriers and for a free pipe. Completion times are known when an instruction is issued: requests to L2 and DRAM take
their latency if little is in flight, and what is in flight divided by the bandwidth if much is. Other SMs do the same
at the same time, so each has its share of what the chip moves.
"""

from __future__ import annotations

import numba
import numpy as np

# What an instruction is. A STAGE_WAIT waits for bulk copies, which are made as soon as there is room for them.
(PLAIN, LOAD, STORE, SHARED, BLOCK_BARRIER, ATOMIC, REDUCTION, BULK_STORE, STAGE_WAIT, GROUP_WAIT,
 ASYNC_COPY, ASYNC_GROUP, TENSOR_GROUP, TENSOR_WAIT) = range(14)  # fmt: skip
# Fields of an instruction, float64: its kind and control code (WROTE, READ: a barrier or -1; WAITS: bits), its pipe
# (or -1) and the cycles for which it keeps it busy, cycles until its result arrives, wavefronts at L1 and shared
# memory, bytes that it requests from L2 and from DRAM, probabilities that all of it is in L1 and else in L2, lines,
# two numbers whose meaning depends on the kind, and its line of the bank of arguments (or -1)
(KIND, STALL, WROTE, READ, WAITS, PIPE, BUSY, LATENCY, WAVEFRONTS, L2_BYTES, DRAM_BYTES, NEAR, IN_L2, LINES, NUMBER,
 COUNT, ARGUMENT) = range(17)  # fmt: skip
FIELDS = 17
# Fields of a stretch of a warp's route, float64: instructions from FIRST to before LAST. Warps whose place in the block
# (0 to 1) is between FROM and TO run it with probability CHANCE. It stands for TIMES such stretches.
FIRST, LAST, FROM, TO, CHANCE, TIMES = range(6)
STRETCH_FIELDS = 6
# Parameters, float64: latencies in cycles, and cycles per byte for this SM's share of the chip
(SCHEDULERS, L1_LATENCY, L2_LATENCY, DRAM_LATENCY, TAIL, SHARPNESS, L2_CYCLES, DRAM_CYCLES, PORT_CYCLES, DISPATCH,
 ARGUMENT_CYCLES, TRANSLATION, ATOMIC_CYCLES, BARRIER, BARRIER_WARP, STAGE_BYTES, STAGE_DRAM, CONSUMERS, DEPTH,
 BULK_LATENCY, FETCH, JUMP, TURNAROUND, WAVEFRONT_CYCLES) = range(24)  # fmt: skip
PARAMETERS = 24

PIPES = 8
_SCOREBOARDS = 6
_KEPT = 16  # completions of a scoreboard that are remembered
_PER_LINE = 8  # instructions of a line of code
_STAGES = 4096  # of a block that are remembered
ARGUMENT_LINES = 512  # of the bank of arguments
_BARRIERS = 16  # named ones of a block
_BUCKETS = 8192  # of a calendar of completions
_WIDTH = 8.0  # cycles of a bucket
_OPERANDS = 12.0  # cycles until an instruction to memory or a shared unit has read its operands
_NEVER = 1e30


@numba.njit(cache=True, nogil=True)
def _draw(seed):
    """A pseudo-random number between 0 and 1, the same for the same seed."""
    x = np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15)
    x ^= x >> np.uint64(29)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(32)
    return (np.float64(x >> np.uint64(11)) + 0.5) / 9007199254740992.0


@numba.njit(cache=True, nogil=True)
def _behind(latency, queued, sharpness):
    """Cycles of a request that takes `latency` alone, behind others that take `queued`: near the longer of the two."""
    longest = max(latency, queued)
    if longest <= 0.0:
        return 0.0
    return longest * ((latency / longest) ** sharpness + (queued / longest) ** sharpness) ** (1.0 / sharpness)


@numba.njit(cache=True, nogil=True)
def _next_stretch(route, at, place, seed):
    """The number of the next stretch from `at` on that a warp runs."""
    while at < route.shape[0]:
        row = route[at]
        its = row[FROM] <= place < row[TO] and row[LAST] > row[FIRST]
        if its and (row[CHANCE] >= 1.0 or _draw(seed * 7919 + at) < row[CHANCE]):
            return at
        at += 1
    return at


@numba.njit(cache=True, nogil=True)
def simulate(code, route, parameters, blocks, resident, warps, durations, limit):
    """Cycles until the last of `blocks` blocks of so many warps has ended, `resident` of them at a time.

    `code` is float64 [instructions, FIELDS], `route` float64 [stretches, STRETCH_FIELDS], `durations` float64
    [stretches] is filled with the cycles that all warps spent in each stretch. Returns also the cycle in which the last
    bytes arrived; it stops after `limit` instructions.
    """
    schedulers = int(parameters[SCHEDULERS])
    places = resident * warps
    ready = np.full(places, _NEVER)
    stretch = np.zeros(places, np.int64)
    counter = np.zeros(places, np.int64)
    entered = np.zeros(places)
    boards = np.zeros((places, _SCOREBOARDS, _KEPT))
    copied = np.zeros(places)
    product = np.zeros((places, _KEPT))
    waiting = np.full(places, -1, np.int64)  # the barrier at which a warp waits, or -1
    block_of = np.full(places, -1, np.int64)
    alive = np.zeros(resident, np.int64)
    arrived = np.zeros((resident, _BARRIERS), np.int64)
    issue = np.zeros(schedulers)
    pipes = np.zeros((schedulers, PIPES))
    paths = np.zeros(schedulers)  # until when a scheduler's warps use their path to L1 and shared memory
    stage = port = 0.0
    l2_flight = dram_flight = atomic_flight = 0.0
    calendar = np.zeros((_BUCKETS, 3))
    bucket = 0
    first_access = _NEVER
    last_bytes = now = end = 0.0
    begun = 0
    steps = 0
    dispatch = 0.0
    free_at = np.zeros(resident)
    tail_of = parameters[TAIL]
    total = places if blocks >= resident else blocks * warps
    filled = np.zeros(resident, np.int64)  # stages of a block that bulk copies have filled, or are filling
    arrival = np.zeros((resident, _STAGES))  # when each arrives
    consumed = np.zeros(resident)  # waits for stages so far
    checks = np.zeros(places, np.int64)  # waits of a warp for stages
    needs = np.zeros(places, np.int64)  # of a warp that waits for a stage: its number
    decoded = np.full(len(code) // _PER_LINE + 2, _NEVER)  # when lines of the code arrive
    fetched = np.full(ARGUMENT_LINES, _NEVER)  # when lines of the constant bank arrive

    for slot in range(resident):
        if begun < blocks:
            start = max(dispatch, free_at[slot])
            dispatch = start + parameters[DISPATCH]
            for k in range(warps):
                w = slot * warps + k
                block_of[w] = begun
                ready[w] = start
                stretch[w] = _next_stretch(route, 0, (k + 0.5) / warps, begun * warps + k)
                entered[w] = ready[w]
                if stretch[w] < route.shape[0]:
                    counter[w] = int(route[stretch[w], FIRST])
                    alive[slot] += 1
                else:
                    ready[w] = _NEVER
            begun += 1

    decoded[0] = 0.0
    while steps < limit:
        best, when = -1, _NEVER
        for w in range(total):
            r = ready[w]
            if r >= when:
                continue
            q = w % schedulers
            r = max(r, issue[q])
            if r >= when:
                continue
            row = code[counter[w]]
            pipe = int(row[PIPE])
            if pipe >= 0:
                r = max(r, pipes[q, pipe])
            if r < when:
                best, when = w, r
        if best < 0:
            # All warps wait, because some took another path than the counts say: release them.
            freed = False
            for w in range(total):
                if waiting[w] >= 0 or needs[w] > 0:
                    waiting[w], needs[w] = -1, 0
                    ready[w] = now + parameters[BARRIER]
                    freed = True
            arrived[:] = 0
            if not freed:
                break
            continue
        w, now = best, when
        q, slot = w % schedulers, w // warps
        row = code[counter[w]]
        kind, pipe = int(row[KIND]), int(row[PIPE])
        steps += 1
        while (bucket + 1) * _WIDTH <= now:
            cell = calendar[bucket % _BUCKETS]
            l2_flight -= cell[0]
            dram_flight -= cell[1]
            atomic_flight -= cell[2]
            cell[:] = 0.0
            bucket += 1
        issue[q] = now + 1.0
        if pipe >= 0:
            pipes[q, pipe] = now + row[BUSY]
        passed = now
        done = now + row[LATENCY]
        if row[WAVEFRONTS] > 0.0:
            # The SM moves one per cycle, and fewer for the warps of one scheduler.
            stage = max(stage, now) + row[WAVEFRONTS]
            paths[q] = max(paths[q], now) + row[WAVEFRONTS] * parameters[WAVEFRONT_CYCLES]
            passed = max(stage, paths[q] - parameters[WAVEFRONT_CYCLES] + 1.0)
            done = max(done, passed + row[LATENCY] - 1.0)
        if kind in (LOAD, ASYNC_COPY, ATOMIC):
            seed = steps * 31 + w
            alone = parameters[L1_LATENCY]
            lines = max(row[LINES], 1.0)
            if _draw(seed) >= row[NEAR]:
                first_access = min(first_access, now)
                port = max(port, now) + row[L2_BYTES] * parameters[PORT_CYCLES]
                l2_flight += row[L2_BYTES]
                dram_flight += row[DRAM_BYTES]
                if _draw(seed + 7) < row[IN_L2]:
                    alone = _behind(parameters[L2_LATENCY], l2_flight * parameters[L2_CYCLES], parameters[SHARPNESS])
                else:
                    # The last of n lines: n draws of an exponential distribution
                    tail = -tail_of * (1.0 + np.log(1.0 - _draw(seed + 13) ** (1.0 / lines)))
                    queued = max(dram_flight * parameters[DRAM_CYCLES], l2_flight * parameters[L2_CYCLES])
                    alone = _behind(parameters[DRAM_LATENCY] + tail, queued, parameters[SHARPNESS])
                if kind == ATOMIC:
                    atomic_flight += row[NUMBER]
                    alone = _behind(alone, atomic_flight * parameters[ATOMIC_CYCLES], parameters[SHARPNESS])
                alone += max(first_access + parameters[TRANSLATION] - now, 0.0)
                alone = max(alone, port + parameters[L2_LATENCY] - now)
                cell = calendar[min(int((now + alone) / _WIDTH) + 1, bucket + _BUCKETS - 1) % _BUCKETS]
                cell[0] += row[L2_BYTES]
                cell[1] += row[DRAM_BYTES]
                if kind == ATOMIC:
                    cell[2] += row[NUMBER]
            done = max(now, passed - 1.0) + alone
            last_bytes = max(last_bytes, done)
            if kind == ASYNC_COPY:
                copied[w] = max(copied[w], done)
        elif kind in (STORE, REDUCTION, BULK_STORE):
            port = max(port, now) + row[L2_BYTES] * parameters[PORT_CYCLES]
            dram_flight += row[DRAM_BYTES]
            l2_flight += row[L2_BYTES]
            queued = max(dram_flight * parameters[DRAM_CYCLES], l2_flight * parameters[L2_CYCLES])
            if kind == REDUCTION:
                atomic_flight += row[NUMBER]
                queued = max(queued, atomic_flight * parameters[ATOMIC_CYCLES])
            first_access = min(first_access, now)
            written = max(now + queued, port, first_access + parameters[TRANSLATION])
            cell = calendar[min(int(written / _WIDTH) + 1, bucket + _BUCKETS - 1) % _BUCKETS]
            cell[0] += row[L2_BYTES]
            cell[1] += row[DRAM_BYTES]
            if kind == REDUCTION:
                cell[2] += row[NUMBER]
            last_bytes = max(last_bytes, written)
        elif kind == ASYNC_GROUP:
            done = max(copied[w], now)
        elif kind == TENSOR_GROUP:
            done = max(pipes[q, pipe], now) + row[LATENCY]
            product[w, 1:] = product[w, :-1].copy()
            product[w, 0] = done
        board = int(row[WROTE])
        if board >= 0:
            ring = boards[w, board]
            latest = max(ring[0], done)
            for k in range(_KEPT - 1, 0, -1):
                ring[k] = ring[k - 1]
            ring[0] = latest
        board = int(row[READ])
        if board >= 0:
            ring = boards[w, board]
            latest = max(ring[0], min(done, passed + _OPERANDS))
            for k in range(_KEPT - 1, 0, -1):
                ring[k] = ring[k - 1]
            ring[0] = latest
        following = now + max(row[STALL], 1.0)
        line = int(row[ARGUMENT])
        if line >= 0:
            if fetched[line] == _NEVER:
                fetched[line] = now + parameters[ARGUMENT_CYCLES]
            following = max(following, fetched[line])
        asleep = False
        if kind == STAGE_WAIT:
            following = max(following, now + row[LATENCY])
            checks[w] += 1
            consumed[slot] += 1.0
            # Bulk copies start as soon as there is room: a stage is free once all consumers wait for the next one.
            room = parameters[DEPTH] + max(consumed[slot] // parameters[CONSUMERS] - 1.0, 0.0)
            while filled[slot] < min(room, _STAGES):
                first_access = min(first_access, now)
                l2_flight += parameters[STAGE_BYTES]
                dram_flight += parameters[STAGE_DRAM]
                port = max(port, now) + parameters[STAGE_BYTES] * parameters[PORT_CYCLES]
                lines = max(parameters[STAGE_BYTES] / 128.0, 1.0)
                if parameters[STAGE_DRAM] > 0.0:
                    tail = tail_of * np.log(lines)
                    queued = max(dram_flight * parameters[DRAM_CYCLES], l2_flight * parameters[L2_CYCLES])
                    alone = _behind(parameters[DRAM_LATENCY] + tail, queued, parameters[SHARPNESS])
                else:
                    alone = _behind(parameters[L2_LATENCY], l2_flight * parameters[L2_CYCLES], parameters[SHARPNESS])
                alone += max(first_access + parameters[TRANSLATION] - now, 0.0) + parameters[BULK_LATENCY]
                alone = max(alone, port + parameters[L2_LATENCY] - now)
                cell = calendar[min(int((now + alone) / _WIDTH) + 1, bucket + _BUCKETS - 1) % _BUCKETS]
                cell[0] += parameters[STAGE_BYTES]
                cell[1] += parameters[STAGE_DRAM]
                arrival[slot, filled[slot]] = now + alone
                filled[slot] += 1
                for k in range(warps):
                    v = slot * warps + k
                    if 0 < needs[v] <= filled[slot]:
                        ready[v] = arrival[slot, needs[v] - 1]
                        needs[v] = 0
            if checks[w] <= filled[slot]:
                following = max(following, arrival[slot, checks[w] - 1])
            elif checks[w] <= _STAGES:
                needs[w] = checks[w]
                asleep = True
        elif kind == TENSOR_WAIT:
            following = max(following, product[w, min(int(row[NUMBER]), _KEPT - 1)])

        # The next instruction of this warp
        counter[w] += 1
        over = False
        if counter[w] >= int(route[stretch[w], LAST]):
            durations[stretch[w]] += now - entered[w]
            entered[w] = now
            place, seed = (w % warps + 0.5) / warps, block_of[w] * warps + w % warps
            stretch[w] = _next_stretch(route, stretch[w] + 1, place, seed)
            over = stretch[w] >= route.shape[0]
            if not over:
                counter[w] = int(route[stretch[w], FIRST])
        if over:
            ready[w] = _NEVER
            end = max(end, following)
            alive[slot] -= 1
            if alive[slot] == 0:
                free_at[slot] = following
                if begun < blocks:
                    start = max(dispatch, following + parameters[TURNAROUND])
                    dispatch = start + parameters[DISPATCH]
                    arrived[slot] = 0
                    filled[slot] = 0
                    consumed[slot] = 0.0
                    for k in range(warps):
                        v = slot * warps + k
                        checks[v] = 0
                        block_of[v] = begun
                        ready[v] = start
                        boards[v] = 0.0
                        stretch[v] = _next_stretch(route, 0, (k + 0.5) / warps, begun * warps + k)
                        entered[v] = start
                        if stretch[v] < route.shape[0]:
                            counter[v] = int(route[stretch[v], FIRST])
                            alive[slot] += 1
                        else:
                            ready[v] = _NEVER
                    begun += 1
            elif alive[slot] > 0:
                _release(slot, warps, alive, arrived, waiting, ready, now, parameters, 0)
            continue
        coming = code[counter[w]]
        line = counter[w] // _PER_LINE
        if decoded[line] == _NEVER:
            if line and decoded[line - 1] < _NEVER:
                decoded[line] = max(decoded[line - 1] + parameters[FETCH], now)
            else:
                decoded[line] = now + parameters[JUMP]
        following = max(following, decoded[line])
        mask = int(coming[WAITS])
        b = 0
        while mask:
            if mask & 1:
                following = max(following, boards[w, b, 0])
            mask >>= 1
            b += 1
        if int(coming[KIND]) == GROUP_WAIT:
            following = max(following, boards[w, int(coming[COUNT]), min(int(coming[NUMBER]), _KEPT - 1)])
        ready[w] = _NEVER if asleep else following
        if kind == BLOCK_BARRIER:
            name = int(row[NUMBER])
            arrived[slot, name] += 1
            needed = min(int(row[COUNT]), alive[slot]) if row[COUNT] > 0 else alive[slot]
            waiting[w] = name
            ready[w] = _NEVER
            if arrived[slot, name] >= needed:
                arrived[slot, name] = 0
                for k in range(warps):
                    v = slot * warps + k
                    if waiting[v] == name:
                        waiting[v] = -1
                        ready[v] = max(now + parameters[BARRIER] + parameters[BARRIER_WARP] * needed, following)
    return end, last_bytes


@numba.njit(cache=True, nogil=True)
def _release(slot, warps, alive, arrived, waiting, ready, now, parameters, name):
    """Release the warps at a barrier if all others of the block have ended."""
    if 0 < alive[slot] <= arrived[slot, name]:
        arrived[slot, name] = 0
        for k in range(warps):
            v = slot * warps + k
            if waiting[v] == name:
                waiting[v] = -1
                ready[v] = now + parameters[BARRIER]
