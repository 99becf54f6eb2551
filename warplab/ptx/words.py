"""Loads and stores of 4, 8 and 16 bytes by address, whatever the array's dtype (PTX ISA, "ld" and "st").

Relaxed, acquire and release ones are for what blocks tell each other: flags, and words that are flag and value in one.
"""

from __future__ import annotations

from collections.abc import Callable

from warplab.ptx.inline import U32, U64, Fragment, Operand, instruction

_VECTOR = {1: "", 2: ".v2", 4: ".v4"}


def _words(count: int) -> Operand:
    return U32 if count == 1 else Fragment(U32, count)


def _tuple(count: int) -> str:
    return "uint32" if count == 1 else f"tuple of {count} uint32"


def _load(count: int, space: str) -> Callable:
    register, width = (U64, 64) if space == "global" else (U32, 32)
    name = f"load_{space.removeprefix('shared::')}_{4 * count}"
    return instruction(
        name,
        f"ld.{space}{_VECTOR[count]}.b32 {{d}}, [{{0}}];",
        [register],
        _words(count),
        doc=f"{name}(address) -> {_tuple(count)}: {4 * count} bytes at once; address: uint{width}, aligned to them.",
    )


def _store(count: int, shared: bool) -> Callable:
    space, width = ("shared", 32) if shared else ("global", 64)
    name = f"store_{space}_{4 * count}"
    return instruction(
        name,
        f"st.{space}{_VECTOR[count]}.b32 [{{0}}], {{1}};",
        [U32 if shared else U64, _words(count)],
        doc=f"""{name}(address, words): one access of {4 * count} bytes.

        `address`: uint{width}, aligned to as many bytes; `words`: {_tuple(count)}.
        """,
    )


load_global_4, load_global_8, load_global_16 = (_load(count, "global") for count in (1, 2, 4))
load_shared_4, load_shared_8, load_shared_16 = (_load(count, "shared") for count in (1, 2, 4))
# From another block of the cluster: the address is one that mapa gives (sm_90).
load_cluster_4, load_cluster_8, load_cluster_16 = (_load(count, "shared::cluster") for count in (1, 2, 4))
store_global_4, store_global_8, store_global_16 = (_store(count, shared=False) for count in (1, 2, 4))
store_shared_4, store_shared_8, store_shared_16 = (_store(count, shared=True) for count in (1, 2, 4))


_AGREED = {  # PTX ISA, "Memory Consistency Model": what these order between the blocks of a GPU
    "relaxed": "one access that no thread sees in part, and that orders no others",
    "acquire": "what was written before the release whose value this reads is seen by later reads of this thread",
    "release": "what this thread wrote before is seen by those who acquire the value",
}


def _agreed(operation: str, order: str, size: int, scope: str = "gpu") -> Callable:
    """A load or store of one word that other blocks read or write in the same launch, on this GPU or (sys) on any."""
    register, word = {4: U32, 8: U64}[size], f"{operation}_{order}_{size}"
    name, reach = (word, "") if scope == "gpu" else (f"{word}_system", ", on this GPU and others")
    where = f"`address`: uint64, in global memory, aligned to {size} bytes"
    if operation == "load":
        return instruction(
            name,
            f"ld.{order}.{scope}.global.b{8 * size} {{d}}, [{{0}}];",
            [U64],
            register,
            doc=f"{name}(address) -> uint{8 * size}: {_AGREED[order]}{reach}.\n\n        {where} (sm_70).\n        ",
        )
    return instruction(
        name,
        f"st.{order}.{scope}.global.b{8 * size} [{{0}}], {{1}};",
        [U64, register],
        doc=f"""{name}(address, word): {_AGREED[order]}{reach}.

        {where}; `word`: uint{8 * size} (sm_70).
        """,
    )


load_relaxed_4, load_relaxed_8 = (_agreed("load", "relaxed", size) for size in (4, 8))
load_acquire_4, load_acquire_8 = (_agreed("load", "acquire", size) for size in (4, 8))
store_relaxed_4, store_relaxed_8 = (_agreed("store", "relaxed", size) for size in (4, 8))
store_release_4, store_release_8 = (_agreed("store", "release", size) for size in (4, 8))
load_acquire_4_system = _agreed("load", "acquire", 4, "sys")
store_release_4_system = _agreed("store", "release", 4, "sys")
