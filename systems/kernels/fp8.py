"""Block-scaled FP8 products: the kernel of lab 09's last rung, its choices and the estimate that it chooses by."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, prod
from typing import Any

from systems.kernels.arrays import Described, library_of, together
from systems.kernels.calls import check, check_dimensions, check_rows, queue
from systems.kernels.chips import Chip, chip_of
from systems.kernels.errors import KernelError
from systems.kernels.matrices import up
from systems.kernels.recipes import Code, Recipe
from warplab.plan.model import Argument, Launch, Pointer, TensorMap, Value

CODES = ("float8_e4m3fn", "uint8")  # dtypes that hold e4m3
TILE_K = 128  # elements of k that share a scale
GROUP = 8  # rows of tiles, or of pairs of tiles, that are computed together
ROOM = 227 * 1024  # bytes of shared memory that a block may have

# Microseconds per step: a constant, and per 128 x 128 outputs. They are fitted to the choices' times on an H200
# (benchmarks/results/fp8.json), with an error of 8% in the root mean square.
STEP = {"one": (0.16, 0.211), "two": (0.131, 0.177), "half": (0.225, 0.194)}


def fp8_matmul(x: Any, w: Any, x_scale: Any, w_scale: Any, out: Any = None) -> Any:
    """(x x_scale) @ (w w_scale).T in FP8 with float32 sums, on a Hopper GPU: for linear layers with block scales.

    x is m x k and w n x k in e4m3 (float8_e4m3fn, or its codes in uint8). x_scale, float32, has a row for each 128 of k
    and m columns: the scale of 1 x 128 elements; w_scale has a row for each 128 rows of w and a column for each 128 of
    k. Sums of 128 products are promoted to float32, as DeepSeek-V3 does. The result is m x n in float16, infinite where
    it exceeds float16's range. It is in `out` if that is given, otherwise new. k is a multiple of 16 and n of 8.

    All are arrays of CuPy or of PyTorch, on one GPU; the work is queued on that library's current stream. Rows of x and
    w begin at multiples of 16 bytes, at any pitch; the others are in C order. The first call of a kind compiles a
    kernel once. Raises KernelError for arrays that do not fit together, and for compute capabilities other than 9.0.
    """
    library = library_of("x", x)
    together("fp8_matmul", library, w=w, x_scale=x_scale, w_scale=w_scale, out=out)
    if out is None:
        for name, array in (("x", x), ("w", w)):
            check_dimensions("fp8_matmul", name, array, 2)
        out = library.empty(x, (x.shape[0], w.shape[0]), "float16")
    arrays = {"x": x, "w": w, "x_scale": x_scale, "w_scale": w_scale, "out": out}
    queue("fp8_matmul", library, arrays, (), recipe)
    return out


@dataclass(frozen=True)
class Choice:
    """Rows and columns of a tile, blocks of a cluster that share w, parts of k, and how a consumer multiplies.

    It has "one" accumulator, of the tile's width or of "half" of it, or "two" of its width, of which it promotes one
    while products go into the other.
    """

    rows: int
    columns: int
    cluster: int
    splits: int
    style: str

    @property
    def out_bytes(self) -> int:
        """Shared memory for a tile's results; parts of k meet in the ring of stages instead."""
        return 2 * self.rows * self.columns if self.splits == 1 else 0

    @property
    def stage_bytes(self) -> int:
        """Of a stage of the ring: strips of x and w, and x's scales."""
        return TILE_K * (self.rows + self.columns) + 1024

    @property
    def stages(self) -> int:
        """Of the ring: as many as there is room for beside the results."""
        return min((ROOM - 1024 - self.out_bytes) // self.stage_bytes, 12)

    @property
    def shared_bytes(self) -> int:
        """Of a block: the ring of stages, the results, and room to align."""
        return self.stages * self.stage_bytes + self.out_bytes + 1024

    @property
    def box(self) -> int:
        """Columns of results that a tensor copy stores at once."""
        return next(box for box in (64, 32, 16) if self.columns % box == 0)

    @property
    def name(self) -> str:
        """In a word."""
        return f"{self.rows}x{self.columns}_by{self.cluster}_k{self.splits}_{self.style}"


def recipe(x: Described, w: Described, x_scale: Described, w_scale: Described, out: Described) -> Recipe | None:
    """The launches of `fp8_matmul`; None if the result has no elements."""
    name = "fp8_matmul"
    for word, array in (("x", x), ("w", w)):
        check_dimensions(name, word, array, 2)
    (m, k), n = x.shape, w.shape[0]
    if k % 16 or n % 8 or k == 0:
        raise KernelError(f"{name}: w is {n} x {k}, but its columns have to be a multiple of 16 and its rows of 8.")
    check_rows(name, "x", x, (m, k), CODES)
    check_rows(name, "w", w, (n, k), CODES)
    check(name, "x_scale", x_scale, (up(k, TILE_K), m), ("float32",))
    check(name, "w_scale", w_scale, (up(n, 128), up(k, TILE_K)), ("float32",))
    check(name, "out", out, (m, n), ("float16",))
    if not out.aligned:
        raise KernelError(f"{name}: out has to begin at a multiple of 16 bytes.")
    if 0 in (m, n):
        return None
    chip = chip_of(x.device)
    choice = min(choices(m, n, k, chip), key=lambda one: estimate(m, n, k, one, chip))
    return by(choice, x, w, x_scale)


def by(choice: Choice, x: Described, w: Described, x_scale: Described) -> Recipe:
    """The product by one of the choices."""
    (m, k), n = x.shape, w.shape[0]
    columns = up(n, choice.columns)
    units = up(m, choice.rows * choice.cluster) * columns
    # The fewest blocks that take as many waves. Blocks that share a tile take one wave.
    turns = 1 if choice.splits > 1 else up(units, chip_of(x.device).clusters[choice.cluster - 1])
    blocks = up(units, turns) * choice.cluster * choice.splits
    sizes = [Value("int32", size) for size in (m, n, k)]
    maps = (
        codes_map("x", x, (choice.rows, TILE_K)),
        codes_map("w", w, (choice.columns // choice.cluster, TILE_K)),
        TensorMap("out", 0, "float16", (n, m), (2 * n,), (choice.box, 64), (1, 1), 2 * choice.box, 128),
    )
    inverse = Value("uint32", up(2**32, GROUP * columns))
    arguments: tuple[Argument, ...] = (Pointer("x_scale"), Pointer("w_scale"), Pointer("out"), *sizes, inverse, *maps)
    threads = 128 * (choice.rows // 64 + 1)
    code = code_of(choice, copied=m % 4 == 0 and x_scale.aligned)  # bulk copies take multiples of 16 bytes
    cluster = (choice.cluster * choice.splits, 1, 1)
    launch = Launch("gemm", (blocks, 1, 1), (threads, 1, 1), arguments, choice.shared_bytes, cluster)
    return Recipe({"gemm": code}, (launch,), chosen=choice.name)


def codes_map(name: str, array: Described, box: tuple[int, int]) -> TensorMap:
    """The tensor map of an array of bytes, whose axes before the last are one."""
    k, rows = array.shape[-1], prod(array.shape[:-1])
    pitch = array.strides[-2] if array.shape[-2] > 1 else k
    return TensorMap(name, 0, "uint8", (k, rows), (pitch,), (box[1], box[0]), (1, 1), 128, 256)


def accumulating(columns: int, style: str) -> dict[str, int | str]:
    """The macros for a kernel's accumulators."""
    pieces = 2 if style == "half" else 1
    sums = columns // 2 // pieces  # float32 that a product makes in a thread
    return {
        "PIECES": pieces,
        "REGISTERS": '"' + ", ".join(f"%{i}" for i in range(sums)) + '"',
        "OPERANDS": ", ".join(f'"+f"(d[{i}])' for i in range(sums)),
        "WIDTH": f'"{2 * sums}"',
        "INPUTS": f'"%{sums}, %{sums + 1}"',
        "FLAG": f'"%{sums + 2}"',
    }


def code_of(choice: Choice, copied: bool) -> Code:
    """The kernel for one choice; `copied` if scales of x can come by bulk copies."""
    defined: dict[str, int | str] = {"TILE_M": choice.rows, "TILE_N": choice.columns, "BOX": choice.box}
    defined |= {"STAGES": choice.stages, "GROUP": GROUP, "CLUSTER": choice.cluster, "SPLITS": choice.splits}
    defined |= {"UNIT": gcd(choice.columns, 128), "ACCUMULATORS": 2 if choice.style == "two" else 1}
    defined |= {"COPIED": int(copied), **accumulating(choice.columns, choice.style)}
    return Code(("fp8.cu",), "gemm", tuple((name, str(text)) for name, text in defined.items()))


def choices(m: int, n: int, k: int, chip: Chip) -> list[Choice]:
    """The choices for a shape."""
    found = []
    for rows in (64, 128):
        for columns in (32, 64, 96, 112, 128, 144, 160, 192, 256):
            if m <= 64 < rows or (rows == 128 and columns in (32, 112)) or (rows == 64 and columns > 192):
                continue
            tiles = up(m, rows) * up(n, columns)
            clusters = [(1, 1)] + [(2, 1)] * (m > rows)
            if columns != 112:  # which makes one wave of 128 blocks where n is 7,168
                clusters += [(1, s) for s in range(2, 9) if s <= up(k, TILE_K) // 2 and tiles <= chip.clusters[s - 1]]
            styles = ["half"] if columns == 256 else ["one", "two"][: 2 if columns <= 128 else 1]
            found += [Choice(rows, columns, *shared, style) for shared in clusters for style in styles]
    return found


def estimate(m: int, n: int, k: int, choice: Choice, chip: Chip) -> float:
    """About how many microseconds a choice takes on a chip with an H200's rates."""
    units, blocks = up(m, choice.rows * choice.cluster) * up(n, choice.columns), choice.cluster * choice.splits
    most = chip.clusters[blocks - 1]
    waves, at_once = up(units, most), min(units, most) * blocks
    (least, products), area = STEP[choice.style], choice.rows * choice.columns / 128**2
    copies = 0.2 * at_once / chip.sms * (choice.rows + choice.columns / choice.cluster) / 256
    step = max(least + products * area, copies) + 0.163 * copies  # copies into shared memory slow products down
    step *= 1.049 if choice.cluster > 1 else 1  # blocks that share w wait for each other
    reading = n * k / 4.23e6  # w, once
    tiles = waves * (up(up(k, TILE_K), choice.splits) * step + 0.91 * area)
    return 5.97 + 2.14 * (choice.splits > 1) * choice.columns / 128 + max(tiles, reading)
