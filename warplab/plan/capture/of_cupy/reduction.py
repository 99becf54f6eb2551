"""cupy.ReductionKernel while a submission is captured: elements mapped, combined along axes, and mapped again.

A block of 256 threads makes each result: each thread combines every 256th element, then a tree in shared memory. CuPy's
own kernels add in another order, so that sums of floats may differ in their last bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from warplab.plan.capture.arrays import CapturedArray, allocate
from warplab.plan.capture.of_cupy.expressions import C_TYPES, Expressions, place_of
from warplab.plan.capture.of_cupy.kernels import Compiler

THREADS = 256
_MOST_BLOCKS = 1 << 16


class CapturedReductionKernel(Expressions):
    """cupy.ReductionKernel: call it with arrays and numbers, an axis or axes, and arrays for its outputs or without."""

    def __init__(
        self,
        compiler: Compiler,
        in_params: str,
        out_params: str,
        map_expr: str,
        reduce_expr: str,
        post_map_expr: str,
        identity: Any,
        name: str = "reduce_kernel",
        reduce_type: str | None = None,
        reduce_dims: bool = True,
        preamble: str = "",
        options: Sequence[str] = (),
    ) -> None:
        super().__init__("ReductionKernel", compiler, in_params, out_params, name, options)
        self._map, self._reduce, self._post_map = map_expr, reduce_expr, post_map_expr
        self._identity = "" if identity is None else str(identity)
        self._type, self._text = reduce_type, preamble

    def __call__(
        self, *args: Any, out: Any = None, axis: Any = None, keepdims: bool = False, stream: Any = None
    ) -> Any:
        self._require_own_names(self._map, self._reduce, self._post_map)
        given = len(self._inputs)
        if out is not None:
            args = (*args, *(out if isinstance(out, tuple) else (out,)))
        if len(args) not in (given, given + len(self._outputs)):
            self._refuse(f"takes {given} inputs and {len(self._outputs)} outputs, not {len(args)} arguments")
        types = self._types(args)
        values = [self._value(p, a, types) for p, a in zip(self._inputs, args, strict=False)]
        shapes = [v.shape for p, v in zip(self._inputs, values, strict=True) if isinstance(v, CapturedArray)]
        if any(p.raw for p in (*self._inputs, *self._outputs)) or not shapes:
            self._refuse("needs an input array, and takes none that is raw")
        shape = self._broadcast(shapes)
        reduced = self._axes(axis, len(shape))
        kept = [n for n in range(len(shape)) if n not in reduced]
        result = tuple(1 if n in reduced else shape[n] for n in range(len(shape)) if keepdims or n in kept)
        if len(args) == given:
            outputs = [allocate(result, types[p.type]) for p in self._outputs]
        else:
            outputs = [self._value(p, a, types) for p, a in zip(self._outputs, args[given:], strict=True)]
        for output in outputs:
            if output.shape != result:
                self._refuse(f"is given an output of shape {output.shape}, where its results have the shape {result}")
        results, each = prod(result), prod(shape[n] for n in reduced)
        if not each and not self._identity:
            self._refuse("has no identity, which is what nothing at all adds up to")
        if results:
            text = self._code(types, [*values, *outputs], shape, kept, reduced)
            arguments = [*values, *outputs, np.int64(results), np.int64(each)]
            self._made(text)((min(results, _MOST_BLOCKS),), (THREADS,), tuple(arguments), stream=stream)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _axes(self, axis: Any, dimensions: int) -> list[int]:
        """The axes that are reduced, in ascending order."""
        chosen = range(dimensions) if axis is None else axis if isinstance(axis, tuple) else (axis,)
        if any(not -dimensions <= n < dimensions for n in chosen):
            self._refuse(f"is told to reduce axis {axis} of an array of {dimensions} dimensions")
        return sorted({n % dimensions for n in chosen})

    def _code(
        self,
        types: dict[str, np.dtype],
        values: Sequence[Any],
        shape: tuple[int, ...],
        kept: Sequence[int],
        reduced: Sequence[int],
    ) -> list[str]:
        """The source of the kernel. `o` counts results, `i` what each is made of."""
        combined = self._type or self._outputs[0].type
        formal, elements, results = [], [], []
        for n, (parameter, value) in enumerate(zip((*self._inputs, *self._outputs), values, strict=True)):
            kind, name = C_TYPES[types[parameter.type].name], parameter.name
            if not isinstance(value, CapturedArray):
                formal.append(f"{kind} {name}")
            elif n < len(self._inputs):
                formal.append(f"const {kind}* _{name}")
                place = f"{place_of(value, shape, kept, 'o')} + {place_of(value, shape, reduced, 'i')}"
                elements.append(f"const {kind}& {name} = _{name}[{place}];")
            else:
                formal.append(f"{kind}* _{name}")
                place = place_of(value, value.shape, range(value.ndim), "o")
                results.append(f"{kind}& {name} = _{name}[{place}];")
        total = "_parts[0]" if prod(shape[n] for n in reduced) else self._identity
        return [
            *self._preamble(types),
            self._text,
            f"typedef {C_TYPES.get(combined, combined)} type_reduce;",
            "__device__ inline type_reduce _combined(type_reduce a, type_reduce b) {",
            *self._placed(self._reduce, f"return type_reduce({self._reduce});"),
            "}",
            f'extern "C" __global__ void {self.name}({", ".join(formal)}, long long _results, long long _each) {{',
            f"alignas(16) __shared__ char _memory[{THREADS} * sizeof(type_reduce)];",
            "type_reduce* _parts = reinterpret_cast<type_reduce*>(_memory);",
            "for (long long o = blockIdx.x; o < _results; o += gridDim.x) {",
            "auto _mapped = [&](long long i) {",
            *elements,
            *self._placed(self._map, f"return type_reduce({self._map});"),
            "};",
            "if (threadIdx.x < _each) {",
            "type_reduce _own = _mapped(threadIdx.x);",
            f"for (long long i = threadIdx.x + {THREADS}; i < _each; i += {THREADS})",
            "_own = _combined(_own, _mapped(i));",
            "_parts[threadIdx.x] = _own;",
            "}",
            "__syncthreads();",
            f"for (int step = {THREADS // 2}; step > 0; step /= 2) {{",
            "if (threadIdx.x < step && threadIdx.x + step < _each)",
            "_parts[threadIdx.x] = _combined(_parts[threadIdx.x], _parts[threadIdx.x + step]);",
            "__syncthreads();",
            "}",
            "if (threadIdx.x == 0) {",
            *results,
            f"type_reduce a = type_reduce({total});",
            *self._placed(self._post_map, f"{self._post_map};"),
            "}",
            "__syncthreads();",
            "}",
            "}",
        ]
