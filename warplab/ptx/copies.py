"""Asynchronous copies from global to shared memory of single threads: cp.async (PTX ISA; sm_80)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from warplab.ptx.inline import U32, U64, instruction


def _copy(size: int, cache_operator: str) -> Callable:
    name = f"cp_async_{size}" if cache_operator == "cg" or size < 16 else f"cp_async_{size}_l1"
    return instruction(
        name,
        f"cp.async.{cache_operator}.shared.global [{{0}}], [{{1}}], {size}, {{2}};",
        [U32, U64, U32],
        doc=f"""{name}(target, source, count): start a copy of {size} bytes; see cp_async_wait_group for its end.

        `target`: uint32, shared address; `source`: uint64, address in global memory; both {size}-byte aligned. Only the
        first `count` bytes ({size} for all, 0 for none) are read, the others are filled with zeros: the way to load a
        tile's edge. {"Goes past L1." if cache_operator == "cg" else "Also fills L1."}
        """,
    )


cp_async_4 = _copy(4, "ca")
cp_async_8 = _copy(8, "ca")
cp_async_16 = _copy(16, "cg")
cp_async_16_l1 = _copy(16, "ca")

cp_async_commit = instruction(
    "cp_async_commit",
    "cp.async.commit_group;",
    doc="cp_async_commit(): close a group of the copies that this thread started since the last one.",
)

cp_async_wait_all = instruction(
    "cp_async_wait_all",
    "cp.async.wait_all;",
    doc="cp_async_wait_all(): wait for all copies of this thread; other threads see them after a barrier.",
)


@cache
def cp_async_wait_group(pending: int) -> Callable:
    """A function `wait()` that waits until at most the `pending` youngest groups of this thread are on their way.

    Call it at the top level of a file: PTX wants the number at compile time. Other threads see the data after a
    barrier.
    """
    return instruction(
        f"cp_async_wait_group_{pending}",
        f"cp.async.wait_group {pending};",
        doc=f"Wait until at most {pending} groups of this thread's copies are on their way.",
    )


cp_async_mbarrier_arrive = instruction(
    "cp_async_mbarrier_arrive",
    "cp.async.mbarrier.arrive.noinc.shared.b64 [{0}];",
    [U32],
    doc="""cp_async_mbarrier_arrive(barrier): arrive at an mbarrier once this thread's copies so far are made.

    `barrier`: uint32, shared address. The arrival counts against the mbarrier's expected arrivals.
    """,
)
