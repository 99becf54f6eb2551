"""Theoretical occupancy: how many blocks of a kernel one SM can hold, and what stops it from holding more.

The rules are those of CUDA's occupancy calculator (cuda_occupancy.h of the toolkit; Nsight Compute's Occupancy
section shows the same): registers are allocated a warp at a time in units of 256, from the register file of the
warp's own quarter of the SM; shared memory a block at a time, with what the system reserves for each block.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import prod

from warplab.plan.limits import limits_of
from warplab.plan.model import Cubin, Launch

_WARP = 32
_PARTITIONS = 4
UNLIMITED = 2**31 - 1  # blocks, as far as a resource is concerned that a kernel does not use


class Limiter(StrEnum):
    """What runs out first on an SM."""

    REGISTERS = "registers"
    SHARED_MEMORY = "shared memory"
    WARPS = "warps"
    BLOCKS = "blocks"


@dataclass(frozen=True)
class Occupancy:
    """The outcome for one SM. `limiters` are all resources that run out at `blocks` blocks."""

    blocks: int  # per SM
    warps: int  # per SM
    max_warps: int  # that the SM could hold
    limiters: tuple[Limiter, ...]
    allowed: dict[Limiter, int]  # blocks that each resource alone would allow

    @property
    def fraction(self) -> float:
        """Warps held over warps that the SM could hold."""
        return self.warps / self.max_warps


def occupancy(
    architecture: str, threads: int, registers: int, static_shared: int = 0, dynamic_shared: int = 0
) -> Occupancy:
    """Occupancy of blocks of `threads` threads, `registers` per thread and shared memory in bytes per block.

    The SM is taken to be configured for the most shared memory. A block that cannot run at all gives 0 blocks. Raises
    PlanError for an unknown architecture and ValueError for numbers that no kernel has.
    """
    if not 1 <= threads <= 1024 or not 0 <= registers <= 256 or static_shared < 0 or dynamic_shared < 0:
        raise ValueError("threads must be 1 to 1024, registers 0 to 256, shared memory at least 0")
    limits = limits_of(architecture)
    warps = -(-threads // _WARP)
    shared = static_shared + dynamic_shared
    allocated = _round_up(shared + limits.reserved_shared, limits.shared_unit)
    by_shared = limits.shared // allocated if allocated else UNLIMITED
    allowed = {
        Limiter.REGISTERS: _by_registers(registers, warps, limits.registers, limits.register_unit),
        Limiter.SHARED_MEMORY: by_shared if shared <= limits.block_shared else 0,
        Limiter.WARPS: limits.warps // warps,
        Limiter.BLOCKS: limits.blocks,
    }
    blocks = min(allowed.values())
    limiters = tuple(limiter for limiter, n in allowed.items() if n == blocks)
    return Occupancy(blocks, blocks * warps, limits.warps, limiters, allowed)


def launch_occupancy(architecture: str, cubin: Cubin, launch: Launch) -> Occupancy:
    """Occupancy of one launch of a plan, from the figures that the assembler reported for its kernel."""
    return occupancy(architecture, prod(launch.block), cubin.registers, cubin.static_shared, launch.shared_bytes)


def _by_registers(registers: int, warps: int, available: int, unit: int) -> int:
    per_warp = _round_up(registers * _WARP, unit)
    if per_warp == 0:
        return UNLIMITED
    # The check at launch takes a block's warps to be spread evenly, so it rounds them up to the partitions.
    if per_warp * _round_up(warps, _PARTITIONS) > available:
        return 0
    return available // _PARTITIONS // per_warp * _PARTITIONS // warps


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
