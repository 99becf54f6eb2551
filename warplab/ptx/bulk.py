"""Bulk and tensor copies: one thread starts the copy of a whole tile (PTX ISA, "cp.async.bulk"; sm_90).

Addresses of shared memory are uint32, of global memory and of tensor maps uint64. A tensor map describes an array
to the hardware: see warplab.ptx.tensor_map; a Numba kernel takes its address, from tensor_map_address, and executes
fence_tensor_map on it before the first copy. Coordinates count elements, the innermost axis first.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from warplab.ptx.inline import I32, U16, U32, U64, instruction

_AXES = "xyzuv"


def _tensor_load(rank: int, multicast: bool) -> Callable:
    name = f"load_tile_{rank}d" + ("_multicast" if multicast else "")
    axes = ", ".join(_AXES[:rank])
    form = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    arguments = f"[{{0}}], [{{1}}, {_coordinates(3, rank)}], [{{2}}]"
    if multicast:
        form, arguments = form + ".multicast::cluster", arguments + f", {{{3 + rank}}}"
    return instruction(
        name,
        f"{form} {arguments};",
        [U32, U64, U32, *[I32] * rank, *([U16] if multicast else [])],
        doc=f"""{name}(target, tensor_map, barrier, {axes}{", blocks" if multicast else ""}): start the copy of a tile.

        Its bytes, those outside of the array included, are counted by the mbarrier `barrier` when they have come.
        `target`: 128-byte aligned (1,024 with the swizzle of 128 bytes, for the pattern to begin with it).
        {"`blocks`: uint16, a bit a block of the cluster; each gets tile and count at its own addresses." * multicast}
        """,
    )


def _coordinates(first: int, rank: int) -> str:
    return "{ " + ", ".join(f"{{{i}}}" for i in range(first, first + rank)) + " }"


def _tensor_store(rank: int) -> Callable:
    name = f"store_tile_{rank}d"
    return instruction(
        name,
        f"cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group [{{0}}, {_coordinates(2, rank)}], [{{1}}];",
        [U64, U32, *[I32] * rank],
        doc=f"""{name}(tensor_map, source, {", ".join(_AXES[:rank])}): start the copy of a tile to global memory.

        It belongs to this thread's next bulk_commit; what lies outside of the array is not written. Plain stores to
        `source` need fence_proxy_async and a barrier before.
        """,
    )


load_tile_1d, load_tile_2d, load_tile_3d, load_tile_4d, load_tile_5d = (_tensor_load(r, False) for r in range(1, 6))
load_tile_2d_multicast, load_tile_3d_multicast = (_tensor_load(r, True) for r in (2, 3))
store_tile_1d, store_tile_2d, store_tile_3d, store_tile_4d, store_tile_5d = (_tensor_store(r) for r in range(1, 6))

load_bulk = instruction(
    "load_bulk",
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [{0}], [{1}], {2}, [{3}];",
    [U32, U64, U32, U32],
    doc="""load_bulk(target, source, size, barrier): start a copy of `size` bytes from global to shared memory.

    All three are multiples of 16; the mbarrier counts the bytes when they have come.
    """,
)

store_bulk = instruction(
    "store_bulk",
    "cp.async.bulk.global.shared::cta.bulk_group [{0}], [{1}], {2};",
    [U64, U32, U32],
    doc="""store_bulk(target, source, size): start a copy of `size` bytes from shared to global memory.

    All three are multiples of 16; it belongs to this thread's next bulk_commit.
    """,
)

bulk_commit = instruction(
    "bulk_commit",
    "cp.async.bulk.commit_group;",
    doc="bulk_commit(): close a group of the copies to global memory that this thread started since the last one.",
)


@cache
def bulk_wait(pending: int, *, read: bool = False) -> Callable:
    """A function `wait()` that waits until at most the `pending` youngest groups of this thread are on their way.

    With `read` only their sources have to have been read, so that shared memory can be used again. Call it at the top
    level of a file: PTX wants the number at compile time.
    """
    form = ".read" if read else ""
    return instruction(
        f"bulk_wait_{pending}{'_read' if read else ''}",
        f"cp.async.bulk.wait_group{form} {pending};",
        doc=f"Wait until at most {pending} groups of this thread's bulk copies are on their way.",
    )


fence_tensor_map = instruction(
    "fence_tensor_map",
    "fence.proxy.tensormap::generic.acquire.gpu [{0}], 128;",
    [U64],
    doc="fence_tensor_map(tensor_map): make a tensor map that lies in global memory known to this thread's copies.",
)

prefetch_tensor_map = instruction(
    "prefetch_tensor_map",
    "prefetch.tensormap [{0}];",
    [U64],
    doc="prefetch_tensor_map(tensor_map): bring the map near, so that the first copy does not wait for it.",
)
