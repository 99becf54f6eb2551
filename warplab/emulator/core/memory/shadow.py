"""The sanitizer of shared memory: races between barriers, and reads of what nothing wrote.

Each 4-byte word has a shadow of 14 int32 (see `shadow_chunks`): who wrote it last and which two warps read
it last, each with the warp's clock at that moment. A warp's clock advances at every barrier, where the participants
also learn each other's clocks (vector clocks, as in Flanagan and Freund's FastTrack). An access raced with an earlier
one by another warp if the later warp has not learnt of the earlier one's clock: then no barrier lies between them. An
asynchronous copy may write its words at any time from its start until its thread has waited for it; any access in
between is a fault.

Where the kernel has operations of the async proxy, each vector clock has a second half: up to which clock of each warp
a fence.proxy.async has followed what the first half knows. Both halves are passed on together. Where it has wgmma, a
third part says up to which of its products each warpgroup's have been waited for. What a product reads is read by the
warpgroup, at the moment that is the product's number: a warp may write there once it knows of a wait for it, by any
warp of the warpgroup.

A tag names the bytes that were touched. Those that a warp touches by several instructions between two such moments
count as touched by the last of these. What the last write leaves alone is kept apart (see `older_writes`).

The lanes of a warp may run at different times as well. For each byte the shadow also keeps the lane that wrote it last
and the lane that read it last, with the warp's epoch, which advances whenever lanes wait for each other (barriers,
mbarriers, __syncwarp, and instructions on matrix fragments). Two lanes race if they have not met since (`lane_order`)
and the accesses are different instructions. And a lane's arrival at an mbarrier tells nobody of what other lanes of its
warp did in that epoch (see `handovers`).

A volatile access orders nothing. It is compared like an ordinary one (EXPOSED) with ordinary and volatile ones, and
may meet atomics. A volatile read that its loop waits with, or that only decides about a branch, may meet any (STRONG),
as may accesses that name an order and a scope.
"""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.memory.causality import has_seen
from warplab.emulator.core.memory.clocks import clock_of, own_clock, products_known
from warplab.emulator.core.memory.cluster_memory import offset_of, owner_of, visit_peer
from warplab.emulator.core.memory.handovers import handover
from warplab.emulator.core.memory.older_writes import OLDER_WRITES, follow_older, forget_ordered, older_write
from warplab.emulator.core.memory.shadow_chunks import (
    CHUNK_BYTES,
    OLDER,
    PENDING,
    PRODUCTS,
    READ1_CLOCK,
    READ1_TAG,
    READ2_CLOCK,
    READ2_TAG,
    READ_EPOCH,
    READ_LANES,
    READ_TAG,
    SOURCE,
    TAG_WARPS,
    VALID,
    WORDS,
    WRITE_CLOCK,
    WRITE_EPOCH,
    WRITE_LANES,
    WRITE_TAG,
    pc_of,
    read_chunk,
    tag_of,
    warp_of,
    word_at,
    write_chunk,
)
from warplab.emulator.core.memory.word_lanes import (
    SEVERAL,
    first_lanes,
    lane_shift,
    lane_step,
    lanes_of_word,
    merged,
    warp_conflict,
    with_earlier_lanes,
)
from warplab.emulator.core.state.faults import compiled, report, warp_state
from warplab.emulator.core.state.layout import (
    ARRIVAL_SHIFT,
    EXPOSED_BIT,
    FAULT_HANDED_OVER,
    FAULT_OPERAND,
    FAULT_PENDING,
    FAULT_PROXY,
    FAULT_RACE,
    FAULT_SOURCE,
    FAULT_UNINITIALISED,
    H_EPOCH,
    H_LANES,
    H_PC,
    M_CLOCK_COLUMNS,
    M_CLOCKS,
    M_CLUSTER_WARPS,
    M_CODE,
    M_FIRST_WARP,
    M_RANK,
    M_SHARED_SHADOW,
    M_WARP_COUNT,
    M_WARPS,
    OP_LOAD,
    OP_STORE,
    OTHER_BLOCK,
    RANK_SHIFT,
    SAME_WARP,
    SAW_WORDS,
    SPACE_SHARED,
    W_EPOCH,
    W_MIN_CLOCK,
    W_PARTLY,
    W_SAW,
    W_TOUCHED,
    W_WHOLE,
    WARPGROUP_WARPS,
    X3,
)
from warplab.emulator.core.state.raw import (
    field,
    get,
    load_i32,
    load_u32,
    put,
    store_i32,
    store_u32,
)

# In VALID, beside the four bits of the bytes that were written, four each: how the last write to a byte was made.
ATOMIC_SHIFT, VOLATILE_SHIFT, ASYNC_SHIFT = 4, 8, 12
ATOMIC_WRITE, VOLATILE_WRITE, ASYNC_WRITE = 15 << ATOMIC_SHIFT, 15 << VOLATILE_SHIFT, 15 << ASYNC_SHIFT
STRONG, EXPOSED = 1, 2  # for `volatile`: an access that may meet others, or only atomics and strong ones
BY_PRODUCT = 2  # for `several` of check_read: the read is recorded by record_product


@compiled
def _report(m, kind, pc, warp, start, index, element, lane, write, other, other_writes):
    """Report a fault at a word of an access, for the lane and the element that the word belongs to."""
    offset = offset_of(start)
    place = (max(offset, 4 * index) - offset) // element
    address = start + place * element
    report(m, kind, pc, warp, lane + place, address, element, write, other, SPACE_SHARED, other_writes)


@compiled
def _report_race(m, pc, warp, start, index, element, lane, write, tag, other_writes):
    """Report a race with an access of another warp that has left this tag."""
    same_block = warp_of(tag) // get(m, M_WARP_COUNT) == get(m, M_RANK)
    extra = other_writes | (0 if same_block else OTHER_BLOCK)
    _report(m, FAULT_RACE, pc, warp, start, index, element, lane, write, pc_of(tag), extra)


@compiled
def _early_arrival(word, record, tag, touched, wrote):
    """The pc of the arrival of a record if it does not speak for a lane that has left this tag at a word; else -1."""
    lanes_at, epoch_at, tag_at = READ_LANES, READ_EPOCH, READ_TAG
    if wrote:
        lanes_at, epoch_at, tag_at = WRITE_LANES, WRITE_EPOCH, WRITE_TAG
        if load_i32(word + VALID) & ASYNC_WRITE:  # by a copy, whose lane is not known
            return np.int64(-1)
    if np.int64(load_u32(word + tag_at)) >> 4 != tag >> 4:  # a read by another warp came after that
        return np.int64(-1)
    if load_i32(word + epoch_at) != load_i32(record + 4 * H_EPOCH):
        return np.int64(-1)
    lanes, arrived = load_u32(word + lanes_at), load_u32(record + 4 * H_LANES)
    for byte in range(4):
        if touched >> byte & 1:
            lane = (lanes >> np.uint32(8 * byte)) & np.uint32(SEVERAL)
            alone = arrived & (arrived - np.uint32(1)) == np.uint32(0)
            if alone if lane == np.uint32(SEVERAL) else arrived >> lane & np.uint32(1) == np.uint32(0):
                return np.int64(load_i32(record + 4 * H_PC))
    return np.int64(-1)


@compiled
def _is_exposed(m, pc):
    """Is an instruction a volatile access that atomics may meet, and volatile ones may not?"""
    record = get(m, M_CODE) + pc * 64
    op = np.int64(load_i32(record))
    return op in (OP_LOAD, OP_STORE) and field(record, X3) & EXPOSED_BIT != 0


@compiled
def _check_order(m, warp, word, clock_at, tag_at, wrote, touched, start, index, element, pc, lane, write, atomic, seen):
    """Report an earlier access to a word if it is another warp's and not ordered before now.

    Its clock and its tag lie at two addresses. `seen`: a strong read before may have shown what it takes.
    """
    clock, tag = np.int64(load_i32(clock_at)), np.int64(load_u32(tag_at))
    me, other, common = get(m, M_FIRST_WARP) + warp, warp_of(tag), tag & touched & 15
    if clock == 0 or other == me or common == 0 or clock >= PRODUCTS:
        return
    known = clock_of(get(m, M_CLOCKS), get(m, M_CLOCK_COLUMNS), me, other)
    if atomic and _is_exposed(m, pc_of(tag)):
        return
    if clock > known:
        # A strong read keeps its place behind those before it: it needs no fence of its own.
        if seen and has_seen(m, warp, other, clock):
            return
        _report_race(m, pc, warp, start, index, element, lane, write, tag, wrote)
        return
    record = handover(m, other, known)
    if record == 0:
        return
    arrival = _early_arrival(word, record, tag, common, wrote)
    if arrival >= 0:
        extra = arrival << ARRIVAL_SHIFT | wrote
        _report(m, FAULT_HANDED_OVER, pc, warp, start, index, element, lane, write, pc_of(tag), extra)


@compiled
def _peer_shadow(m, warp, start, size, write, pc, lane):
    """The shadow of the shared memory of another block, in which an access lies."""
    owner = owner_of(m, start)
    visit_peer(m, owner, warp, start, size, write, pc, lane)
    return get(owner, M_SHARED_SHADOW)


@compiled
def check_read(m, warp, start, size, element, pc, lane, volatile, atomic, several):
    """Check and record a read of bytes [start, start + size) of the shared memory of the block or of a peer.

    Neighbouring lanes from `lane` on read `element` bytes each; `volatile`: 0, STRONG or EXPOSED; `several`: more than
    one lane reads all of it, or BY_PRODUCT.
    """
    shadow = get(m, M_SHARED_SHADOW)
    if shadow == 0:
        return
    offset = offset_of(start)
    if offset != start:
        shadow = _peer_shadow(m, warp, start, size, 0, pc, lane)
    state = warp_state(get(m, M_WARPS), warp)
    if not (volatile == STRONG or atomic or several == BY_PRODUCT):
        put(state, W_TOUCHED, get(state, W_EPOCH))
    first, end = offset >> 2, (offset + size + 3) >> 2
    shift = lane_shift(element, size, several)
    one_by_one = volatile or atomic or several == BY_PRODUCT or get(state, W_PARTLY)
    if (offset | size) & 3 or shift < 0 or one_by_one:
        _read_words(m, warp, shadow, start, size, element, pc, lane, volatile, atomic, several, first, end)
        return
    mine, epoch = own_clock(m, warp), get(state, W_EPOCH)
    known = min(get(state, W_MIN_CLOCK), np.int64(PRODUCTS - 1))
    tag = np.int64(tag_of(pc, get(m, M_FIRST_WARP) + warp, 15))
    lanes, step = first_lanes(element, lane, several), lane_step(element, size, several)
    for chunk in range(first // WORDS, (end - 1) // WORDS + 1):
        low, high = max(first - WORDS * chunk, 0), min(end - WORDS * chunk, WORDS)
        at, place, active = shadow + chunk * CHUNK_BYTES, WORDS * chunk - first, (1 << high) - (1 << low)
        if not read_chunk(at, active, known, mine, epoch, get(state, W_WHOLE), tag, lanes, step, shift, place):
            low, high = low + WORDS * chunk, high + WORDS * chunk
            _read_words(m, warp, shadow, start, size, element, pc, lane, volatile, atomic, several, low, high)


@compiled
def read_by_several(m, warp, start, size, pc):
    """Record that more than one lane reads each of `size` bytes of the block's own memory, by one instruction.

    False if a rule may be broken: the caller then checks as without this; what was recorded here does no harm.
    """
    shadow = get(m, M_SHARED_SHADOW)
    if shadow == 0:
        return True
    if (start | size) & 3 or offset_of(start) != start:
        return False
    state = warp_state(get(m, M_WARPS), warp)
    mine, epoch = own_clock(m, warp), get(state, W_EPOCH)
    if get(state, W_PARTLY):
        return False
    known = min(get(state, W_MIN_CLOCK), np.int64(PRODUCTS - 1))
    tag = np.int64(tag_of(pc, get(m, M_FIRST_WARP) + warp, 15))
    put(state, W_TOUCHED, epoch)
    first, end = start >> 2, (start + size) >> 2
    if end - first == 1:
        word, whole = word_at(shadow, first), np.int32(get(state, W_WHOLE))
        return _word_read_by_several(word, known, np.int32(mine), np.int32(epoch), whole, np.int32(tag))
    for chunk in range(first // WORDS, (end - 1) // WORDS + 1):
        low, high = max(first - WORDS * chunk, 0), min(end - WORDS * chunk, WORDS)
        active = (1 << high) - (1 << low)
        if not read_chunk(
            shadow + chunk * CHUNK_BYTES, active, known, mine, epoch, get(state, W_WHOLE), tag, -1, 0, 0, 0
        ):
            return False
    return True


@compiled
def _word_read_by_several(word, known, mine, epoch, whole, tag):
    """What read_chunk does, of one word and for several lanes."""
    same_warp, alike = TAG_WARPS << 4, ~np.int32(15)
    if load_i32(word + VALID) & (15 | OLDER) != 15 or load_i32(word + PENDING) != 0:
        return False
    when, by = np.int64(load_i32(word + WRITE_CLOCK)), load_i32(word + WRITE_TAG)
    own = (by ^ tag) & same_warp == 0
    if when > known and not (own and when < PRODUCTS):
        return False
    if own and load_i32(word + WRITE_EPOCH) >= whole and (by ^ tag) & alike != 0:
        return False
    last = load_i32(word + READ_TAG)
    if load_i32(word + READ_EPOCH) == epoch and (last ^ tag) & alike == 0 and last & 15 != 15:
        return False
    keep_read(word, warp_of(tag), mine, known, epoch, tag, np.uint32(0xFFFFFFFF))
    return True


@compiled
def _write_of(word):
    """What tells the last write to a word from others."""
    return np.int64(load_i32(word + WRITE_CLOCK)) << 32 | np.int64(load_u32(word + WRITE_TAG))


@compiled
def _note_seen(state, word):
    """A warp waits for a word, and finds what its last write left there."""
    saw = state + 8 * (W_SAW + 2 * (word // 4 % SAW_WORDS))
    put(saw, 0, word)
    put(saw, 1, _write_of(word))


@compiled
def _to_order(state, word, volatile, atomic, valid, touched):
    """Those of the touched bytes at which an access has to come after their last write in an order."""
    if volatile == STRONG:
        return np.int64(0)
    may_meet = np.int64(0)
    if volatile == EXPOSED or atomic:
        may_meet = valid >> ATOMIC_SHIFT
    if atomic:
        may_meet |= valid >> VOLATILE_SHIFT
    elif volatile == EXPOSED and valid & VOLATILE_WRITE:
        saw = state + 8 * (W_SAW + 2 * (word // 4 % SAW_WORDS))
        if get(saw, 0) == word and get(saw, 1) == _write_of(word):
            may_meet |= valid >> VOLATILE_SHIFT
    return touched & ~may_meet


@compiled
def _check_writes(m, warp, shadow, word, known, touched, start, index, element, pc, lane, write, seen):
    """Check an access against the last write to each of the touched bytes of a word."""
    if np.int64(load_i32(word + WRITE_CLOCK)) > known:
        at, tag_at = word + WRITE_CLOCK, word + WRITE_TAG
        _check_order(m, warp, word, at, tag_at, 1, touched, start, index, element, pc, lane, write, 0, seen)
    if load_i32(word + VALID) & OLDER:
        for number in range(OLDER_WRITES):
            at = older_write(shadow, index, number)
            if np.int64(load_i32(at)) > known:
                _check_order(m, warp, word, at, at + 4, 1, touched, start, index, element, pc, lane, write, 0, seen)
        forget_ordered(shadow, index, word, known)


@compiled
def _check_reads(m, warp, word, known, touched, start, index, element, pc, lane, atomic):
    """Check a write against the last reads of the touched bytes of a word."""
    if np.int64(load_i32(word + READ1_CLOCK)) > known:
        at, tag_at = word + READ1_CLOCK, word + READ1_TAG
        _check_order(m, warp, word, at, tag_at, 0, touched, start, index, element, pc, lane, 1, atomic, 0)
    if np.int64(load_i32(word + READ2_CLOCK)) > known:
        at, tag_at = word + READ2_CLOCK, word + READ2_TAG
        _check_order(m, warp, word, at, tag_at, 0, touched, start, index, element, pc, lane, 1, atomic, 0)


@compiled
def _read_words(m, warp, shadow, start, size, element, pc, lane, volatile, atomic, several, first, end):
    """The same for the words [first, end), one at a time, as far as they are part of the access."""
    offset = offset_of(start)
    columns = get(m, M_CLOCK_COLUMNS)
    clocks = get(m, M_CLOCKS)
    me = get(m, M_FIRST_WARP) + warp
    mine = np.int32(clock_of(clocks, columns, me, me))
    state = warp_state(get(m, M_WARPS), warp)
    known = get(state, W_MIN_CLOCK)
    epoch = np.int32(get(state, W_EPOCH))
    for index in range(first, end):
        word = word_at(shadow, index)
        low = max(offset - 4 * index, 0)
        high = min(offset + size - 4 * index, 4)
        touched = ((1 << high) - 1) & ~((1 << low) - 1)
        valid = np.int64(load_i32(word + VALID))
        if (valid & touched) != touched:
            _report(m, FAULT_UNINITIALISED, pc, warp, start, index, element, lane, 0, -1, 0)
            store_i32(word + VALID, np.int32(valid | touched))
        pending = np.int64(load_i32(word + PENDING))
        if pending & touched:
            _report(m, FAULT_PENDING, pc, warp, start, index, element, lane, 0, pc_of(pending), 1)
        lanes = lanes_of_word(offset, index, element, lane, several)
        strict = _to_order(state, word, volatile, atomic, valid, touched)
        if pending & touched == 0 and strict:
            _check_writes(m, warp, shadow, word, known, strict, start, index, element, pc, lane, 0, volatile)
            other = warp_conflict(word, state, me, epoch, WRITE_LANES, WRITE_EPOCH, WRITE_TAG, lanes, strict, pc)
            if other >= 0:
                _report(m, FAULT_RACE, pc, warp, start, index, element, lane, 0, other, 1 | SAME_WARP)
        if volatile == STRONG:
            _note_seen(state, word)
        if volatile == STRONG or atomic or several == BY_PRODUCT:
            continue
        tag = tag_of(pc, me, touched)
        known_tag = load_i32(word + READ_TAG)
        if load_i32(word + READ_EPOCH) == epoch and warp_of(known_tag) == me:
            # The lanes of one load come here one after the other, and others of this epoch have read as well.
            lanes = with_earlier_lanes(load_u32(word + READ_LANES), lanes, known_tag, touched)
            if _was_read_at(word, me, mine):
                tag = np.int32(tag | (known_tag & 15))
        keep_read(word, me, mine, known, epoch, tag, lanes)


@compiled
def _was_read_at(word, me, mine):
    """Has a warp read a word since its clock became what it is, if it was the last one to read it?"""
    first = load_i32(word + READ1_CLOCK) == mine and warp_of(load_i32(word + READ1_TAG)) == me
    return first or (load_i32(word + READ2_CLOCK) == mine and warp_of(load_i32(word + READ2_TAG)) == me)


@compiled
def keep_read(word, me, mine, known, epoch, tag, lanes):
    """Keep in the shadow of a word who has read it: warp `me`, at its clock `mine` and in its epoch."""
    store_u32(word + READ_LANES, lanes)
    store_i32(word + READ_EPOCH, epoch)
    store_i32(word + READ_TAG, tag)
    older = np.int64(load_i32(word + READ1_CLOCK))
    if older <= known or (older < PRODUCTS and warp_of(load_i32(word + READ1_TAG)) == me):
        store_i32(word + READ1_CLOCK, mine)
        store_i32(word + READ1_TAG, tag)
    else:
        store_i32(word + READ2_CLOCK, mine)
        store_i32(word + READ2_TAG, tag)


@compiled
def check_write(m, warp, start, size, element, pc, lane, volatile, atomic, several):
    """Check and record a write of bytes [start, start + size) of shared memory, by lanes as in check_read."""
    shadow = get(m, M_SHARED_SHADOW)
    if shadow == 0:
        return
    offset = offset_of(start)
    if offset != start:
        shadow = _peer_shadow(m, warp, start, size, 1, pc, lane)
    state = warp_state(get(m, M_WARPS), warp)
    put(state, W_TOUCHED, get(state, W_EPOCH))
    first, end = offset >> 2, (offset + size + 3) >> 2
    shift = lane_shift(element, size, several)
    if (offset | size) & 3 or shift < 0 or volatile or atomic or get(state, W_PARTLY):
        _write_words(m, warp, shadow, start, size, element, pc, lane, volatile, atomic, several, first, end)
        return
    mine, epoch = own_clock(m, warp), get(state, W_EPOCH)
    known = min(get(state, W_MIN_CLOCK), np.int64(PRODUCTS - 1))
    tag = np.int64(tag_of(pc, get(m, M_FIRST_WARP) + warp, 15))
    lanes, step = first_lanes(element, lane, several), lane_step(element, size, several)
    for chunk in range(first // WORDS, (end - 1) // WORDS + 1):
        low, high = max(first - WORDS * chunk, 0), min(end - WORDS * chunk, WORDS)
        at, place, active = shadow + chunk * CHUNK_BYTES, WORDS * chunk - first, (1 << high) - (1 << low)
        if not write_chunk(at, active, known, mine, epoch, get(state, W_WHOLE), tag, lanes, step, shift, place):
            low, high = low + WORDS * chunk, high + WORDS * chunk
            _write_words(m, warp, shadow, start, size, element, pc, lane, volatile, atomic, several, low, high)


@compiled
def _write_words(m, warp, shadow, start, size, element, pc, lane, volatile, atomic, several, first, end):
    """The same for the words [first, end), one at a time, as far as they are part of the access."""
    offset = offset_of(start)
    columns = get(m, M_CLOCK_COLUMNS)
    clocks = get(m, M_CLOCKS)
    me = get(m, M_FIRST_WARP) + warp
    mine = np.int32(clock_of(clocks, columns, me, me))
    state = warp_state(get(m, M_WARPS), warp)
    known = get(state, W_MIN_CLOCK)
    epoch = np.int32(get(state, W_EPOCH))
    for index in range(first, end):
        word = word_at(shadow, index)
        low = max(offset - 4 * index, 0)
        high = min(offset + size - 4 * index, 4)
        touched = ((1 << high) - 1) & ~((1 << low) - 1)
        valid = np.int64(load_i32(word + VALID))
        lanes = lanes_of_word(offset, index, element, lane, several)
        source = np.int64(load_i32(word + SOURCE))
        if source:
            _report(m, FAULT_SOURCE, pc, warp, start, index, element, lane, 1, pc_of(source), 0)
        if load_i32(word + READ1_CLOCK) >= PRODUCTS:
            _check_product(m, warp, word + READ1_CLOCK, word + READ1_TAG, start, index, element, pc, lane)
            if load_i32(word + READ2_CLOCK) >= PRODUCTS:
                _check_product(m, warp, word + READ2_CLOCK, word + READ2_TAG, start, index, element, pc, lane)
        pending = np.int64(load_i32(word + PENDING))
        if pending & touched:
            _report(m, FAULT_PENDING, pc, warp, start, index, element, lane, 1, pc_of(pending), 1)
        elif volatile != STRONG:
            strict = _to_order(state, word, volatile, atomic, valid, touched)
            if strict:
                _check_writes(m, warp, shadow, word, known, strict, start, index, element, pc, lane, 1, 0)
            _check_reads(m, warp, word, known, touched, start, index, element, pc, lane, atomic)
            other = warp_conflict(word, state, me, epoch, READ_LANES, READ_EPOCH, READ_TAG, lanes, touched, pc)
            if other >= 0 and not (atomic and _is_exposed(m, other)):
                _report(m, FAULT_RACE, pc, warp, start, index, element, lane, 1, other, SAME_WARP)
            if strict:
                other = warp_conflict(word, state, me, epoch, WRITE_LANES, WRITE_EPOCH, WRITE_TAG, lanes, strict, pc)
                if other >= 0:
                    _report(m, FAULT_RACE, pc, warp, start, index, element, lane, 1, other, 1 | SAME_WARP)
        if volatile == STRONG:
            store_i32(word + VALID, load_i32(word + VALID) | np.int32(touched))
            continue
        tag = tag_of(pc, me, touched)
        known_tag = load_i32(word + WRITE_TAG)
        last = np.int64(load_i32(word + WRITE_CLOCK))
        own = warp_of(known_tag) == me
        joins = own and last == mine and load_i32(word + WRITE_EPOCH) == epoch
        follow_older(shadow, index, word, touched, not joins and (own or last > known))
        if joins:
            lanes = merged(load_u32(word + WRITE_LANES), lanes, touched)
            tag = np.int32(tag | (known_tag & 15))
        store_i32(word + WRITE_CLOCK, mine)
        store_i32(word + WRITE_TAG, tag)
        store_u32(word + WRITE_LANES, lanes)
        store_i32(word + WRITE_EPOCH, epoch)
        kinds = touched << ATOMIC_SHIFT | touched << VOLATILE_SHIFT | touched << ASYNC_SHIFT
        valid = np.int64(load_i32(word + VALID)) & ~kinds
        if atomic:
            valid |= touched << ATOMIC_SHIFT
        elif volatile == EXPOSED:
            valid |= touched << VOLATILE_SHIFT
        store_i32(word + VALID, np.int32(valid | touched))


@compiled
def shadow_of(m, start):
    """The shadow of the shared memory that an address is in, of the block or of a peer; 0: not sanitised."""
    shadow = get(m, M_SHARED_SHADOW)
    if shadow and start >> RANK_SHIFT:
        shadow = get(owner_of(m, start), M_SHARED_SHADOW)
    return shadow


@compiled
def mark_written(m, start, size):
    """`size` bytes (whole words) of the own block have a value from the start."""
    shadow, first = get(m, M_SHARED_SHADOW), offset_of(start) >> 2
    for index in range(first, first + (size >> 2) if shadow else first):
        store_i32(word_at(shadow, index) + VALID, np.int32(15))


@compiled
def check_async_read(m, warp, start, size, pc, lane):
    """Beside check_read: check that the async proxy may read `size` bytes (whole words) for a warp.

    A fence.proxy.async must lie between an ordinary store that made them and now.
    """
    warps, columns = get(m, M_CLUSTER_WARPS), get(m, M_CLOCK_COLUMNS)
    shadow = shadow_of(m, start)
    if shadow == 0 or columns == warps:
        return
    row = get(m, M_CLOCKS) + 4 * (get(m, M_FIRST_WARP) + warp) * columns
    for place in range(start, start + size, 4):
        word = word_at(shadow, offset_of(place) >> 2)
        clock, tag = load_i32(word + WRITE_CLOCK), load_u32(word + WRITE_TAG)
        author = row + 4 * warp_of(tag)
        # A write that is not known at all is a race, which check_read reports.
        unfenced = load_i32(author + 4 * warps) < clock <= load_i32(author)
        if unfenced and load_i32(word + VALID) & ASYNC_WRITE == 0:
            report(m, FAULT_PROXY, pc, warp, lane, place, 4, 0, pc_of(tag), SPACE_SHARED, 1)


@compiled
def record_product(m, leader, start, size, pc, moment):
    """From now on a product of the warpgroup whose first warp is `leader` may read `size` bytes (whole words)."""
    shadow, first = shadow_of(m, start), offset_of(start) >> 2
    tag = tag_of(pc, get(m, M_FIRST_WARP) + leader, 15)
    for index in range(first, first + (size >> 2 if shadow else 0)):
        word = word_at(shadow, index)
        older = load_i32(word + READ1_TAG)
        if warp_of(older) != warp_of(tag) or load_i32(word + READ1_CLOCK) < PRODUCTS:
            store_i32(word + READ2_CLOCK, load_i32(word + READ1_CLOCK))
            store_i32(word + READ2_TAG, older)
        store_i32(word + READ1_CLOCK, np.int32(PRODUCTS + moment))
        store_i32(word + READ1_TAG, tag)


@compiled
def _check_product(m, warp, clock, tag, start, index, element, pc, lane):
    """A warp writes a word that a product has read or will read: report it unless it knows that this is over."""
    moment, reader = load_i32(clock) - np.int32(PRODUCTS), load_i32(tag)
    leader, me = warp_of(reader), get(m, M_FIRST_WARP) + warp
    known = products_known(m, me, leader)
    if moment <= load_i32(known):
        return
    awaited = np.int32(0)
    for member in range(leader, leader + WARPGROUP_WARPS):
        awaited = max(awaited, load_i32(products_known(m, member, leader)))
    if moment <= awaited and known != products_known(m, me, me):
        _report_race(m, pc, warp, start, index, element, lane, 1, reader, 0)
        return
    owner = owner_of(m, start)
    inside = leader - get(owner, M_FIRST_WARP)
    report(owner, FAULT_OPERAND, pc_of(reader), inside, 0, 4 * index, 4, 0, pc, SPACE_SHARED, 0)
