"""Compiling and launching the interpreter through CuPy: on a GPU or, recorded, on the emulator."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from systems.megakernel.schedule import Schedule, counters, encoded
from systems.megakernel.shapes import HEAD, Shape

THREADS = 17 * 32  # sixteen warps compute, one loads
SLOTS = 13  # pages of 16 KiB that an SM of an H100 or H200 has room for beside the rest
IN_FLIGHT = 2  # pages on their way to an SM at once: the best in both forms, on an H100 and an H200
TIMES = 5  # of the clock, for each instruction: begun, inputs there, first page there, done, told


def source() -> str:
    """The interpreter, CUDA C++."""
    return (Path(__file__).parent / "interpreter.cu").read_text("utf-8")


def options(
    shape: Shape, slots: int = SLOTS, ahead: bool = True, in_flight: int = IN_FLIGHT, flags: bool = True
) -> tuple[str, ...]:
    """What the interpreter is compiled with. To compare: without `ahead` weights are loaded when inputs are there,
    without `flags` counters are released and acquired, and nobody looks at what flags the data have."""
    values = {
        "LAYERS": shape.layers,
        "WIDTH": shape.width,
        "HEADS": shape.heads,
        "KV_HEADS": shape.kv_heads,
        "VOCABULARY": shape.vocabulary,
        "BLOCKS": shape.blocks,
        "SLOTS": slots,
        "IN_FLIGHT": min(in_flight, slots),
        "COUNTERS": counters(shape),
        "AHEAD": int(ahead),
        "FLAGS": int(flags),
    }
    return ("-std=c++17", *(f"-D{name}={value}" for name, value in values.items()))


def shared_bytes(shape: Shape, slots: int = SLOTS) -> int:
    """Bytes of the kernel's `Shared`."""
    attention = 4 * (shape.group * (HEAD + shape.positions) + 16 * HEAD) + 2 * 2 * HEAD
    inputs = max(2 * shape.hidden, attention)
    rest = 4 * (4 * 64 + HEAD + 16 + 1) + 16 * slots
    return -(-(slots * shape.page + inputs + rest) // 128) * 128


def words(shape: Shape) -> int:
    """Words of 8 bytes of the kernel's `Vectors`: 4 bytes of data and 4 of flag."""
    attention = shape.width + shape.kv_heads * HEAD + shape.heads * shape.blocks * (HEAD + 2)
    return shape.width + attention + shape.hidden // 2


def turns(shape: Shape, base: float = 500000.0) -> np.ndarray:
    """Cosine and sine by which pairs of a head are turned, float32 of [position][HEAD / 2][2]."""
    angles = np.arange(shape.room)[:, None] * base ** (-np.arange(HEAD // 2) / (HEAD // 2))
    return np.stack([np.cos(angles), np.sin(angles)], -1).astype(np.float32)


def scratch(shape: Shape) -> dict[str, tuple[tuple[int, ...], str]]:
    """What a step works on, by the kernel's names: shape and dtype, all zero before the first step."""
    return {
        "cache": ((shape.layers, shape.kv_heads, shape.blocks, 2, shape.positions, HEAD), "uint16"),
        "chosen": ((shape.room,), "uint64"),
        "vectors": ((2, words(shape)), "uint64"),
        "logits": ((shape.vocabulary,), "float32"),
        "counters": ((2, counters(shape)), "uint32"),
    }


def kernel(shape: Shape, slots: int = SLOTS, ahead: bool = True, in_flight: int = IN_FLIGHT, flags: bool = True) -> Any:
    """The compiled interpreter, a kernel of CuPy's."""
    import cupy

    module = cupy.RawModule(
        code=source(), options=options(shape, slots, ahead, in_flight, flags), enable_cooperative_groups=True
    )
    function = module.get_function("decode")
    function.max_dynamic_shared_size_bytes = shared_bytes(shape, slots)
    return function


def step(
    function: Any, shape: Shape, listed: Any, position: int, number: int, arrays: dict[str, Any], records: Any = None,
    slots: int = SLOTS,
) -> None:  # fmt: skip
    """Launch step `number` (from 0, one more each time) for the token at a position.

    `listed` is an encoded schedule on the device; `arrays` has weights, gains, turns, given and `scratch`. `records`,
    uint32 of [SM][line][TIMES], gets nanoseconds of each instruction: when it was begun, when its inputs and its first
    page were there, when its results were stored, when others had been told.
    """
    names = ("weights", "gains", "cache", "turns", "given", "chosen", "vectors", "logits", "counters")
    sms, length, _ = listed.shape
    given = tuple(arrays[name] for name in names)
    recorded = (arrays["counters"], np.int32(0)) if records is None else (records, np.int32(1))
    values = (np.int32(length), np.int32(position), np.int32(number % 2))
    function((sms,), (THREADS,), (listed, *values, *given, *recorded), shared_mem=shared_bytes(shape, slots))


def tokens(chosen: np.ndarray, count: int) -> np.ndarray:
    """The tokens of the first positions, uint32, from the kernel's `chosen`: logits above, ~token below."""
    return ~chosen[:count].astype(np.uint32)


def decode(
    shape: Shape,
    slots: int,
    lists: Sequence[Schedule],
    weights: Any,
    gains: Any,
    given: Any,
    table: Any,
    ahead: bool = True,
    in_flight: int = IN_FLIGHT,
    flags: bool = True,
) -> dict[str, Any]:
    """A step for each schedule, at the positions from 0 on, with arrays of the host: for the emulator.

    Gives what the kernel has as "chosen", the last step's "logits", and "records", of each step. weights: uint16 (of
    bfloat16), (rows, width); gains: uint16, (2 layers + 1, width); given: int32, a token for each position, -1 for the
    one that the step before chooses; table: `turns`.
    """
    import cupy

    arrays = {name: cupy.zeros(size, dtype) for name, (size, dtype) in scratch(shape).items()}
    arrays |= {"weights": cupy.asarray(weights), "gains": cupy.asarray(gains), "given": cupy.asarray(given)}
    arrays["turns"] = cupy.asarray(table)
    function = kernel(shape, slots, ahead, in_flight, flags)
    records = []
    for position, each in enumerate(lists):
        listed = encoded(each)
        records.append(cupy.zeros((*listed.shape[:2], TIMES), np.uint32))
        step(function, shape, cupy.asarray(listed), position, position, arrays, records[-1], slots)
    return {
        "chosen": cupy.asnumpy(arrays["chosen"]),
        "logits": cupy.asnumpy(arrays["logits"]),
        "records": [cupy.asnumpy(each) for each in records],
    }
