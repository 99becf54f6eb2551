"""`emulate`: one kernel of a PTX module on the emulator, with NumPy arrays; neither CUDA nor a compiler is needed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from warplab.emulator.executor import execute
from warplab.emulator.orders import Order, in_several_orders
from warplab.emulator.races import CELLS
from warplab.emulator.result import Result
from warplab.errors import WarplabError
from warplab.isa.declarations import DeclaredFunction, DeclaredVariable, declarations
from warplab.isa.own_lines import with_own_lines
from warplab.isa.text import PtxError, plain
from warplab.plan.assemble import with_machine_code
from warplab.plan.execution import Execution
from warplab.plan.limits import LIMITS, limits_of, parse_architecture
from warplab.plan.model import (
    Argument,
    Buffer,
    Dim3,
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

GRID_MOST, BLOCK_MOST, THREADS_MOST = (2**31 - 1, 65535, 65535), (1024, 1024, 64), 1024
_NAME = "kernel.ptx"  # what lines are reported for where the PTX is given as text
_TARGET = re.compile(r"\.target\s+(sm_\w+)")
_DTYPES = {
    "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
    "s8": "int8", "s16": "int16", "s32": "int32", "s64": "int64",
    "f16": "float16", "f32": "float32", "f64": "float64",
}  # fmt: skip


class EmulateError(WarplabError):
    """A kernel that cannot be launched so: one sentence that says what is wrong and what to do."""

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows of it, instead of the frames of what made it."""
        return [f"warplab.emulate: {self}"]


def emulate(
    ptx: str | bytes | Path,
    entry: str = "",
    *,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    args: Sequence[Any] = (),
    shared: int = 0,
    cluster: int | Sequence[int] = 1,
    cooperative: bool = False,
    target: str = "",
    seed: int | None = None,
    reverse: bool = False,
    orders: int = 1,
    sanitize: bool = True,
    searched_elements: int = CELLS,
) -> Result:
    """Run one kernel of a PTX module on the emulator.

    `ptx` is the module's text (or its bytes), or the path of a file that holds it; `entry` is the kernel's name, which
    may be left out if the module has only one. `grid`, `block` and `cluster` are integers or up to three of them,
    `shared` is bytes of dynamic shared memory. `args` has one value per parameter: a NumPy array for a pointer (plain
    numbers of any dtype), a number for a scalar parameter, bytes for a structure. Arrays are copied: the result's
    `outputs` has them as the kernel leaves them, by the parameter's name in the PTX. `target` is the architecture to
    emulate ("sm_90a"; default: the module's own). `seed` draws the order of blocks, warps and asynchronous operations,
    `reverse` starts with the last block. With `orders=n` the findings are those of n orders: this one, the reverse one
    and drawn ones; all else is of the first. `sanitize=False` leaves out the search for races and uninitialised reads,
    and `searched_elements` is how many array elements that for races covers (see `warplab.emulator.execute`).

    The lines of findings and counters are those of the PTX. Counters follow the machine code where ptxas and nvdisasm
    are installed (the extra `cuda`), else the PTX, which a note of the result then says.

    Raises EmulateError.
    """
    text, name = _text_of(ptx)
    try:
        module = declarations(text)
        function = _entry(module.functions, entry)
        architecture = _architecture(target, text)
        located = with_own_lines(text, name)
    except PtxError as error:
        raise EmulateError(f"The PTX cannot be read: {error}.") from None
    parameters = function.parameters
    if not isinstance(args, list | tuple):
        raise EmulateError(f"args is of type {type(args).__name__}: pass a tuple with a value per parameter.")
    if len(args) != len(parameters):
        listed = ", ".join(f".{p.type} {p.name}" for p in parameters) or "none"
        raise EmulateError(f"'{function.name}' takes {len(parameters)} arguments ({listed}), not {len(args)}.")
    arrays: dict[str, np.ndarray] = {}
    buffers: dict[int, str] = {}  # of an array that is given twice, the name that it has already
    arguments = [_argument(p, value, function.name, arrays, buffers) for p, value in zip(parameters, args, strict=True)]
    launch = _launch(function, arguments, grid, block, cluster, shared, cooperative, architecture)
    kernel = Kernel(
        function.name,
        function.name,
        Language.CUDA_CPP,
        tuple(Parameter(_short(p.name, function.name), p.size, p.align) for p in parameters),
        {architecture: located},
    )
    plan = Plan(
        function.name,
        {function.name: kernel},
        {n: Buffer(n, Role.INOUT, a.dtype.name, a.shape, a.strides) for n, a in arrays.items()},
        (launch,),
        text,
        name,
    )
    try:
        plan = with_machine_code(plan, architecture)

        def execute_in(order: Order) -> Execution:
            return execute(
                plan,
                arrays,
                architecture=architecture,
                seed=order.seed,
                reverse=order.reverse,
                sanitize=sanitize,
                searched_elements=searched_elements,
            )

        execution = in_several_orders(execute_in, Order(reverse, seed), orders)
    except WarplabError as error:
        raise EmulateError(str(error)) from None
    return Result(plan, execution, architecture, seed, arrays, arrays, dict(execution.outputs))


def _text_of(ptx: str | bytes | Path) -> tuple[str, str]:
    """The module's text, and the name under which its lines are reported."""
    if isinstance(ptx, bytes):
        return _decoded(ptx.rstrip(b"\0"), "What was passed"), _NAME  # NVRTC ends its PTX with a zero
    if isinstance(ptx, str) and ("\n" in ptx or not ptx.endswith(".ptx")):
        return ptx, _NAME
    try:
        content = Path(ptx).read_bytes()
    except OSError as error:
        raise EmulateError(f"The file {ptx} cannot be read ({error.strerror}).") from None
    return _decoded(content, f"The file {ptx}"), Path(ptx).name


def _decoded(content: bytes, what: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise EmulateError(f"{what} is no text: give the PTX, not a cubin or a fatbin.") from None


def _entry(functions: Sequence[DeclaredFunction], name: str) -> DeclaredFunction:
    found = {f.name: f for f in functions if f.is_entry and f.is_defined}
    if not found:
        raise EmulateError("The PTX defines no kernel: it needs an .entry with a body.")
    if not name and len(found) == 1:
        return next(iter(found.values()))
    if name not in found:
        problem = f"no kernel '{name}'" if name else "several kernels"
        raise EmulateError(f"The PTX has {problem}: name one of {', '.join(sorted(found))}.")
    return found[name]


def _architecture(target: str, text: str) -> str:
    """The architecture that is asked for, else the module's own, else the oldest one that the emulator knows."""
    if target:
        try:
            limits_of(target)
        except WarplabError as error:
            raise EmulateError(str(error)) from None
        return target
    m = _TARGET.search(plain(text))
    own = m.group(1) if m else ""
    try:
        major, minor, _ = parse_architecture(own)
    except WarplabError:
        raise EmulateError("The PTX names no target: write .target sm_90, or pass target='sm_90'.") from None
    if (major, minor) in LIMITS:
        return own
    older = [known for known in LIMITS if known >= (major, minor)]
    if not older:
        raise EmulateError(
            f"The emulator does not know {own}: pass target=... with one that it knows, such as 'sm_120'."
        )
    return "sm_{}{}".format(*min(older))


def _argument(
    parameter: DeclaredVariable, value: Any, kernel: str, arrays: dict[str, np.ndarray], buffers: dict[int, str]
) -> Argument:
    """One kernel argument; an array is added to `arrays` under its name."""
    name = _short(parameter.name, kernel)
    if isinstance(value, np.ndarray) and value.ndim:
        if parameter.size != 8:
            raise EmulateError(f"Parameter '{name}' of '{kernel}' is .{parameter.type}, not a pointer: pass a number.")
        if value.dtype.kind not in "biufc" or value.dtype.itemsize > 16 or not value.dtype.isnative:
            raise EmulateError(
                f"Array '{name}' of '{kernel}' has dtype {value.dtype}: pass plain numbers, or its bytes with "
                ".view(np.uint8)."
            )
        if id(value) not in buffers:
            buffers[id(value)] = name
            arrays[name] = np.array(value, order="C")
        return Pointer(buffers[id(value)], 0, name)
    if isinstance(value, bytes):
        if len(value) != parameter.size:
            raise EmulateError(f"Parameter '{name}' of '{kernel}' has {parameter.size} bytes, not {len(value)}.")
        return Structure(value, name)
    dtype = _DTYPES.get(parameter.type.replace("b", "u"), "")
    if not dtype or np.dtype(dtype).itemsize != parameter.size:
        raise EmulateError(f"Parameter '{name}' of '{kernel}' is a structure of {parameter.size} bytes: pass bytes.")
    return Value(dtype, _number(value, dtype, parameter.type, name, kernel), name)


def _number(value: Any, dtype: str, kind: str, name: str, kernel: str) -> int | float:
    """A scalar as the parameter's type takes it; typeless bits (.b32) take a NumPy scalar as it lies in memory."""
    bits = 8 * np.dtype(dtype).itemsize
    if kind[0] == "b" and isinstance(value, np.generic) and 8 * value.itemsize == bits:
        return int(value.view(dtype))
    wanted = "a number" if dtype.startswith("float") else "a whole number"
    if bits == 64 and dtype != "float64":
        wanted += " or a NumPy array"
    elif kind[0] == "b":
        wanted += f" or a NumPy scalar of {bits} bits"
    try:
        if dtype.startswith("float") and not isinstance(value, str | bytes):
            return float(value)
        number: int = value.__index__()
    except (TypeError, ValueError, AttributeError):
        raise EmulateError(
            f"Parameter '{name}' of '{kernel}' is .{kind}, which takes {wanted}, not {type(value).__name__}."
        ) from None
    if not -(1 << bits - 1) <= number < 1 << bits:
        raise EmulateError(f"Parameter '{name}' of '{kernel}' is .{kind}, into which {number} does not fit.")
    number &= (1 << bits) - 1
    return number - (1 << bits) if dtype.startswith("int") and number >> bits - 1 else number


def _launch(
    function: DeclaredFunction,
    arguments: Sequence[Argument],
    grid: Any,
    block: Any,
    cluster: Any,
    shared: int,
    cooperative: bool,
    architecture: str,
) -> Launch:
    sizes = _three(grid, "grid"), _three(block, "block"), _three(cluster, "cluster")
    for size, most, what in ((sizes[0], GRID_MOST, "grid"), (sizes[1], BLOCK_MOST, "block")):
        if any(n > limit for n, limit in zip(size, most, strict=True)):
            raise EmulateError(f"The {what} {size} is too large: the most is {most}.")
    if prod(sizes[1]) > THREADS_MOST:
        raise EmulateError(f"The block {sizes[1]} has {prod(sizes[1])} threads: the most is {THREADS_MOST}.")
    if any(n % c for n, c in zip(sizes[0], sizes[2], strict=True)):
        raise EmulateError(f"The grid {sizes[0]} is no multiple of the cluster {sizes[2]}.")
    room = limits_of(architecture).block_shared
    if not isinstance(shared, int):
        raise EmulateError(f"shared is {shared!r}: pass a whole number of bytes.")
    if not 0 <= shared <= room:
        raise EmulateError(f"A block of {architecture} has at most {room} bytes of shared memory, not {shared}.")
    return Launch(function.name, sizes[0], sizes[1], tuple(arguments), shared, sizes[2], cooperative=cooperative)


def _three(value: Any, what: str) -> Dim3:
    """An integer, or up to three of them, as three."""
    try:
        sizes = [n.__index__() for n in ((value,) if hasattr(value, "__index__") else tuple(value))]
    except (TypeError, AttributeError):
        sizes = []
    if not 1 <= len(sizes) <= 3 or min(sizes) < 1:
        raise EmulateError(f"The {what} is {value!r}: pass one to three whole numbers from 1 on.")
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


def _short(parameter: str, kernel: str) -> str:
    """A parameter's name without the kernel's, which compilers put in front of it: saxpy_param_1 is param_1."""
    return parameter.removeprefix(f"{kernel}_")
