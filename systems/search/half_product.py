"""A half-precision matrix product as a template: c = a b in float16 on tensor cores, with sums in float32.

Two kernels with knobs stand beside this file. `warps.cu` multiplies with mma.sync, four to sixteen warps a block; its
tiles are small, and where blocks do not share a sum it runs from compute capability 8.0 on. `warpgroups.cu` multiplies
with wgmma, whole warpgroups, and needs 9.0. `source_of` writes them as a submission in CUDA C++ through CuPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Literal, cast, get_args

from warplab.errors import WarplabError

Shape = tuple[int, int, int]  # m, n, k
Kind = Literal["warps", "warpgroups"]

_HERE = Path(__file__).resolve().parent
_MOST_OUTPUTS = 192 * 192  # of a tile by wgmma: sums in registers
_MOST_SHARED = 227 * 1024  # bytes that a block of Hopper may have (CUDA C++ Programming Guide, compute capabilities)
_OF_A_BLOCK = 1024  # shared memory that the system takes for each block of an SM (the same)
_ALIGNMENT = 1024  # of tiles that tensor copies swizzle
_PIECE = 32  # rows and columns of a warp's piece of a tile, where slices share the sum
UNIT_OF_SIZES = 8  # n and k are multiples of it: 16 bytes


class TemplateError(WarplabError):
    """The kernel to fill in is not part of this copy of the course."""


@dataclass(frozen=True, order=True)
class HalfChoice:
    """One way to multiply.

    A block has a tile of `rows` x `columns` outputs and takes `depth` of the sum at a time, with `stages` of them on
    their way. `splits` blocks share the sum of one tile, `together` blocks share the columns of b. With `stays` there
    are as many blocks as SMs, and each makes tile after tile; otherwise there is a block for each tile. Of "warps" four
    share a tile, a quarter each, or, with `slices`, as many as it has pieces of 32 x 32, and so many such groups of the
    block share the sum. Of "warpgroups" each has 64 rows of a tile, or, `turned`, 64 columns of it: the transposes of b
    and a are multiplied.
    """

    kind: Kind
    rows: int
    columns: int
    depth: int
    stages: int
    splits: int = 1
    together: int = 1
    stays: bool = False
    slices: int = 1
    turned: bool = False

    @property
    def warps(self) -> tuple[int, int]:
        """Of mma.sync: how many share a tile, down and across."""
        return (2, 2) if self.slices == 1 else (-(-self.rows // _PIECE), -(-self.columns // _PIECE))

    @property
    def threads(self) -> int:
        """Of a block."""
        if self.kind == "warps":
            return 32 * self.warps[0] * self.warps[1] * self.slices
        return 2 * self.lines[0] + 32

    @property
    def lines(self) -> tuple[int, int]:
        """Of wgmma: of the left factor, in whole warpgroups, and of the right one."""
        return (self.columns, self.rows) if self.turned else (self.rows, self.columns)

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a block: rings of stages, or the sums that take their place, and outputs to go."""
        ring = self.stages * self.shared_of_stage
        if self.kind == "warps":
            sums = 4 * self.rows * (self.columns + 8) if self.splits * self.slices > 1 else 0
            inbox = 4 * self.rows * self.columns if self.splits > 1 else 0
            return self.slices * max(ring, sums) + inbox
        if self.splits > 1:
            return max(ring, 4 * self.rows * (self.columns + (4 if self.turned else 8))) + _ALIGNMENT
        out = 2 * self.rows * self.columns if self.turned else 256 * self.rows  # for each warp what it stores, twice
        return ring + out + _ALIGNMENT

    @property
    def shared_of_stage(self) -> int:
        """Bytes of a stage of one ring."""
        return 2 * self.depth * (self.rows + self.columns)

    @property
    def name(self) -> str:
        """The kernel's name."""
        numbers = [self.rows, self.columns, self.depth, self.stages, self.splits, self.together]
        numbers += [self.slices] * (self.slices > 1)
        return "_".join([self.kind, *map(str, numbers)] + ["turned"] * self.turned + ["stays"] * self.stays)

    def takes(self, shape: Shape) -> bool:
        """Whether every block, and every slice, that shares a sum has a part of it."""
        return self.splits * self.slices <= -(-shape[2] // self.depth)

    def grid(self, shape: Shape, sms: int) -> tuple[int, int]:
        """Blocks, along x and y, on a GPU of so many SMs."""
        m, n, _ = shape
        down, across = -(-m // (self.rows * self.together)), -(-n // self.columns)
        if self.stays:  # the fewest that are done in as many turns
            units, most = down * across, sms // self.together
            return -(-units // -(-units // most)) * self.together, 1
        if self.turned:
            down, across = across, down
        return down * self.together * self.splits, across


def _of_warps() -> list[HalfChoice]:
    found = []
    for rows, columns, depth, splits in product((32, 64, 128), (32, 64, 128), (64, 128), (1, 2, 4, 8)):
        stages = max(3, min(6, 96 * 1024 // (2 * depth * (rows + columns))))
        found.append(HalfChoice("warps", rows, columns, depth, stages, splits))
    return [choice for choice in found if choice.shared_bytes <= _MOST_SHARED]


def _of_slices() -> list[HalfChoice]:
    found = []
    tiles = ((16, 16), (16, 32), (16, 64), (32, 32), (32, 64), (64, 32), (64, 64))
    for (rows, columns), warps, depth, splits in product(tiles, (4, 8, 16), (32, 64), (1, 4, 8)):
        slices = warps // (-(-rows // _PIECE) * -(-columns // _PIECE))
        one = HalfChoice("warps", rows, columns, depth, 1, splits, slices=slices)
        sizes = (96, 192) if splits == 1 else (96,)  # KiB of rings
        stages = {min(16, size * 1024 // (slices * one.shared_of_stage)) for size in sizes}
        if slices > 1 and (splits == 1 or columns <= 32):
            found += [replace(one, stages=n) for n in sorted(stages) if n]
    return found


def _of_warpgroups() -> list[HalfChoice]:
    tiles = [(rows, columns, False) for rows in (64, 128, 192, 256) for columns in (64, 128, 192, 256)]
    # Sizes between, for shapes whose last wave of whole tiles is half empty
    heights = (16, 24, 32, 40, 48, 56, 80, 96, 112, 120, 128, 144, 152, 160, 176, 192, 208, 224)
    tiles += [(rows, columns, True) for rows in heights for columns in (64, 128, 192) if rows >= 48 or columns == 64]
    found = []
    for rows, columns, turned in tiles:
        if rows * columns > _MOST_OUTPUTS:
            continue
        one = HalfChoice("warpgroups", rows, columns, 64, 1, turned=turned)
        # What an SM holds of copies on their way: eight stages, what fits of sixteen, or of eight in each of two blocks
        usual, deep, two = _deepest(one, 8), _deepest(one, 16), _deepest(one, 8, _MOST_SHARED // 2 - _OF_A_BLOCK)
        found += sorted({usual, deep, two})
        found.append(replace(usual, stays=True))
        if not turned and rows <= 128:
            found += [replace(usual, together=2, stays=stays) for stays in (False, True)]
        if rows % 16 == 0 and rows <= 128 and columns <= 128:
            found += [_deepest(replace(one, splits=splits), 8) for splits in ((2, 4) if turned else (2, 3, 4, 8))]
    return [choice for choice in found if choice.stages >= 3]


def _deepest(choice: HalfChoice, most: int, shared: int = _MOST_SHARED) -> HalfChoice:
    """With as many stages as fit, `most` at most; with none if nothing does."""
    for stages in range(most, 0, -1):
        deep = replace(choice, stages=stages)
        if deep.shared_bytes + 16 * stages <= shared:  # and two barriers a stage
            return deep
    return replace(choice, stages=0)


CHOICES = (*_of_warps(), *_of_slices(), *_of_warpgroups())


def named(name: str) -> HalfChoice:
    """The choice of a name, one of CHOICES or of an earlier template. Raises ValueError for what is no name."""
    kind, *words = name.split("_")
    numbers = [int(word) for word in words if word not in ("turned", "stays")]
    if kind not in get_args(Kind) or not 6 <= len(numbers) <= 7:
        raise ValueError(f"{name!r} is no name of a choice.")
    rows, columns, depth, stages, splits, together, slices = [*numbers, 1][:7]
    stays, turned = "stays" in words, "turned" in words
    return HalfChoice(cast(Kind, kind), rows, columns, depth, stages, splits, together, stays, slices, turned)


_AXES = ("rows", "columns", "depth", "splits", "together", "stays", "slices", "turned")


@cache
def neighbours(choice: HalfChoice) -> tuple[HalfChoice, ...]:
    """The choices that are one step along one axis away, of the same kernel and whatever their stages; or of the other
    kernel, alike in all but the stages."""
    return tuple(other for other in CHOICES if other != choice and _is_beside(choice, other))


def _is_beside(one: HalfChoice, other: HalfChoice) -> bool:
    changed = [name for name in _AXES if getattr(one, name) != getattr(other, name)]
    if one.kind != other.kind:
        return not changed
    if len(changed) != 1:
        return not changed  # they differ in their stages alone
    low, high = sorted((getattr(one, changed[0]), getattr(other, changed[0])))
    return changed[0] in ("stays", "turned") or high <= 2 * low


def guess(choice: HalfChoice, shape: Shape, sms: int) -> float:
    """What arithmetic on paper expects of a choice, in units of its own: small is good.

    A block brings (rows + columns) elements a step of k and multiplies rows x columns of them; a wave of blocks over
    the SMs takes as long as one block, whose memory answers after a latency, and a shared sum costs a meeting.
    """
    m, n, k = shape
    tiles = -(-m // choice.rows) * -(-n // choice.columns)
    waves = -(-tiles * choice.splits // sms)
    steps = -(-k // choice.splits)
    rate = 1.0 if choice.kind == "warpgroups" else 0.6  # of the tensor cores: lab 07 against lab 08
    work = steps * max(choice.rows * choice.columns / (4096 * rate), (choice.rows + choice.columns) / 64)
    return waves * (work + 600) + (400 if choice.splits > 1 else 0)


def code_of(choice: HalfChoice) -> str:
    """The CUDA C++ of a choice's kernel, named `choice.name`. Raises TemplateError where its file is missing."""
    if choice.kind == "warps":
        knobs: dict[str, int | str] = {"ROWS": choice.rows, "COLUMNS": choice.columns, "DEPTH": choice.depth}
        knobs |= {"DOWN": choice.warps[0], "ACROSS": choice.warps[1], "SLICES": choice.slices}
    else:
        left, right = choice.lines
        sums = right // 2  # float32 that a thread keeps
        knobs = {
            "CONSUMERS": left // 64,
            "TILE_N": right,
            "TURNED": int(choice.turned),
            "SIDEWAYS": '"1, 0"' if choice.turned else '"0, 1"',
            "CLUSTER": choice.together,
            "STAYS": int(choice.stays),
            "SUMS": sums,
            "REGISTERS": '"' + ", ".join(f"%{i}" for i in range(sums)) + '"',
            "OPERANDS": ", ".join(f'"+f"(d[{i}])' for i in range(sums)),
            "WIDTH": f'"{right}"',
            "INPUTS": f'"%{sums}, %{sums + 1}"',
            "FLAG": f'"%{sums + 2}"',
        }
    knobs |= {"STAGES": choice.stages, "SPLITS": choice.splits, "NAME": choice.name}
    lines = [f"#define {name} {value}" for name, value in knobs.items()]
    file = _HERE / f"{choice.kind}.cu"
    if not file.exists():
        raise TemplateError(f"{file.name} is not here: a course has it when labs 07, 08 and 17 are closed.")
    return "\n".join((*lines, file.read_text(encoding="utf-8")))


_HEAD = """import cupy
import numpy as np

from warplab.ptx import tensor_map

"""
_KERNEL = '''{kernel} = cupy.RawKernel(r"""{code}""", "{kernel}", options=("-std=c++17", "-arch={architecture}"))
{kernel}.max_dynamic_shared_size_bytes = {shared}

'''
_FUNCTION = '''
def {name}_product(a, b, c):
    """c = a @ b, float16 with sums in float32; n and k are multiples of 8."""
    (m, k), n = a.shape, b.shape[1]
    down, across = -(-m // {height}), -(-n // {width})
    sizes = np.int32(m), np.int32(n), np.int32(k)
    {name}(({blocks}), ({threads},), ({arguments}), shared_mem={shared})

'''


def boxes(choice: HalfChoice) -> dict[str, tuple[int, int]]:
    """The box of each array's tensor map, in elements; none for mma.sync."""
    if choice.kind == "warps":
        return {}
    if choice.turned:
        return {"a": (choice.rows, 64), "b": (64, 64), "c": (choice.rows, 64)}
    return {"a": (choice.rows, 64), "b": (64, 64), "c": (16, 64)}


def source_of(choices: Sequence[HalfChoice], sms: int, architecture: str) -> str:
    """A submission with a host function (a, b, c) for each choice, for a GPU of so many SMs."""
    text = _HEAD
    for choice in choices:
        text += _KERNEL.format(
            kernel=choice.name, code=code_of(choice), architecture=architecture, shared=choice.shared_bytes
        )
        if choice.stays:
            turns = f"-(-down * across // {sms // choice.together})"
            blocks = f"-(-down * across // {turns}) * {choice.together},"
        else:
            blocks = f"{'across' if choice.turned else 'down'} * {choice.together * choice.splits}, "
            blocks += "down" if choice.turned else "across"
        maps = [f"tensor_map({name}, {box})" for name, box in boxes(choice).items()]
        text += _FUNCTION.format(
            name=choice.name,
            height=choice.rows * choice.together,
            width=choice.columns,
            blocks=blocks,
            threads=choice.threads,
            arguments=", ".join(["c", "*sizes", *maps] if maps else ["a", "b", "c", "*sizes"]),
            shared=choice.shared_bytes,
        )
    return text
