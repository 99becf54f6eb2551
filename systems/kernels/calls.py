"""Calls of functions on arrays: described, prepared once for each kind of arrays, then queued."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

from systems.kernels.arrays import Described, Library, described
from systems.kernels.errors import KernelError
from systems.kernels.ready import Prepared
from systems.kernels.recipes import Recipe

_prepared: dict[tuple[Any, ...], Prepared | None] = {}


def queue(
    function: str,
    library: Library,
    arrays: Mapping[str, Any],
    numbers: tuple[int, ...],
    recipe: Callable[..., Recipe | None],
) -> None:
    """Queue the launches of `recipe(*numbers, **descriptions)` on the library's current stream.

    The recipe is made once for each kind of arrays. Raises KernelError for arrays on several GPUs.
    """
    descriptions = tuple(library.describe(array) for array in arrays.values())
    key = function, numbers, descriptions
    if key not in _prepared:
        of = {name: described(name, one) for name, one in zip(arrays, descriptions, strict=True)}
        first = next(iter(of))
        for name, one in of.items():
            if one.device != of[first].device:
                words = f"{first} is on GPU {of[first].device} and {name} on GPU {one.device}"
                raise KernelError(f"{function}: {words}: move all to one GPU.")
        made = recipe(*numbers, **of)
        _prepared[key] = None if made is None else Prepared(made, of[first].device, tuple(arrays))
    prepared = _prepared[key]
    if prepared is not None:
        like = next(iter(arrays.values()))
        scratch = [library.empty(like, (size,), "uint8") for size in prepared.scratch]
        prepared([library.address(array) for array in (*arrays.values(), *scratch)], library.stream(like))


def check(function: str, name: str, array: Described, shape: tuple[int, ...], dtypes: tuple[str, ...]) -> None:
    """Raise KernelError for another shape or dtype, or for elements that do not lie side by side in C order."""
    check_kind(function, name, array, shape, dtypes)
    steps = tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))
    axes = zip(array.strides, steps, shape, strict=True)
    if 0 not in shape and any(stride != step for stride, step, count in axes if count > 1):
        raise KernelError(f"{function}: {name} has strides {array.strides}: give it in C order, without gaps.")


def check_rows(function: str, name: str, array: Described, shape: tuple[int, ...], dtypes: tuple[str, ...]) -> None:
    """Raise KernelError for another shape or dtype, or for rows that a tensor map does not take.

    Elements have one byte. Axes before the last two lie behind each other.
    """
    check_kind(function, name, array, shape, dtypes)
    pitch = array.strides[-2] if shape[-2] > 1 else shape[-1]
    whole = array.strides[-1] == 1 and pitch % 16 == 0 and array.aligned
    behind = all(array.strides[i] == pitch * prod(shape[i + 1 : -1]) for i in range(len(shape) - 2) if shape[i] > 1)
    if 0 not in shape and not (whole and behind):
        words = "its rows have to be contiguous, in order, and to begin at multiples of 16 bytes"
        raise KernelError(f"{function}: {name} has strides {array.strides}: {words}: copy it first.")


def check_kind(function: str, name: str, array: Described, shape: tuple[int, ...], dtypes: tuple[str, ...]) -> None:
    """Raise KernelError for another shape or dtype."""
    if array.dtype not in dtypes:
        raise KernelError(f"{function}: {name} is {array.dtype}: give {' or '.join(dtypes)}.")
    if array.shape != shape:
        raise KernelError(f"{function}: {name} has the shape {array.shape}, but it should be {shape}.")


def check_dimensions(function: str, name: str, array: Any, count: int) -> None:
    """Raise KernelError for another number of dimensions of an array, described or not."""
    if len(array.shape) != count:
        raise KernelError(f"{function}: {name} has {len(array.shape)} dimensions: give an array of {count}.")
