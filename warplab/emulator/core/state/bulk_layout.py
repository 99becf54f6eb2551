"""Where bulk copies lie in the interpreter's memory: their records, the queue of stores, encoded tensor maps.

All is counted in units of int64.
"""

from __future__ import annotations

# An OP_BULK: SRC_A the address in the block's own shared memory (of a copy within the cluster: the source), SRC_B the
# global address, the tensor map's, or the target within the cluster, SRC_C the bytes, X0 the mbarrier, X7 the form. The
# record before it (OP_ROWS) names the coordinates in SRC_A, SRC_B, SRC_C, X0, X1 and the mask of a multicast in X2.
# An OP_BULK_GROUP: X0 the action, X1 1 with .read, IMM the number of groups that may stay pending.
TO_SHARED, TO_GLOBAL, WITHIN_CLUSTER = range(3)
FORM_DIRECTION = 3
FORM_RANK_SHIFT, FORM_OPERATION_SHIFT, FORM_KIND_SHIFT, FORM_SIZE_SHIFT, FORM_MASK_SHIFT = 4, 8, 16, 20, 32
FORM_ROWS = 1 << 25  # .tile::gather4 and .tile::scatter4: four rows, each with a coordinate of its own
FORM_PAIR = 1 << 24  # .cta_group::2: the mbarrier may be the other block's of a pair
BULK_COMMIT, BULK_WAIT = range(2)

MAP_BYTES = 128  # of a tensor map

# An operation on its way; the mask of a multicast, 0 for none, is in the upper bits of its form. O_MOMENT is the clock
# of the issuing warp for the sanitizer, O_SPAN the bytes of shared memory from the first to the last that it may touch,
# O_AT the first of five coordinates, O_MAP a copy of its tensor map, as the kernel may write what it likes to the map
# itself while the operation is on its way. O_SUM is a sum over a source in global memory when the operation was issued.
O_FORM, O_SHARED, O_OTHER, O_BYTES, O_SPAN, O_MBARRIER, O_MOMENT, O_SUM, O_AT = range(9)
O_MAP = O_AT + 5
O_FIELDS = O_MAP + MAP_BYTES // 8

# The queue of a block's stores: how many there are, bytes used and there are in its store room, the groups that each
# thread has committed, the stores, the room. A store whose source has been read keeps its bytes in the room.
Q_STORES, Q_USED, Q_ROOM, Q_COMMITTED = range(4)
MAX_THREADS, MAX_STORES = 1024, 1024
Q_FIRST = Q_COMMITTED + MAX_THREADS
K_THREAD, K_GROUP, K_PLACE, K_PC, K_OPERATION = range(5)
UNREAD, MADE = -1, -2  # K_PLACE of a store that has nothing in the room; MADE: before its thread waited for it
K_FIELDS = K_OPERATION + O_FIELDS
Q_FIELDS = Q_FIRST + MAX_STORES * K_FIELDS

# A tensor map as the emulator encodes it in the 128 bytes that a real one has.
T_MAGIC, T_ADDRESS, T_META, T_SHAPE, T_STRIDES, T_BOX, T_STEPS, T_FILL = 0, 1, 2, 3, 8, 12, 13, 14
MAP_MAGIC = 0x70616D5F726F736E
META_SIZE_SHIFT, META_SWIZZLE_SHIFT, META_KIND_SHIFT = 8, 16, 24  # the rank is in the low bits
META_ROWS = 1 << 40  # of a copy alone: the box has four rows, from the coordinates behind the first
BOX_BITS, STEP_BITS = 12, 8
MAX_BOX, MAX_STEP = 256, 8
