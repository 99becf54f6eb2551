"""Slips that beginners make in Numba kernels: what is wrong and the usual way to write it, in one sentence.

They are looked for in the text of a function that did not compile. What is found there could never compile on a GPU,
whatever the compiler stumbled over first.
"""

from __future__ import annotations

import ast
import builtins
import difflib
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

from numba import cuda

from warplab.plan.capture.of_numba.insides import types

_STRINGS = 'a kernel makes no strings: print the values themselves, as in print("i =", i)'
_LISTS = "a kernel has no Python lists: use cuda.local.array(4, float32) for a few numbers of a thread's own"
_ALLOCATIONS = frozenset(
    [
        "array",
        "arange",
        "empty",
        "empty_like",
        "eye",
        "full",
        "full_like",
        "linspace",
        "ones",
        "ones_like",
        "zeros",
        "zeros_like",
    ]
)
_WHOLE = frozenset(
    [
        "all",
        "amax",
        "amin",
        "any",
        "argmax",
        "argmin",
        "average",
        "concatenate",
        "convolve",
        "copy",
        "cumsum",
        "dot",
        "einsum",
        "inner",
        "matmul",
        "max",
        "mean",
        "min",
        "outer",
        "prod",
        "reshape",
        "sort",
        "stack",
        "std",
        "sum",
        "transpose",
        "var",
        "vstack",
        "where",
    ]
)
_METHODS = frozenset(
    [
        "all",
        "any",
        "argmax",
        "argmin",
        "astype",
        "copy",
        "cumsum",
        "dot",
        "fill",
        "flatten",
        "max",
        "mean",
        "min",
        "prod",
        "ravel",
        "sort",
        "sum",
    ]
)
_OF_ARRAYS = "shape, size, ndim, strides and its elements"


def slip_in(function: ast.FunctionDef) -> tuple[str, int] | None:
    """The first slip in a function that does not compile, with its line."""
    nodes: list[Any] = [*ast.walk(function)]
    found = [(node.lineno, words) for node in nodes if (words := _of(node))]
    line, words = min(found, default=(0, ""))
    return (words, line) if words else None


def _of(node: Any) -> str:
    for kinds, words in _NODES:
        if isinstance(node, kinds):
            return words
    if isinstance(node, ast.Call):
        return _atomic(node) or _call(node.func)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return f"{ast.unparse(node)} works on whole arrays: write the loop over the elements"
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
        return _whole_arrays(node.targets[0])
    return ""


_NODES: tuple[tuple[Any, str], ...] = (
    (ast.JoinedStr, _STRINGS),
    ((ast.List, ast.ListComp), _LISTS),
    ((ast.Dict, ast.DictComp), "a kernel has no dictionaries: use arrays, or a chain of `if`"),
    ((ast.Set, ast.SetComp), "a kernel has no sets: use arrays, or a chain of `if`"),
    (ast.Try, "a kernel cannot catch exceptions: test with `if` before what could fail"),
    (ast.With, "a kernel has no `with`: move it to the host function"),
    ((ast.Yield, ast.YieldFrom), "a kernel cannot yield: store to an array"),
    ((ast.Global, ast.Nonlocal), "a kernel cannot change a global name: store to an array that it is given"),
)


def _atomic(call: ast.Call) -> str:
    name = ast.unparse(call.func)
    if not name.startswith("cuda.atomic.") or len(call.args) >= 3 or call.keywords:
        return ""
    return f"{name} takes the array, the index and the value: {name}(out, i, value)"


def _call(function: ast.expr) -> str:
    if isinstance(function, ast.Name):
        if function.id == "str":
            return _STRINGS
        if function.id in ("list", "sorted"):
            return _LISTS
        if function.id in ("input", "open"):
            return f"{function.id}() is for the host: move it to the host function, and pass the kernel what it gives"
        return ""
    if not isinstance(function, ast.Attribute):
        return ""
    holder = ast.unparse(function.value)
    name = f"{holder}.{function.attr}"
    if holder in ("np", "numpy") and function.attr in _ALLOCATIONS:
        return (
            f"{name} needs memory that a kernel cannot allocate: use cuda.local.array or cuda.shared.array, or pass "
            "the array as an argument"
        )
    if holder in ("np", "numpy") and function.attr in _WHOLE:
        return f"{name} works on whole arrays: write the loop over the elements, or let each thread compute one of them"
    if holder in ("random", "np.random", "numpy.random"):
        return f"{name} has no generator on the GPU: draw on the host, or use numba.cuda.random"
    if holder == "time":
        return f"{name} is for the host: the judge measures the time itself"
    if function.attr == "format" and isinstance(function.value, ast.Constant):
        return _STRINGS
    if function.attr == "astype":
        return "an element has no .astype in a kernel: call the type, as in float32(x[i])"
    if function.attr in _METHODS and isinstance(function.value, ast.Name) and holder not in ("math", "cuda"):
        return f".{function.attr}() works on whole arrays: write the loop over the elements of {holder}"
    return ""


def _whole_arrays(target: ast.Subscript) -> str:
    parts = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
    if not any(isinstance(part, ast.Slice) for part in parts):
        return ""
    name = ast.unparse(target.value)
    return f"a kernel computes elements, not arrays: index each array, as in {name}[i] = ..."


def slip_of_words(text: str, function: ast.FunctionDef | None) -> str:
    """What the compiler's words mean, where they name the slip."""
    for pattern, words in _WORDS:
        if m := pattern.search(text):
            return words(m, function)
    return ""


def _undefined(m: re.Match[str], function: ast.FunctionDef | None) -> str:
    name = m[1]
    if isinstance(getattr(types, name, None), types.Type):
        return f"'{name}' is not defined: import it, as in from numba import {name}"
    if not name.startswith("_") and hasattr(cuda, name):
        return f"'{name}' is not defined: write cuda.{name}"
    if hasattr(math, name):
        return f"'{name}' is not defined: write math.{name}, after import math"
    if name in ("np", "numpy", "math", "cuda"):
        return f"'{name}' is not defined: import it at the top of the file"
    names = [*_names(function), *dir(builtins)] if function else []
    near = difflib.get_close_matches(name, names, 1)
    return f"'{name}' is not defined" + (f": did you mean '{near[0]}'?" if near else "")


def _names(function: ast.FunctionDef) -> Iterator[str]:
    yield from (argument.arg for argument in function.args.args)
    yield from (n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))


def _no_attribute(m: re.Match[str], function: ast.FunctionDef | None) -> str:
    module, name = m[1].rpartition(".")[2], m[2]
    known = {"cuda": cuda, "math": math}.get(module)
    near = difflib.get_close_matches(name, dir(known), 1) if known else []
    return f"{module} has no '{name}'" + (f": did you mean {module}.{near[0]}?" if near else "")


def _attribute(m: re.Match[str], function: ast.FunctionDef | None) -> str:
    name, kind = m[1], m[2]
    if kind.startswith("array"):
        return f"an array has no .{name} in a kernel: it has {_OF_ARRAYS}"
    if kind.startswith(("float", "int", "uint", "bool")):
        return f"a number ({kind}) has no .{name}: is it the array that is meant?"
    return f"there is no .{name} of {kind} in a kernel"


def _shape(m: re.Match[str], function: ast.FunctionDef | None) -> str:
    kind = m[1]
    calls = [
        node
        for node in ast.walk(function or ast.Module([], []))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == f"cuda.{kind}.array"
    ]
    given = [*calls[0].args, *(k.value for k in calls[0].keywords)] if len(calls) == 1 else []
    if len(given) == 1:
        return f"cuda.{kind}.array needs a dtype too, as in cuda.{kind}.array(32, float32)"
    sums = [n for shape in given[:1] for n in ast.walk(shape) if isinstance(n, ast.BinOp)]
    example = ast.unparse(sums[0]) if sums else "32"
    return (
        f"the shape of cuda.{kind}.array must be a constant, a number or a name at the top of the file: write "
        f"SIZE = {example} there, and use SIZE; its dtype must be a type, such as float32"
    )


def _unified(m: re.Match[str], function: ast.FunctionDef | None) -> str:
    name = m[3].partition(".")[0]
    one, other = ("an array" if kind.startswith("array") else kind for kind in (m[1], m[2]))
    return f"'{name}' is {one} at one place and {other} at another: give each a name of its own"


def _indices(m: re.Match[str], function: ast.FunctionDef | None) -> str:
    return f"an array of {m[1]} dimension{'s' if m[1] != '1' else ''} is indexed with {m[2]} numbers: give it {m[1]}"


def _unpacked(m: re.Match[str], function: ast.FunctionDef | None) -> str:
    if function is not None and "cuda.grid(1)" in ast.unparse(function):
        return "cuda.grid(1) gives one number: ask for cuda.grid(2) where two are unpacked"
    return "a number is unpacked like a tuple"


_Words = Callable[[re.Match[str], ast.FunctionDef | None], str]
_AXIS = "cuda.threadIdx, blockIdx, blockDim and gridDim have three axes: take one, as in cuda.threadIdx.x"
_PAIR = "cuda.grid(2) gives two numbers: unpack them, as in x, y = cuda.grid(2), or ask for cuda.grid(1)"
_WORDS: tuple[tuple[re.Pattern[str], _Words], ...] = (
    (re.compile(r"name '(\w+)' is not defined"), _undefined),
    (re.compile(r"module '([\w.]+)' has no attribute '(\w+)'"), _no_attribute),
    (re.compile(r"Unknown attribute '(\w+)' of type (\w+)"), _attribute),
    (re.compile(r"No implementation of function Function\(<function (shared|local)\.array"), _shape),
    (re.compile(r"Cannot unify (\S+?)(?:\(.*?\))? and (\S+?)(?:\(.*?\))? for '([\w.]+)'"), _unified),
    (re.compile(r"cannot index array\(\w+, (\d)d, \w\) with (\d) indices"), _indices),
    (
        re.compile(r"<ufunc '(\w+)'>"),
        lambda m, f: (
            f"np.{m[1]} is for whole arrays: write math.{m[1]}, after import math"
            if hasattr(math, m[1])
            else f"np.{m[1]} is for whole arrays: compute the element itself"
        ),
    ),
    (re.compile(r"failed to unpack u?int\d+"), _unpacked),
    (
        re.compile(r"grid(?:size)?\(\) missing 1 required positional argument"),
        lambda m, f: "cuda.grid needs the number of dimensions: cuda.grid(1) for a row of threads",
    ),
    (re.compile(r"No implementation of function .*\bDim3\b", re.DOTALL), lambda m, f: _AXIS),
    (
        re.compile(r"<built-in function (?:add|sub|mul|lt|le|gt|ge|eq|ne)>\).*UniTuple\(int(?:32|64) x [23]\)", re.S),
        lambda m, f: _PAIR,
    ),
    (
        re.compile(r">>>\s*[gs]etitem\(array\(.*?\), (?:float|.*float.*\))"),
        lambda m, f: "an index is a fraction, a float: divide by // in place of /",
    ),
    (
        re.compile(r">>>\s*[gs]etitem\((?:float|int)\d+,"),
        lambda m, f: "a number is indexed like an array: look at the order in which the kernel gets its arguments",
    ),
    (
        re.compile(r"No conversion from .* to none for"),
        lambda m, f: "a kernel cannot return a value, so write the result to an array",
    ),
)
