"""Loads and stores of 4, 8 and 16 bytes by address, whatever the array's dtype (PTX ISA, "ld" and "st")."""

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
