"""Emitters of Blackwell's tensor memory and tensor core."""

from __future__ import annotations

from dataclasses import replace

from warplab.emulator.core.state.layout import (
    FULL_MASK,
    OP_ROWS,
    OP_TENSOR_CORE,
    OP_TENSOR_MEMORY,
    ROWS_PER_RECORD,
    ROWS_WRITTEN,
)
from warplab.emulator.core.state.tensor_layout import (
    COPY_4X256B,
    COPY_32X128B,
    COPY_64X128B_01_23,
    COPY_64X128B_02_13,
    COPY_128X128B,
    COPY_128X256B,
    FORM_A_MEMORY,
    FORM_DEEP,
    FORM_KIND_SHIFT,
    FORM_MASKED,
    FORM_PACKED_SHIFT,
    FORM_PAIR,
    FORM_SCALES_SHIFT,
    FORM_SHIFTED,
    FORM_SPARSE,
    FORM_STATIONARY,
    FORM_ZERO_COLUMNS,
    KIND_F8F6F4,
    KIND_F16,
    KIND_I8,
    KIND_MXF4,
    KIND_MXF4NVF4,
    KIND_MXF8F6F4,
    KIND_TF32,
    SHAPE_16X32BX2,
    SHAPE_16X64B,
    SHAPE_16X128B,
    SHAPE_16X256B,
    SHAPE_32X32B,
    TC_COMMIT,
    TC_COPY,
    TC_FENCE_AFTER,
    TC_FENCE_BEFORE,
    TC_PRODUCT,
    TC_SHIFT,
    TM_ALLOC,
    TM_DEALLOC,
    TM_LOAD,
    TM_RELINQUISH,
    TM_STORE,
    TM_WAIT_LOAD,
    TM_WAIT_STORE,
)
from warplab.emulator.lowering.lowering import Lowering, Unsupported
from warplab.emulator.lowering.memory import address_row
from warplab.emulator.program import make_record
from warplab.errors import PlanError
from warplab.isa.syntax import Address, Group, Immediate, Instruction, Operand

_TARGETS = ("sm_100a", "sm_100f", "sm_103a", "sm_103f", "sm_110a", "sm_110f")
_DIVIDES = ("sm_100a", "sm_100f", "sm_103a", "sm_103f")  # those that divide D
_EXACT = tuple(t for t in _TARGETS if t.endswith("a"))
_DEEP = ("sm_103a",)  # those with k = 96
_REDUCES = ("sm_103a", "sm_103f", "sm_110a", "sm_110f")  # those that reduce what they load
_SHAPES = {  # with the registers of .x1
    "32x32b": (SHAPE_32X32B, 1),
    "16x64b": (SHAPE_16X64B, 1),
    "16x128b": (SHAPE_16X128B, 2),
    "16x256b": (SHAPE_16X256B, 4),
    "16x32bx2": (SHAPE_16X32BX2, 1),
}
_NUMBERS = ("x1", "x2", "x4", "x8", "x16", "x32", "x64", "x128")
_MOST_REGISTERS = 128
_KINDS = {"f16": KIND_F16, "tf32": KIND_TF32, "f8f6f4": KIND_F8F6F4, "i8": KIND_I8}
_SCALED_KINDS = {"mxf8f6f4": KIND_MXF8F6F4, "mxf4": KIND_MXF4, "mxf4nvf4": KIND_MXF4NVF4}
_SCALED = {  # the scales of a row by what an opcode says
    "mxf8f6f4": {"": 1, "scale_vec__1X": 1, "block32": 1},
    "mxf4": {"": 2, "scale_vec__2X": 2, "block32": 2},
    "mxf4nvf4": {"scale_vec__2X": 2, "block32": 2, "scale_vec__4X": 4, "block16": 4},
}
_COPIES = {
    "128x256b": COPY_128X256B,
    "128x128b": COPY_128X128B,
    "4x256b": COPY_4X256B,
    "64x128b.warpx2__02_13": COPY_64X128B_02_13,
    "64x128b.warpx2__01_23": COPY_64X128B_01_23,
    "32x128b.warpx4": COPY_32X128B,
}
_COLLECTORS = tuple(f"collector__a__{use}" for use in ("fill", "use", "lastuse", "discard"))
_B_COLLECTORS = tuple(
    f"collector__b{buffer}__{use}" for buffer in range(4) for use in ("fill", "use", "lastuse", "discard")
)
_GROUPS = ("cta_group__1", "cta_group__2")
_LARGEST_SHIFT = 15


def _where(lowering: Lowering, instruction: Instruction) -> str:
    return f"Line {instruction.line}" if instruction.line else f"Kernel {lowering.calls[0]}"


def _need_target(
    lowering: Lowering, instruction: Instruction, what: str = "tcgen05", targets: tuple[str, ...] = _TARGETS
) -> None:
    if lowering.module.target not in targets:
        where = _where(lowering, instruction)
        raise PlanError(
            f"{where} uses {what}, which is not part of the target {lowering.module.target}: compile for {targets[0]}."
        )


def _is_pair(lowering: Lowering, instruction: Instruction, parts: list[str]) -> bool:
    """Is an instruction for two blocks? Raises PlanError if another one of the kernel is not for as many."""
    group = "".join(parts[2:3])
    if group not in _GROUPS:
        raise Unsupported
    if lowering.cta_group not in ("", group):
        first, second = (g.replace("__", "::") for g in (lowering.cta_group, group))
        raise PlanError(
            f"{_where(lowering, instruction)} uses tcgen05 with .{second}, and the kernel uses .{first} before: "
            "give all tcgen05 instructions of a kernel the same."
        )
    lowering.cta_group = group
    return group == _GROUPS[1]


def _warp_record(
    lowering: Lowering, action: int, a: int = 0, b: int = 0, *, imm: int = 0, generic: int = 0, pair: bool = False
) -> None:
    extra = (0, 0, lowering.constant(32, FULL_MASK), action, 0, generic, int(pair))
    lowering.emit(make_record(OP_TENSOR_MEMORY, 0, a, b, imm=imm, extra=extra))


def _expect(parts: list[str], *forms: list[str]) -> None:
    if parts not in forms:
        raise Unsupported


def _number(operand: Operand) -> int:
    if not isinstance(operand, Immediate):
        raise Unsupported
    return operand.value


def _tensor_address(lowering: Lowering, operand: Operand) -> int:
    """The row of an address in tensor memory."""
    if not isinstance(operand, Address) or operand.rest:
        raise Unsupported
    row = lowering.source(operand.base, "b32")
    if operand.offset:
        moved = lowering.temporary(32)
        lowering.vector("add.i32", moved, row, lowering.constant(32, operand.offset))
        return moved
    return row


# What a warp does together


def allocate(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    """alloc.cta_group.sync.aligned{.shared::cta}.b32 [target], columns."""
    _need_target(lowering, instruction)
    _expect(parts[3:], ["sync", "aligned", "b32"], ["sync", "aligned", "shared__cta", "b32"])
    pair = _is_pair(lowering, instruction, parts)
    target, columns = instruction.operands
    row, offset = address_row(lowering, target)
    generic = 0 if "shared__cta" in parts else 1
    _warp_record(lowering, TM_ALLOC, row, lowering.source(columns, "b32"), imm=offset, generic=generic, pair=pair)


def deallocate(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    """dealloc.cta_group.sync.aligned.b32 address, columns."""
    _need_target(lowering, instruction)
    _expect(parts[3:], ["sync", "aligned", "b32"])
    _is_pair(lowering, instruction, parts)
    address, columns = instruction.operands
    _warp_record(lowering, TM_DEALLOC, lowering.source(address, "b32"), lowering.source(columns, "b32"))


def relinquish(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    """relinquish_alloc_permit.cta_group.sync.aligned."""
    _need_target(lowering, instruction)
    _expect(parts[3:], ["sync", "aligned"])
    _is_pair(lowering, instruction, parts)
    _warp_record(lowering, TM_RELINQUISH)


def wait(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    """wait::ld or wait::st.sync.aligned."""
    _need_target(lowering, instruction)
    _expect(parts[2:], ["sync", "aligned"])
    _warp_record(lowering, TM_WAIT_LOAD if parts[1] == "wait__ld" else TM_WAIT_STORE)


def move(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    """ld.sync.aligned.shape.num{.pack::16b}.b32 registers, [address]{, split}; st has them the other way round."""
    _need_target(lowering, instruction)
    if parts[2:3] == ["red"]:
        _load_and_reduce(lowering, instruction, parts)
        return
    stores = parts[1] == "st"
    packing = "unpack__16b" if stores else "pack__16b"
    packed = parts[6:7] == [packing]
    if parts[2:4] != ["sync", "aligned"] or parts[-1] != "b32" or len(parts) != (8 if packed else 7):
        raise Unsupported
    shape, number = parts[4:6]
    if shape not in _SHAPES or number not in _NUMBERS:
        raise Unsupported
    code, registers = _SHAPES[shape]
    registers *= int(number[1:])
    operands = list(instruction.operands)
    split = _number(operands.pop(-1 if not stores else 1)) if code == SHAPE_16X32BX2 else 0
    address, data = operands if stores else reversed(operands)
    items = data.items if isinstance(data, Group) else (data,)
    if registers > _MOST_REGISTERS or len(items) != registers:
        raise Unsupported
    place = _tensor_address(lowering, address)
    rows = [lowering.source(i, "b32") if stores else lowering.target(i, "b32") for i in items]
    names = 0
    for first in range(0, registers, ROWS_PER_RECORD):
        chunk = [*rows[first : first + ROWS_PER_RECORD], *[0] * ROWS_PER_RECORD][:ROWS_PER_RECORD]
        extra = (*chunk[3:6], 0 if stores else ROWS_WRITTEN, *chunk[6:])
        lowering.emit(make_record(OP_ROWS, 0, *chunk[:3], extra=extra)).counted = False
        names += 1
    action = TM_STORE if stores else TM_LOAD
    extra = (code, registers, lowering.constant(32, FULL_MASK), action, 0, int(packed), 0, names)
    lowering.emit(make_record(OP_TENSOR_MEMORY, 0, place, imm=split, extra=extra)).counted = True


def _load_and_reduce(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    """ld.red.sync.aligned.shape.num.{min,max}{.abs}{.NaN}.type registers, result, [address]{, split}: a load, and the
    least or largest of what each thread has loaded."""
    _need_target(lowering, instruction, "tcgen05.ld.red", _REDUCES)
    kind, operation, flags = parts[-1], "".join(parts[7:8]), parts[8:-1]
    data, result, *rest = instruction.operands
    if parts[5:6] not in (["32x32b"], ["16x32bx2"]) or parts[6:7] not in ([n] for n in _NUMBERS[1:]):
        raise Unsupported
    if operation not in ("min", "max") or kind not in ("f32", "u32", "s32") or not isinstance(data, Group):
        raise Unsupported
    if flags not in ([], ["abs"], ["NaN"], ["abs", "NaN"]) or flags and kind != "f32":
        raise Unsupported
    load = ["tcgen05", "ld", *parts[3:7], "b32"]
    move(lowering, replace(instruction, opcode=".".join(load), operands=(data, *rest)), load)
    key = ".".join([operation, *(["NaN"] if "NaN" in flags else []), kind])
    total = 0
    for item in data.items:
        row = lowering.source(item, "b32")
        if "abs" in flags:
            size = lowering.temporary(32)
            lowering.vector("abs.f32", size, row)
            row = size
        if total:
            joined = lowering.temporary(32)
            lowering.vector(key, joined, total, row)
            row = joined
        total = row
    lowering.vector("mov.i32", lowering.target(result, "b32"), total)


# What a thread does for itself


def fence(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    """fence::before_thread_sync and fence::after_thread_sync."""
    _need_target(lowering, instruction)
    _expect(parts[2:], [])
    action = TC_FENCE_BEFORE if parts[1] == "fence__before_thread_sync" else TC_FENCE_AFTER
    lowering.emit(make_record(OP_TENSOR_CORE, extra=(0, 0, 0, action)))


def commit(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    """commit.cta_group.mbarrier::arrive::one{.shared::cluster}{.multicast::cluster}.b64 [mbarrier]{, mask}."""
    _need_target(lowering, instruction)
    rest = [p for p in parts[3:] if p not in ("shared__cluster", "multicast__cluster")]
    _is_pair(lowering, instruction, parts)
    if rest != ["mbarrier__arrive__one", "b64"]:
        raise Unsupported
    multicast = "multicast__cluster" in parts
    if len(instruction.operands) != (2 if multicast else 1):
        raise Unsupported
    row, offset = address_row(lowering, instruction.operands[0])
    mask = lowering.source(instruction.operands[1], "b16") if multicast else 0
    generic = 0 if "shared__cluster" in parts else 1
    lowering.emit(make_record(OP_TENSOR_CORE, 0, row, mask, imm=offset, extra=(0, 0, 0, TC_COMMIT, 0, generic)))


def copy(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    """cp.cta_group.shape{.multicast}{.b8x16.packed format} [target], descriptor."""
    _need_target(lowering, instruction)
    packed = {"b4x16_p64": 4, "b6x16_p32": 6}.get(parts[-1], 0)
    if packed and parts[-2] != "b8x16":
        raise Unsupported
    shape = ".".join(parts[3:-2] if packed else parts[3:])
    if shape not in _COPIES:
        raise Unsupported
    form = (
        _COPIES[shape] << FORM_KIND_SHIFT
        | packed << FORM_PACKED_SHIFT
        | (FORM_PAIR if _is_pair(lowering, instruction, parts) else 0)
    )
    target, descriptor = instruction.operands
    extra = (0, 0, 0, TC_COPY, 0, 0, 0, form)
    places = (_tensor_address(lowering, target), lowering.source(descriptor, "b64"))
    lowering.emit(make_record(OP_TENSOR_CORE, 0, *places, extra=extra))


def shift(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    """shift.cta_group.down [address]."""
    _need_target(lowering, instruction, "tcgen05.shift", _EXACT)
    rest = [p for p in parts[2:] if p != "down"]
    if "down" not in parts or len(rest) != 1:
        raise Unsupported
    form = FORM_PAIR if _is_pair(lowering, instruction, [*parts[:2], *rest]) else 0
    place = _tensor_address(lowering, instruction.operands[0])
    lowering.emit(make_record(OP_TENSOR_CORE, 0, place, extra=(0, 0, 0, TC_SHIFT, 0, 0, 0, form)))


# Products


def _form(parts: list[str]) -> tuple[str, int]:
    """The kind of a product, and the scales of a row; 0: it has none."""
    kind = parts[1].removeprefix("kind__") if len(parts) > 1 else ""
    if kind in _KINDS and len(parts) == 2:
        return kind, 0
    if kind in _SCALED and parts[2:3] == ["block_scale"]:
        scales = _SCALED[kind].get(".".join(parts[3:]), 0)
        if scales:
            return kind, scales
    raise Unsupported


def _uses(parts: list[str], stationary: bool) -> tuple[list[str], bool]:
    """The other parts of an opcode, and whether A's rows are shifted; what is kept in collectors changes no result."""
    shifted, rest = "ashift" in parts, [p for p in parts if p != "ashift"]
    kept = [p for p in rest if p in (_B_COLLECTORS if stationary else _COLLECTORS)]
    if len(kept) > 1 or shifted and (stationary or kept and kept[0] in _COLLECTORS[:2]):
        raise Unsupported
    return [p for p in rest if p not in kept], shifted


def _need_kind(lowering: Lowering, instruction: Instruction, kind: str, parts: list[str]) -> None:
    """Raise PlanError if the target has no product of this kind, with the scales that an opcode names."""
    if kind == "i8":
        _need_target(lowering, instruction, "kind::i8 of tcgen05.mma", ("sm_100a", "sm_110a"))
    if named := [p for p in parts if p.startswith("scale_vec")]:
        what = f".{named[0].replace('__', '::')} of tcgen05.mma"
        _need_target(lowering, instruction, what, _EXACT)


def product(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    """mma{.ws}{.sp}.cta_group.kind [d], a, b{, [metadata]}, descriptor{, lanes}, enable-input-d{, scale-input-d}, with
    .block_scale [scales of a], [scales of b] in place of lanes, with .ws the zero-column mask in place of the scale."""
    _need_target(lowering, instruction)
    stationary, rest = parts[2:3] == ["ws"], parts[3:] if parts[2:3] == ["ws"] else parts[2:]
    sparse = rest[:1] == ["sp"]
    rest, shifted = _uses(rest[1:] if sparse else rest, stationary)
    kind, scales = _form(rest)
    pair = _is_pair(lowering, instruction, [*parts[:2], *rest])
    if stationary and (pair or scales):
        raise Unsupported
    _need_kind(lowering, instruction, kind, parts)
    form = (_KINDS | _SCALED_KINDS)[kind] << FORM_KIND_SHIFT | scales << FORM_SCALES_SHIFT
    for flag, there in (
        (FORM_PAIR, pair),
        (FORM_SPARSE, sparse),
        (FORM_STATIONARY, stationary),
        (FORM_SHIFTED, shifted),
        (FORM_DEEP, lowering.module.target in _DEEP),
    ):
        form |= flag if there else 0
    d, a, b, *others = instruction.operands
    metadata = _tensor_address(lowering, others.pop(0)) if sparse else 0
    descriptor, *others = others
    lanes = [0] * (8 if pair else 4)
    if scales:
        lanes[:2] = [_tensor_address(lowering, others.pop(0)) for _ in range(2)]
    elif isinstance(masked := others[0], Group) and not stationary:
        lanes = [lowering.source(i, "b32") for i in masked.items]
        others.pop(0)
        form |= FORM_MASKED
        if len(lanes) != (8 if pair else 4):
            raise Unsupported
    if stationary and len(others) == 2:
        lanes[0] = lowering.source(others.pop(), "b64")
        form |= FORM_ZERO_COLUMNS
    division = _number(others.pop()) if len(others) == 2 else 0
    if division:
        _need_target(lowering, instruction, "scale-input-d of tcgen05.mma", _DIVIDES)
    if len(others) != 1 or not 0 <= division <= _LARGEST_SHIFT or division and kind not in ("f16", "tf32"):
        raise Unsupported
    if isinstance(a, Address):
        form |= FORM_A_MEMORY
        left = _tensor_address(lowering, a)
    elif shifted:
        raise Unsupported
    else:
        left = lowering.source(a, "b64")
    places = (_tensor_address(lowering, d), left, lowering.source(b, "b64"))
    extra = (lowering.source(descriptor, "b32"), lowering.source(others[0], "pred"), 0, TC_PRODUCT, 0, 0, 0, form)
    lanes += [0] * (8 - len(lanes))
    named = (*lanes[3:6], 0, *lanes[6:], metadata)
    lowering.emit(make_record(OP_ROWS, 0, *lanes[:3], extra=named)).counted = False
    lowering.emit(make_record(OP_TENSOR_CORE, 0, *places, imm=division, extra=extra)).counted = True
