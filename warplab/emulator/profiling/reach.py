"""Which elements of an array every thread of a launch touches: a profile of each of its blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from warplab.emulator.profiling.accesses import LANES, LaneAddress, Space, WarpAccess, accesses_of
from warplab.emulator.profiling.profile import ProfileError, profile
from warplab.plan.execution import Execution
from warplab.plan.model import Dim3, Launch, Plan, Pointer

SHARED = "a shared array"  # any of the kernel's
_MOST_BLOCKS = 64  # each is a run of the emulator


@dataclass(frozen=True)
class Touch:
    """One thread's access to one element; `inside` is False for an index outside of the array."""

    block: Dim3
    thread: Dim3
    index: tuple[int, ...]
    inside: bool = True


@dataclass(frozen=True)
class Reach:
    """What the threads of a launch touch in `array`, of this shape; each pair of a thread and an element once."""

    array: str
    shape: tuple[int, ...]
    grid: Dim3
    block: Dim3
    touches: tuple[Touch, ...]
    issued: tuple[int, ...]  # warp instructions of each block, x fastest
    execution: Execution = field(repr=False)

    @property
    def places(self) -> Iterator[tuple[Dim3, Dim3]]:
        """(block, thread) of every thread of the launch, x fastest, as warps are cut from blocks."""
        for block in _all(self.grid):
            for thread in _all(self.block):
                yield block, thread

    def of(self, block: Dim3, thread: Dim3) -> tuple[Touch, ...]:
        """What one thread touches; nothing for an idle one."""
        return tuple(touch for touch in self.touches if (touch.block, touch.thread) == (block, thread))

    @property
    def idle(self) -> int:
        """Threads that touch no element."""
        return sum(1 for _ in self.places) - len({(touch.block, touch.thread) for touch in self.touches})

    @property
    def outside(self) -> int:
        """Threads that touch something outside of the array."""
        return len({(touch.block, touch.thread) for touch in self.touches if not touch.inside})


def reach(plan: Plan, inputs: dict[str, np.ndarray], array: str, *, architecture: str = "sm_90a") -> Reach:
    """The reach of the plan's last launch into `array`, by the kernel's name for it, or SHARED for shared memory.

    Raises ProfileError if the kernel has no such array or too many blocks to follow, and what `profile` raises.
    """
    number = len(plan.launches) - 1
    launch = plan.launches[number]
    blocks = list(_all(launch.grid))
    if len(blocks) > _MOST_BLOCKS:
        raise ProfileError(f"A launch of {len(blocks)} blocks is too large to follow: take at most {_MOST_BLOCKS}.")
    shape = () if array == SHARED else _shape(plan, launch, array)
    found: dict[Touch, None] = {}
    issued = []
    for block in blocks:
        seen = profile(plan, inputs, launch=number, block=block, architecture=architecture)
        issued.append(seen.timeline().end)
        for access in accesses_of(seen.trace, seen.resolver, None, None):
            for lane, address in enumerate(access.lanes):
                if address is not None and _is_in(address, access, array):
                    thread = _thread(access.warp * LANES + lane, launch.block)
                    index = address.index or (address.address // access.size,)
                    found[Touch(block, thread, index, address.inside)] = None
    if not shape:
        shape = tuple(1 + max(places) for places in zip(*(touch.index for touch in found), strict=False)) or (0,)
    return Reach(array, shape, launch.grid, launch.block, tuple(found), tuple(issued), seen.execution)


def _is_in(address: LaneAddress, access: WarpAccess, array: str) -> bool:
    return access.space is Space.SHARED if array == SHARED else address.array == array


def _shape(plan: Plan, launch: Launch, array: str) -> tuple[int, ...]:
    names = {a.parameter: a.buffer for a in launch.arguments if isinstance(a, Pointer) and a.parameter}
    if array not in names:
        raise ProfileError(f"Kernel {launch.kernel} has no array {array!r}: it has {', '.join(names)} and {SHARED!r}.")
    return plan.buffers[names[array]].shape


def _all(extent: Dim3) -> Iterator[Dim3]:
    for z, y, x in product(*(range(n) for n in reversed(extent))):
        yield x, y, z


def _thread(linear: int, block: Dim3) -> Dim3:
    width, height, _ = block
    return linear % width, linear // width % height, linear // (width * height)
