"""What each compute capability allows a kernel: threads, registers, shared memory.

Figures: CUDA C++ Programming Guide, "Compute Capabilities", table "Technical Specifications per Compute Capability";
allocation granularities: the CUDA toolkit's cuda_occupancy.h, on which Nsight Compute's occupancy page rests.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from warplab.errors import PlanError

_ARCHITECTURE = re.compile(r"sm_(\d{1,2})(\d)([af]?)")


@dataclass(frozen=True)
class SmLimits:
    """Resources of one SM and what one block may take of them; bytes, registers of 32 bits, threads."""

    warps: int
    blocks: int
    registers: int
    shared: int  # bytes of one SM that blocks can share
    block_shared: int  # most bytes for one block, dynamic and static, after opting in
    shared_unit: int  # bytes that an allocation is rounded up to
    reserved_shared: int  # bytes that the system takes for each block
    register_unit: int = 256  # registers that a warp's allocation is rounded up to
    default_shared: int = 49152  # most dynamic and static bytes without opting in


_KIB = 1024
LIMITS: Mapping[tuple[int, int], SmLimits] = MappingProxyType(
    {
        (7, 0): SmLimits(64, 32, 65536, 96 * _KIB, 96 * _KIB, 256, 0),
        (7, 5): SmLimits(32, 16, 65536, 64 * _KIB, 64 * _KIB, 256, 0),
        (8, 0): SmLimits(64, 32, 65536, 164 * _KIB, 163 * _KIB, 128, _KIB),
        (8, 6): SmLimits(48, 16, 65536, 100 * _KIB, 99 * _KIB, 128, _KIB),
        (8, 9): SmLimits(48, 24, 65536, 100 * _KIB, 99 * _KIB, 128, _KIB),
        (9, 0): SmLimits(64, 32, 65536, 228 * _KIB, 227 * _KIB, 128, _KIB),
        (10, 0): SmLimits(64, 32, 65536, 228 * _KIB, 227 * _KIB, 128, _KIB),
        (10, 3): SmLimits(64, 32, 65536, 228 * _KIB, 227 * _KIB, 128, _KIB),
        (12, 0): SmLimits(48, 24, 65536, 100 * _KIB, 99 * _KIB, 128, _KIB),
        (12, 1): SmLimits(48, 24, 65536, 100 * _KIB, 99 * _KIB, 128, _KIB),
    }
)


def parse_architecture(architecture: str) -> tuple[int, int, str]:
    """Major, minor and suffix of an architecture: "sm_90a" gives (9, 0, "a"). Raises PlanError."""
    m = _ARCHITECTURE.fullmatch(architecture)
    if m is None:
        raise PlanError(f"'{architecture}' is not an architecture: write it as sm_80 or sm_90a.")
    return int(m.group(1)), int(m.group(2)), m.group(3)


def limits_of(architecture: str) -> SmLimits:
    """The limits of an architecture such as "sm_90a".

    Raises PlanError for one that the table does not hold.
    """
    major, minor, _ = parse_architecture(architecture)
    found = LIMITS.get((major, minor))
    if found is None:
        known = ", ".join(f"sm_{a}{b}" for a, b in LIMITS)
        raise PlanError(f"The limits of {architecture} are not known here: use one of {known}.")
    return found
