"""cupy.ElementwiseKernel while a submission is captured: an expression for each element, made a kernel.

The kernel is a loop over elements with a thread for each and blocks of 128 threads, which is how CuPy launches its own;
contiguous arrays of one shape are indexed by the element's number, others by their strides. The expression keeps its
lines in the submission.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from warplab.plan.capture.arrays import CapturedArray, allocate
from warplab.plan.capture.of_cupy.expressions import C_TYPES, ElementwiseParameter, Expressions, place_of
from warplab.plan.capture.of_cupy.kernels import Compiler

THREADS = 128


class CapturedElementwiseKernel(Expressions):
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
        super().__init__("ElementwiseKernel", compiler, in_params, out_params, name, options)
        self._texts = (preamble, loop_prep, operation, after_loop)
        self._tuple = bool(others.get("return_tuple"))

    def __call__(self, *args: Any, size: int | None = None, stream: Any = None, block_size: int = THREADS) -> Any:
        self._require_own_names(*self._texts[1:])
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
            given_outputs = [*zip(self._outputs, outputs, strict=True)]
            shape = self._shape([*pairs, *given_outputs], size)
            for parameter, output in given_outputs:
                if not parameter.raw and output.shape != shape:
                    self._refuse(
                        f"is given an output of shape {output.shape} for '{parameter.name}', where its arrays together "
                        f"have the shape {shape}"
                    )
        self._launch(types, [*inputs, *outputs], shape, stream, block_size)
        return tuple(outputs) if self._tuple or len(outputs) != 1 else outputs[0]

    def _shape(self, pairs: Sequence[tuple[ElementwiseParameter, Any]], size: int | None) -> tuple[int, ...]:
        shapes = [value.shape for p, value in pairs if isinstance(value, CapturedArray) and not p.raw]
        if size is not None:
            if shapes:
                self._refuse("takes a size only where every array is declared raw")
            return (int(size),)
        if not shapes:
            self._refuse("has no array that says how many elements there are: pass the size")
        return self._broadcast(shapes)

    def _launch(
        self, types: dict[str, np.dtype], values: Sequence[Any], shape: tuple[int, ...], stream: Any, threads: int
    ) -> None:
        count = int(np.prod(shape, dtype=np.int64))
        if not count:
            return
        parameters = (*self._inputs, *self._outputs)
        looped = [v for p, v in zip(parameters, values, strict=True) if isinstance(v, CapturedArray) and not p.raw]
        flat = all(v.shape == shape and v.flags["C_CONTIGUOUS"] for v in looped)
        text, arguments = self._code(types, parameters, values, () if flat else shape)
        self._made(text)((-(-count // threads),), (threads,), (*arguments, np.int64(count)), stream=stream)

    def _code(
        self,
        types: dict[str, np.dtype],
        parameters: Sequence[ElementwiseParameter],
        values: Sequence[Any],
        shape: tuple[int, ...],
    ) -> tuple[list[str], list[Any]]:
        """The source of the kernel and its arguments but the last; `shape` is empty where one number indexes all."""
        preamble, before, operation, after = self._texts
        formal, inside, arguments = [], [], list(values)
        for n, (parameter, value) in enumerate(zip(parameters, values, strict=True)):
            kind = C_TYPES[types[parameter.type].name]
            constant = "const " if n < len(self._inputs) else ""
            if not isinstance(value, CapturedArray):
                formal.append(f"{kind} {parameter.name}")
            elif parameter.raw:
                formal.append(f"{constant}{kind}* {parameter.name}")
            else:
                formal.append(f"{constant}{kind}* _{parameter.name}")
                index = place_of(value, shape, range(len(shape)), "i") if shape else "i"
                inside.append(f"{constant}{kind}& {parameter.name} = _{parameter.name}[{index}];")
        text = [
            *self._preamble(types),
            "struct _Elements { long long n; __device__ long long size() const { return n; } };",
            preamble,
            f'extern "C" __global__ void {self.name}({", ".join([*formal, "long long _n"])}) {{',
            f"const _Elements _ind = {{_n}}; {before};",
            "for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < _n;"
            " i += (long long)gridDim.x * blockDim.x) {",
            *inside,
            *self._placed(operation, f"{operation};"),
            "}",
            f"{after};",
            "}",
        ]
        return text, arguments
