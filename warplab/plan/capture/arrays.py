"""The arrays that a host function sees while it is captured: a shape, a dtype and strides, but no memory.

A captured array knows which buffer of the plan it lies in. Views work; anything that would need the contents does
not, because there are none: the plan runs later, elsewhere.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any, NoReturn

import numpy as np

from warplab.plan.capture.failure import CaptureFailure, CaptureStatus
from warplab.plan.model import Buffer, Role

MAX_BYTES = 1 << 40


class Storage:
    """One buffer in the making. The recorder names it when a launch first uses it in a plan."""

    __slots__ = ("buffer", "copied", "used", "written")

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer
        self.used = False  # by a launch
        self.copied = False  # to the host
        self.written: Callable[[bytes], None] | None = None  # of a module's variable: takes what the host writes to it


def unsupported(what: str, instead: str) -> NoReturn:
    """Raise the failure for a host API that a plan cannot hold."""
    raise CaptureFailure(CaptureStatus.UNSUPPORTED, f"{what} is not possible while kernels are recorded: {instead}.")


def shape_tuple(shape: Any) -> tuple[int, ...]:
    """A shape as Numba and CuPy take it, an integer or a sequence of integers, as a tuple.

    Raises TypeError for anything else and CaptureFailure for a negative or absurd size.
    """
    try:
        dims: tuple[int, ...] = (operator.index(shape),)
    except TypeError:
        dims = tuple(operator.index(n) for n in shape)
    if any(n < 0 for n in dims):
        raise CaptureFailure(CaptureStatus.HOST_ERROR, f"An array of shape {dims} has a negative dimension.")
    return dims


def contiguous_strides(shape: tuple[int, ...], itemsize: int, order: str = "C") -> tuple[int, ...]:
    """Strides in bytes of a contiguous array in C or F order."""
    strides = []
    step = itemsize
    for n in reversed(shape) if order == "C" else shape:
        strides.append(step)
        step *= n
    return tuple(reversed(strides)) if order == "C" else tuple(strides)


def is_contiguous(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int, order: str) -> bool:
    """Contiguity as NumPy defines it: strides of dimensions of length 1 do not matter, empty arrays are contiguous."""
    if 0 in shape:
        return True
    expected = contiguous_strides(shape, itemsize, order)
    return all(n == 1 or s == e for n, s, e in zip(shape, strides, expected, strict=True))


def allocate(shape: Any, dtype: Any, order: str = "C", *, zeroed: bool = False) -> CapturedArray:
    """A new scratch array, as cuda.device_array or cupy.empty would give."""
    dims = shape_tuple(shape)
    kind = np.dtype(dtype)
    if order not in ("C", "F"):
        raise CaptureFailure(CaptureStatus.HOST_ERROR, f"An array's order must be 'C' or 'F', not {order!r}.")
    if prod(dims) * kind.itemsize > MAX_BYTES:
        raise CaptureFailure(
            CaptureStatus.RESOURCES,
            f"A scratch array of shape {dims} and dtype {kind} would need {prod(dims) * kind.itemsize / 2**30:.0f} GiB;"
            " no GPU has that much memory.",
        )
    held, held_dims, held_strides = storage_dtype(kind, dims, order)
    storage = Storage(Buffer("", Role.SCRATCH, held.name, held_dims, held_strides, zeroed))
    return CapturedArray(storage, 0, dims, contiguous_strides(dims, kind.itemsize, order), kind)


def storage_dtype(
    dtype: np.dtype, shape: tuple[int, ...], order: str
) -> tuple[np.dtype, tuple[int, ...], tuple[int, ...]]:
    """How a plan's buffer holds a contiguous array: dtype, shape and strides; records are bytes there.

    Raises CaptureFailure for a dtype of which a plan cannot hold arrays.
    """
    if dtype.kind in "biufc" and dtype.itemsize <= 16 and dtype.isnative:
        return dtype, shape, contiguous_strides(shape, dtype.itemsize, order)
    if dtype.names is None or dtype.hasobject:
        raise CaptureFailure(
            CaptureStatus.UNSUPPORTED,
            f"An array of dtype {dtype} cannot be part of a plan: use plain numeric dtypes or records of them.",
        )
    count = (prod(shape) * dtype.itemsize,)
    return np.dtype(np.uint8), count, (1,)


def argument_array(name: str, dtype: str, shape: tuple[int, ...], role: Role) -> CapturedArray:
    """The array for one argument of the host function."""
    kind = np.dtype(dtype)
    strides = contiguous_strides(shape, kind.itemsize)
    return CapturedArray(Storage(Buffer(name, role, kind.name, shape, strides)), 0, shape, strides, kind)


class CapturedArray:
    """A device array without memory: a view of `storage` from byte `offset`."""

    reading = "what it holds is known when the kernels run, so use it inside a kernel"  # what to do instead

    def __init__(
        self, storage: Storage, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype
    ) -> None:
        self._storage = storage
        self._offset = offset
        self.shape = shape
        self.strides = strides
        self.dtype = dtype

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements together."""
        return self.size * self.dtype.itemsize

    @property
    def flags(self) -> dict[str, bool]:
        """C_CONTIGUOUS and F_CONTIGUOUS, as NumPy computes them."""
        return {f"{o}_CONTIGUOUS": is_contiguous(self.shape, self.strides, self.itemsize, o) for o in "CF"}

    @property
    def layout(self) -> str:
        """Numba's layout letter: C, F or A; an array with a zero stride is A, as numba-cuda types it."""
        broadcast = 0 in self.strides and self.size != 0
        if self.flags["C_CONTIGUOUS"] and not broadcast:
            return "C"
        return "F" if self.flags["F_CONTIGUOUS"] and not broadcast else "A"

    @property
    def T(self) -> CapturedArray:
        """The transposed view."""
        return self._view(self._offset, self.shape[::-1], self.strides[::-1])

    def transpose(self, *axes: Any) -> CapturedArray:
        """The view with its axes permuted; reversed without arguments."""
        order = axes[0] if len(axes) == 1 and isinstance(axes[0], (tuple, list)) else axes
        order = tuple(order) or tuple(reversed(range(self.ndim)))
        if sorted(order) != list(range(self.ndim)):
            raise ValueError(f"axes {order} do not match an array of {self.ndim} dimensions")
        return self._view(self._offset, tuple(self.shape[i] for i in order), tuple(self.strides[i] for i in order))

    def reshape(self, *shape: Any) -> CapturedArray:
        """A view of another shape; the array must be contiguous in C order."""
        dims = shape_tuple_with_unknown(shape[0] if len(shape) == 1 else shape, self.size)
        if prod(dims) != self.size:
            raise ValueError(f"cannot reshape array of size {self.size} into shape {dims}")
        if not self.flags["C_CONTIGUOUS"]:
            unsupported("Reshaping an array that is not contiguous", "it would need a copy; index it in the kernel")
        return self._view(self._offset, dims, contiguous_strides(dims, self.itemsize))

    def ravel(self) -> CapturedArray:
        """The flat view; the array must be contiguous in C order."""
        return self.reshape(-1)

    def view(self, dtype: Any) -> CapturedArray:
        """The same bytes as another dtype; if the sizes differ, the array must be contiguous in C order."""
        kind = np.dtype(dtype)
        if kind.kind not in "biufc":
            unsupported(f"Viewing an array as dtype {kind}", "use plain numeric dtypes")
        if kind.itemsize == self.itemsize:
            return CapturedArray(self._storage, self._offset, self.shape, self.strides, kind)
        if not self.shape or not self.flags["C_CONTIGUOUS"]:
            raise ValueError("to change to a dtype of a different size, the array must be C-contiguous")
        last, rest = divmod(self.shape[-1] * self.itemsize, kind.itemsize)
        if rest:
            raise ValueError(f"the last axis has {self.shape[-1] * self.itemsize} bytes, no multiple of {kind}'s size")
        dims = (*self.shape[:-1], last)
        return CapturedArray(self._storage, self._offset, dims, contiguous_strides(dims, kind.itemsize), kind)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array with no dimensions")
        return self.shape[0]

    def __getitem__(self, index: Any) -> CapturedArray:
        items = index if isinstance(index, tuple) else (index,)
        if sum(i is not None and i is not Ellipsis for i in items) > self.ndim:
            raise IndexError(f"too many indices: the array has {self.ndim} dimensions")
        items = self._without_ellipsis(items)
        offset, axis = self._offset, 0
        shape: list[int] = []
        strides: list[int] = []
        for item in items:
            if item is None:
                shape.append(1)
                strides.append(0)
                continue
            n, step = self.shape[axis], self.strides[axis]
            if isinstance(item, slice):
                start, stop, stride = item.indices(n)
                count = len(range(start, stop, stride))
                offset += start * step if count else 0
                shape.append(count)
                strides.append(step * stride)
            else:
                offset += self._position(item, n, axis) * step
            axis += 1
        if not shape and not any(isinstance(i, slice) or i is Ellipsis for i in items):
            unsupported("Reading an element of a device array on the host", self.reading)
        return self._view(offset, tuple(shape), tuple(strides))

    def _without_ellipsis(self, items: tuple) -> tuple:
        given = sum(i is not None and i is not Ellipsis for i in items)
        missing = (slice(None),) * (self.ndim - given)
        at = next((k for k, i in enumerate(items) if i is Ellipsis), len(items))
        return items[:at] + missing + items[at + 1 :]

    @staticmethod
    def _position(item: Any, n: int, axis: int) -> int:
        try:
            i = operator.index(item)
        except TypeError:
            unsupported(f"Indexing a device array with {type(item).__name__}", "use integers and slices")
        if not -n <= i < n:
            raise IndexError(f"index {i} is out of bounds for axis {axis} with size {n}")
        return i % n

    def _view(self, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> CapturedArray:
        return CapturedArray(self._storage, offset, shape, strides, self.dtype)

    def copy_to_device(self, value: Any, stream: Any = 0) -> None:
        """Fill the array with the contents of a NumPy array, as Numba's device arrays do; see `set_content`."""
        if isinstance(value, CapturedArray):
            value = known_content(value)
        if np.shape(value) != self.shape:
            raise ValueError(f"cannot copy an array of shape {np.shape(value)} to one of shape {self.shape}")
        set_content(self, value)

    def set(self, value: Any, stream: Any = None) -> None:
        """The same, as CuPy's arrays do."""
        self.copy_to_device(value)

    def fill(self, value: Any) -> None:
        """Fill the array with one value; see `set_content`."""
        set_content(self, np.asarray(value))

    def __setitem__(self, index: Any, value: Any) -> None:
        whole = isinstance(index, slice) and index == slice(None)
        if not (whole or index is Ellipsis):
            unsupported("Writing to a part of a device array on the host", "write to it inside a kernel")
        set_content(self, known_content(value) if isinstance(value, CapturedArray) else np.asarray(value))

    def __repr__(self) -> str:
        return f"<device array, shape {self.shape}, dtype {self.dtype}>"

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        unsupported(f"Using .{name} of a device array", _INSTEAD.get(name, "do that work in a kernel"))


_INSTEAD = {
    "copy_to_host": "the judge reads the outputs itself after the last launch, so leave the result in its array",
    "get": "the judge reads the outputs itself after the last launch, so leave the result in its array",
    "astype": "convert inside a kernel",
    "copy": "copy inside a kernel",
}


def set_content(array: CapturedArray, value: np.ndarray) -> None:
    """Say what an array starts with: a NumPy array of its shape, or a single value.

    The array has to be scratch that no launch has used, and not a view of a part of it. Raises CaptureFailure.
    """
    storage, buffer = array._storage, array._storage.buffer
    if buffer.role is not Role.SCRATCH:
        unsupported(
            f"Writing to the argument '{buffer.name}' in host code",
            "it comes with its contents; write to it in a kernel, or fill an array of your own",
        )
    if storage.used:
        unsupported(
            "Writing to an array that a kernel may have used",
            "fill it before the first launch that takes it, or write to it in a kernel",
        )
    if array.nbytes != buffer.nbytes or array._offset or array.layout == "A":
        unsupported("Writing to a part of a device array on the host", "make it whole on the host, then copy it")
    value = np.asarray(value).astype(array.dtype, copy=False)
    if value.ndim == 0:
        content = value.tobytes()
    else:
        content = np.broadcast_to(value, array.shape).tobytes(order="F" if array.layout == "F" else "C")
    storage.buffer = replace(buffer, content=content if array.size else b"", zeroed=False)
    if storage.written is not None:
        storage.written(content * (array.nbytes // max(len(content), 1)))


def known_content(array: CapturedArray) -> np.ndarray:
    """What an array holds that no launch has used yet, and that the host function has filled. Raises CaptureFailure."""
    storage, buffer = array._storage, array._storage.buffer
    if storage.used or not (buffer.content or buffer.zeroed):
        unsupported("Copying from one device array to another", "copy in a kernel")
    content = np.frombuffer(buffer.content or bytes(1), np.uint8)
    raw = np.resize(content, buffer.nbytes)
    return np.ndarray(array.shape, array.dtype, raw, array._offset, array.strides)


def shape_tuple_with_unknown(shape: Any, size: int) -> tuple[int, ...]:
    """A shape in which one dimension may be -1, filled in from the number of elements."""
    try:
        dims = [operator.index(shape)]
    except TypeError:
        dims = [operator.index(n) for n in shape]
    if dims.count(-1) == 1:
        known = prod(n for n in dims if n != -1)
        dims[dims.index(-1)] = size // known if known else 0
    return shape_tuple(dims)


def _refuse(name: str, what: str, instead: str = "") -> None:
    def method(self: CapturedArray, *args: Any, **kwargs: Any) -> NoReturn:
        unsupported(what, instead or self.reading)

    method.__name__ = name
    setattr(CapturedArray, name, method)


_BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift")
_OPERATORS = (
    *(prefix + name for name in _BINARY for prefix in ("", "r", "i")),
    *("neg", "pos", "abs", "invert", "lt", "le", "gt", "ge", "eq", "ne"),
)
for _name in _OPERATORS:
    _refuse(f"__{_name}__", "Arithmetic on a device array in host code", "do it inside a kernel that you launch")
for _name in ("__array__", "__array_ufunc__", "__array_function__", "__iter__", "__float__", "__int__", "__bool__"):
    _refuse(_name, "Reading the contents of a device array on the host")
CapturedArray.__hash__ = object.__hash__  # type: ignore[method-assign]
