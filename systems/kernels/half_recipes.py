"""Half-precision products as recipes: which factors are copied first, and by which form of which kernel.

The forms are those of the search's template (`systems.search.half_product`), which has rung 14 of lab 08 among them:
two warpgroups of 64 rows each, clusters that share b, parts of k. `warpgroups.cu` multiplies with wgmma what tensor
maps can read: factors whose rows or columns lie as a whole, from multiples of 16 bytes on. `warps.cu` multiplies with
mma.sync, in small tiles, and reads lines that begin anywhere. So a factor with such lines, in a shape where that pays,
is first copied to lines that begin at multiples of 16 bytes. `systems.kernels.lean` has two forms for extreme shapes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from systems.kernels.lean import Few, Thin
from systems.kernels.matrices import LINE, UNIT, Matrix, packed, up
from systems.kernels.recipes import Code, Recipe
from systems.search.half_product import HalfChoice
from warplab.plan.model import Argument, Launch, Pointer, TensorMap, Value

TILE_K = 64  # of wgmma's kernels: a line of 128 bytes
TURNS = 3  # steps before its end from which the second consumer waits for the first
MOST_SHARED = 227 * 1024  # bytes that a block of Hopper may have
MOST_INDEX = 2**31 - 2**12  # of a row or column: positions are 32-bit numbers, and tiles go beyond the last one
_COPY_THREADS, _COPY_BLOCKS = 256, 4096


@dataclass(frozen=True)
class Problem:
    """c = a b as kernels see it: c with its rows as a whole, factors that have k (along) or their lines side by side.

    `a_down`: a's rows lie side by side; `b_down`: b's columns do, as in row-major order. A factor is loose if its lines
    begin elsewhere than at multiples of 16 bytes.
    """

    m: int
    n: int
    k: int
    a_down: bool = False
    b_down: bool = True
    a_loose: bool = False
    b_loose: bool = False
    c_loose: bool = False
    bfloat16: bool = False
    a_straddles: bool = False  # lines that do not begin at multiples of 128 bytes
    b_straddles: bool = False

    @property
    def loose(self) -> bool:
        """Whether a factor is one that only `warps.cu` reads."""
        return self.a_loose or self.b_loose

    @property
    def tight(self) -> Problem:
        """The same with factors that were copied."""
        straddle = {
            "a_straddles": self.a_straddles and not self.a_loose,
            "b_straddles": self.b_straddles and not self.b_loose,
        }
        return replace(self, a_loose=False, b_loose=False, **straddle)


@dataclass(frozen=True)
class Choice:
    """A form, whether loose factors are copied for it, and in how many parts of k it leaves sums to be added."""

    form: HalfChoice | Thin | Few
    copies: bool = False
    parts: int = 1

    @property
    def name(self) -> str:
        """In a word."""
        return self.form.name + f"_in_{self.parts}_parts" * (self.parts > 1) + "_of_copies" * self.copies


def takes(form: HalfChoice | Thin | Few, problem: Problem) -> bool:
    """Whether a form's kernel can make this product: it reads both factors, and all blocks have a part of k."""
    if not isinstance(form, HalfChoice):
        return form.takes(problem.m, problem.n, problem.k)
    if not form.takes((problem.m, problem.n, problem.k)):
        return False
    if form.kind == "warps":
        return shared_bytes(fitted(form, problem), problem) <= MOST_SHARED
    right_down = problem.a_down if form.turned else problem.b_down
    return not problem.loose and (not right_down or form.lines[1] % 64 == 0)


def shared_bytes(form: HalfChoice, problem: Problem) -> int:
    """Dynamic shared memory of a block."""
    if form.kind == "warpgroups" or not (problem.loose or problem.c_loose):
        return form.shared_bytes
    tile_a, tile_b = 2 * form.rows * form.depth, 2 * form.columns * form.depth
    stage, moved = tile_a + tile_b, problem.a_loose * tile_a + problem.b_loose * tile_b
    # Lines that begin anywhere have 16 bytes more
    stage += problem.a_loose * 16 * (form.depth if problem.a_down else form.rows)
    stage += problem.b_loose * 16 * (form.depth if problem.b_down else form.columns)
    sums = 4 * form.rows * (form.columns + 8) if form.splits * form.slices > 1 or problem.c_loose else 0
    inbox = 4 * form.rows * form.columns if form.splits > 1 else 0
    return form.slices * max(form.stages * stage + moved, sums) + inbox


def fitted(form: HalfChoice, problem: Problem) -> HalfChoice:
    """A form with as many of its stages as a block has room for."""
    while form.stages > 1 and shared_bytes(form, problem) > MOST_SHARED:
        form = replace(form, stages=form.stages - 1)
    return form


def recipe(a: Matrix, b: Matrix, c: Matrix, bfloat16: bool, choose: Callable[[Problem], Choice], sms: int) -> Recipe:
    """How to make c = a b of matrices with whatever strides, none of them empty, on a GPU of so many SMs."""
    if not c.has_lines and c.turned.has_lines:
        a, b, c = b.turned, a.turned, c.turned
    made = _Making()
    if not (a.has_lines or a.turned.has_lines):
        a = made.copied(a, "scratch_a")
    if not (b.has_lines or b.turned.has_lines):
        b = made.copied(b, "scratch_b")
    (lines_a, a_down), (lines_b, b_down) = _lines(a), _lines(b.turned)
    c_loose = not _stored_whole(c) if c.has_lines else c.columns % UNIT > 0
    problem = Problem(
        a.rows, b.columns, a.columns, a_down, b_down, not lines_a.mapped, not lines_b.mapped, c_loose, bfloat16,
        lines_a.pitch % LINE > 0, lines_b.pitch % LINE > 0,
    )  # fmt: skip
    choice = choose(problem)
    if not isinstance(choice.form, HalfChoice):
        made.codes["product"], launch = choice.form.launch(a, b, c, bfloat16)
        return Recipe(made.codes, (*made.launches, launch), made.scratch, choice.name)
    form = choice.form
    if choice.copies:
        problem = problem.tight
        lines_a, lines_b = made.aligned(lines_a, lines_b)
    if choice.parts > 1:
        pitch = up(c.columns, UNIT) * UNIT
        sums = Matrix("sums", c.rows, pitch, pitch, 1, True)
        made.scratch["sums"] = 4 * choice.parts * c.rows * pitch
        made.launches.append(_product(form, choice.parts, problem, lines_a, lines_b, sums, made.codes, sms))
        made.launches.append(_addition(c, pitch, choice.parts, bfloat16, made.codes))
    elif c.has_lines:
        made.launches.append(_product(form, choice.parts, problem, lines_a, lines_b, c, made.codes, sms))
    else:
        own = made.own(c, "scratch_c")
        made.launches.append(_product(form, choice.parts, problem, lines_a, lines_b, own, made.codes, sms))
        made.launches.append(_copy(own, c, made.codes))
    return Recipe(made.codes, tuple(made.launches), made.scratch, choice.name)


@dataclass
class _Making:
    """A recipe in the making."""

    codes: dict[str, Code] = field(default_factory=dict)
    launches: list[Launch] = field(default_factory=list)
    scratch: dict[str, int] = field(default_factory=dict)

    def own(self, matrix: Matrix, name: str) -> Matrix:
        """Scratch for a matrix of that size."""
        made = packed(name, matrix.rows, matrix.columns)
        self.scratch[name] = 2 * made.rows * made.pitch
        return made

    def copied(self, matrix: Matrix, name: str) -> Matrix:
        """A copy of a matrix of any strides."""
        made = self.own(matrix, name)
        self.launches.append(_copy(matrix, made, self.codes))
        return made

    def aligned(self, a: Matrix, b: Matrix) -> tuple[Matrix, Matrix]:
        """Matrices with rows as a whole, those that no tensor map takes copied by one launch."""
        loose = {name: matrix for name, matrix in (("scratch_a", a), ("scratch_b", b)) if not matrix.mapped}
        made = {name: self.own(matrix, name) for name, matrix in loose.items()}
        pairs = [(matrix, made[name]) for name, matrix in loose.items()]
        if pairs:
            self.codes["align_lines"] = Code(("loose.cuh", "copies.cu"), "align_lines")
            arguments: tuple[Argument, ...] = ()
            for matrix, to in (pairs[0], pairs[-1]):
                arguments += (Pointer(matrix.name), Value("uint64", matrix.extent), Value("uint64", matrix.pitch))
                arguments += (Pointer(to.name), Value("uint64", to.pitch))
                arguments += (Value("int32", to.rows), Value("int32", to.columns))
            most = max(to.rows * up(to.columns, UNIT) for _, to in pairs)
            grid = (min(up(most, _COPY_THREADS), _COPY_BLOCKS), len(pairs), 1)
            self.launches.append(Launch("align_lines", grid, (_COPY_THREADS, 1, 1), arguments))
        return made.get("scratch_a", a), made.get("scratch_b", b)


def _stored_whole(c: Matrix) -> bool:
    """Whether tensor copies can store a matrix: they write 16 bytes at a time, at the end of a row too."""
    return c.mapped and c.columns % UNIT == 0


def _lines(factor: Matrix) -> tuple[Matrix, bool]:
    """A factor, lines by k, as a matrix with rows as a whole; and whether those are not its lines but run across them.

    Of two ways, the one that a tensor map takes.
    """
    ways = [(factor, False), (factor.turned, True)]
    return max((way for way in ways if way[0].has_lines), key=lambda way: way[0].mapped)


def _product(
    form: HalfChoice, parts: int, problem: Problem, a: Matrix, b: Matrix, c: Matrix, codes: dict[str, Code], sms: int
) -> Launch:
    form, apart = fitted(form, problem), parts > 1
    codes["product"] = _code(form, problem, sms, apart)
    arguments: tuple[Argument, ...] = (Pointer(c.name), Value("uint64", c.down if apart else c.pitch))
    arguments += tuple(Value("int32", size) for size in (problem.m, problem.n, problem.k))
    if form.kind == "warps":
        for lines in (a, b):
            arguments += (Pointer(lines.name), Value("uint64", lines.extent), Value("uint64", lines.pitch))
    else:
        (left, left_down), (right, right_down) = (a, problem.a_down), (b, problem.b_down)
        if form.turned:
            (left, left_down), (right, right_down) = (right, right_down), (left, left_down)
        high, wide = form.lines
        box_c = (form.rows, 64) if form.turned else (16, 64)
        arguments += (
            _map(left, (64, 64) if left_down else (high, TILE_K), problem.bfloat16),
            _map(right, (64, 64) if right_down else (wide // form.together, TILE_K), problem.bfloat16),
            _map(c, box_c, problem.bfloat16)
            if not (problem.c_loose or apart)
            else _map(left, (8, 64), problem.bfloat16),
        )
    x, y = form.grid((problem.m, problem.n, problem.k), sms)
    return Launch(
        "product",
        (x, y, parts),
        (form.threads, 1, 1),
        arguments,
        shared_bytes(form, problem),
        (form.splits * form.together, 1, 1),
    )


def _code(form: HalfChoice, problem: Problem, sms: int, apart: bool) -> Code:
    """The kernel of a form for factors that lie so."""
    defined: dict[str, int | str] = {"TYPE": '"bf16"' if problem.bfloat16 else '"f16"', "LOOSE": int(problem.c_loose)}
    defined |= {"STAGES": form.stages, "SPLITS": form.splits}
    if form.kind == "warps":
        defined |= {"ROWS": form.rows, "COLUMNS": form.columns, "DEPTH": form.depth, "SLICES": form.slices}
        defined |= {"DOWN": form.warps[0], "ACROSS": form.warps[1], "A_DOWN": int(problem.a_down)}
        defined |= {"B_DOWN": int(problem.b_down), "A_LOOSE": int(problem.a_loose), "B_LOOSE": int(problem.b_loose)}
        return Code(("loose.cuh", "warps.cu"), "product", tuple((name, str(text)) for name, text in defined.items()))
    high, wide = form.lines
    down = (problem.b_down, problem.a_down) if form.turned else (problem.a_down, problem.b_down)
    sums = wide // 2  # float32 that a thread keeps
    defined |= {
        "CONSUMERS": high // 64,
        "TILE_N": wide,
        "TURNED": int(form.turned),
        "LEFT_DOWN": int(down[0]),
        "RIGHT_DOWN": int(down[1]),
        "SIDEWAYS": f'"{int(down[0])}, {int(down[1])}"',
        "CLUSTER": form.together,
        "STAYS": int(form.stays),
        "APART": int(apart),
        "TURNS": TURNS if _in_turn(form, problem, sms) and not apart else 0,
        "SUMS": sums,
        "REGISTERS": '"' + ", ".join(f"%{i}" for i in range(sums)) + '"',
        "OPERANDS": ", ".join(f'"+f"(d[{i}])' for i in range(sums)),
        "WIDTH": f'"{wide}"',
        "INPUTS": f'"%{sums}, %{sums + 1}"',
        "FLAG": f'"%{sums + 2}"',
    }
    return Code(("warpgroups.cu",), "product", tuple((name, str(text)) for name, text in defined.items()))


def _in_turn(form: HalfChoice, problem: Problem, sms: int) -> bool:
    """Whether the consumers finish one after the other: where there are no next tiles to hide behind."""
    tiles = up(problem.m, form.rows * form.together) * form.together * up(problem.n, form.columns)
    large = (form.rows, form.columns, form.turned) == (128, 256, False) and form.stages > TURNS
    return large and form.splits == 1 and tiles <= sms and problem.k >= 16 * TILE_K


def _map(matrix: Matrix, box: tuple[int, int], bfloat16: bool) -> TensorMap:
    """The tensor map of a matrix with rows as a whole, for boxes of rows x columns."""
    kind = "bfloat16" if bfloat16 else "float16"
    shape, pitch = (matrix.columns, matrix.rows), 2 * matrix.pitch
    return TensorMap(matrix.name, 0, kind, shape, (pitch,), (box[1], box[0]), (1, 1), swizzle=128, l2_promotion=128)


def _addition(c: Matrix, pitch: int, parts: int, bfloat16: bool, codes: dict[str, Code]) -> Launch:
    """The sum of parts of k to c."""
    defined = (("TYPE", '"bf16"' if bfloat16 else '"f16"'),)
    codes["add_parts"] = Code(("loose.cuh", "add_parts.cu"), "add_parts", defined)
    arguments: tuple[Argument, ...] = (Pointer("sums"), Value("uint64", pitch), Value("int32", parts))
    arguments += (Pointer(c.name), Value("int64", c.down), Value("int64", c.across))
    arguments += (Value("int32", c.rows), Value("int32", c.columns))
    threads = 128 if c.columns > 256 else 32
    return Launch("add_parts", (up(c.columns, 4 * threads), min(c.rows, 65535), 1), (threads, 1, 1), arguments)


def _copy(matrix: Matrix, to: Matrix, codes: dict[str, Code]) -> Launch:
    """A copy of a matrix in other strides."""
    codes["copy"] = Code(("loose.cuh", "copies.cu"), "copy")
    arguments: tuple[Argument, ...] = ()
    for each in (matrix, to):
        arguments += (Pointer(each.name), Value("int64", each.down), Value("int64", each.across))
    arguments += (Value("int32", matrix.rows), Value("int32", matrix.columns))
    blocks = min(up(matrix.rows, 32) * up(matrix.columns, 32), _COPY_BLOCKS)
    return Launch("copy", (blocks, 1, 1), (256, 1, 1), arguments)
