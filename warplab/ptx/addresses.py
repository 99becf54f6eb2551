"""Addresses of array elements, in the form that PTX instructions take them."""

from __future__ import annotations

from warplab.ptx.inline import address_of

shared_address = address_of(
    "shared_address",
    shared=True,
    doc="""shared_address(array, index) -> uint32: the shared-memory address of an element.

    `index` counts elements from the array's first one, in memory order, whatever the array's shape. Add bytes to the
    result to walk from there. The array has to be one of `cuda.shared.array`.
    """,
)

address = address_of(
    "address",
    shared=False,
    doc="""address(array, index) -> uint64: the generic address of an element.

    `index` counts elements from the array's first one, in memory order, whatever the array's shape.
    """,
)
