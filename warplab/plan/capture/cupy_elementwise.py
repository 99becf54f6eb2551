"""cupy.ElementwiseKernel while a submission is captured: an expression for each element, made a kernel.

The kernel is a loop over elements with a thread for each and blocks of 128 threads, which is how CuPy launches its own;
contiguous arrays of one shape are indexed by the element's number, others by their strides. The expression keeps its
lines in the submission.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from warplab.plan.capture.arrays import CapturedArray, allocate, unsupported
from warplab.plan.capture.cupy_kernels import CapturedRawKernel, Compiler, Generated
from warplab.plan.capture.failure import CaptureFailure, CaptureStatus

THREADS = 128
_PARAMETER = re.compile(r"\s*((?:(?:raw|const)\s+)*)(\w+)\s+(\w+)\s*")
_C_TYPES = {
    "bool": "bool", "int8": "signed char", "int16": "short", "int32": "int", "int64": "long long",
    "uint8": "unsigned char", "uint16": "unsigned short", "uint32": "unsigned int", "uint64": "unsigned long long",
    "float16": "float16", "float32": "float", "float64": "double", "complex64": "complex<float>",
    "complex128": "complex<double>",
}  # fmt: skip


@dataclass(frozen=True)
class _Parameter:
    type: str  # a NumPy dtype name, or a letter that stands for one
    name: str
    raw: bool


class CapturedElementwiseKernel:
    """cupy.ElementwiseKernel: call it with arrays and numbers, and with arrays for its outputs or without."""

    def __init__(
        self,
        compiler: Compiler,
        in_params: str,
        out_params: str,
        operation: str,
        name: str = "kernel",
        preamble: str = "",
        loop_prep: str = "",
        after_loop: str = "",
        options: Sequence[str] = (),
        **others: Any,
    ) -> None:
        if others.keys() - {"reduce_dims", "return_tuple", "no_return", "doc"}:
            raise TypeError(f"unexpected keyword argument {min(others)!r}")
        self._compiler = compiler
        self._inputs, self._outputs = _parameters(in_params), _parameters(out_params)
        self.name = name
        self._texts = (preamble, loop_prep, operation, after_loop)
        self._options = tuple(options)
        self._tuple = bool(others.get("return_tuple"))

    def __call__(self, *args: Any, size: int | None = None, stream: Any = None, block_size: int = THREADS) -> Any:
        given = len(self._inputs)
        if len(args) not in (given, given + len(self._outputs)):
            self._refuse(f"takes {given} inputs and {len(self._outputs)} outputs, not {len(args)} arguments")
        types = self._types(args)
        inputs = [self._value(p, a, types) for p, a in zip(self._inputs, args, strict=False)]
        pairs = [*zip(self._inputs, inputs, strict=True)]
        if len(args) == given:
            shape = self._shape(pairs, size)
            outputs = [allocate(shape, types[p.type]) for p in self._outputs]
        else:
            outputs = [self._value(p, a, types) for p, a in zip(self._outputs, args[given:], strict=True)]
            shape = self._shape([*pairs, *zip(self._outputs, outputs, strict=True)], size)
        self._launch(types, [*inputs, *outputs], shape, stream, block_size)
        return tuple(outputs) if self._tuple or len(outputs) != 1 else outputs[0]

    def _refuse(self, words: str) -> NoReturn:
        raise CaptureFailure(CaptureStatus.LAUNCH_ERROR, f"The ElementwiseKernel '{self.name}' {words}.")

    def _types(self, args: Sequence[Any]) -> dict[str, np.dtype]:
        """The dtype that each parameter type stands for."""
        types = {p.type: np.dtype(p.type) for p in (*self._inputs, *self._outputs) if len(p.type) > 1}
        letters = [(p, a) for p, a in zip((*self._inputs, *self._outputs), args, strict=False) if len(p.type) == 1]
        for parameter, value in [*(x for x in letters if isinstance(x[1], CapturedArray)), *letters]:
            types.setdefault(parameter.type, value.dtype if hasattr(value, "dtype") else np.asarray(value).dtype)
        for parameter in self._outputs:
            if parameter.type not in types:
                self._refuse(f"has an output of type {parameter.type}, which no input has: write a dtype")
        return types

    def _value(self, parameter: _Parameter, value: Any, types: dict[str, np.dtype]) -> Any:
        dtype = types[parameter.type]
        if not isinstance(value, CapturedArray):
            if parameter.raw or isinstance(value, np.ndarray):
                self._refuse(f"needs a device array for '{parameter.name}': make one with cupy.asarray(...)")
            return dtype.type(value)
        if value.dtype != dtype:
            self._refuse(f"is given {value.dtype} for '{parameter.name}', which is {dtype}")
        if parameter.raw and not value.flags["C_CONTIGUOUS"]:
            self._refuse(f"is given an array for 'raw {parameter.name}' that is not contiguous")
        return value

    def _shape(self, pairs: Sequence[tuple[_Parameter, Any]], size: int | None) -> tuple[int, ...]:
        shapes = [value.shape for p, value in pairs if isinstance(value, CapturedArray) and not p.raw]
        if size is not None:
            return (int(size),)
        if not shapes:
            self._refuse("has no array that says how many elements there are: pass the size")
        try:
            return np.broadcast_shapes(*shapes)
        except ValueError:
            self._refuse(f"is given arrays of the shapes {', '.join(map(str, shapes))}, which do not fit together")

    def _launch(
        self, types: dict[str, np.dtype], values: Sequence[Any], shape: tuple[int, ...], stream: Any, threads: int
    ) -> None:
        count = int(np.prod(shape, dtype=np.int64))
        if not count:
            return
        parameters = (*self._inputs, *self._outputs)
        looped = [v for p, v in zip(parameters, values, strict=True) if isinstance(v, CapturedArray) and not p.raw]
        flat = all(v.shape == shape and v.flags["C_CONTIGUOUS"] for v in looped)
        code, arguments = self._code(types, parameters, values, () if flat else shape)
        kernel = CapturedRawKernel(self._compiler, Generated(code), self.name, self._options, ())
        kernel((-(-count // threads),), (threads,), (*arguments, np.int64(count)), stream=stream)

    def _code(
        self,
        types: dict[str, np.dtype],
        parameters: Sequence[_Parameter],
        values: Sequence[Any],
        shape: tuple[int, ...],
    ) -> tuple[str, list[Any]]:
        """The source of the kernel and its arguments but the last; `shape` is empty where one number indexes all."""
        preamble, before, operation, after = self._texts
        formal, inside, arguments = [], [], list(values)
        for n, (parameter, value) in enumerate(zip(parameters, values, strict=True)):
            kind = _C_TYPES[types[parameter.type].name]
            constant = "const " if n < len(self._inputs) else ""
            if not isinstance(value, CapturedArray):
                formal.append(f"{kind} {parameter.name}")
            elif parameter.raw:
                formal.append(f"{constant}{kind}* {parameter.name}")
            else:
                formal.append(f"{constant}{kind}* _{parameter.name}")
                index = _index(value, shape) if shape else "i"
                inside.append(f"{constant}{kind}& {parameter.name} = _{parameter.name}[{index}];")
        used = {types[p.type].name for p in parameters}
        source = self._compiler.recorder.source
        line = source.literal_line(operation)
        place = [f'#line {line} "{source.path}"'] if line else []
        text = [
            *(["#include <cupy/complex.cuh>"] if any(t.startswith("complex") for t in used) else []),
            *(["#include <cupy/float16.cuh>"] if "float16" in used else []),
            *(f"typedef {_C_TYPES[dtype.name]} {name};" for name, dtype in types.items() if len(name) == 1),
            "struct _Elements { long long n; __device__ long long size() const { return n; } };",
            preamble,
            f'extern "C" __global__ void {self.name}({", ".join([*formal, "long long _n"])}) {{',
            f"const _Elements _ind = {{_n}}; {before};",
            "for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < _n;"
            " i += (long long)gridDim.x * blockDim.x) {",
            *inside,
            *place,
            f"{operation};",
            *(['#line 1 "elementwise"'] if line else []),
            "}",
            f"{after};",
            "}",
        ]
        return "\n".join(text), arguments


def _index(array: CapturedArray, shape: tuple[int, ...]) -> str:
    """The place of element number i of a broadcast shape in an array, in elements."""
    terms, step = ["0"], 1
    missing = len(shape) - array.ndim
    for axis in reversed(range(len(shape))):
        own = axis - missing
        if own >= 0 and array.shape[own] != 1:
            terms.append(f"i / {step} % {shape[axis]} * {array.strides[own] // array.itemsize}")
        step *= shape[axis]
    return " + ".join(terms)


def _parameters(text: str) -> tuple[_Parameter, ...]:
    found = []
    for piece in filter(str.strip, text.split(",")):
        m = _PARAMETER.fullmatch(piece)
        if m is None or (len(m.group(2)) > 1 and m.group(2) not in _C_TYPES):
            unsupported(f"The parameter '{piece.strip()}' of an ElementwiseKernel", "write it as 'float32 x' or 'T x'")
        found.append(_Parameter(m.group(2), m.group(3), "raw" in m.group(1)))
    return tuple(found)
