"""Recipes on the emulator. Arrays are NumPy views into larger memory, whose other bytes have to stay unchanged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from systems.kernels.arrays import Described
from systems.kernels.compiled import ptx_of
from systems.kernels.recipes import Recipe
from warplab.emulator import execute
from warplab.isa.entry import entries
from warplab.plan.model import Buffer, Kernel, Language, Parameter, Plan, Pointer, Role, TensorMap

ARCHITECTURE = "sm_90a"


def memory_of(array: np.ndarray) -> np.ndarray:
    """All of the memory that an array is a view of."""
    while array.base is not None and isinstance(array.base, np.ndarray):
        array = array.base
    return array


def offset_of(array: np.ndarray) -> int:
    """Bytes from the memory's start to the array's first element."""
    return array.__array_interface__["data"][0] - memory_of(array).__array_interface__["data"][0]


def described(array: np.ndarray, dtype: str = "") -> Described:
    """As a library would describe it, on a GPU."""
    strides = tuple(stride // array.itemsize for stride in array.strides)
    return Described(array.shape, strides, dtype or array.dtype.name, 0, offset_of(array) % 16 == 0)


def run(recipe: Recipe, arrays: Mapping[str, np.ndarray], written: tuple[str, ...]) -> None:
    """Carry out a recipe on arrays by name, and write its results into those of `written`. Findings fail the test."""
    buffers, inputs, offsets = {}, {}, {}
    for name, array in arrays.items():
        whole = memory_of(array).reshape(-1).view(np.uint8)
        role = Role.INOUT if name in written else Role.INPUT
        buffers[name] = Buffer(name, role, "uint8", whole.shape, (1,))
        inputs[name], offsets[name] = whole, offset_of(array)
    for name, size in recipe.scratch.items():
        buffers[name], offsets[name] = Buffer(name, Role.SCRATCH, "uint8", (size,), (1,)), 0
    kernels = {}
    for key, code in recipe.codes.items():
        ptx = ptx_of(code, ARCHITECTURE)
        parameters = tuple(Parameter("", p.size, p.align) for p in entries(ptx)[code.entry].parameters)
        most = max(launch.shared_bytes for launch in recipe.launches if launch.kernel == key)
        text = {ARCHITECTURE: ptx}
        kernels[key] = Kernel(key, code.entry, Language.CUDA_CPP, parameters, text, max_dynamic_shared=most)
    launches = tuple(
        replace(
            launch,
            cluster=(1, 1, 1),
            arguments=tuple(
                replace(one, offset=one.offset + offsets[one.buffer]) if isinstance(one, Pointer | TensorMap) else one
                for one in launch.arguments
            ),
        )
        for launch in recipe.launches
    )
    done = execute(Plan("product", kernels, buffers, launches), inputs)
    assert not done.findings, [finding.message for finding in done.findings]
    for name in written:
        memory_of(arrays[name]).reshape(-1).view(np.uint8)[:] = done.outputs[name]
