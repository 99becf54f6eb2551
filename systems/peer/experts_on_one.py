"""A plan of the layer of experts whose ranks are groups of blocks of one launch on one GPU or on the emulator.

Each array has one part per rank, one after the other. What crosses links is then what a block asks of another part of
`memory`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from systems.peer.experts import NAME, SOURCE, THREADS, Sizes
from systems.peer.kernels import INCLUDE
from warplab.isa.entry import entries
from warplab.plan.capture.nvrtc import compile_cpp
from warplab.plan.model import (
    Argument,
    Buffer,
    Kernel,
    Language,
    Launch,
    Parameter,
    Plan,
    Pointer,
    Role,
    Structure,
    Value,
)

PATIENCE = 10**9  # nanoseconds: the emulator's timer counts its own steps
INPUTS = ("x", "chosen", "weight", "gate_up", "down")


def planned(
    sizes: Sizes,
    arrays: Mapping[str, np.ndarray],
    architecture: str,
    *,
    blocks: int = 2,
    calls: int = 1,
    before: Mapping[str, np.ndarray] | None = None,
    change: Callable[[str], str] = str,
    patience: int = PATIENCE,
    room: int = 0,
) -> tuple[Plan, dict[str, np.ndarray]]:
    """A launch for each call with `blocks` blocks for each rank, and what its buffers start with.

    `arrays` are x [ranks, tokens, width], gate_up [experts, 2 hidden, width] and down [experts, width, hidden] as
    bfloat16 in uint16, and chosen (int32) and weight (float32) [ranks, tokens, choices]. `before` has the memory, flags
    and state that an earlier execution left. `change` spoils the source. With `room` the buffer `times`
    [ranks, blocks, room, 4] has what each block did, and when (`systems.peer.experts_timeline`).
    """
    ranks = sizes.ranks
    copies = {name: np.stack([arrays[name]] * ranks) for name in ("chosen", "weight")}  # each rank knows all routes
    held: dict[str, np.ndarray] = {
        "memory": np.zeros(ranks * sizes.memory, np.uint8),
        "state": np.zeros(2 * ranks * blocks, np.uint32),
        "flags": np.zeros(ranks * sizes.scratch["flags"][1], np.uint32),
    }
    if room:
        held["times"] = np.zeros((ranks, blocks, room, 4), np.uint64)
    held.update({name: array for name, array in (before or {}).items() if name in held})
    inputs = {name: np.ascontiguousarray(copies.get(name, arrays[name])) for name in INPUTS}
    inputs.update(held)
    roles = {name: Role.INPUT if name in INPUTS else Role.INOUT for name in inputs}
    buffers = {name: _buffer(name, array, roles[name]) for name, array in inputs.items()}
    buffers["out"] = _buffer("out", arrays["x"], Role.OUTPUT)
    for name, (dtype, count) in sizes.scratch.items():
        if name != "flags":
            buffers[name] = Buffer(name, Role.SCRATCH, dtype, (ranks * count,), (np.dtype(dtype).itemsize,))
    order = ("state", *INPUTS, "out", "list", "place", "count", "middle", "made", "flags", "memory")
    arguments: tuple[Argument, ...] = (
        Structure(sizes.numbers().tobytes()), Value("uint32", 0), Value("uint32", ranks), Value("uint32", sizes.tiles),
        Value("uint64", patience), *(Pointer(name, 0, name) for name in order), Value("uint64", 0),
        Pointer("times", 0, "times") if room else Value("uint64", 0), Value("uint32", room),
    )  # fmt: skip
    text = change(SOURCE.read_text("utf-8"))
    ptx = compile_cpp(text, SOURCE.name, INCLUDE, (), architecture).ptx
    parameters = tuple(Parameter("", p.size, p.align) for p in entries(ptx)[NAME].parameters)
    kernel = Kernel(NAME, NAME, Language.CUDA_CPP, parameters, {architecture: ptx})
    launch = Launch(NAME, (ranks * blocks, 1, 1), (THREADS, 1, 1), arguments, cooperative=True)
    return Plan("experts", {NAME: kernel}, buffers, (launch,) * calls, text, SOURCE.name), inputs


def _buffer(name: str, array: np.ndarray, role: Role) -> Buffer:
    return Buffer(name, role, array.dtype.name, array.shape, array.strides)
