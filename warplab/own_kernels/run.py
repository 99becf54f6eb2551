"""`run`: a host function and its kernels on the emulator, recorded in a process of their own."""

from __future__ import annotations

import inspect
import linecache
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import warplab
from warplab.emulator.executor import execute
from warplab.emulator.orders import Order, in_several_orders
from warplab.emulator.races import CELLS
from warplab.emulator.result import Result
from warplab.errors import WarplabError
from warplab.own_kernels.host_changes import alike, changed_copies
from warplab.own_kernels.listing import is_library
from warplab.own_kernels.messages import Failed, OwnCall, Recorded, View
from warplab.own_kernels.travelling import Unpicklable, packed
from warplab.plan.assemble import assemble
from warplab.plan.execution import Execution
from warplab.plan.model import Buffer, Plan

ARCHITECTURE = "sm_90a"


class OwnCodeError(WarplabError):
    """A function that cannot be run so: one sentence, with the file and the line where they are known."""

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows of it, instead of the frames of what made it."""
        return [f"warplab.run: {self}"]


class StoppedError(KeyboardInterrupt):
    """The user interrupted a run."""

    def _render_traceback_(self) -> list[str]:
        return ["warplab.run: stopped by you, nothing was run."]


def run(
    function: Callable[..., Any],
    *arguments: Any,
    grid: Any = None,
    block: Any = None,
    shared: int = 0,
    architecture: str = ARCHITECTURE,
    seed: int | None = None,
    orders: int = 1,
    optimise: bool = True,
    searched_elements: int = CELLS,
    timeout: float = 120.0,
    **keywords: Any,
) -> Result:
    """Run a host function that launches kernels, or one kernel, on the emulator; no GPU is needed.

    `function` is what would run on a machine with a GPU: it gets NumPy arrays and numbers, copies them to the device or
    launches kernels on them as they are, and may return device arrays and copies of them. A kernel (of numba.cuda.jit,
    or a cupy.RawKernel) is given with its `grid` and `block`, integers or up to three of them, and `shared`, bytes of
    dynamic shared memory. The arrays that are passed are not changed: the result has them as the kernels leave them.
    `seed` makes the order of warps and asynchronous operations random. With `orders=n` the findings are those of n
    orders: the first to last (or that of `seed`), the reverse one and drawn ones. `optimise=False` compiles as a debug
    build, which keeps stores and loads that nobody needs, and so finds their faults. `searched_elements` is how many
    elements of arrays the search for races covers (see `warplab.emulator.execute`). The host code may take `timeout`
    seconds; it runs in a process of its own, to which the function goes with all that it needs.

    Raises OwnCodeError.
    """
    if (grid is None) != (block is None):
        raise OwnCodeError("A kernel is launched with both of them: pass grid=... and block=..., or neither.")
    if grid is None and _is_kernel(function):
        raise OwnCodeError("This is a kernel, which needs a launch: pass grid=... and block=... after its arguments.")
    values = tuple(_on_host(argument) for argument in arguments)
    try:
        pickled, texts = packed((function, values, {name: _on_host(v) for name, v in keywords.items()}))
    except Unpicklable as error:
        raise OwnCodeError(f"The function cannot go to a process of its own, because of {error}.") from None
    texts = _files(function, sys._getframe(1)) | texts
    launch = None if grid is None else (grid, block, shared)
    call = OwnCall(architecture, pickled, _names(function, len(values)), launch, texts=texts, optimise=optimise)
    given = {name: value for name, value in zip(call.names, values, strict=False) if isinstance(value, np.ndarray)}
    return _result(call, given, Order(seed=seed), orders, timeout, searched_elements)


def run_file(
    path: Path,
    function: str = "",
    *,
    architecture: str = ARCHITECTURE,
    seed: int | None = None,
    orders: int = 1,
    optimise: bool = True,
    timeout: float = 120.0,
) -> Result:
    """The same for a file: its function `main`, or another one that is named, called with what its ARGUMENTS hold.

    A file without `main` is run as far as it launches kernels when it is imported. Raises OwnCodeError.
    """
    path = Path(path).resolve()
    if not path.is_file():
        raise OwnCodeError(f"There is no file {path}.")
    call = OwnCall(architecture, file=str(path), function=function, optimise=optimise)
    return _result(call, {}, Order(seed=seed), orders, timeout)


def _result(
    call: OwnCall,
    given: dict[str, np.ndarray],
    first: Order,
    orders: int,
    timeout: float,
    searched: int = CELLS,
) -> Result:
    try:
        return _ran(call, given, first, orders, timeout, searched)
    except KeyboardInterrupt:
        raise StoppedError from None


def _ran(
    call: OwnCall, given: dict[str, np.ndarray], first: Order, orders: int, timeout: float, searched: int
) -> Result:
    recorded = _recorded(call, timeout)
    sys.stdout.write(recorded.printed)
    plan = _assembled(recorded.plan, call.architecture)

    def execute_in(order: Order) -> Execution:
        return execute(
            plan,
            {},
            architecture=call.architecture,
            seed=order.seed,
            reverse=order.reverse,
            searched_elements=searched,
        )

    try:
        execution = in_several_orders(execute_in, first, orders)
    except WarplabError as error:
        raise OwnCodeError(str(error)) from None
    changed = changed_copies(recorded, execution)
    if changed and call.launch is None:
        _require_that_changes_are_not_used(call, recorded, changed, timeout)
    outputs = {name: _filled(view, recorded.plan, execution) for name, view in recorded.arguments.items()}
    returned = _filled(recorded.returned, recorded.plan, execution)
    return Result(recorded.plan, execution, call.architecture, first.seed, {}, given, outputs, returned)


def _filled(value: Any, plan: Plan, execution: Execution) -> Any:
    """What the host function returned or was given, with arrays in place of views."""
    if isinstance(value, View):
        return _array(value, plan.buffers[value.buffer], execution.outputs[value.buffer])
    if isinstance(value, dict):
        return {key: _filled(item, plan, execution) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_filled(item, plan, execution) for item in value)
    return value


def _array(view: View, buffer: Buffer, content: np.ndarray) -> np.ndarray:
    """A view of a buffer's contents after the run, as an array of its own."""
    raw = np.empty(buffer.nbytes, np.uint8)
    if buffer.nbytes:
        np.ndarray(buffer.shape, buffer.dtype, raw, strides=buffer.strides)[...] = content
    if 0 in view.shape:
        return np.empty(view.shape, view.dtype)
    return np.ndarray(view.shape, view.dtype, raw, view.offset, view.strides).copy()


def _assembled(plan: Plan, architecture: str) -> Plan:
    """The plan with machine code, by which counters go; as it is where that cannot be made, which a note then says."""
    try:
        return assemble(plan, architecture)
    except WarplabError:
        return plan


def _require_that_changes_are_not_used(call: OwnCall, first: Recorded, changed: frozenset[int], timeout: float) -> None:
    """Refuse host code that uses a NumPy array after a launch that changes it: it saw the array as it was before.

    The host code is run again, with these arrays overwritten as soon as a launch has got them. What it does may not
    depend on that. Where it does, a third time tells whether it does the same twice at all.
    """
    try:
        second = _recorded(replace(call, spoiled=changed), timeout)
    except OwnCodeError:
        second = None
    if second is not None and alike(first, second) or not alike(first, _recorded(call, timeout)):
        return
    names = " and ".join(sorted({first.copies[index] for index in changed}))
    raise OwnCodeError(
        f"The host code uses an array ({names}) after a launch that changes it, which it cannot know yet: copy it to "
        "the device (cuda.to_device, cupy.asarray), launch on that, and return a copy of it."
    )


def _recorded(call: OwnCall, timeout: float) -> Recorded:
    """What the child process makes of a call. Raises OwnCodeError."""
    with tempfile.TemporaryDirectory(prefix="warplab-run-", ignore_cleanup_errors=True) as folder:
        (Path(folder) / "call").write_bytes(pickle.dumps(call))
        root = str(Path(warplab.__path__[0]).resolve().parent)
        paths = [root, *(path or os.getcwd() for path in sys.path)]
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
            "CUDA_VISIBLE_DEVICES": "",
            "NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS": "0",
            "NUMBA_ENABLE_CUDASIM": "0",
        }
        command = [sys.executable, "-m", "warplab.own_kernels.child", folder]
        try:
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=timeout, errors="replace"
            )
        except subprocess.TimeoutExpired:
            raise OwnCodeError(
                f"The host code did not finish within {timeout:g} s: look for an endless loop outside of the kernels, "
                "or pass a longer timeout=..."
            ) from None
        try:
            answer = pickle.loads((Path(folder) / "answer").read_bytes())
        except FileNotFoundError:
            last = done.stderr.strip().rsplit("\n", 1)[-1] or f"exit code {done.returncode}"
            raise OwnCodeError(f"The host code ended its process before its kernels were recorded ({last}).") from None
    if isinstance(answer, Failed):
        sys.stdout.write(done.stdout)
        raise OwnCodeError(_located(answer))
    assert isinstance(answer, Recorded)
    return replace(answer, printed=done.stdout)


def _located(failed: Failed) -> str:
    if not failed.line:
        return failed.message
    place = Path(failed.file).name if Path(failed.file).exists() else "its cell"
    return f"Line {failed.line} of {place}: {failed.message}"


def _files(function: Any, frame: FrameType | None) -> dict[str, str]:
    """The texts of the files of a function and of who calls `run`, where sources of CUDA C++ may lie."""
    code = getattr(function, "__code__", None)
    names = [] if code is None else [code.co_filename]
    while frame is not None:
        names.append(frame.f_code.co_filename)
        frame = frame.f_back
    return {name: "".join(linecache.getlines(name)) for name in reversed(names) if not is_library(name)}


def _is_kernel(function: Any) -> bool:
    return type(function).__name__ in ("CUDADispatcher", "RawKernel")


def _names(function: Any, count: int) -> tuple[str, ...]:
    """The names of the parameters that the first arguments are for."""
    try:
        names = list(inspect.signature(getattr(function, "py_func", function)).parameters)[:count]
    except (TypeError, ValueError):
        names = []
    return tuple([*names, *(f"argument{n}" for n in range(len(names), count))])


def _on_host(value: Any) -> Any:
    """A device array of Numba or CuPy as a NumPy array; everything else as it is."""
    if isinstance(value, np.ndarray) or not hasattr(value, "__cuda_array_interface__"):
        return value
    return value.get() if hasattr(value, "get") else value.copy_to_host()
