"""Whether the parts of a plan fit together: what an executor may rely on without looking again."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from itertools import pairwise
from math import prod

import numpy as np

from warplab.errors import PlanError
from warplab.isa.entry import Entry, entries
from warplab.isa.text import PtxError
from warplab.plan.model import (
    Argument,
    Buffer,
    Cubin,
    Kernel,
    Launch,
    Parameter,
    Plan,
    Pointer,
    Structure,
    TensorMap,
    Value,
)
from warplab.plan.tensor_maps import problem

MAX_BUFFER = 1 << 40  # bytes
# The kernels of the course have at most 241,000 characters, a submission 470,000 in all, of nine texts, and plans three
# kernels and three launches.
MAX_PTX = 4 << 20  # characters of one text
MAX_ALL_PTX = 8 << 20  # characters of all different texts of a plan
MAX_COPIES = 24 << 20  # characters of the texts of all kernels, each of which has a copy in the plan's file
MAX_KERNELS = 256
MAX_BUFFERS = 10_000
MAX_CONTENT = 1 << 20  # bytes of host data in a plan, all buffers together
MAX_VERSIONS = 100
MAX_LAUNCHES = 10_000
MAX_ARGUMENTS = 4096
DTYPES = frozenset(
    ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
    + ("float16", "float32", "float64", "complex64", "complex128")
)
_NAME = re.compile(r"[^\W\d]\w{0,199}")
_KEY = re.compile(r"\w{1,120}", re.ASCII)
_SYMBOL = re.compile(r"[A-Za-z_$][\w$]{0,8191}", re.ASCII)
_ARCHITECTURE = re.compile(r"sm_\d{2,3}[af]?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def check_plan(plan: Plan) -> None:
    """Raise PlanError, saying where, if the plan's parts do not fit together or their sizes are absurd.

    Afterwards holds: names are identifiers, every launch names a kernel and buffers of the plan, its arguments match
    the kernel's PTX parameters in number and size, its dimensions are launchable, every pointer lies in its buffer, and
    every kernel is launched: what is not would only cost time to assemble.
    """
    _require(_NAME.fullmatch(plan.function), "the function's name is not an identifier")
    _require(len(plan.source_name) <= 255 and not _CONTROL.search(plan.source_name), "the source's name is not a name")
    _require(len(plan.versions) <= MAX_VERSIONS, f"it has more than {MAX_VERSIONS} versions")
    for name, text in plan.versions.items():
        _require(len(name) <= 100 and len(text) <= 100 and not _CONTROL.search(name + text), "a version is not a text")
    _require(len(plan.buffers) <= MAX_BUFFERS, f"it has more than {MAX_BUFFERS} buffers")
    for name, buffer in plan.buffers.items():
        _require(name == buffer.name, f"buffer {name[:80]!r} has another name inside")
        _check_buffer(buffer)
    content = sum(len(buffer.content) for buffer in plan.buffers.values())
    _require(content <= MAX_CONTENT, f"its arrays hold more than {MAX_CONTENT >> 20} MiB of host data")
    _require(len(plan.kernels) <= MAX_KERNELS, f"it has more than {MAX_KERNELS} kernels")
    texts = [ptx for kernel in plan.kernels.values() for ptx in kernel.ptx.values()]
    small = sum(map(len, set(texts))) <= MAX_ALL_PTX and sum(map(len, texts)) <= MAX_COPIES
    _require(small, f"its kernels have more than {MAX_ALL_PTX >> 20} MiB of PTX in all")
    for key, kernel in plan.kernels.items():
        _check_kernel(key, kernel)
    _require(len(plan.launches) <= MAX_LAUNCHES, f"it has more than {MAX_LAUNCHES} launches")
    for i, launch in enumerate(plan.launches):
        _check_launch(f"launch {i}", launch, plan)
    idle = plan.kernels.keys() - {launch.kernel for launch in plan.launches}
    _require(not idle or not plan.launches, f"kernel {min(idle, default='')!r} is never launched")


def _require(condition: object, message: str) -> None:
    if not condition:
        raise PlanError(message + ".")


def _check_buffer(buffer: Buffer) -> None:
    name = buffer.name[:80]
    _require(_NAME.fullmatch(buffer.name), f"buffer name {name!r} is not an identifier")
    _require(buffer.dtype in DTYPES, f"buffer {name!r} has the unknown dtype {buffer.dtype[:40]!r}")
    _require(len(buffer.shape) <= 16, f"buffer {name!r} has more than 16 dimensions")
    _require(len(buffer.shape) == len(buffer.strides), f"buffer {name!r} has not one stride a dimension")
    _require(all(0 <= n <= MAX_BUFFER for n in buffer.shape), f"buffer {name!r} has an absurd shape")
    # Buffers are allocations: dense, in some order of their axes. Views are pointers with an offset.
    size = np.dtype(buffer.dtype).itemsize
    _require(prod(buffer.shape) * size <= MAX_BUFFER, f"buffer {name!r} is larger than {MAX_BUFFER >> 40} TiB")
    if 0 not in buffer.shape:
        order = sorted((s, n) for s, n in zip(buffer.strides, buffer.shape, strict=True) if n != 1)
        dense = all(s * n == t for (s, n), (t, _) in pairwise(order)) and (not order or order[0][0] == size)
        _require(dense, f"buffer {name!r} is not dense")
    _require(all(0 <= s <= MAX_BUFFER for s in buffer.strides), f"buffer {name!r} has absurd strides")
    whole = not buffer.content or len(buffer.content) in (size, buffer.nbytes)
    _require(whole, f"buffer {name!r} has content for another number of elements")
    _require(not (buffer.content and buffer.zeroed), f"buffer {name!r} has content and is zeroed")


def _check_kernel(key: str, kernel: Kernel) -> None:
    where = f"kernel {key[:80]!r}"
    _require(_KEY.fullmatch(key), f"{where} has a key that is no file name")
    _require(0 < len(kernel.name) <= 1000 and not _CONTROL.search(kernel.name), f"{where} has no proper name")
    _require(_SYMBOL.fullmatch(kernel.entry), f"{where} has no proper entry symbol")
    _require(0 <= kernel.line < 1 << 31, f"{where} has an absurd line")
    _require(kernel.ptx, f"{where} has no PTX")
    shared = kernel.max_dynamic_shared
    _require(shared is None or 0 <= shared < 1 << 20, f"{where} asks for absurd shared memory")
    for parameter in kernel.parameters:
        _check_parameter(where, parameter)
    for architecture, ptx in kernel.ptx.items():
        _require(_ARCHITECTURE.fullmatch(architecture), f"{where} is for {architecture[:40]!r}, no architecture")
        _require(len(ptx) <= MAX_PTX, f"{where} has more than {MAX_PTX >> 20} MiB of PTX")
        entry = _entries(where, ptx).get(kernel.entry)
        _require(entry is not None, f"{where} has PTX for {architecture} without its entry")
        if entry is not None:
            declared = [(p.size, p.align) for p in entry.parameters]
            given = [(p.size, p.align) for p in kernel.parameters]
            _require(declared == given, f"{where} lists other parameters than its PTX for {architecture}")
    for architecture, cubin in kernel.cubins.items():
        _require(architecture in kernel.ptx, f"{where} has a cubin for {architecture[:40]!r} but no PTX")
        _check_cubin(f"{where}, {architecture}", cubin)


def _entries(where: str, ptx: str) -> Mapping[str, Entry]:
    try:
        return entries(ptx)
    except PtxError as error:
        raise PlanError(f"{where} has PTX that cannot be used: {error}.") from None


def _check_parameter(where: str, parameter: Parameter) -> None:
    proper = len(parameter.name) <= 200 and not _CONTROL.search(parameter.name)
    _require(proper, f"{where} has a parameter without a proper name")
    _require(0 <= parameter.size <= 32768, f"{where} has a parameter of absurd size")
    _require(parameter.align in (1, 2, 4, 8, 16, 32, 64, 128), f"{where} has a parameter of absurd alignment")


def _check_cubin(where: str, cubin: Cubin) -> None:
    _require(cubin.image[:4] == b"\x7fELF", f"{where}: the cubin is not machine code")
    figures = (cubin.registers, cubin.spill_stores, cubin.spill_loads, cubin.stack, cubin.static_shared)
    _require(all(0 <= n < 1 << 31 for n in figures), f"{where}: the cubin's figures are absurd")


def _check_launch(where: str, launch: Launch, plan: Plan) -> None:
    kernel = plan.kernels.get(launch.kernel)
    _require(kernel is not None, f"{where} is of the unknown kernel {launch.kernel[:80]!r}")
    assert kernel is not None
    _require(min(launch.grid) >= 1 and min(launch.block) >= 1 and min(launch.cluster) >= 1, f"{where} is empty")
    _require(launch.grid[0] < 1 << 31 and max(launch.grid[1:]) < 1 << 16, f"{where} has too large a grid")
    _require(prod(launch.block) <= 1024 and launch.block[2] <= 64, f"{where} has too many threads in a block")
    _require(prod(launch.cluster) <= 16, f"{where} has too large a cluster")
    _require(
        all(g % c == 0 for g, c in zip(launch.grid, launch.cluster, strict=True)),
        f"{where} has a grid that is no multiple of its cluster",
    )
    _require(0 <= launch.shared_bytes < 1 << 20, f"{where} asks for absurd shared memory")
    _require(0 <= launch.line < 1 << 31, f"{where} has an absurd line")
    _require(
        len(launch.arguments) == len(kernel.parameters) <= MAX_ARGUMENTS,
        f"{where} has {len(launch.arguments)} arguments for {len(kernel.parameters)} parameters",
    )
    for i, (argument, parameter) in enumerate(zip(launch.arguments, kernel.parameters, strict=True)):
        _check_argument(f"{where}, argument {i}", argument, parameter, plan)


def _check_argument(where: str, argument: Argument, parameter: Parameter, plan: Plan) -> None:
    named = len(argument.parameter) <= 200 and not _CONTROL.search(argument.parameter)
    _require(named, f"{where} has no proper parameter name")
    if isinstance(argument, Pointer):
        buffer = plan.buffers.get(argument.buffer)
        _require(buffer is not None, f"{where} points into the unknown buffer {argument.buffer[:80]!r}")
        assert buffer is not None
        _require(parameter.size == 8, f"{where} is a pointer for a parameter of {parameter.size} bytes")
        _require(0 <= argument.offset <= buffer.nbytes, f"{where} points outside of buffer {argument.buffer!r}")
        return
    if isinstance(argument, TensorMap):
        _check_tensor_map(where, argument, parameter, plan)
        return
    if isinstance(argument, Structure):
        given = len(argument.content)
        _require(given == parameter.size, f"{where} has {given} bytes for a parameter of {parameter.size}")
        return
    _require(
        argument.dtype in DTYPES and not argument.dtype.startswith("complex"),
        f"{where} has the unknown dtype {argument.dtype[:40]!r}",
    )
    _require(
        np.dtype(argument.dtype).itemsize == parameter.size,
        f"{where} is {argument.dtype} for a parameter of {parameter.size} bytes",
    )
    _require(_fits(argument), f"{where} has a value that is no {argument.dtype}")


def _check_tensor_map(where: str, argument: TensorMap, parameter: Parameter, plan: Plan) -> None:
    buffer = plan.buffers.get(argument.buffer)
    _require(buffer is not None, f"{where} maps the unknown buffer {argument.buffer[:80]!r}")
    assert buffer is not None
    whole = parameter.size == 128 and parameter.align >= 64
    _require(whole or parameter.size == 8, f"{where} is a tensor map for a parameter of {parameter.size} bytes")
    wrong = problem(argument)
    _require(not wrong, f"{where} is no valid tensor map: {wrong}")
    _require(
        argument.offset >= 0 and argument.offset + argument.nbytes <= buffer.nbytes,
        f"{where} maps memory outside of buffer {argument.buffer!r}",
    )


def _fits(value: Value) -> bool:
    if value.dtype.startswith("float"):
        return isinstance(value.value, float) or (type(value.value) is int and math.isfinite(float(value.value)))
    if type(value.value) is not int:
        return False
    if value.dtype == "bool":
        return value.value in (0, 1)
    info = np.iinfo(value.dtype)
    return bool(info.min <= value.value <= info.max)
