"""Slips that beginners make in CUDA C++: what the compiler's first error means, and the usual way to write it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence

_BUILT_IN = (
    "threadIdx",
    "blockIdx",
    "blockDim",
    "gridDim",
    "warpSize",
    "__syncthreads",
    "__syncwarp",
    "__threadfence",
    "atomicAdd",
    "atomicMax",
    "atomicMin",
    "atomicCAS",
    "atomicExch",
    "__shfl_sync",
    "__shfl_down_sync",
    "__shfl_up_sync",
    "__shfl_xor_sync",
    "__ldg",
    "fmaxf",
    "fminf",
    "expf",
    "sqrtf",
    "rsqrtf",
    "logf",
    "printf",
    "float4",
    "float2",
    "make_float4",
    "__half",
    "__float2half",
    "__half2float",
)
_HOST = {
    "cout": "a kernel has no std::cout: use printf",
    "endl": "a kernel has no std::cout: use printf",
    "vector": "a kernel has no std::vector: use an array, as in float t[4]",
    "string": "a kernel has no std::string: use numbers and arrays",
}
_NUMBA = {"cuda": "it is Numba's: write threadIdx.x, __syncthreads() and so on", "np": "it is Python's"}
_ASSIGNED = re.compile(r"^\s*(\w+)\s*=(?!=)")


def cpp_slip(words: str, lines: Sequence[str], line: int) -> tuple[str, int]:
    """What the compiler's `words` about a line of `lines`, counted from 1, mean, and the line to name; no words if
    the compiler's own are as good."""
    text = lines[line - 1] if 0 < line <= len(lines) else ""
    if words.startswith('expected a ";"') and (before := _line_before(lines, line)):
        return "a semicolon is missing at the end", before
    if "#include" in words:  # `nvrtc` has said what to write
        return "", line
    for pattern, meant in _WORDS:
        if m := pattern.search(words):
            return meant(m, text, lines), line
    return "", line


def _line_before(lines: Sequence[str], line: int) -> int:
    """The line that lacks its semicolon: the last one above with code, unless the error stands inside of its line."""
    number = line - 1
    while number > 0 and not lines[number - 1].split("//")[0].strip():
        number -= 1
    code = lines[number - 1].split("//")[0].rstrip() if number else ""
    return number if code and not code.endswith((";", "{", "}", ",", "(")) else line


def _undefined(m: re.Match[str], text: str, lines: Sequence[str]) -> str:
    name = m[1]
    if name in _HOST:
        return _HOST[name]
    if name in _NUMBA:
        return f"'{name}' is not defined in CUDA C++: {_NUMBA[name]}"
    python = [line for line in lines if re.match(rf"{re.escape(name)}\s*=\s*\d+", line)]
    if python:
        value = python[0].split("=")[1].split("#")[0].strip()
        return f"'{name}' is not defined: the source does not know Python's names: write #define {name} {value} in it"
    if (assigned := _ASSIGNED.match(text)) and assigned[1] == name:
        return f"'{name}' is not defined: give it a type, as in int {name} = ..."
    words = {word for line in lines for word in re.findall(r"[A-Za-z_]\w+", line)} - {name}
    near = difflib.get_close_matches(name, [*_BUILT_IN, *sorted(words)], 1, 0.75)
    return f"'{name}' is not defined" + (f": did you mean '{near[0]}'?" if near else "")


def _of_std(m: re.Match[str], text: str, lines: Sequence[str]) -> str:
    return _HOST.get(m[1], f"CUDA C++ has no std::{m[1]} without its header, and none of the host's in a kernel")


def _always(words: str) -> Callable[[re.Match[str], str, Sequence[str]], str]:
    return lambda m, text, lines: words


def _indexed(m: re.Match[str], text: str, lines: Sequence[str]) -> str:
    return f"a number is indexed like an array: declare it a pointer, as in const {m[1]}* x"


_WORDS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], str, Sequence[str]], str]], ...] = (
    (re.compile(r'identifier "(\w+)" is undefined'), _undefined),
    (re.compile(r'namespace "std" has no member "(\w+)"'), _of_std),
    (
        re.compile(r"__global__ function must have a void return type"),
        _always("a __global__ function returns nothing: declare it void, and write results to an array"),
    ),
    (re.compile(r'must have pointer-to-object type but it has type "(\w+)"'), _indexed),
    (
        re.compile(r"must be a modifiable lvalue"),
        _always("what is stored to is const: take const away from its declaration"),
    ),
    (
        re.compile(r"must have a constant value|variable-length array|cannot be used in a constant expression"),
        _always(
            "the size of an array must be a constant: write a number or a #define, or, for shared memory, extern "
            "__shared__ float t[] and the bytes at the launch"
        ),
    ),
    (re.compile(r'expected a "(\})"|At end of source'), _always("a } is missing: count the braces up to here")),
)
