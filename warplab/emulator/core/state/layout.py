"""Where things lie in the interpreter's memory: instruction records, machine state, warp state.

The decoder writes these structures from Python, the compiled interpreter reads them by address (see `raw.py`). Every
field is named here once. Offsets are in bytes unless a name says otherwise.

An instruction record is 16 int32. An operand is an offset from the warp's register frame, or, when negative, from the
end of the constant bank. Registers are rows of 32 lanes: 64 bytes for 16-bit, 128 for 32-bit, 256 for 64-bit, 512
for 128-bit registers (low halves first). A predicate is one 32-bit word with a bit a lane.
"""

from __future__ import annotations

LANES = 32
FULL_MASK = 0xFFFFFFFF

# Instruction record, in int32 units.
RECORD_WORDS = 16
RECORD_BYTES = 4 * RECORD_WORDS
OP, DST, SRC_A, SRC_B, SRC_C, GUARD, GUARD_XOR, IMM, X0, X1, X2, X3, X4, X5, X6, X7 = range(RECORD_WORDS)
# A branch: IMM is the target, X0 the pc where the two sides meet again (-1: only at the end of the kernel), X1 is 1
# if the taken side leads straight to the end of the kernel.
# A memory access: SRC_A the address, IMM its offset, X0 the space, X1 bytes an element, X2 elements (1, 2, 4 or 8),
# X3 the bytes of a register lane with SIGNED_BIT for a sign extension, X4 the first data operand beyond DST. X7: 0, or
# the bytes of the access to shared memory that the assembler made of several, the first of which this is, or -1 for the
# others of those, which are not counted.
# An atomic: X0 the space, X1 bytes, X2 the operation, X3 the kind of number, X4 1 if it returns the old value, X5 the
# bytes of the whole vector, 0 for its second and later elements, X6 1 if it adds the constant 1 to a 32-bit integer,
# X7 scope and order.
SIGNED_BIT = 0x100

# Control opcodes; VECTOR_BASE and above index the table of vector operations.
(
    OP_JOIN,
    OP_BRANCH,
    OP_JUMP,
    OP_LOAD,
    OP_STORE,
    OP_BARRIER,
    OP_EXIT,
    OP_ATOMIC,
    OP_SHUFFLE,
    OP_VOTE,
    OP_MATCH,
    OP_REDUX,
    OP_WARP_SYNC,
    OP_ACTIVEMASK,
    OP_TRAP,
    OP_UNSUPPORTED,
    OP_SPECIAL,
    OP_PRINT,
    OP_NOP,
    OP_ELECT,
    OP_ROWS,  # does nothing itself: names more source registers of the record behind it
    OP_MMA,
    OP_LDMATRIX,
    OP_STMATRIX,
    OP_MOVMATRIX,
    OP_COPY,
    OP_COPY_GROUP,
    OP_MBARRIER,
    OP_CLUSTER_ADDRESS,
    OP_CLUSTER_BARRIER,
    OP_FENCE,
    OP_REMOTE,  # st.async, red.async
    OP_WGMMA,
    OP_WGMMA_GROUP,
    OP_WGMMA_REGISTER,  # a move or another access of a register that a wgmma may have in flight
    OP_BULK,
    OP_BULK_GROUP,
    OP_WATCH,  # a load that only the sanitizers hear of
    OP_UNUSUAL,  # counts what the assembler's subroutine for a division or a root does: X0 the kind
    OP_TENSOR_MEMORY,  # what a warp does together with tensor memory, see tensor_layout.py
    OP_TENSOR_CORE,  # what a thread asks of Blackwell's tensor core, or orders
    OP_CANCEL,  # clusterlaunchcontrol.try_cancel
) = range(42)
VECTOR_BASE = 64
ASYNC_ISSUERS = (OP_REMOTE, OP_BULK, OP_TENSOR_CORE, OP_CANCEL)  # those whose operations are events
ASYNC_READERS = (OP_WGMMA, OP_BULK, OP_TENSOR_CORE)  # those that read shared memory through the async proxy

CARRY_SLOT = 4  # frame offset of the carry flag's lane mask; slot 0 is the always-true predicate
FIRST_PREDICATE = 8

# Generic addresses lie where a driver on Linux puts device memory, in WINDOWS windows from FIRST_WINDOW on. Each region
# has one or more of them to itself, drawn anew for each execution, and starts near the middle of its first: an index
# below zero still names the array that was meant, and one that strays far meets no other array. Shared and local memory
# have windows too; an address there is M_SHARED_WINDOW or M_LOCAL_WINDOW, the middle of one, plus the place.
WINDOW_BITS = 34
WINDOW_HALF = 1 << (WINDOW_BITS - 1)
FIRST_WINDOW = 0x7000_0000_0000 >> WINDOW_BITS
WINDOWS = 1024
SPACE_GLOBAL, SPACE_SHARED, SPACE_LOCAL, SPACE_CONST, SPACE_PARAM, SPACE_GENERIC = range(6)

# Machine state: int64 units from the machine pointer.
(
    M_CODE,  # address of the instruction records
    M_CONSTANTS,  # address of the end of the constant bank
    M_FRAMES,  # address of the first warp's register frame
    M_FRAME_BYTES,  # from one warp's frame to the next
    M_COUNTS,  # address of the per-instruction counters
    M_WARPS,  # address of the first warp's state
    M_WARP_COUNT,  # warps of a block
    M_THREADS,  # threads of a block
    M_SHARED,  # address of the block's shared memory
    M_SHARED_BYTES,
    M_SHARED_SHADOW,  # address of the race and initialisation shadow of shared memory; 0: not sanitised
    M_LOCAL,  # address of the first warp's local memory
    M_LOCAL_BYTES,  # a thread
    M_LOCAL_SHADOW,  # address of a byte for each word of local memory: the bits of its bytes that were written; 0: none
    M_REGIONS,  # address of the table of windows: the address of the region that each belongs to, 0: of none
    M_SHARED_WINDOW,  # the generic address of shared address 0
    M_LOCAL_WINDOW,  # the generic address of the first byte of a thread's local memory
    M_CLOCK,  # what the clocks showed when the launch began
    M_FINDINGS,  # address of the finding records
    M_FINDING_COUNT,
    M_FINDING_LIMIT,
    M_BUDGET,  # warp instructions left
    M_BLOCK_X,
    M_BLOCK_Y,
    M_BLOCK_Z,
    M_BLOCK_DIM_X,
    M_BLOCK_DIM_Y,
    M_BLOCK_DIM_Z,
    M_GRID_X,
    M_GRID_Y,
    M_GRID_Z,
    M_SPECIALS,  # address of the list of special registers to fill when a block starts
    M_SPECIAL_COUNT,
    M_BARRIERS,  # address of the barrier states
    M_CLOCKS,  # address of the vector clocks, one row of int32 a warp
    M_SEEN,  # address of the hash table used to count distinct sectors and words
    M_SEEN_STAMP,
    M_PRINT,  # address of the print buffer
    M_PRINT_USED,
    M_PRINT_BYTES,
    M_TIME,  # warp instructions issued so far: the emulator's clock
    M_STOP,  # 1: a fault that ends the launch
    M_SM,  # what %smid reads
    M_LIVE_THREADS,  # of the current block
    M_SCRATCH,  # address of a row to work in
    M_VECTORS,  # address of the table of vector functions
    M_QUANTUM,  # warp instructions before another warp gets its turn
    M_FAILED,  # 1: the warp's turn ended with a test of an mbarrier that failed
    M_MBARRIER_CLOCKS,  # address of the clocks that arrivals at mbarriers have released, MBARRIER_CLOCKS rows
    M_COPIES,  # address of the first warp's queue of asynchronous copies; 0: the kernel makes none
    M_PEERS,  # address of the machine state of the cluster's block 0; those of the others follow it
    M_RANK,  # of this block in its cluster
    M_CLUSTER,  # blocks of a cluster
    M_SEED,  # of the launch; 0: nothing is random
    M_RANDOM,  # state of the cluster's random numbers, of block 0 only; see random_order.py
    M_FIRST_WARP,  # the number in the cluster of the block's first warp
    M_CLUSTER_WARPS,  # warps of the cluster: the columns of a vector clock
    M_CLUSTER_X,
    M_CLUSTER_Y,
    M_CLUSTER_Z,
    M_CLUSTER_BARRIER,  # address of the state of barrier.cluster, one a cluster
    M_REMOTE,  # address of the last access of each warp of the cluster to this block's shared memory
    M_EVENTS,  # address of the cluster's queue of asynchronous operations; 0: the kernel makes none
    M_WGMMA,  # address of the first warp's queue of wgmma operations; 0: the kernel makes none
    M_WGMMA_BYTES,  # from one warp's queue to the next
    M_WARPGROUPS,  # address of the first warpgroup's state, see warpgroups.py
    M_PRODUCTS,  # address of the compiled code for them; see products.py
    M_CLOCK_COLUMNS,  # of a row of M_CLOCKS: M_CLUSTER_WARPS, two or four times as many, or one more a warpgroup
    M_TRACE,  # address of the trace that the block is recorded in; 0: it is not
    M_LOG,  # address of the log of requests to the caches; 0: none is kept
    M_BULK,  # address of the block's queue of bulk stores; 0: the kernel makes none
    M_BULK_CODE,  # address of the compiled code for them; see bulk_calls.py
    M_RACES,  # address of the search for races in global memory, see races_layout.py; 0: there is none
    M_RUNNING,  # 1: the cluster has blocks that have not ended
    M_IDLE,  # rounds in which every warp of the cluster only looked at mbarriers
    M_STARTED,  # what M_BUDGET was when the cluster began
    M_MAY_WAIT,  # 1: blocks may wait for others outside of their cluster
    M_WAITS,  # 1: the cluster was left because it seems to do so
    M_RECORDED,  # the number of the cluster with a block that is to be recorded, -1: none
    M_RECORDED_RANK,  # of that block in its cluster
    M_RECORD,  # address of the trace for it
    M_CLEARED,  # the shared address of RESERVED_BYTES that are zero when a block starts; 0: none are
    M_NUMBER,  # of the cluster in the grid
    M_CLUSTERS,  # of the grid
    M_ORDER_WINDOW,  # clusters among which the order is not that of their numbers, see place_in_grid
    M_ORDER_START,
    M_ORDER_STEP,
    M_BACKWARDS,  # 1: the last warp has the first turn of each round
    M_SLOT,  # the number of this machine among those that take turns
    M_RACE_WARPS,  # address of what the search for races keeps of the cluster's warps, see races_layout.py
    M_FIRST_NODE,  # what orders blocks: the first node that the cluster can have made
    M_INTERLEAVES,  # a turn ends where a warp has touched what other blocks may touch: 1 always, 2 by chance, 0 not
    M_SWITCHED,  # 1: the cluster's turn has ended so
    M_HANDOVERS,  # address of the last arrivals of each warp of the cluster, see handovers.py
    M_TENSOR,  # address of the block's tensor memory and what is kept of it, see tensor_layout.py; 0: it has none
    M_TENSOR_CODE,  # address of the compiled code for it; see tensor_calls.py
    M_NEXT,  # the position of the next cluster to start
    M_LAST,  # the position behind the last one
    M_UNDEFINED,  # what a shuffle gets of a lane that takes no part: 0 what lies there, else FILL_HIGH or FILL_LOW
    M_UNDEFINED_AT,  # the instruction for which that holds; -1: all
    M_FIELDS,
) = range(101)

# A region: int64 units.
R_HOST, R_BYTES, R_FLAGS, R_SHADOW, R_FIRST_STORE, R_START = range(6)  # R_START: the address of its first byte
# The byte that is watched (-1: none), and who stored it last (R_WRITER_PC is -1 before anyone has).
R_WATCH, R_WRITER_PC, R_WRITER_WARP, R_WRITER_LANE, R_WRITER_X, R_WRITER_Y, R_WRITER_Z = range(6, 13)
# Of its cells (see races_layout.py): how many (0: it is not searched for races), the first, log2 of the bytes of one,
# and the region's number among those that have some.
R_CELLS, R_CELL_FIRST, R_CELL_SHIFT, R_CELL_SLOT, R_FIELDS = range(13, 18)
R_WRITABLE = 1
R_TRACKED = 2  # has a shadow map of written bytes

# Counters of one instruction: int64 units.
(
    C_WARPS,
    C_THREADS,
    C_REQUESTS,
    C_SECTORS,
    C_WAVEFRONTS,
    C_IDEAL,
    C_DIVERGED,
    C_SHARED_REQUESTS,
    C_LOCAL_REQUESTS,
    C_LOCAL_SECTORS,
    C_IDEAL_SECTORS,
    C_REMOTE,  # 128 bytes each of a peer's shared memory
    C_SUMS,  # of an OP_UNUSUAL: operations of the assembler's subroutine
    C_PRODUCTS,
    C_FUSED,
) = range(15)
C_FIELDS = 16

# Kinds of an OP_UNUSUAL: what is divided, or of what a root is taken; the last three in float64.
(
    UNUSUAL_DIVISION,
    UNUSUAL_DIVISION_FTZ,
    UNUSUAL_RECIPROCAL,
    UNUSUAL_RECIPROCAL_FTZ,
    UNUSUAL_ROOT,
    UNUSUAL_ROOT_FTZ,
    UNUSUAL_DIVISION_64,
    UNUSUAL_RECIPROCAL_64,
    UNUSUAL_ROOT_64,
) = range(9)

# State of a warp: int64 units. A warp is a tree of splits: groups of lanes with a pc of their own. Inner splits wait
# at the pc where their children meet again.
MAX_SPLITS = 64
(
    W_STATUS,
    W_LIVE,  # lanes that have not exited
    W_CURRENT,  # the split that runs
    W_USED,  # bitmap of splits in use
    W_EPOCH,  # times that lanes of the warp have waited for each other
    W_MIN_CLOCK,  # everything up to this clock of every warp happened before this warp's next access
    W_ARRIVED,  # lanes that have arrived at barrier.cluster in the phase that is not complete yet
    W_PASSABLE,  # lanes that have arrived in a phase that is complete, and have not waited yet
    W_FENCED,  # 1: a fence makes the next barrier.cluster.arrive.relaxed a release
    W_TOUCHED,  # what W_EPOCH was when a lane last read or wrote shared memory
    W_WHOLE,  # the epoch that began when last all lanes of the warp had waited for each other, with memory in order
    W_PARTLY,  # 1: since then some of them have
    W_MET,  # of the last MEETINGS epochs, by their remainder: the meeting that it began with, see lane_order.py
) = range(13)
MEETINGS = 32
W_SAW = W_MET + MEETINGS  # (word, write) of what waiting for volatile words in shared memory has found last, see shadow
SAW_WORDS = 32
W_SPLITS = W_SAW + 2 * SAW_WORDS  # first split
S_PC, S_MASK, S_RPC, S_PARENT, S_PENDING, S_STATE, S_WAIT, S_ORDER, S_FIELDS = range(9)
LATER = 1 << 20  # taken from S_ORDER, puts a split behind all others
W_FIELDS = W_SPLITS + MAX_SPLITS * S_FIELDS

STATUS_READY, STATUS_WAITING, STATUS_DONE = range(3)
SPLIT_READY, SPLIT_WAITS_FOR_CHILDREN, SPLIT_AT_BARRIER, SPLIT_AT_WARP_SYNC = range(4)
# S_WAIT of a split at a barrier is WAIT_BARRIER + its number once it has arrived, WAIT_UNDECIDED while lanes of its
# warp are elsewhere; WAIT_FORCED lets it go on without them, WAIT_OPEN tells it that the barrier has opened.
WAIT_UNDECIDED, WAIT_FORCED, WAIT_OPEN, WAIT_BARRIER = 0, -1, -3, 1000
PRINT_ARGUMENT_BYTES = 256
PRINT_RECORD_BYTES = 8 + PRINT_ARGUMENT_BYTES

# A barrier: int64 units. There are 16 a block.
(
    B_ARRIVED,  # lanes
    B_WARPS,  # a mask
    B_EXPECTED,  # lanes, 0: all that have not exited
    B_AND,
    B_OR,
    B_COUNT,
    B_LAST_AND,  # of the last time it opened
    B_LAST_OR,
    B_LAST_COUNT,
    B_FIELDS,
) = range(10)
BARRIERS = 16
CLUSTER_BARRIER = 16  # the number that S_WAIT has for barrier.cluster

# The state of barrier.cluster: int64 units. Behind it are two vector clocks: what this phase's arrivals have released,
# and what those of the last complete phase had.
K_PHASES, K_ARRIVED, K_CLOCKS = range(3)  # phases that are complete; threads that have arrived in this one

# The last access of a warp to a peer's shared memory: int64 units.
REMOTE_CLOCK, REMOTE_PC, REMOTE_LANE, REMOTE_ADDRESS, REMOTE_FIELDS = range(5)

# What is kept of a warp's arrivals at mbarriers (handovers.py), in int32 units: the clock of the last one, then records
# of the last HANDOVERS. H_SAFE: the clock of the last arrival before the epoch, up to which all lanes are spoken for.
H_CLOCK, H_EPOCH, H_LANES, H_SAFE, H_PC, H_FIELDS = range(6)
HANDOVERS = 16
HANDOVER_BYTES = 4 * (1 + HANDOVERS * H_FIELDS)

# A 32-bit shared address: the upper bits are 0 for the own block, else one more than the rank of the block meant.
RANK_SHIFT = 24
OFFSET_MASK = (1 << RANK_SHIFT) - 1

# The queue of asynchronous operations: how many there are, then the events, EVENT_FIELDS int64 each.
EVENTS = 4096
EVENT_FIELDS = 34  # those from E_0 on hold the operation; the longest is a bulk copy with its tensor map
(
    E_KIND, E_MACHINE, E_WARP, E_LANE, E_PC,
    E_0, E_1, E_2, E_3, E_4, E_5, E_6, E_7,
) = range(13)  # fmt: skip
EVENT_BYTES = 8 * EVENT_FIELDS
EVENT_STORE, EVENT_BULK, EVENT_TENSOR = range(3)

# A finding: int64 units.
(
    F_KIND,
    F_PC,
    F_BLOCK_X,
    F_BLOCK_Y,
    F_BLOCK_Z,
    F_WARP,
    F_LANE,
    F_ADDRESS,
    F_BYTES,
    F_WRITE,
    F_OTHER,  # the other pc of a race
    F_SPACE,
    F_COUNT,
    F_EXTRA,
    F_OTHER_BLOCK,  # number in the grid, of a race in global memory
    F_OTHER_THREAD,  # in its block
    F_FIELDS,
) = range(17)
(
    FAULT_OUT_OF_BOUNDS,
    FAULT_MISALIGNED,
    FAULT_NULL,
    FAULT_UNINITIALISED,
    FAULT_RACE,
    FAULT_DIVERGENT_BARRIER,
    FAULT_DEADLOCK,
    FAULT_ENDLESS,
    FAULT_TRAP,
    FAULT_UNSUPPORTED,
    FAULT_READ_ONLY,
    FAULT_DIVERGENT_WARP_SYNC,
    FAULT_SPLITS,
    FAULT_PENDING,  # shared memory that an asynchronous copy may still write
    FAULT_MBARRIER,  # not initialised
    FAULT_ARRIVALS,  # more than an mbarrier expects
    FAULT_PEER,  # shared memory of a block that may not have started yet (F_EXTRA 0), or may have ended (1)
    FAULT_CLUSTER_BARRIER,  # arrives twice without a wait (F_EXTRA 0), or waits without an arrival (1)
    FAULT_IN_FLIGHT,  # a register that a wgmma may still write or read
    FAULT_NO_FENCE,  # a wgmma whose registers were touched since the last wgmma.fence
    FAULT_OPERAND,  # shared memory that is overwritten between a wgmma's issue and the wait for it
    FAULT_WARPGROUP,  # warps of a warpgroup that do not execute the same wgmma
    FAULT_PROXY,  # the async proxy reads what an ordinary store wrote, with no fence.proxy.async between
    FAULT_SOURCE,  # a write to what a bulk copy may still read
    FAULT_LEFT,  # a block ends while a bulk copy may still use its shared memory
    FAULT_BULK_SIZE,  # no multiple of 16
    FAULT_TENSOR_MAP,  # none there, or one of another rank
    FAULT_BOX,  # starts in the middle of 16 bytes, or a store before the tensor
    FAULT_GLOBAL_RACE,
    FAULT_SAME_VALUE,  # as a race in global memory, but both write the same
    FAULT_HANDED_OVER,  # a race with a lane that the arrival of another one does not speak for, see handovers.py
    FAULT_ONE_STORE,  # lanes that leave different values at one address by one store
    FAULT_OWN_LANE,  # a member mask without the lane that gives it
    FAULT_OTHER_LANE,  # a shuffle from a lane that takes no part in it (F_EXTRA)
    FAULT_SOURCE_CHANGED,  # the source of an asynchronous copy, written while the copy was in flight
    FAULT_NOT_CONSTANT,  # a load of what no thread may write reads what this launch has written
    FAULT_TENSOR_PLACE,  # lanes or columns of tensor memory that are not there for the warp; F_EXTRA as the three below
    FAULT_TENSOR_ORDER,  # an access to tensor memory that an earlier one is not ordered before
    FAULT_TENSOR_UNWRITTEN,
    FAULT_TENSOR_RULE,  # what an instruction on tensor memory asks for is not allowed
) = range(40)

# Special registers filled per warp or block when a block starts: (kind, frame offset) pairs of int64.
(
    SPECIAL_TID_X,
    SPECIAL_TID_Y,
    SPECIAL_TID_Z,
    SPECIAL_CTAID_X,
    SPECIAL_CTAID_Y,
    SPECIAL_CTAID_Z,
    SPECIAL_LANEID,
    SPECIAL_WARPID,
    SPECIAL_SMID,
    SPECIAL_CLUSTER_CTAID_X,
    SPECIAL_CLUSTER_CTAID_Y,
    SPECIAL_CLUSTER_CTAID_Z,
    SPECIAL_CLUSTER_CTARANK,
    SPECIAL_CLUSTERID_X,
    SPECIAL_CLUSTERID_Y,
    SPECIAL_CLUSTERID_Z,
) = range(16)

# Codes inside records.
PAST_L1_BIT = 0x400  # of X3: a load that L1 does not serve
UNWATCHED_BIT = 0x8000  # of X3: a load that the sanitizers do not hear of
EXPOSED_BIT = 0x10000  # of X3: a volatile access that needs an order of other origin, see passes/exposed.py
CONSTANT_BIT = 0x20000  # of X3: a load of what no thread writes during the launch, by its own word (.nc)
VOLATILE_BIT = 0x200  # of X3: an access that synchronises or may race on purpose
# Of X3, of an atomic's X7 and of a fence's X1: the scope of a strong access (1 block, 2 cluster, 3 GPU), and its order.
STRONG_SHIFT = 11
STRONG_MASK, ACQUIRE_BIT, RELEASE_BIT = 3, 4, 8
SHUFFLE_UP, SHUFFLE_DOWN, SHUFFLE_BUTTERFLY, SHUFFLE_INDEX = range(4)
VOTE_ALL, VOTE_ANY, VOTE_UNIFORM, VOTE_BALLOT = range(4)
REDUX_ADD, REDUX_MIN, REDUX_MAX, REDUX_AND, REDUX_OR, REDUX_XOR = range(6)
# How a redux takes its lanes' values; of floats also their magnitudes alone, and NaN as the result if one is NaN
REDUX_UNSIGNED, REDUX_SIGNED, REDUX_FLOAT, REDUX_ABS, REDUX_NAN = 0, 1, 2, 4, 8
BARRIER_SYNC, BARRIER_ARRIVE, BARRIER_POPC, BARRIER_AND, BARRIER_OR = range(5)
(
    ATOMIC_ADD, ATOMIC_MIN, ATOMIC_MAX, ATOMIC_AND, ATOMIC_OR, ATOMIC_XOR, ATOMIC_EXCH, ATOMIC_CAS, ATOMIC_INC,
    ATOMIC_DEC,
) = range(10)  # fmt: skip
SAME_WARP, OTHER_BLOCK = 2, 4  # of a race's F_EXTRA, beside 1: the earlier access writes
ARRIVAL_SHIFT = 1  # of FAULT_HANDED_OVER's F_EXTRA: the arrival's pc lies above that 1
TRAP_PLAIN, TRAP_ASSERTION, TRAP_STACK, TRAP_CALL, TRAP_CLUSTER = range(5)  # why a trap: X0
KIND_UNSIGNED, KIND_SIGNED, KIND_FLOAT, KIND_F16, KIND_BF16 = range(5)

# An ldmatrix or stmatrix has in X1 its registers, of which each holds 8 rows, and in X3 its form: bit flags, and the
# bits of elements that are unpacked to bytes above them, 0 for none.
MATRIX_TRANSPOSED, MATRIX_BYTES_FORM = 1, 2
MATRIX_BITS_SHIFT = 4
# An mma: the record before it (OP_ROWS) names a's registers in SRC_A, SRC_B, SRC_C, X0 and b's in X1, X2, X4, X5; for a
# sparse a its X7 says how it is thinned out, X6 is the metadata and X3 the selector. Its own SRC_A, SRC_B, SRC_C, X0
# are c's and DST, X4, X5, X6 d's; X1 is the arithmetic, X2 the member mask, X3 the number of the rule that floats are
# summed by or flags for integers, X7 m, k / MMA_DEPTH_UNIT, the bits of an operand and of a sum in its four bytes, IMM
# the multiply-adds.
# Of an MMA_SCALED an OP_ROWS record before both has a's and b's scales in SRC_A and SRC_B, the byte and the thread of
# a's in SRC_C and X0, of b's in X1 and X2; X3 also holds how many scales a row has, and MMA_POWERS if they are ue8m0.
MMA_FLOATS, MMA_INTEGERS, MMA_DOUBLES, MMA_SCALED = range(4)
MMA_SCALES_SHIFT, MMA_POWERS, MMA_RULE_MASK = 12, 1 << 15, (1 << 12) - 1
MMA_DEPTH_UNIT = 4
MMA_DENSE, MMA_TWO_OF_FOUR, MMA_ONE_OF_TWO, MMA_FOUR_OF_EIGHT = range(4)
MMA_XOR = 8  # single bits: counts where they differ; without it, where both are set
MMA_A_SIGNED, MMA_B_SIGNED, MMA_SATURATES = 1, 2, 4

# A cp.async: SRC_A the target's address with offset IMM, SRC_B the source's with offset X3, X0 bytes, X1 what SRC_C is,
# X2 1 if it bypasses L1. OP_COPY_GROUP: X0 the action, IMM the number of groups that may stay on their way; to arrive
# at an mbarrier, SRC_A and IMM its address, X1 1 with .noinc, X2 1 if the address is generic.
COPY_ALL, COPY_SOME, COPY_UNLESS = range(3)  # SRC_C: nothing; how many bytes to read; whether to read none
COPY_COMMIT, COPY_WAIT_GROUP, COPY_WAIT_ALL, COPY_ARRIVE = range(4)

# Bits that stand for an undefined value, large and far below 0 as numbers of any type: see emulator/undefined.py.
FILL_HIGH, FILL_LOW = 0x7BFF7BFF, 0xFBFFFBFF

# A warp's queue of asynchronous copies, in int64 units: how many there are, the groups that each lane has committed,
# and the copies, one a lane.
Q_COUNT, Q_GROUPS, Q_COPIES = 0, 1, 1 + LANES
COPIES = 2048  # in a queue; when it is full, the oldest complete early
# P_AT, P_PC, P_SUM: the source's address, the instruction, and a sum over the source when it was issued.
P_LANE, P_GROUP, P_TARGET, P_SOURCE, P_BYTES, P_READ, P_AT, P_PC, P_SUM, P_FIELDS = range(10)
QUEUE_BYTES = 8 * (Q_COPIES + COPIES * P_FIELDS)

# An mbarrier instruction: SRC_A the address with offset IMM, X2 1 if it is generic; SRC_B the count, state or parity,
# SRC_C the bytes of a transaction (0: none), X0 what to do, X1 flags; DST a state, a predicate, or 0.
MB_INIT, MB_INVALIDATE, MB_ARRIVE, MB_EXPECT, MB_COMPLETE, MB_TEST, MB_TEST_PARITY, MB_COUNT = range(8)
MB_DROPS, MB_RELAXED = 1, 2
MBARRIER_CLOCKS = 64  # mbarriers that are this many words apart share a row, which can only hide a race

# barrier.cluster: X0 the action, X1 1 if it orders memory (.release, .acquire), X2 1 if aligned.
CLUSTER_ARRIVE, CLUSTER_WAIT = range(2)
# OP_CLUSTER_ADDRESS: SRC_A the address, SRC_B the rank, X0 what to do, X1 the bytes of an address, X2 1 if generic.
CLUSTER_MAP, CLUSTER_RANK, CLUSTER_IS_OWN, CLUSTER_LEADER = range(4)
FENCE_MEMORY, FENCE_ASYNC = range(2)  # X0 of a fence: of memory, with its scope in X1; of the async proxy
# OP_REMOTE: SRC_A the address with offset IMM, SRC_B, X4, X5, X6 the values, SRC_C the mbarrier's address with offset
# X3, X0 bytes of a value, X1 values, X2 -1 for a store or the operation of a reduction, X7 the kind of number.
# OP_CANCEL: SRC_A the address with offset IMM, SRC_C the mbarrier's address with offset X3, X0 1 if every block of the
# cluster gets the answer, X1 1 if the addresses are generic. Of the answer's 16 bytes the first eight are those below.
CANCEL_BYTES = 16
CANCEL_X_BITS, CANCEL_Y_BITS = 31, 16  # x, then a bit that is 1 if a cluster was cancelled, y, z
# A wgmma.mma_async: OP_ROWS records before it name a's registers (one record, if a comes from registers) and then the
# accumulators, ROWS_PER_RECORD each. Its own SRC_A is a's descriptor, SRC_B b's, SRC_C the predicate scale-d, X0 the
# rule that floats are summed by or flags for integers, X1 n, X2 the member mask, X3 flags, X7 the records of
# accumulators, IMM a warp's part of m n k.
ROWS_PER_RECORD = 9  # SRC_A, SRC_B, SRC_C, X0, X1, X2, X4, X5, X6
ROWS_WRITTEN = 1  # X3 of an OP_ROWS whose registers the record behind it writes
(
    WGMMA_INTEGERS, WGMMA_A_REGISTERS, WGMMA_TRANSPOSE_A, WGMMA_TRANSPOSE_B, WGMMA_NEGATE_A, WGMMA_NEGATE_B,
    WGMMA_TOUCHED,  # code before it may have touched its registers without a wgmma.fence in between
) = (1 << bit for bit in range(7))  # fmt: skip
WGMMA_BITS, WGMMA_SUM_BITS = 8, 16  # shifts of the bits of an operand and of a sum in X3

# OP_WGMMA_GROUP: X0 the action, IMM the number of groups that may stay in flight. OP_WGMMA_REGISTER: X0 the action, DST
# and SRC_A the registers of a move, SRC_A that of a read or write.
WGMMA_FENCE, WGMMA_COMMIT, WGMMA_WAIT = range(3)
WGMMA_MOVE, WGMMA_READ, WGMMA_WRITE, WGMMA_TOUCH = range(4)
WARPGROUP_WARPS = 4
WARPGROUP_MISSING, WARPGROUP_DIFFERS, WARPGROUP_SKIPS, WARPGROUP_DESCRIPTORS = range(4)  # a finding's F_EXTRA

SHARED_BASE = 1024  # Hopper keeps the first KiB of a block's shared window for itself
RESERVED_BYTES = 288  # what cooperative groups may use of that
