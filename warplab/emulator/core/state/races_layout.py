"""Where the search for races in global memory keeps what it knows: cells, segments, and what orders blocks.

A cell stands for an element (1, 2, 4 or 8 bytes) of an array that the launch may write. It has an entry, an int64, of
each kind below. The upper half of an entry is a segment, or in the last four kinds a block's number plus one; the
lower half is the access: its number in the program, the warp in its block, the lane, and the bits below.

A segment is what a warp does between two moments at which its vector clock or its epoch advances. Its record says whose
it is. Segments are numbered as they begin: where clusters run one after the other, a number tells the running
cluster's from those of others.
"""

from __future__ import annotations

# Kinds of entries. A launch whose blocks run one after the other on one thread is searched with the first four;
# ordinary writes are kept apart from strong ones, which race with less; the others have further readers. Blocks that
# run on several threads have nothing that orders them: the first access of all, and the first of another block, say
# whether there is a race, and can be joined whichever thread they come from.
(
    CELL_WRITE, CELL_READ, CELL_OLDER_READ, CELL_STRONG, FIRST_WRITE, FIRST_READ, OTHER_WRITE, OTHER_READ, CELL_KINDS,
) = range(9)  # fmt: skip

LIVE_READERS = CELL_KINDS - FIRST_WRITE  # further readers of a cell, where blocks are compared as they run

SEGMENT_SHIFT = 32
ACCESS_SHIFT, WARP_SHIFT, LANE_SHIFT, TOUCHED_SHIFT = 18, 13, 8, 4
ACCESSES = 1 << 14  # loads, stores and atomics of a kernel that are told from each other; later ones are not searched
LANE_STEP = 1 << LANE_SHIFT
TOUCHED = 15 << TOUCHED_SHIFT  # the quarters of the cell that are touched; of a cell of 1 or 2 bytes, its bytes
SEVERAL = 8  # more than one lane
MORE = 4  # of a read: there is another one, of another warp, in CELL_OLDER_READ
MIXED = 4  # of a FIRST_WRITE: not all that was written is the same
SCOPE = 3  # how far the access is strong; 0: it is an ordinary one
SCOPE_NONE, SCOPE_BLOCK, SCOPE_CLUSTER, SCOPE_GPU = range(4)
THREAD = 0x3FF << LANE_SHIFT | SEVERAL | MORE  # what differs unless an entry is of one thread, the same as mine

# The state of the search, one a machine: int64 units.
(
    G_OFF,  # 1: something did not fit, and nothing more is searched in this launch
    G_NEXT,  # the number of the next segment
    G_BASE,  # segments before it are forgotten
    G_FIRST,  # segments from it on are the running cluster's; NEVER: clusters take turns, and their records tell
    G_RECORDS,  # address of the records from G_BASE on
    G_ROOM,  # how many of them there can be
    G_CELLS,  # address of the entries of kind 0
    G_STRIDE,  # bytes from one kind to the next
    G_VALUES,  # address of what each FIRST_WRITE wrote, an uint32 a cell
    G_EXTENTS,  # address of the first and the last cell of each region that were written, and that were read, if any
    G_ACCESSES,  # address of the number of each instruction's access, int32
    G_LIVE,  # 1: blocks are compared as they run, 0: FIRST_WRITE and so on are kept
    G_CROSSED,  # 1: some cell has an OTHER_WRITE or OTHER_READ, or was both read and written by different blocks
    G_ORDER,  # address of what orders blocks; 0: the kernel has nothing that does
    G_TOGETHER,  # 1: all clusters that there is room for are there together, so that they can wait for each other
    G_MANY,  # 1: some cell has more than two readers, in entries that are to be emptied after the launch
    G_FIELDS,
) = range(17)

NEVER = 1 << 30  # a segment that no run reaches

EXTENT_WRITTEN, EXTENT_READ, EXTENT_FIELDS = 0, 2, 4  # int64 units; NOWHERE to -1: none
NOWHERE = 1 << 40

# The record of a segment: int32 units.
(
    RECORD_BLOCK, RECORD_CLUSTER, RECORD_WARP, RECORD_CLOCK, RECORD_EPOCH, RECORD_RELEASE, RECORD_NARROW, RECORD_SPARE,
) = range(8)  # fmt: skip
RECORD_SIZE = 32  # bytes

# The state of a warp: int64 units.
(
    S_SEGMENT,
    S_EPOCH,
    S_CLOCK,
    S_KNOWN,  # node: what it knows of other clusters
    S_PENDING,  # node: what strong reads have seen, and a fence would make known
    S_PENDING_NEAR,  # the same, from accesses that are only strong in the block or cluster
    S_RELEASE,  # node: what its last fence for the GPU covers; 0: there was none
    S_NARROW,  # the same for the last fence of any scope
    S_NARROW_SCOPE,
    S_NARROW_FENCE,  # 1: a fence for less than the GPU followed a strong read
    S_SEEN_COUNT,
    S_SEEN,  # segments whose strong writes it has read last
    S_SAW,  # (cell + 1, segment) of the strong writes that it has read last, by the remainder of the cell
    S_FIELDS,
) = (*range(12), 20, 84)
SEEN = S_SAW - S_SEEN
SAW = (S_FIELDS - S_SAW) // 2

# What orders blocks: int64 units.
(
    O_NODES,  # address of the nodes
    O_NODE_BYTES,
    O_COUNT,  # of nodes; node 0 is nobody's
    O_ROOM,
    O_TABLE,  # address of the clocks known, an int32 for each warp of each cluster
    O_SHOWN,  # the node that the table shows; 0: none, and it is empty
    O_GENERATION,  # nodes with this mark are in the table
    O_LISTED,  # address of their numbers, int32
    O_LISTED_COUNT,
    O_STACK,  # address of nodes yet to be visited, int32
    O_PLACES,  # address of the hash table of places that were released
    O_PLACES_MASK,
    O_PLACES_USED,
    O_STEPS,  # nodes that may still be visited
    O_WALK,  # the mark of the walk before
    O_JOINED,  # the node that was made last of two others, O_JOINED_A and O_JOINED_B
    O_JOINED_A,
    O_JOINED_B,
    O_FIELDS,
) = range(19)
# A node: int32 units. One with a cluster is a release: the clocks that its warp knew of its cluster's warps follow.
NODE_A, NODE_B, NODE_CLUSTER, NODE_SHOWN, NODE_WALK, NODE_SCOPE, NODE_CLOCKS = range(7)
# A place that was released: int64 units. The key is the address plus one; of shared memory it
# also has the machine's number.
PLACE_KEY, PLACE_WIDE, PLACE_NEAR, PLACE_NEAR_SCOPE, PLACE_NEAR_BLOCK, PLACE_FIELDS = range(6)
PLACES = 1 << 16

# Of the F_EXTRA of a race in global memory, beside SAME_WARP, OTHER_BLOCK and 1 (the earlier access writes).
REASON_SHIFT, REASON_MASK = 3, 7
REASON_NONE, REASON_SCOPE, REASON_WRITER_FENCE, REASON_READER_FENCE, REASON_WRITER_BARRIER = range(5)
STRONG_NOW, STRONG_BEFORE = 64, 128
TOGETHER = 256  # the two blocks ran side by side
BOTH_VOLATILE = 512  # both accesses are volatile, which orders nothing
