"""FP8 products of groups of rows, each with weights of its own: the kernel of lab 11's last rung."""

from __future__ import annotations

from typing import Any

from systems.kernels.arrays import Described, library_of, together
from systems.kernels.calls import check, check_dimensions, check_rows, queue
from systems.kernels.chips import chip_of
from systems.kernels.errors import KernelError
from systems.kernels.fp8 import CODES, GROUP, TILE_K, Choice, accumulating, codes_map
from systems.kernels.matrices import up
from systems.kernels.recipes import Code, Recipe
from warplab.plan.model import Argument, Launch, Pointer, TensorMap, Value

BOX = 64  # columns of results that a tensor copy stores at once
MANY = 512  # rows of an expert from which tiles are wide


def grouped_matmul(
    x: Any, w: Any, x_scale: Any, w_scale: Any, first: Any, count: Any, out: Any = None, most: int | None = None
) -> Any:
    """(x x_scale) @ (w[e] w_scale[e]).T for the rows of every expert e, on a Hopper GPU: for mixtures of experts.

    Expert e has count[e] rows of x, from first[e] on; groups do not overlap, and no group has more than `most` rows (by
    default all of them). Both are int32 in the GPU's memory, which the host does not read: the same call is right for
    any counts, so that a CUDA graph can replay it. x is slots x k and w experts x n x k in e4m3 (float8_e4m3fn, or its
    codes in uint8). x_scale, float32, has a row for each 128 of k and a column for each slot; w_scale is experts x
    ceil(n / 128) x ceil(k / 128). The result is slots x n in float16, in `out` if it is given. Rows of no expert keep
    their values, which are undefined in a new array. k is a multiple of 16 and n of 8.

    All are arrays of CuPy or of PyTorch, on one GPU; the work is queued on that library's current stream. Rows of x and
    w begin at multiples of 16 bytes; the others are in C order. Raises KernelError for arrays that do not fit together,
    and for compute capabilities other than 9.0.
    """
    name, library = "grouped_matmul", library_of("x", x)
    together(name, library, w=w, x_scale=x_scale, w_scale=w_scale, first=first, count=count, out=out)
    check_dimensions(name, "x", x, 2)
    check_dimensions(name, "w", w, 3)
    if out is None:
        out = library.empty(x, (x.shape[0], w.shape[1]), "float16")
    slots = int(x.shape[0]) if most is None else int(most)
    arrays = {"x": x, "w": w, "x_scale": x_scale, "w_scale": w_scale, "first": first, "count": count, "out": out}
    queue(name, library, arrays, (slots,), recipe)
    return out


def recipe(
    most: int, x: Described, w: Described, x_scale: Described, w_scale: Described, first: Described, count: Described,
    out: Described,
) -> Recipe | None:  # fmt: skip
    """The launches of `grouped_matmul`; None if the result has no elements."""
    name = "grouped_matmul"
    check_dimensions(name, "x", x, 2)
    check_dimensions(name, "w", w, 3)
    (slots, k), (experts, n, _) = x.shape, w.shape
    if k % 16 or n % 8 or k == 0:
        raise KernelError(f"{name}: an expert's w is {n} x {k}: columns are multiples of 16, and rows of 8.")
    if most < 0:
        raise KernelError(f"{name}: most is {most}: give the most rows that an expert can have.")
    check_rows(name, "x", x, (slots, k), CODES)
    check_rows(name, "w", w, (experts, n, k), CODES)
    check(name, "x_scale", x_scale, (up(k, TILE_K), slots), ("float32",))
    check(name, "w_scale", w_scale, (experts, up(n, 128), up(k, TILE_K)), ("float32",))
    for word, array in (("first", first), ("count", count)):
        check(name, word, array, (experts,), ("int32",))
    check(name, "out", out, (slots, n), ("float16",))
    if not out.aligned:
        raise KernelError(f"{name}: out has to begin at a multiple of 16 bytes.")
    if 0 in (slots, n, experts, most):
        return None
    return by(choose(most), most, x, w, x_scale)


def choose(most: int) -> Choice:
    """Wide tiles for many rows. Low tiles for few rows compute fewer rows past a group's end."""
    return Choice(128, 256, 1, 1, "half") if most > MANY else Choice(64, 128, 1, 1, "two")


def by(choice: Choice, most: int, x: Described, w: Described, x_scale: Described) -> Recipe:
    """The products by a choice that does not split k."""
    (slots, k), (experts, n, _) = x.shape, w.shape
    rows = choice.rows * choice.cluster
    tall = min(experts * up(most, rows), slots // rows + experts)  # rows of tiles, whatever the counts are
    blocks = min(tall * up(n, choice.columns), chip_of(x.device).sms // choice.cluster) * choice.cluster
    stores = [TensorMap("out", 0, "float16", (n, slots), (2 * n,), (BOX, high), (1, 1), 128, 128) for high in (16, 64)]
    shared = codes_map("w", w, (choice.columns // choice.cluster, TILE_K))
    pointers = [Pointer(name) for name in ("x_scale", "w_scale", "first", "count", "out")]
    sizes = [Value("int32", size) for size in (slots, experts, n, k)]
    arguments: tuple[Argument, ...] = (codes_map("x", x, (64, TILE_K)), shared, *stores, *pointers, *sizes)
    code = _code(choice, copied=slots % 4 == 0 and x_scale.aligned)  # bulk copies take multiples of 16 bytes
    threads = 128 * (choice.rows // 64 + 1)
    cluster = (choice.cluster, 1, 1)
    launch = Launch("gemm", (blocks, 1, 1), (threads, 1, 1), arguments, choice.shared_bytes, cluster)
    return Recipe({"gemm": code}, (launch,), chosen=choice.name)


def _code(choice: Choice, copied: bool) -> Code:
    defined: dict[str, int | str] = {"TILE_M": choice.rows, "TILE_N": choice.columns, "BOX": BOX}
    defined |= {"STAGES": choice.stages, "GROUP": GROUP, "CLUSTER": choice.cluster, "COPIED": int(copied)}
    defined |= {"ACCUMULATORS": 2 if choice.style == "two" else 1, **accumulating(choice.columns, choice.style)}
    return Code(("grouped.cu",), "gemm", tuple((name, str(text)) for name, text in defined.items()))
