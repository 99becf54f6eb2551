"""The names of a Numba kernel's shared arrays, from its source: the PTX only numbers them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

import numpy as np

from warplab.plan.model import Kernel

_SYMBOL = re.compile(r"_cudapy_smem_(\d+)$")
_ARRAY = re.compile(
    r"^[ \t]+(?P<name>\w+)[ \t]*=[ \t]*(?:\w+\.)*shared\.array\(\s*(?:shape\s*=\s*)?(?P<shape>\w+|\([^()]*\))\s*,"
    r"\s*(?:dtype\s*=\s*)?(?:\w+\.)*(?P<dtype>\w+)",
    re.MULTILINE,
)
_CONSTANT = re.compile(r"^(\w+)[ \t]*=[ \t]*(\d+)[ \t]*(?:#.*)?$", re.MULTILINE)


@dataclass(frozen=True)
class SharedArray:
    """A shared array's name; `shape` is empty where the source does not say it in numbers."""

    name: str
    shape: tuple[int, ...] = ()
    item_bytes: int = 0

    def index(self, offset: int) -> tuple[int, ...] | None:
        """The element at a byte offset; None where it is not known."""
        if not self.shape or not 0 <= offset < prod(self.shape) * self.item_bytes:
            return None
        place, index = offset // self.item_bytes, list[int]()
        for extent in reversed(self.shape):  # NumPy refuses a source's absurd shapes
            place, last = divmod(place, extent)
            index.insert(0, last)
        return tuple(index)


def shared_arrays(source: str, kernel: Kernel, symbols: Iterable[str]) -> dict[str, SharedArray]:
    """The kernel's shared arrays by their symbol in the PTX.

    Numba numbers them in the order in which the function makes them. Nothing is said where the numbers of symbols and
    of the source differ: a function that the kernel calls may have arrays, too, and one that is not used is left out.
    """
    numbered = sorted((int(found[1]), symbol) for symbol in symbols if (found := _SYMBOL.search(symbol)))
    made = _ARRAY.finditer(_function(source, kernel.line))
    written = [array for array in made if array["shape"] != "0"]  # a shape of 0 is dynamic shared memory
    if len(numbered) != len(written):
        return {}
    constants = dict(_CONSTANT.findall(source))
    return {symbol: _array(array, constants) for (_, symbol), array in zip(numbered, written, strict=True)}


def _array(made: re.Match[str], constants: dict[str, str]) -> SharedArray:
    sizes = [size.strip() for size in made["shape"].strip("()").split(",") if size.strip()]
    known, dtype = SharedArray(made["name"]), made["dtype"]
    try:
        if np.dtype(dtype).name != dtype:  # `f16` may be a name for Numba's float16; in NumPy it has 16 bytes
            return known
        return SharedArray(
            known.name, tuple(int(constants.get(size, size)) for size in sizes), np.dtype(dtype).itemsize
        )
    except (TypeError, ValueError):
        return known


def _function(source: str, line: int) -> str:
    """The lines of the function that is defined on a line, counted from 1."""
    lines = source.splitlines()[line - 1 :] if line else []
    body = []
    for text in lines[1:]:
        if text.strip() and _indent(text) <= _indent(lines[0]) and not text.lstrip().startswith((")", "#")):
            break
        body.append(text)
    return "\n".join(body)


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())
