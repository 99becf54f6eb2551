"""Emitters of loads, stores, atomics and address conversions."""

from __future__ import annotations

from warplab.emulator.core.state.layout import (
    ATOMIC_ADD,
    ATOMIC_AND,
    ATOMIC_CAS,
    ATOMIC_DEC,
    ATOMIC_EXCH,
    ATOMIC_INC,
    ATOMIC_MAX,
    ATOMIC_MIN,
    ATOMIC_OR,
    ATOMIC_XOR,
    CLUSTER_IS_OWN,
    CONSTANT_BIT,
    EXPOSED_BIT,
    FIRST_WINDOW,
    KIND_BF16,
    KIND_F16,
    KIND_FLOAT,
    KIND_SIGNED,
    KIND_UNSIGNED,
    OP_ATOMIC,
    OP_CLUSTER_ADDRESS,
    OP_LOAD,
    OP_NOP,
    OP_STORE,
    OP_WATCH,
    PAST_L1_BIT,
    SIGNED_BIT,
    SPACE_CONST,
    SPACE_GENERIC,
    SPACE_GLOBAL,
    SPACE_LOCAL,
    SPACE_PARAM,
    SPACE_SHARED,
    STRONG_SHIFT,
    UNWATCHED_BIT,
    VOLATILE_BIT,
    WINDOW_BITS,
)
from warplab.emulator.lowering.lowering import Lowering, Unsupported, bits_of
from warplab.emulator.lowering.passes.exposed import CHECKED, EXPOSED
from warplab.emulator.lowering.passes.speculation import FOR_SANITIZERS, PAST_SANITIZERS
from warplab.emulator.lowering.strength import orders, strength_of
from warplab.emulator.program import Record, make_record
from warplab.isa.syntax import Address, Group, Immediate, Instruction, Operand, Register, Sink, Symbol

SPACES = {
    "global": SPACE_GLOBAL, "shared": SPACE_SHARED, "shared__cta": SPACE_SHARED, "shared__cluster": SPACE_SHARED,
    "local": SPACE_LOCAL, "const": SPACE_CONST,
    "param": SPACE_PARAM, "param__entry": SPACE_PARAM, "param__func": SPACE_PARAM,
}  # fmt: skip
# Orders and scopes: accesses that may meet others on purpose are not races; nor are plain ones that a CAS checks.
SYNCHRONISING = (CHECKED, "volatile", "relaxed", "acquire", "release", "acq_rel", "mmio", "sc")
HINTS = (
    "weak", "nc", "ca", "cg", "cs", "lu", "cv", "wb", "wt", "cta", "gpu", "sys", "cluster", "unified",
    "L1__evict_normal", "L1__evict_unchanged", "L1__evict_first", "L1__evict_last", "L1__no_allocate",
    "L2__64B", "L2__128B", "L2__256B", "L2__cache_hint", "L2__evict_first", "L2__evict_last", "L2__evict_normal",
)  # fmt: skip


_EIGHT = 8  # elements of the longest vector
_WIDEST = 256  # bits of an access of one lane, to global memory alone


def _split(parts: list[str]) -> tuple[int, bool, int, str]:
    """Space, whether it synchronises, elements and type of an access; an unknown modifier is unsupported."""
    space, synchronises, elements = SPACE_GENERIC, False, 1
    for part in parts[1:-1]:
        if part in SPACES:
            space = SPACES[part]
        elif part in SYNCHRONISING:
            synchronises = True
        elif part in ("v2", "v4", "v8"):
            elements = int(part[1])
        elif part not in HINTS and part not in (FOR_SANITIZERS, PAST_SANITIZERS, EXPOSED):
            raise Unsupported
    return space, synchronises, elements, parts[-1]


def address_row(lowering: Lowering, address: Operand) -> tuple[int, int]:
    """The 64-bit row of an address operand and the constant offset to add to it."""
    if not isinstance(address, Address) or address.rest:
        raise Unsupported
    base = address.base
    if isinstance(base, Register) and lowering.width(base) == 32:
        wide = lowering.temporary(64)
        lowering.vector("zext.32.64", wide, lowering.instance.place(base.index))
        return wide, address.offset
    if isinstance(base, Symbol):
        return lowering.symbol(Symbol(base.name), 64), address.offset + base.offset
    return lowering.source(base, "b64"), address.offset


def _space_of(lowering: Lowering, space: int, address: Operand) -> int:
    """.param means the thread's local memory in device functions and the parameter bank in kernels."""
    if space != SPACE_PARAM:
        return space
    base = address.base if isinstance(address, Address) else None
    if isinstance(base, Symbol):
        variable = lowering.variable(base.name)
        return SPACE_PARAM if variable is not None and lowering.is_local(variable) else SPACE_CONST
    return SPACE_CONST if lowering.instance.function.entry else SPACE_PARAM


def elements(operand: Operand, count: int) -> tuple[Operand, ...]:
    items = operand.items if isinstance(operand, Group) else (operand,)
    if len(items) != count:
        raise Unsupported
    return items


def data_rows(lowering: Lowering, items: tuple[Operand, ...], kind: str, store: bool) -> tuple[list[int], int]:
    """The rows of an access's registers and the bytes of a register lane."""
    bits = bits_of(kind)
    widths = {lowering.width(i) for i in items if isinstance(i, Register)}
    if bits == 1 or 1 in widths:
        raise Unsupported  # predicates have no place in memory
    widths = {max(width, 16) for width in widths} or {max(bits, 16)}
    if len(widths) != 1 or (128 in widths) != (bits == 128):
        raise Unsupported
    width = widths.pop()
    rows = []
    for item in items:
        if isinstance(item, Register):
            rows.append(lowering.instance.place(item.index))
        elif store:
            rows.append(lowering.source(item, kind if bits >= 16 else f"{'s' if kind[0] == 's' else 'u'}16"))
        elif isinstance(item, Sink):
            rows.append(lowering.temporary(width))
        else:
            raise Unsupported
    return rows, width // 8


def _access(lowering: Lowering, op: int, address: Operand, data: Operand, parts: list[str]) -> None:
    space, synchronises, count, kind = _split(parts)
    items = elements(data, count)
    space = _space_of(lowering, space, address)
    row, offset = address_row(lowering, address)
    bits = bits_of(kind)
    rows, lane_bytes = data_rows(lowering, items, kind, store=op == OP_STORE)
    words = rows
    if count == _EIGHT:
        rows, bits, lane_bytes, count = _pairs(lowering, rows, bits, lane_bytes, op == OP_STORE), 64, 8, 4
    if count * bits == _WIDEST and space not in (SPACE_GLOBAL, SPACE_GENERIC):
        raise Unsupported
    if bits == 128:
        # A 128-bit register is two rows of 64 bits.
        rows = [half for r in rows for half in (r, r + 256)]
        bits, lane_bytes, count = 64, 8, 2 * count
    if lane_bytes * 8 < bits or len(rows) > 4:
        raise Unsupported
    if synchronises:
        lowering.parallel = False
    flags = lane_bytes | (SIGNED_BIT if kind[0] == "s" else 0) | (VOLATILE_BIT if synchronises else 0)
    flags |= strength_of(parts) << STRONG_SHIFT if synchronises else 0
    flags |= PAST_L1_BIT if (synchronises and CHECKED not in parts) or "cg" in parts or "cv" in parts else 0
    flags |= UNWATCHED_BIT if PAST_SANITIZERS in parts else 0
    flags |= CONSTANT_BIT if "nc" in parts else 0
    flags |= EXPOSED_BIT if EXPOSED in parts or (op == OP_STORE and "volatile" in parts) else 0
    extra = (space, bits // 8, count, flags, *rows[1:])
    if op != OP_STORE:
        lowering.emit(make_record(op, rows[0], row, imm=offset, extra=extra))
    else:
        lowering.emit(make_record(op, 0, row, rows[0], imm=offset, extra=extra))
    if op != OP_STORE and len(words) == _EIGHT:
        for word, pair, half in zip(words, [r for r in rows for _ in "lh"], ("low", "high") * 4, strict=True):
            lowering.vector(f"{half}.i32", word, pair)


def _pairs(lowering: Lowering, words: list[int], bits: int, lane_bytes: int, store: bool) -> list[int]:
    """Rows of 64 bits in place of eight of 32: a record has room for four. Those of a store hold the words."""
    if bits != 32 or lane_bytes != 4:
        raise Unsupported
    pairs = [lowering.temporary(64) for _ in words[::2]]
    for pair, low, high in zip(pairs, words[::2], words[1::2], strict=True):
        if store:
            lowering.vector("pack.i32", pair, low, high)
    return pairs


def load(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    destination, address = instruction.operands[:2]
    if _load_parameter(lowering, destination, address, parts):
        return
    _access(lowering, OP_WATCH if FOR_SANITIZERS in parts else OP_LOAD, address, destination, parts)


def _load_parameter(lowering: Lowering, destination: Operand, address: Operand, parts: list[str]) -> bool:
    """A kernel parameter read at a known place is a constant of the launch."""
    if not isinstance(address, Address) or not isinstance(address.base, Symbol):
        return False
    space, _, count, kind = _split(parts)
    variable = lowering.variable(address.base.name)
    if space != SPACE_PARAM or variable is None or lowering.is_local(variable):
        return False
    size = bits_of(kind) // 8
    if size > 8:
        return False
    for i, item in enumerate(elements(destination, count)):
        if isinstance(item, Sink):
            continue
        width = max(lowering.width(item), 16)
        offset = address.offset + address.base.offset + i * size
        assert isinstance(item, Register)
        row = lowering.bank.row(width, ("param", variable.name, offset, size, kind[0] == "s"))
        lowering.vector(f"mov.i{width}", lowering.instance.place(item.index), row)
    return True


def store(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    address, data = instruction.operands[:2]
    _access(lowering, OP_STORE, address, data, parts)


ATOMICS = {
    "add": ATOMIC_ADD, "min": ATOMIC_MIN, "max": ATOMIC_MAX, "and": ATOMIC_AND, "or": ATOMIC_OR, "xor": ATOMIC_XOR,
    "exch": ATOMIC_EXCH, "cas": ATOMIC_CAS, "inc": ATOMIC_INC, "dec": ATOMIC_DEC,
}  # fmt: skip


def atomic_kind(kind: str) -> tuple[int, int]:
    """Kind code and bytes of one element: packed pairs are two elements to the arithmetic, one access to memory."""
    if kind in ("f16", "f16x2"):
        return KIND_F16, bits_of(kind) // 8
    if kind in ("bf16", "bf16x2"):
        return KIND_BF16, bits_of(kind) // 8
    code = KIND_FLOAT if kind[0] == "f" else KIND_SIGNED if kind[0] == "s" else KIND_UNSIGNED
    return code, bits_of(kind) // 8


def _adds_one(operation: int, operand: Operand) -> bool:
    """Is it an addition of the constant 1, or an increment that wraps where 32 bits do?"""
    if not isinstance(operand, Immediate):
        return False
    return (
        operation == ATOMIC_ADD and operand.value == 1 or operation == ATOMIC_INC and operand.value in (-1, 0xFFFFFFFF)
    )


def atomic_record(
    form: tuple[int, int, int, int],
    strength: int,
    place: int,
    row: int,
    *values: int,
    offset: int = 0,
    returns: bool = True,
    requested: int = 0,
    adds_one: bool = False,
) -> Record:
    """An atomic of a `form`: its space, bytes, operation and kind. `requested`: bytes of the request that it begins."""
    extra = (*form, int(returns), requested, int(adds_one), strength)
    return make_record(OP_ATOMIC, place, row, *values, imm=offset, extra=extra)


def atomic(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    space, operation, kind, count = SPACE_GENERIC, -1, parts[-1], 1
    for part in parts[1:-1]:
        if part in SPACES:
            space = SPACES[part]
        elif part in ("v2", "v4", "v8"):
            count = int(part[1])
        elif part in ATOMICS:
            operation = ATOMICS[part]
        elif part not in (*SYNCHRONISING, *HINTS, "noftz"):
            raise Unsupported
    code, size = atomic_kind(kind)
    if operation < 0 or size not in (2, 4, 8) or code >= KIND_FLOAT and operation not in (
        ATOMIC_ADD, ATOMIC_MIN, ATOMIC_MAX, ATOMIC_EXCH
    ):  # fmt: skip
        raise Unsupported
    if code == KIND_FLOAT and operation in (ATOMIC_MIN, ATOMIC_MAX):
        raise Unsupported
    if count > 1 and (code < KIND_FLOAT or size == 8 or count * size not in (4, 8, 16) or space == SPACE_SHARED):
        raise Unsupported
    operands = list(instruction.operands)
    returns = parts[0] == "atom"
    targets = elements(operands.pop(0), count) if returns else (Sink(),) * count
    row, offset = address_row(lowering, operands[0])
    sources = [elements(o, count) for o in operands[1 : 3 if operation == ATOMIC_CAS else 2]]
    if returns and count > 1:
        # An element's old value must not overwrite the address or a value that a later element needs.
        copy = lowering.temporary(64)
        lowering.vector("mov.i64", copy, row)
        row = copy
    lowering.shared_atomics |= space == SPACE_SHARED
    if space != SPACE_SHARED or orders(parts):
        lowering.parallel = False
    # The assembler makes a reduction of an atomic whose result nothing reads, but for pairs of halves.
    wanted = returns and (code in (KIND_F16, KIND_BF16) or any(lowering.instance.is_read(t) for t in targets))
    one = size == 4 and code < KIND_FLOAT and _adds_one(operation, operands[1])
    places = []
    for i, target in enumerate(targets):
        place = 0
        if wanted:
            place = lowering.target(target, kind) if count == 1 else lowering.temporary(bits_of(kind))
        places.append(place)
        values = [lowering.source(s[i], kind) for s in sources]
        form, requested = (space, size, operation, code), 0 if i else count * size
        record = atomic_record(
            form, strength_of(parts), place, row, *values,
            offset=offset + i * size, returns=wanted, requested=requested, adds_one=one,
        )  # fmt: skip
        lowering.emit(record)
    if wanted and count > 1:
        for target, place in zip(targets, places, strict=True):
            if not isinstance(target, Sink):
                lowering.vector(f"mov.i{bits_of(kind)}", lowering.target(target, kind), place)


# The shared memory of all blocks of a cluster is one window.
_WINDOWS = {
    "shared": "shared_window", "shared__cta": "shared_window", "shared__cluster": "shared_window",
    "local": "local_window",
}  # fmt: skip


def convert_address(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    destination, value = instruction.operands
    back = parts[1] == "to"
    space = parts[2] if back else parts[1]
    if parts[-1] != "u64":
        raise Unsupported
    row = lowering.source(value, "b64")
    place = lowering.target(destination, "b64")
    if space in ("param", "param__entry") and not back:
        # Of a parameter a mov to 32 bits gives its place among them, one to 64 bits its generic address.
        whole, short = lowering.temporary(64), lowering.temporary(1)
        lowering.vector("add.i64", whole, row, lowering.bank.row(64, ("parameters",)))
        lowering.vector("setp.lt.u64", short, row, lowering.constant(64, 1 << 32))
        lowering.vector("selp.i64", place, whole, row, extra=(short,))
    elif space in _WINDOWS:
        base = lowering.bank.row(64, (_WINDOWS[space],))
        lowering.vector("sub.i64" if back else "add.i64", place, row, base)
    elif space in SPACES:
        lowering.vector("mov.i64", place, row)
    else:
        raise Unsupported


def is_space(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    destination, value = instruction.operands
    if parts[1] in ("shared", "shared__cta"):
        extra = (CLUSTER_IS_OWN, 8, 1)
        place = lowering.target(destination, "pred")
        lowering.emit(make_record(OP_CLUSTER_ADDRESS, place, lowering.source(value, "b64"), extra=extra))
        return
    region = lowering.temporary(64)
    lowering.vector("shr.u64", region, lowering.source(value, "b64"), lowering.constant(32, WINDOW_BITS))
    place = lowering.target(destination, "pred")
    if parts[1] in _WINDOWS:
        lowering.vector("mov.pred", place, _among(lowering, region, [lowering.bank.row(64, (_WINDOWS[parts[1]],))]))
    elif parts[1] == "const":
        lowering.vector("mov.pred", place, _among(lowering, region, _constants(lowering)))
    elif parts[1] in ("param", "param__entry"):
        first = lowering.kernel.parameters[:1] if lowering.kernel else []
        rows = [lowering.bank.row(64, ("parameter", p.name, 0)) for p in first]
        lowering.vector("mov.pred", place, _among(lowering, region, rows))
    elif parts[1] == "global":
        # As ptxas has it for sm_90: constants are not global, parameters are.
        above, other = lowering.temporary(1), lowering.temporary(1)
        lowering.vector("setp.ge.u64", above, region, lowering.constant(64, FIRST_WINDOW))
        windows = [lowering.bank.row(64, (name,)) for name in ("shared_window", "local_window")]
        lowering.vector("not.pred", other, _among(lowering, region, _constants(lowering) + windows))
        lowering.vector("and.pred", place, above, other)
    else:
        raise Unsupported


def _constants(lowering: Lowering) -> list[int]:
    """Rows with the addresses of the module's constants, each of which has a region of its own."""
    variables = lowering.module.variables.values()
    return [lowering.bank.row(64, ("symbol", v.name, 0)) for v in variables if v.space == "const"]


def _among(lowering: Lowering, region: int, addresses: list[int]) -> int:
    """A predicate: is a window that of one of the addresses?"""
    found, same, other = lowering.temporary(1), lowering.temporary(1), lowering.temporary(64)
    lowering.vector("setp.lt.u64", found, region, lowering.constant(64, 0))
    for address in addresses:
        lowering.vector("shr.u64", other, address, lowering.constant(32, WINDOW_BITS))
        lowering.vector("setp.eq.i64", same, region, other)
        lowering.vector("or.pred", found, found, same)
    return found


def hint(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    lowering.emit(make_record(OP_NOP))


def policy(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    lowering.vector("mov.i64", lowering.target(instruction.operands[0], "b64"), lowering.constant(64, 0))
