"""Plans of the Triton kernels that were kept."""

from __future__ import annotations

import json
import lzma
from dataclasses import replace
from pathlib import Path

import numpy as np

from corpus.triton.cases import Case
from warplab.isa.entry import entries
from warplab.plan.model import (
    Argument,
    ArrayArgument,
    Buffer,
    Kernel,
    Language,
    Launch,
    Plan,
    Pointer,
    ScalarArgument,
    Value,
)
from warplab.plan.tensor_maps import describe

ARCHITECTURE = "sm_90a"
_SCALARS = {"u32": "int32", "u64": "int64", "f32": "float32", "b32": "float32"}


def ptx_of(folder: Path, name: str) -> str:
    """The PTX that a kernel's `record` kept in a folder."""
    return lzma.decompress((folder / f"{name}.ptx.xz").read_bytes()).decode()


def plan_of(case: Case, folder: Path) -> Plan:
    """The launch of a case as its `record` kept it in a folder. Triton's own pointers, which come last, are null."""
    name = case.name.split("/")[1]
    ptx = ptx_of(folder, name)
    known = json.loads((folder / f"{name}.json").read_text())
    parameters = entries(ptx)[known["entry"]].parameters
    given: list[Argument] = []
    for a in case.entry.arguments:
        if isinstance(a, ArrayArgument) and a.name in case.tiles:
            given += _descriptor(a, case.tiles[a.name])
        else:
            given.append(_argument(a, parameters[len(given)].type))
    null = [Value("uint64", 0)] * (len(parameters) - len(given))
    x, y, z = (*known["grid"], 1, 1)[:3]
    launch = Launch(name, (x, y, z), (32 * known["warps"], 1, 1), (*given, *null), known["shared"])
    kernel = Kernel(
        name, known["entry"], Language.CUDA_CPP, (), {ARCHITECTURE: ptx}, max_dynamic_shared=known["shared"]
    )
    buffers = {a.name: _buffer(a) for a in case.entry.arguments if isinstance(a, ArrayArgument)}
    return Plan(name, {name: kernel}, buffers, (launch,))


def _buffer(argument: ArrayArgument) -> Buffer:
    strides = np.empty(argument.shape, argument.dtype).strides
    return Buffer(argument.name, argument.role, argument.dtype, argument.shape, strides)


def _descriptor(argument: ArrayArgument, tile: tuple[int, int]) -> list[Argument]:
    """What Triton passes for a tensor descriptor: the map, the shape, and the strides in elements."""
    strides = np.empty(argument.shape, argument.dtype).strides
    described = describe(argument.shape, strides, argument.dtype, tile, None, 128, 128, "zero")
    size = np.dtype(argument.dtype).itemsize
    values = [Value("int32", n) for n in argument.shape] + [Value("int64", s // size) for s in strides]
    return [replace(described, buffer=argument.name, parameter=argument.name), *values]


def _argument(argument: ArrayArgument | ScalarArgument, kind: str) -> Pointer | Value:
    if isinstance(argument, ArrayArgument):
        return Pointer(argument.name, 0, argument.name)
    return Value("float32" if isinstance(argument.value, float) else _SCALARS[kind], argument.value, argument.name)
