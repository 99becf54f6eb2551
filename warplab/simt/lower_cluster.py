"""Handlers for addresses in a cluster of one block: every launch that the emulator takes has such clusters."""

from __future__ import annotations

from warplab.simt.layout import GUARD, OP_TRAP, TRAP_CLUSTER
from warplab.simt.lower import Lowering, handles
from warplab.simt.program import make_record
from warplab.simt.ptx import Instruction


@handles("mapa")
def map_address(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    """The address of a shared variable in another block of the cluster: there is only block 0, this one."""
    destination, address, rank = instruction.operands
    kind = parts[-1]
    outside = lowering.temporary(1)
    lowering.vector("setp.ne.i32", outside, lowering.source(rank, "u32"), lowering.constant(32, 0))
    if instruction.guard >= 0:
        lowering.vector("and.pred", outside, outside, lowering.guard_row())
    lowering.emit(make_record(OP_TRAP, extra=(TRAP_CLUSTER,))).fields[GUARD] = outside
    width = int(kind[1:])
    lowering.vector(f"mov.i{width}", lowering.target(destination, kind), lowering.source(address, kind))


@handles("getctarank")
def block_rank(lowering: Lowering, instruction: Instruction, parts: list[str]) -> None:
    lowering.vector("mov.i32", lowering.target(instruction.operands[0], "u32"), lowering.constant(32, 0))
