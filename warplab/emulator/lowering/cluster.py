"""Emitters of addresses among the blocks of a cluster, and for asynchronous stores to a peer's memory."""

from __future__ import annotations

from warplab.emulator.core.state.layout import (
    ATOMIC_CAS,
    ATOMIC_EXCH,
    CLUSTER_LEADER,
    CLUSTER_MAP,
    CLUSTER_RANK,
    OP_CLUSTER_ADDRESS,
    OP_REMOTE,
)
from warplab.emulator.lowering.lowering import Lowering, Unsupported
from warplab.emulator.lowering.memory import ATOMICS, address_row, atomic_kind, data_rows, elements
from warplab.emulator.program import make_record
from warplab.isa.syntax import Immediate, Instruction

_PEER_MASK, _OFFSET = 0xFEFFFFFF, 0x00FFFFFF


def map_address(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    destination, address, rank = instruction.operands
    kind = parts[-1]
    if kind not in ("u32", "u64"):
        raise Unsupported
    generic = 0 if "shared__cluster" in parts else 1
    if generic and kind == "u32":
        raise Unsupported
    extra = (CLUSTER_MAP, int(kind[1:]) // 8, generic)
    row, ranks = lowering.source(address, kind), lowering.source(rank, "u32")
    lowering.emit(make_record(OP_CLUSTER_ADDRESS, lowering.target(destination, kind), row, ranks, extra=extra))


def clears_peer_bit(lowering: Lowering, instruction: Instruction) -> bool:
    """Is an and.b32 one that makes an address in shared memory that of the even block of a pair?"""
    mask = instruction.operands[2]
    if not isinstance(mask, Immediate) or (mask.value | _OFFSET) & 0xFFFFFFFF != _PEER_MASK:
        return False  # bits of the offset may be cleared as well
    bodies = (
        item.opcode for f in lowering.module.functions.values() for item in f.body if isinstance(item, Instruction)
    )
    return any(opcode.startswith("cp.async.bulk.tensor") and ".cta_group::2" in opcode for opcode in bodies)


def leaders_address(lowering: Lowering, instruction: Instruction) -> None:
    """The same place in the even block of a pair."""
    destination, address, mask = instruction.operands
    assert isinstance(mask, Immediate)
    leader, row = lowering.temporary(32), lowering.source(address, "b32")
    lowering.emit(make_record(OP_CLUSTER_ADDRESS, leader, row, extra=(CLUSTER_LEADER, 4, 0)))
    offset = lowering.constant(32, (mask.value | ~_OFFSET) & 0xFFFFFFFF)
    lowering.vector("and.i32", lowering.target(destination, "b32"), leader, offset)


def block_rank(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    destination, address = instruction.operands
    kind = parts[-1]
    extra = (CLUSTER_RANK, int(kind[1:]) // 8, 0 if "shared__cluster" in parts else 1)
    place = lowering.target(destination, "u32")
    lowering.emit(make_record(OP_CLUSTER_ADDRESS, place, lowering.source(address, kind), extra=extra))


_REMOTE_WORDS = ("weak", "relaxed", "cluster", "shared__cluster", "mbarrier__complete_tx__bytes")


def remote(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    """st.async or red.async [address], value, [mbarrier]."""
    kind, count, operation = parts[-1], 1, -1
    for part in parts[2:-1]:
        if part in ("v2", "v4"):
            count = int(part[1])
        elif part in ATOMICS and parts[0] == "red":
            operation = ATOMICS[part]
        elif part not in _REMOTE_WORDS:
            raise Unsupported
    numbers, size = atomic_kind(kind)
    reduces = parts[0] == "red"
    if "mbarrier__complete_tx__bytes" not in parts or size not in (4, 8) or count * size > 16:
        raise Unsupported
    if reduces and (operation in (-1, ATOMIC_EXCH, ATOMIC_CAS) or count > 1 or kind[0] == "f"):
        raise Unsupported
    place, data, mbarrier = instruction.operands
    rows, _ = data_rows(lowering, elements(data, count), kind, store=True)
    row, offset = address_row(lowering, place)
    flag, flag_offset = address_row(lowering, mbarrier)
    more = [*rows[1:], 0, 0, 0][:3]
    extra = (size, count, operation, flag_offset, *more, numbers)
    lowering.emit(make_record(OP_REMOTE, 0, row, rows[0], flag, imm=offset, extra=extra))
