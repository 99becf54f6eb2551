"""Where tensor memory lies in the interpreter's memory, and the records of the instructions on it (tcgen05).

An OP_TENSOR_MEMORY, which a warp executes together, has its action in X3 and the member mask in X2:

    ld, st           SRC_A the address, IMM the columns from the first half to the second (16x32bx2), X0 the shape,
                     X1 registers, X5 1 if 16-bit elements of two columns share a register, X7 the OP_ROWS records in
                     front, which name the registers
    alloc            SRC_A the shared address of the result with offset IMM, X5 1 if it is generic, SRC_B columns, X6 1
                     if a warp of each block of a pair does it together
    dealloc          SRC_A the address, SRC_B columns
    relinquish, wait nothing else

An OP_TENSOR_CORE, which each thread executes for itself:

    mma              SRC_A the address of D, SRC_B A's descriptor or address, SRC_C B's descriptor, X0 the instruction
                     descriptor, X1 the predicate enable-input-d, IMM by what power of two D is divided, X7 the form;
                     the OP_ROWS record in front names the lanes that stay in SRC_A, SRC_B, SRC_C, X0, X1, X2, X4, X5,
                     and of a sparse one the address of the metadata in X6
    mma with scales  the same, but OP_ROWS names the addresses of A's and B's scales in SRC_A and SRC_B
    mma.ws           the same, but OP_ROWS names the zero-column mask descriptor in SRC_A
    shift            SRC_A the address, X7 the form
    cp               SRC_A the address in tensor memory, SRC_B the descriptor of the source, X7 the form
    commit           SRC_A the mbarrier's address with offset IMM, X5 1 if it is generic, SRC_B the mask of a multicast
    fences           nothing else

All offsets in a block's state are in int64 units.
"""

from __future__ import annotations

LANES_OF_MEMORY, COLUMNS = 128, 512
WORD = 4  # bytes of a column in a lane
UNIT = 32  # columns that are allocated together, at least
UNITS = COLUMNS // UNIT
WARP_LANES = 32  # lanes of tensor memory that a warp can access: those of its number modulo 4
HALVES, HALF_LANES = 8, 16  # the search for hazards looks at 16 lanes of a column at a time
ALL_LANES = (1 << HALF_LANES) - 1

TM_ALLOC, TM_DEALLOC, TM_RELINQUISH, TM_LOAD, TM_STORE, TM_WAIT_LOAD, TM_WAIT_STORE = range(7)
# TC_USED: a register is used that a load may not have given yet, see lowering/hazards/tensor_loads.py
TC_PRODUCT, TC_COMMIT, TC_FENCE_BEFORE, TC_FENCE_AFTER, TC_COPY, TC_USED, TC_SHIFT = range(7)
SHAPE_32X32B, SHAPE_16X64B, SHAPE_16X128B, SHAPE_16X256B, SHAPE_16X32BX2 = range(5)

# The form of an mma: flags, and its kind above them
# A lies in tensor memory; some lanes stay as they are; the operation is one of two blocks (.cta_group::2)
FORM_A_MEMORY, FORM_MASKED, FORM_PAIR = 1, 2, 4
# A is sparse; the product is weight-stationary (.ws), and some columns of its B count as zero; A's rows are shifted
FORM_SPARSE, FORM_STATIONARY, FORM_ZERO_COLUMNS, FORM_SHIFTED = 8, 16, 32, 64
FORM_DEEP = 128  # the target has k = 96, and matrices whose rows continue at an absolute address
FORM_KIND_SHIFT = 8
FORM_SCALES_SHIFT = 16  # and the scales of a row: 0 for a product without
FORM_PACKED_SHIFT = 16  # of a copy: the bits of the elements that it unpacks to a byte each, 0 for none
KIND_F16, KIND_TF32, KIND_F8F6F4, KIND_I8, KIND_MXF8F6F4, KIND_MXF4, KIND_MXF4NVF4 = range(7)
COPY_128X256B, COPY_128X128B, COPY_4X256B, COPY_64X128B_02_13, COPY_64X128B_01_23, COPY_32X128B = range(6)

# A block's state
(
    T_TAKEN,  # a mask of units that are allocated
    T_FREED,  # of units that have been, and are not
    T_RELINQUISHED,  # 1: the block may allocate no more
    T_SMALLEST,  # columns of the last allocation, 0: there was none
    T_FIRST,  # the number of the first operation in the queue: as many have been done
    T_ISSUED,  # how many operations have been issued
) = range(6)
T_SIZES = 6  # columns of the allocation that begins at each unit, 0: none does
T_PCS = T_SIZES + UNITS  # of the alloc that made it
T_OWNERS = T_PCS + UNITS  # the warp that did
# For each warp: the columns that it waits for (0: it does not), the address, the pc, 1 if for both blocks of a pair
T_WAITERS = T_OWNERS + UNITS
WAITER_FIELDS = 4
WARPS = 32  # of a block, at most
T_RELAXED = T_WAITERS + WARPS * WAITER_FIELDS  # for each warp, not 0: its last look at an mbarrier did not acquire
T_PENDING = T_RELAXED + WARPS  # for each warp: accesses that it has not waited for
PENDING = 64
P_WRITES, P_HALVES, P_COLUMN, P_COLUMNS, P_PC, P_FIELDS = range(6)
PENDING_FIELDS = 1 + PENDING * P_FIELDS
T_QUEUE = T_PENDING + WARPS * PENDING_FIELDS  # a ring of operations
QUEUE = 256
(
    O_ACTION, O_WARP, O_LANE, O_PC, O_MOMENT, O_COMMITTED, O_FORM, O_D, O_A, O_B, O_DESCRIPTOR, O_KEEP, O_SHIFT,
    O_METADATA, O_MASK,
) = range(15)  # fmt: skip
O_FIELDS = O_MASK + 8
# O_COMMITTED: a commit of the thread that issued it has happened
O_A_SCALES, O_B_SCALES = O_MASK, O_MASK + 1  # of a product with scales, which masks no lanes
O_ZERO_COLUMNS = O_MASK  # of a weight-stationary one, which masks none either
T_DATA = T_QUEUE + QUEUE * O_FIELDS  # lane by lane
T_CELLS = T_DATA + LANES_OF_MEMORY * COLUMNS * WORD // 8
# What the sanitizer keeps of 16 lanes of a column, in int32 units. X_VALID: a mask of the lanes that are written. Then
# the warp of the cluster plus 1 (0: none), clock, pc and kind of the last write, and of the readers since. Each of the
# warps that reach a lane by loads has a place among the readers, and a few have one whose products read the cell.
X_VALID, X_READERS = range(2)
A_WARP, A_CLOCK, A_PC, A_KIND, ACCESS_FIELDS = range(5)
X_WRITE = 2
X_READS = X_WRITE + ACCESS_FIELDS
LOADERS, OPERAND_READERS = 8, 4
X_FIELDS = X_READS + (LOADERS + OPERAND_READERS) * ACCESS_FIELDS
T_AFTER = T_CELLS + HALVES * COLUMNS * X_FIELDS // 2  # see order.py: rows of int32, two for each warp of the block

BY_LOAD, BY_STORE, BY_PRODUCT, BY_OPERAND, BY_COPY, BY_FREEING = range(1, 7)
BY_PENDING = 16  # beside these: the warp has not waited for its access

# Why a fault: F_EXTRA
PLACE_LANES, PLACE_BEYOND, PLACE_FREED, PLACE_ADDRESSES = range(4)
ORDER_COMMIT, ORDER_AFTER, ORDER_BEFORE, ORDER_SYNC, ORDER_WAIT_LOAD, ORDER_WAIT_STORE, ORDER_LEFT, ORDER_REGISTER = (
    range(1, 9)
)
# beside these: the later access deallocates; what the two are ordered by does not acquire
ORDER_FREEING, ORDER_RELAXED = 16, 32
(
    RULE_SIZE,
    RULE_GROWS,
    RULE_RELINQUISHED,
    RULE_NOT_ALLOCATED,
    RULE_LEFT,
    RULE_STARVED,
    RULE_SHAPE,
    RULE_TYPES,
    RULE_DESCRIPTOR,
    RULE_ALIGNMENT,
    RULE_NO_PAIR,
    RULE_PAIR_STARVED,
    RULE_COLUMN_SHIFT,
    RULE_SHIFT_LANE,
) = range(14)


def state_bytes(cluster_warps: int) -> int:
    """The size of a block's state."""
    return 8 * T_AFTER + 2 * 4 * WARPS * cluster_warps
