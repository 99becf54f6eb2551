"""Half-precision matrix products of arrays of CuPy and PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from systems.kernels.arrays import Described, Description, described, library_of, together
from systems.kernels.chips import Chip, chip_of
from systems.kernels.errors import KernelError
from systems.kernels.half_recipes import MOST_INDEX, Choice, Problem, recipe
from systems.kernels.matrices import Matrix
from systems.kernels.model import choose
from systems.kernels.ready import Prepared
from systems.kernels.recipes import Code, Recipe
from warplab.plan.model import Launch, Pointer, Value

_HALVES = ("float16", "bfloat16")
_ORDER = ("a", "b", "c")
_prepared: dict[tuple[Any, ...], Prepared | None] = {}


def matmul(a: Any, b: Any, out: Any = None) -> Any:
    """a @ b in half precision with sums in float32, on a Hopper GPU: for products of any shape and strides.

    a is m x k and b k x n, both float16 or both bfloat16, arrays of CuPy or PyTorch on one GPU. The result is m x n, of
    their dtype, rounded once: in `out` if it is given, which must not share memory with a or b, otherwise in a new
    array of their library in C order. It is queued on that library's current stream. Nothing is recorded for a
    backward pass.

    Contiguous rows or columns that begin at multiples of 16 bytes (transposes, slices) are read where they are. Others
    (n or k not a multiple of 8 in row-major arrays) are aligned in registers or shared memory, or copied first. A few
    rows or columns, and a small k, have kernels of their own. A model of the GPU decides which should be fastest. The
    first call of a kind compiles a kernel, which takes one to three seconds and stays in the user's cache.

    Raises KernelError for other dtypes, for dimensions, devices or sizes that do not fit together, for arrays that are
    not on a GPU, for compute capabilities other than 9.0, and where PyTorch would record a gradient.
    """
    library = library_of("a", a)
    if not type(a) is type(b) is type(out):
        together("matmul", library, b=b, out=out)
    of_a, of_b = library.describe(a), library.describe(b)
    key = of_a, of_b, None if out is None else library.describe(out)
    try:
        prepared = _prepared[key]
    except KeyError:
        prepared = _prepared[key] = _prepare(*key)
    if library.records(a, b):
        raise KernelError("matmul records no gradient: call it under torch.no_grad(), or detach a and b.")
    made = library.empty(a, (of_a[0][0], of_b[0][1])) if out is None else out
    if prepared is not None:
        address = library.address
        scratch = [library.empty(a, (size,), "uint8") for size in prepared.scratch]
        prepared([address(a), address(b), address(made), *map(address, scratch)], library.stream(a))
    return made


def chosen(a: Any, b: Any) -> str:
    """The name of `matmul`'s choice for two arrays: the form, and whether factors are copied."""
    library = library_of("a", a)
    prepared = _prepare(library.describe(a), library.describe(b), None)
    return "nothing" if prepared is None else prepared.chosen


def _prepare(a: Description, b: Description, out: Description | None) -> Prepared | None:
    """The launches of a call with such arrays; None if there is nothing to do."""
    of_a, of_b = described("a", a), described("b", b)
    of_out = None if out is None else described("out", out)
    made = product(of_a, of_b, of_out, chip_of(of_a.device))
    return None if made is None else Prepared(made, of_a.device, _ORDER)


def product(
    a: Described, b: Described, out: Described | None, chip: Chip, chooser: Callable[[Problem, Chip], Choice] = choose
) -> Recipe | None:
    """The recipe of out = a @ b; without `out` for a new array. None if the result has no elements."""
    _check(a, b, out)
    (m, k), n = a.shape, b.shape[1]
    of_c = out or Described((m, n), (max(n, 1), 1), a.dtype, a.device, True)
    c = _matrix("c", of_c)
    if 0 in (m, n):
        return None
    if k == 0:
        return _zeros(c)
    bfloat16 = a.dtype == "bfloat16"
    return recipe(_matrix("a", a), _matrix("b", b), c, bfloat16, lambda problem: chooser(problem, chip), chip.sms)


def _matrix(name: str, array: Described) -> Matrix:
    (rows, columns), (down, across) = array.shape, array.strides
    return Matrix(name, rows, columns, down, across, array.aligned)


def _zeros(c: Matrix) -> Recipe:
    code = Code(("loose.cuh", "copies.cu"), "clear")
    arguments = (Pointer("c"), Value("int64", c.down), Value("int64", c.across), Value("int32", c.rows))
    launch = Launch("clear", (min(c.rows, 4096), 1, 1), (256, 1, 1), (*arguments, Value("int32", c.columns)))
    return Recipe({"clear": code}, (launch,), chosen="zeros")


def _check(a: Described, b: Described, out: Described | None) -> None:
    given = {"a": a, "b": b} | ({} if out is None else {"out": out})
    for name, each in given.items():
        if len(each.shape) != 2:
            raise KernelError(f"matmul: {name} has {len(each.shape)} dimensions: give a matrix of two.")
        if each.dtype not in _HALVES:
            raise KernelError(f"matmul: {name} is {each.dtype}: give float16 or bfloat16.")
        if each.dtype != a.dtype:
            raise KernelError(f"matmul: a is {a.dtype} and {name} is {each.dtype}: give all in one dtype.")
        if each.device != a.device:
            raise KernelError(f"matmul: a is on GPU {a.device} and {name} on GPU {each.device}: move it there.")
        if max(each.shape) > MOST_INDEX:
            raise KernelError(f"matmul: {name} has {max(each.shape):,} rows or columns: {MOST_INDEX:,} are the most.")
    (m, k), (rows, n) = a.shape, b.shape
    if k != rows:
        raise KernelError(f"matmul: a has {k} columns and b {rows} rows: give the same number of both.")
    if out is not None and out.shape != (m, n):
        raise KernelError(f"matmul: out is {out.shape[0]} x {out.shape[1]}, but the product is {m} x {n}.")
    if out is not None and not _apart(out):
        raise KernelError(
            f"matmul: elements of out share memory (strides {out.strides}): give an array without overlaps."
        )


def _apart(matrix: Described) -> bool:
    """Whether elements have memory of their own: steps along one axis are longer than all of the other."""
    axes = sorted((abs(stride), count) for stride, count in zip(matrix.strides, matrix.shape, strict=True) if count > 1)
    reach = 0
    for stride, count in axes:
        if stride <= reach:
            return False
        reach += stride * (count - 1)
    return True
