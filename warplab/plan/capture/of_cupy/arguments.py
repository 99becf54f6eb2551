"""Kernel arguments as CuPy passes them: from Python and NumPy values to the bytes of a PTX parameter.

The conversions are those of CuPy 14 (cupy/cuda/function.pyx): an int is an int64, a float a float64, a NumPy scalar
itself. A value of another size or kind than its parameter, which CuPy passes on and the kernel misreads, is refused;
only a Python int is narrowed, as its low bytes are what the kernel would read.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from warplab.isa.entry import EntryParameter
from warplab.plan.capture.arrays import CapturedArray, unsupported
from warplab.plan.capture.captured_tensor_maps import CapturedTensorMap
from warplab.plan.capture.failure import CaptureFailure, CaptureStatus
from warplab.plan.capture.recorder import Recorder
from warplab.plan.model import Argument, Structure, Value

_NUMPY_OF_INTEGER = {1: ("int8", "uint8"), 2: ("int16", "uint16"), 4: ("int32", "uint32"), 8: ("int64", "uint64")}
_C_NAMES = {"f32": "a float", "f64": "a double", "b8": "a byte"}


def convert(value: Any, parameter: EntryParameter, name: str, kernel: str, recorder: Recorder) -> Argument:
    """One argument for a parameter of the kernel's PTX. Raises CaptureFailure (LAUNCH_ERROR) if it does not fit."""
    floating = parameter.type in ("f32", "f64", "f16", "bf16")

    def refuse(hint: str) -> NoReturn:
        given = f"a NumPy {value.dtype}" if isinstance(value, np.generic) else f"a Python {type(value).__name__}"
        raise CaptureFailure(
            CaptureStatus.LAUNCH_ERROR,
            f"'{name}' of '{kernel}' is {_described(parameter)}, but is given {given}: {hint}.",
        )

    if type(value).__module__.partition(".")[0] == "torch":
        unsupported(f"Passing a PyTorch tensor to '{kernel}'", "pass cupy.asarray(tensor.numpy())")
    pointer = parameter.size == 8 and not floating and not parameter.is_aggregate
    if isinstance(value, np.ndarray) and value.dtype.kind != "V" and pointer and recorder.takes_host_arrays:
        value = recorder.on_device(value)
    if isinstance(value, CapturedArray):
        if parameter.size != 8 or floating:
            raise CaptureFailure(
                CaptureStatus.LAUNCH_ERROR,
                f"'{name}' of '{kernel}' is {_described(parameter)}, but is given an array: check the order of the "
                "arguments.",
            )
        return recorder.pointer(value, name)
    if isinstance(value, CapturedTensorMap):
        if parameter.size != (8 if value.is_address else 128) or floating:
            given = "the address of a tensor map" if value.is_address else "a tensor map"
            raise CaptureFailure(
                CaptureStatus.LAUNCH_ERROR,
                f"'{name}' of '{kernel}' is {_described(parameter)}, but is given {given}: declare it "
                "const __grid_constant__ CUtensorMap (128 bytes) for a map, a pointer for its address.",
            )
        return recorder.tensor_map(value, name)
    if value is None:
        if parameter.size != 8 or floating:
            refuse("only a pointer can be None")
        return Value("uint64", 0, name)
    if isinstance(value, complex) and not isinstance(value, np.generic):
        value = np.complex128(value)
    if isinstance(value, np.ndarray | np.generic) and (parameter.is_aggregate or value.dtype.kind in "cV"):
        if isinstance(value, np.generic) and value.dtype == np.float16 and parameter.size == 2:
            return Value("float16", value.item(), name)
        return _structure(value, parameter, name, kernel)
    if isinstance(value, np.ndarray):
        unsupported(f"Passing a NumPy array to '{kernel}'", "make a device array of it with cupy.asarray(...)")
    if isinstance(value, np.generic):
        if value.dtype.kind not in "biuf":
            refuse("pass numbers")
        # A half is two bytes without a PTX type of its own.
        half = value.dtype == np.float16 and parameter.size == 2 and not floating
        same = value.dtype.itemsize == parameter.size and (value.dtype.kind == "f") == floating
        if not (half or same):
            refuse(_hint(parameter))
        return Value(value.dtype.name, value.item() if value.dtype.kind != "b" else int(value), name)
    if isinstance(value, bool):
        if parameter.size != 1:
            refuse(_hint(parameter))
        return Value("bool", int(value), name)
    if isinstance(value, int):
        if floating or parameter.size not in _NUMPY_OF_INTEGER:
            refuse(_hint(parameter))
        for dtype in _NUMPY_OF_INTEGER[parameter.size]:
            if np.iinfo(dtype).min <= value <= np.iinfo(dtype).max:
                return Value(dtype, value, name)
        refuse(f"{value} does not fit")
    if isinstance(value, float):
        if parameter.type != "f64":
            refuse(_hint(parameter))
        return Value("float64", value, name)
    refuse("pass arrays and numbers")


def _structure(value: np.ndarray | np.generic, parameter: EntryParameter, name: str, kernel: str) -> Structure:
    """A complex number, a record, or an array as large as the parameter: its bytes, as they are."""
    given = np.asarray(value)
    if given.nbytes != parameter.size or given.dtype.hasobject:
        raise CaptureFailure(
            CaptureStatus.LAUNCH_ERROR,
            f"'{name}' of '{kernel}' is {_described(parameter)}, but is given {given.nbytes} bytes of dtype "
            f"{given.dtype}: describe the structure as np.dtype([...], align=True), with the members' own types.",
        )
    return Structure(given.tobytes(), name)


def _described(parameter: EntryParameter) -> str:
    if parameter.is_aggregate:
        return f"a structure of {parameter.size} bytes"
    return _C_NAMES.get(parameter.type, f"an integer or pointer of {parameter.size} bytes")


def _hint(parameter: EntryParameter) -> str:
    if parameter.type == "f32":
        return "pass np.float32(...)"
    if parameter.type == "f64":
        return "pass np.float64(...)"
    if parameter.is_aggregate and parameter.size == 128:
        return "pass a tensor map as tensor_map(...) of warplab.ptx, a structure as np.array((...), its dtype)"
    if parameter.is_aggregate:
        return (
            "pass a half as np.float16(...)"
            if parameter.size == 2
            else "pass np.array((...), np.dtype([...], align=True))"
        )
    return f"pass np.int{parameter.size * 8}(...)"
