"""Builds plans by hand from Numba functions, CUDA C++ and PTX text, as capture would."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

from tests import stored, tiers
from warplab.isa.entry import entries
from warplab.plan.model import Buffer, Kernel, Language, Launch, Parameter, Plan, Pointer, Role, Value

ARCHITECTURE = "sm_90a"
ROOT = Path(__file__).parents[2]


def buffer(name: str, array: np.ndarray, role: Role, zeroed: bool = False) -> Buffer:
    """A buffer like `array`."""
    return Buffer(name, role, array.dtype.name, array.shape, array.strides, zeroed)


def plan_of(
    ptx: str,
    entry: str,
    buffers: dict[str, Buffer],
    arguments: tuple,
    grid: tuple[int, ...],
    block: tuple[int, ...],
    shared_bytes: int = 0,
    source: str = "",
    source_name: str = "submission.py",
    language: Language = Language.CUDA_CPP,
    line: int = 0,
) -> Plan:
    """A plan with one kernel and one launch."""
    found = entries(ptx).get(entry)
    parameters = tuple(Parameter("", p.size, p.align) for p in found.parameters) if found else ()
    kernel = Kernel("kernel", entry, language, parameters, {ARCHITECTURE: ptx}, line=line)
    launch = Launch("kernel", _three(grid), _three(block), arguments, shared_bytes)
    return Plan("host", {"kernel": kernel}, buffers, (launch,), source, source_name)


def _three(dimensions: tuple[int, ...]) -> tuple[int, int, int]:
    x, y, z = (*dimensions, 1, 1)[:3]
    return x, y, z


def numba_arguments(values: dict[str, np.ndarray | np.generic]) -> tuple:
    """The PTX arguments of a Numba kernel: an array is meminfo, parent, nitems, itemsize, data, shape, strides."""
    result: list = []
    for name, value in values.items():
        if isinstance(value, np.ndarray):
            result += [Value("int64", 0, name), Value("int64", 0, name)]
            result += [Value("int64", value.size, name), Value("int64", value.itemsize, name), Pointer(name, 0, name)]
            result += [Value("int64", n, name) for n in value.shape + value.strides]
        else:
            result.append(Value(value.dtype.name, value.item(), name))
    return tuple(result)


HOPPER = (9, 0, "a")


def numba_plan(
    function: Callable,
    values: dict[str, np.ndarray | np.generic],
    roles: dict[str, Role],
    grid: tuple[int, ...],
    block: tuple[int, ...],
    shared_bytes: int = 0,
    target: tuple[int, int, str] = HOPPER,
) -> Plan:
    """Compile a Python function with Numba CUDA and launch it on `values`; arrays without a role are inputs."""
    from numba import cuda, typeof

    signature = tuple(_device_type(typeof(v)) for v in values.values())

    def compiled() -> bytes:
        ptx, _ = cuda.compile(function, signature, cc=target, output="ptx", abi="numba", device=False, lineinfo=True)
        return stored.renumbered(ptx.replace(str(ROOT), "")).encode()

    other = () if target == HOPPER else (str(target),)
    ptx = tiers.stored_or_made("numba", (stored.identity(function), str(signature), *other), compiled).decode()
    entry = next(line.split()[2].split("(")[0] for line in ptx.splitlines() if line.startswith(".visible .entry"))
    buffers = {
        name: buffer(name, value, roles.get(name, Role.INPUT))
        for name, value in values.items()
        if isinstance(value, np.ndarray)
    }
    source = Path(function.__code__.co_filename)
    return plan_of(
        ptx, entry, buffers, numba_arguments(values), grid, block, shared_bytes, source.read_text(), source.name,
        Language.NUMBA, function.__code__.co_firstlineno,
    )  # fmt: skip


def _device_type(kind):
    """C-contiguous arrays without the marker that the host array's dtype is aligned or read-only."""
    from numba import types

    return types.Array(kind.dtype, kind.ndim, "C") if isinstance(kind, types.Array) else kind


@cache
def compile_cuda(source: str, architecture: str = "compute_90a") -> str:
    """CUDA C++ to PTX by NVRTC, with line information; the file is called submission.py."""
    made = tiers.stored_or_made("cuda", (source, architecture), lambda: _by_nvrtc(source, architecture).encode())
    return made.decode()


def _by_nvrtc(source: str, architecture: str) -> str:
    import nvidia
    from cuda.bindings import nvrtc

    include = glob.glob(os.path.join(next(iter(nvidia.__path__)), "cu13", "include"))
    options = [f"--gpu-architecture={architecture}", "-lineinfo", "-default-device"]
    options += [f"-I{path}" for folder in include for path in (folder, os.path.join(folder, "cccl"))]
    error, program = nvrtc.nvrtcCreateProgram(source.encode(), b"submission.py", 0, [], [])
    assert error == nvrtc.nvrtcResult.NVRTC_SUCCESS
    (error,) = nvrtc.nvrtcCompileProgram(program, len(options), [o.encode() for o in options])
    if error != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        _, size = nvrtc.nvrtcGetProgramLogSize(program)
        log = b" " * size
        nvrtc.nvrtcGetProgramLog(program, log)
        raise AssertionError(log.decode())
    _, size = nvrtc.nvrtcGetPTXSize(program)
    text = b" " * size
    nvrtc.nvrtcGetPTX(program, text)
    # NVRTC names files by their folders, which differ from one clone to the next.
    made = text.rstrip(b"\0").decode()
    for folder in (os.getcwd(), *include):
        made = made.replace(f'"{folder}/', '"')
    return made


def cuda_plan(
    source: str,
    entry: str,
    arrays: dict[str, tuple[np.ndarray, Role]],
    arguments: tuple,
    grid: tuple[int, ...],
    block: tuple[int, ...],
    shared_bytes: int = 0,
) -> Plan:
    """Compile CUDA C++ and launch one of its kernels. `arguments` names arrays and gives NumPy scalars."""
    values = tuple(Pointer(a, 0, a) if isinstance(a, str) else Value(a.dtype.name, a.item()) for a in arguments)
    buffers = {name: buffer(name, array, role) for name, (array, role) in arrays.items()}
    return plan_of(compile_cuda(source), entry, buffers, values, grid, block, shared_bytes, source)
