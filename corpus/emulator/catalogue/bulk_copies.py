"""Entries of kernels/bulk_copies.py: what a copy leaves in shared memory or in a tensor, element by element."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from math import prod

import numpy as np

from corpus.emulator import draws
from corpus.emulator.entry import Entry, read, scalar, update, write

FILE = "kernels/bulk_copies.py"
OPERATIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")
UNTOUCHED = 0xA5
# What an element outside of the tensor reads as when NaN is asked for, as an H200 fills it.
NAN = 0x7FF77FF77FF77FF7


@dataclass(frozen=True)
class Tile:
    """One copy: the tensor's shape, box and element strides outermost first, the coordinates innermost first.

    An H200 ends the kernel if a box starts in the middle of 16 bytes.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    box: tuple[int, ...]
    at: tuple[int, ...]
    swizzle: int = 0
    nan: bool = False
    shift: int = 0  # where the tile starts in shared memory, in bytes
    steps: tuple[int, ...] = ()
    element: str = ""  # if the map says another type than the array has

    @property
    def strides(self) -> tuple[int, ...]:
        """Element strides, one a dimension."""
        return self.steps or (1,) * len(self.shape)

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return np.dtype(self.dtype).itemsize

    @property
    def counts(self) -> tuple[int, ...]:
        """Elements that the copy moves along each axis."""
        return tuple(-(-n // s) for n, s in zip(self.box, self.strides, strict=True))

    @property
    def words(self) -> int:
        """32-bit words of shared memory to look at: the tile and 256 bytes behind it."""
        rows = prod(self.counts[:-1])
        return (self.shift + rows * self.pitch + 127) // 128 * 32 + 64

    @property
    def pitch(self) -> int:
        """Bytes of shared memory from one row of the box to the next."""
        return self.swizzle or self.counts[-1] * self.size

    def elements(self):
        """For each element of the box: its index in the tensor, whether that is inside, and its place in bytes."""
        for number, position in enumerate(product(*(range(n) for n in self.counts))):
            index = tuple(at + p * s for at, p, s in zip(reversed(self.at), position, self.strides, strict=True))
            inside = all(0 <= i < n for i, n in zip(index, self.shape, strict=True))
            row, column = divmod(number, self.counts[-1])
            yield index, inside, swizzled(self.shift + row * self.pitch + column * self.size, self.swizzle)

    def numbers(self) -> list:
        """The last arguments of the host function."""
        return [scalar(f"n{i}", n) for i, n in enumerate((*self.box, *self.strides, *self.at))]


def swizzled(place: int, swizzle: int) -> int:
    """Where the byte goes that would be at `place` without a swizzle."""
    rows = {0: 0, 32: 1, 64: 3, 128: 7}[swizzle]
    return place ^ (place >> 7 & rows) << 4


def _loaded(tile: Tile, x: np.ndarray) -> np.ndarray:
    image = np.full(4 * tile.words, UNTOUCHED, np.uint8)
    fill = NAN if tile.nan else 0
    outside = np.array([fill], np.uint64).view(np.uint8)[: tile.size]
    for index, inside, place in tile.elements():
        image[place : place + tile.size] = x[index].reshape(1).view(np.uint8) if inside else outside
    return np.append(image.view(np.uint32), np.uint32(1))


def _load(tile: Tile) -> Entry:
    arguments = (
        read("x", tile.dtype, *tile.shape),
        write("out", "uint32", tile.words + 1),
        scalar("swizzle", tile.swizzle),
        scalar("nan", int(tile.nan)),
        scalar("dtype", int(bool(tile.element))),
        scalar("shift", tile.shift),
        *tile.numbers(),
    )
    name = f"bulk/load_{tile.name}"
    return Entry(name, FILE, "load", arguments, {"x": draws.bits}, lambda v: {"out": _loaded(tile, v["x"])})


def _stored(tile: Tile, image: np.ndarray, out: np.ndarray) -> np.ndarray:
    result, data = out.copy(), image.view(np.uint8)
    for index, inside, place in tile.elements():
        if inside:
            result[index] = data[place : place + tile.size].view(tile.dtype)[0]
    return result


def _store(tile: Tile) -> Entry:
    arguments = (
        read("image", "uint32", tile.words),
        update("out", tile.dtype, *tile.shape),
        scalar("swizzle", tile.swizzle),
        scalar("shift", tile.shift),
        *tile.numbers(),
    )
    inputs = {"image": draws.bits, "out": draws.bits}
    name = f"bulk/store_{tile.name}"
    return Entry(name, FILE, "store", arguments, inputs, lambda v: {"out": _stored(tile, v["image"], v["out"])})


def combined(operation: str, old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """What a reduction of integers leaves, element by element."""
    if operation == "inc":
        return np.where(old >= new, 0, old + 1).astype(old.dtype)
    if operation == "dec":
        return np.where((old == 0) | (old > new), new, old - 1).astype(old.dtype)
    functions = {
        "add": np.add, "min": np.minimum, "max": np.maximum,
        "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    }  # fmt: skip
    return functions[operation](old, new)


def _tensor_reduction(operation: str, dtype: str, swizzle: int, element: str = "") -> Entry:
    columns = 64 // np.dtype(dtype).itemsize
    shape = (40, 3 * columns // 2)
    tile = Tile("", dtype, shape, (16, columns), (columns, 29), swizzle, element=element)
    arguments = (
        read("image", "uint32", tile.words),
        update("out", dtype, *shape),
        scalar("swizzle", swizzle),
        scalar("operation", OPERATIONS.index(operation)),
        scalar("dtype", int(bool(element))),
        *tile.numbers(),
    )
    kind = element or dtype
    numbers = draws.bits if np.dtype(dtype).kind in "iu" and not element else draws.integers(-20, 20)
    inputs = {"image": draws.bits, "out": numbers}

    def expected(v: dict) -> dict[str, np.ndarray]:
        stored = _stored(tile, v["image"], v["out"])
        moved = _stored(tile, np.full(tile.words, 0xFFFFFFFF, np.uint32), np.zeros(shape, dtype)) != 0
        return {"out": np.where(moved, combined(operation, v["out"], stored), v["out"])}

    whole = expected if np.dtype(dtype).kind in "iu" and not element else None
    return Entry(f"bulk/tensor_{operation}_{kind}", FILE, "reduce_tensor", arguments, inputs, whole)


BULK = (
    *("bulk_load", "bulk_store", "within_copy", "within_add", "within_min", "within_xor"),
    *(f"reduce_add_{t}" for t in ("u32", "s32", "u64", "f32", "f64", "f16", "bf16")),
    *(f"reduce_{op}_{t}" for op in ("min", "max") for t in ("f16", "bf16", "u32", "s32", "u64", "s64")),
    *("reduce_inc_u32", "reduce_dec_u32"),
    *(f"reduce_{op}_{t}" for op in ("and", "or", "xor") for t in ("b32", "b64")),
)
_DTYPES = {
    "u32": "uint32", "s32": "int32", "u64": "uint64", "s64": "int64", "b32": "uint32", "b64": "uint64",
    "f16": "float16", "f32": "float32", "f64": "float64", "bf16": "uint16",
}  # fmt: skip


def _bulk(name: str) -> Entry:
    """`x` and `out` of 256 words a block; within a cluster of two `x` holds the source and then the target of each."""
    within = name.startswith("within")
    plain = {"bulk_load": "u32", "bulk_store": "u32", "within_copy": "u32", "within_add": "u32", "within_min": "s32"}
    kind = plain.get(name, "b32" if within else name.rsplit("_", 1)[-1])
    dtype = _DTYPES[kind]
    n = 1024 // np.dtype(dtype).itemsize
    if within:
        out = write("out", dtype, 2 * n)
    else:
        out = write("out", dtype, n) if name == "bulk_load" else update("out", dtype, n)
    arguments = (read("x", dtype, 4 * n if within else n), out, scalar("which", BULK.index(name)))
    expected = None
    operation = name.split("_")[1]
    if name == "bulk_load":
        expected = lambda v: {"out": v["x"][::-1].copy()}  # noqa: E731
    elif name == "bulk_store":
        expected = lambda v: {"out": v["x"].copy()}  # noqa: E731
    elif name == "within_copy":
        expected = lambda v: {"out": v["x"].reshape(2, 2, n)[::-1, 0].ravel()}  # noqa: E731
    elif within:
        expected = lambda v: {"out": _sent(operation, v["x"].reshape(2, 2, n))}  # noqa: E731
    elif np.dtype(dtype).kind in "iu" and kind != "bf16":
        expected = lambda v: {"out": combined(operation, v["out"], v["x"])}  # noqa: E731
    return Entry(f"bulk/{name}", FILE, "bulk", arguments, {"x": draws.bits, "out": draws.bits}, expected)


def _sent(operation: str, x: np.ndarray) -> np.ndarray:
    """What the two blocks of a cluster have in their second halves; `x` is [block, half, element]."""
    return combined(operation, x[:, 1], x[::-1, 0]).ravel()


_FLOATS = {"float16": "", "float32": "", "float64": "", "uint16": "bfloat16"}
# Rank by rank: whole, beside the tensor on each side, with element strides.
TILES: tuple[Tile, ...] = (
    Tile("1d", "float32", (100,), (64,), (4,)),
    Tile("1d_before", "float32", (100,), (64,), (-12,)),
    Tile("1d_behind", "uint8", (1000,), (256,), (896,)),
    Tile("1d_outside", "float32", (100,), (64,), (400,)),
    Tile("2d", "float32", (40, 64), (8, 32), (4, 5)),
    Tile("2d_left", "float16", (40, 64), (8, 32), (-8, 5)),
    Tile("2d_right", "int32", (40, 48), (8, 32), (32, 5)),
    Tile("2d_top", "float32", (40, 64), (8, 16), (0, -3)),
    Tile("2d_bottom", "int64", (40, 64), (8, 16), (0, 35)),
    Tile("2d_corner", "float64", (10, 10), (16, 16), (-4, -2)),
    Tile("2d_one_row", "float32", (1, 64), (4, 32), (0, -1)),
    Tile("2d_strided", "float32", (40, 64), (16, 32), (0, -3), steps=(3, 1)),
    Tile("3d", "float16", (5, 12, 40), (3, 4, 8), (8, 9, -1)),
    Tile("3d_strided", "int32", (9, 12, 40), (8, 7, 8), (4, -2, 3), steps=(4, 2, 1)),
    Tile("4d", "float32", (3, 4, 5, 24), (2, 3, 4, 8), (-4, 3, 2, 2)),
    Tile("4d_strided", "uint16", (3, 8, 9, 24), (2, 8, 6, 8), (16, -1, 1, 1), steps=(2, 3, 5, 1)),
    Tile("5d", "float32", (3, 2, 3, 4, 12), (2, 2, 2, 2, 8), (4, 3, -1, 1, 2)),
    Tile("5d_strided", "uint8", (4, 5, 3, 4, 48), (3, 4, 2, 3, 16), (32, 1, 1, -1, 0), steps=(2, 3, 1, 2, 1)),
    # Swizzles, at every alignment that 128 bytes allow and with boxes narrower than the swizzle.
    *(
        Tile(f"swizzle_{s}{where}", "float16", (80, 72), (20, s // 2), (8, -4), s, shift=shift)
        for s in (32, 64, 128)
        for where, shift in (("", 0), ("_shifted", 128), ("_far", 896))
    ),
    Tile("swizzle_128_half", "float32", (40, 64), (9, 16), (4, 2), 128),
    Tile("swizzle_128_narrow", "float32", (40, 64), (11, 4), (4, 2), 128),
    Tile("swizzle_64_half", "float16", (40, 64), (9, 16), (8, 2), 64),
    Tile("swizzle_32_half", "uint8", (40, 64), (9, 16), (16, 2), 32),
    Tile("swizzle_128_3d", "float16", (5, 12, 80), (3, 6, 64), (24, 9, -1), 128),
    Tile("swizzle_64_4d", "uint8", (3, 4, 5, 80), (2, 3, 4, 64), (-16, 3, 2, 2), 64),
    Tile("swizzle_32_5d", "float64", (3, 2, 3, 4, 12), (2, 2, 2, 2, 4), (10, 3, -1, 1, 2), 32),
    Tile("widest", "uint8", (300, 304), (256, 128), (96, 100), 128),
    *(
        Tile(f"type_{d}", d, (24, 32), (16, 128 // np.dtype(d).itemsize), (-16 // np.dtype(d).itemsize, 12), 128)
        for d in ("uint8", "uint16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64")
    ),
    *(Tile(f"nan_{e or d}", d, (12, 32), (8, 32), (24, 8), nan=True, element=e) for d, e in _FLOATS.items()),
)  # fmt: skip
# A store cannot start before the tensor.
_STORED = [
    replace(t, at=tuple(max(n, 0) for n in t.at))
    for t in TILES
    if not t.nan and t.name not in ("1d_outside", "1d_behind")
]

ENTRIES: tuple[Entry, ...] = (
    *(_load(t) for t in TILES),
    *(_store(t) for t in _STORED),
    *(_tensor_reduction(op, d, 64) for op in ("add", "min", "max") for d in ("uint32", "int32")),
    *(_tensor_reduction(op, "uint32", 0) for op in ("inc", "dec", "and", "or", "xor")),
    *(_tensor_reduction(op, "uint64", 64) for op in ("add", "min", "max", "and")),
    *(_tensor_reduction(op, "float16", 64) for op in ("add", "min", "max")),
    *(_tensor_reduction(op, "uint16", 64, "bfloat16") for op in ("add", "min", "max")),
    *(_tensor_reduction("add", d, 64) for d in ("float32",)),
    *(_bulk(name) for name in BULK),
    Entry(
        "bulk/pipeline",
        FILE,
        "pipeline",
        (read("x", "float32", 64, 256), write("out", "float32", 64, 256)),
        {},
        lambda v: {"out": 2 * v["x"]},
    ),
)
ENTRIES = tuple(replace(e, uncounted="its loads and stores only fill and show the tile") for e in ENTRIES)
