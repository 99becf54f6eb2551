"""Kernels that CuPy makes of expressions: their parameters, what each stands for, and where an element is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from warplab.plan.capture.arrays import CapturedArray, unsupported
from warplab.plan.capture.failure import CaptureFailure, CaptureStatus
from warplab.plan.capture.of_cupy.kernels import CapturedRawKernel, Compiler, Generated

# Names inside the kernels that CuPy makes, which those made here do not have.
_INSIDE = re.compile(r"(?<!\w)(?:_raw_\w+|_in_ind|_out_ind|_J)(?!\w)")
_PARAMETER = re.compile(r"\s*((?:(?:raw|const)\s+)*)(\w+)\s+(\w+)\s*")
C_TYPES = {
    "bool": "bool", "int8": "signed char", "int16": "short", "int32": "int", "int64": "long long",
    "uint8": "unsigned char", "uint16": "unsigned short", "uint32": "unsigned int", "uint64": "unsigned long long",
    "float16": "float16", "float32": "float", "float64": "double", "complex64": "complex<float>",
    "complex128": "complex<double>",
}  # fmt: skip


@dataclass(frozen=True)
class ElementwiseParameter:
    """One of a kernel's parameters."""

    type: str  # a NumPy dtype name, or a letter that stands for one
    name: str
    raw: bool


class Expressions:
    """What an ElementwiseKernel and a ReductionKernel have in common. `sort` is the name of the one it is."""

    def __init__(
        self, sort: str, compiler: Compiler, in_params: str, out_params: str, name: str, options: Sequence[str]
    ) -> None:
        self._sort = sort
        self._compiler = compiler
        self._inputs, self._outputs = _parameters(in_params, sort), _parameters(out_params, sort)
        self.name = name
        self._options = tuple(options)

    def _require_own_names(self, *texts: str) -> None:
        """Refuse an expression with a name of the kernel that CuPy would make around it."""
        for text in texts:
            if m := _INSIDE.search(text):
                self._refuse(
                    f"uses {m.group()}, a name inside CuPy's own kernel: write a RawKernel, or declare the array 'raw' "
                    "in an ElementwiseKernel and index it with i"
                )

    def _refuse(self, words: str) -> NoReturn:
        raise CaptureFailure(CaptureStatus.LAUNCH_ERROR, f"The {self._sort} '{self.name}' {words}.")

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

    def _value(self, parameter: ElementwiseParameter, value: Any, types: dict[str, np.dtype]) -> Any:
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

    def _broadcast(self, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
        try:
            return np.broadcast_shapes(*shapes)
        except ValueError:
            self._refuse(f"is given arrays of the shapes {', '.join(map(str, shapes))}, which do not fit together")

    def _made(self, text: Sequence[str]) -> CapturedRawKernel:
        """The kernel of a source."""
        return CapturedRawKernel(self._compiler, Generated("\n".join(text)), self.name, self._options, ())

    def _placed(self, expression: str, statement: str) -> list[str]:
        """The lines of a statement, at the line of the expression in it in the submission."""
        source = self._compiler.recorder.source
        line = source.literal_line(expression)
        if not line:
            return [statement]
        return [f'#line {line} "{source.path}"', statement, f'#line 1 "{self._sort}"']

    def _preamble(self, types: dict[str, np.dtype]) -> list[str]:
        """The headers of the types that are used, and what letters stand for."""
        used = {types[p.type].name for p in (*self._inputs, *self._outputs)}
        return [
            *(["#include <cupy/complex.cuh>"] if any(t.startswith("complex") for t in used) else []),
            *(["#include <cupy/float16.cuh>"] if "float16" in used else []),
            *(f"typedef {C_TYPES[dtype.name]} {name};" for name, dtype in types.items() if len(name) == 1),
        ]


def place_of(array: CapturedArray, shape: tuple[int, ...], axes: Sequence[int], number: str) -> str:
    """C++ for how far into an array, in elements, the place along some axes of a broadcast shape is.

    `number` counts the places along these axes, the last one fastest.
    """
    terms, step = ["0"], 1
    missing = len(shape) - array.ndim
    for axis in reversed(axes):
        own = axis - missing
        if own >= 0 and array.shape[own] != 1:
            terms.append(f"{number} / {step} % {shape[axis]} * {array.strides[own] // array.itemsize}")
        step *= shape[axis]
    return " + ".join(terms)


def _parameters(text: str, sort: str) -> tuple[ElementwiseParameter, ...]:
    found = []
    for piece in filter(str.strip, text.split(",")):
        m = _PARAMETER.fullmatch(piece)
        if m is None or (len(m.group(2)) > 1 and m.group(2) not in C_TYPES):
            article = "an" if sort.startswith("E") else "a"
            words = f"The parameter '{piece.strip()}' of {article} {sort}"
            unsupported(words, "write it as 'float32 x' or 'T x'")
        found.append(ElementwiseParameter(m.group(2), m.group(3), "raw" in m.group(1)))
    return tuple(found)
