"""A half-precision matrix product as a template: c = a b in float16 on tensor cores, with sums in float32.

Two kernels with knobs stand beside this file. `warps.cu` multiplies with mma.sync, four warps a block; its tiles are
small, and where it does not split the sum it runs from compute capability 8.0 on. `warpgroups.cu` multiplies with
wgmma, whole warpgroups, and needs 9.0. `source_of` writes them as a submission in CUDA C++ through CuPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Literal

Shape = tuple[int, int, int]  # m, n, k
Kind = Literal["warps", "warpgroups"]

_HERE = Path(__file__).resolve().parent
_MOST_SHARED = 227 * 1024  # bytes that a block of Hopper may have (CUDA C++ Programming Guide, compute capabilities)
_ALIGNMENT = 1024  # of tiles that tensor copies swizzle
UNIT_OF_SIZES = 8  # n and k are multiples of it: 16 bytes


@dataclass(frozen=True, order=True)
class Choice:
    """One way to multiply.

    A block has a tile of `rows` x `columns` outputs and takes `depth` of the sum at a time, with `stages` of them on
    their way. `splits` blocks share the sum of one tile, `together` blocks share the columns of b. With `stays` there
    are as many blocks as SMs, and each makes tile after tile; otherwise there is a block for each tile.
    """

    kind: Kind
    rows: int
    columns: int
    depth: int
    stages: int
    splits: int = 1
    together: int = 1
    stays: bool = False

    @property
    def threads(self) -> int:
        """Of a block."""
        return 128 if self.kind == "warps" else 2 * self.rows + 32

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a block: the ring of stages, or the sums that take its place."""
        ring = self.stages * 2 * self.depth * (self.rows + self.columns)
        sums = 4 * self.rows * (self.columns + 8) if self.splits > 1 else 0
        if self.kind == "warps":
            return max(ring, sums)
        out = self.rows // 16 * 2 * 16 * 128  # what each warp stores at once, twice
        return max(ring, sums) + out + _ALIGNMENT

    @property
    def kernel(self) -> str:
        """The kernel's name: the same for two choices that differ only in the number of blocks."""
        words = (self.kind, self.rows, self.columns, self.depth, self.stages, self.splits, self.together)
        return "_".join(map(str, words))

    @property
    def name(self) -> str:
        """The host function's name."""
        return f"{self.kernel}_stays" if self.stays else self.kernel

    def takes(self, shape: Shape) -> bool:
        """Whether every block that shares a sum has a part of it."""
        return self.splits <= -(-shape[2] // self.depth)

    def grid(self, shape: Shape, sms: int) -> int:
        """Blocks, in one dimension, on a GPU of so many SMs."""
        m, n, _ = shape
        units = -(-m // (self.rows * self.together)) * -(-n // self.columns)
        most = sms // self.together if self.stays else units
        if self.stays:  # the fewest that are done in as many turns
            most = -(-units // -(-units // most))
        return most * self.together * self.splits


def _of_warps() -> list[Choice]:
    found = []
    for rows, columns, depth, splits in product((32, 64, 128), (32, 64, 128), (64, 128), (1, 2, 4, 8)):
        stages = max(3, min(6, 96 * 1024 // (2 * depth * (rows + columns))))
        found.append(Choice("warps", rows, columns, depth, stages, splits))
    return found


def _of_warpgroups() -> list[Choice]:
    deep = {(64, 64): 8, (64, 128): 6, (64, 256): 4, (128, 64): 7, (128, 128): 5, (128, 256): 4}
    found = []
    for (rows, columns), stages in deep.items():
        one = [Choice("warpgroups", rows, columns, 64, stages, splits) for splits in (1, 2, 4, 8)]
        one += [Choice("warpgroups", rows, columns, 64, stages, 1, 1, True)]
        one += [Choice("warpgroups", rows, columns, 64, stages, 1, 2, stays) for stays in (False, True)]
        if columns <= 128:  # two blocks on an SM at a time
            one.append(Choice("warpgroups", rows, columns, 64, 3))
        found += one
    # Sizes between powers of two, and four consumers, for shapes whose last wave of the tiles above is half empty
    between = {(64, 192): 6, (128, 192): 4, (192, 64): 5, (192, 128): 4, (192, 192): 3, (256, 128): 3}
    for (rows, columns), stages in between.items():
        found += [Choice("warpgroups", rows, columns, 64, stages, splits) for splits in (1, 2)]
        found += [Choice("warpgroups", rows, columns, 64, stages, 1, 1, True)]
    return found


CHOICES = tuple(choice for choice in (*_of_warps(), *_of_warpgroups()) if choice.shared_bytes <= _MOST_SHARED)
_AXES = ("rows", "columns", "depth", "splits", "together", "stays")


@cache
def neighbours(choice: Choice) -> tuple[Choice, ...]:
    """The choices that are one step along one axis away: of the same kernel, as the stages follow from the others; or
    of the other kernel with the same tile, depth and splits."""
    return tuple(other for other in CHOICES if other != choice and _is_beside(choice, other))


def _is_beside(one: Choice, other: Choice) -> bool:
    changed = [name for name in _AXES if getattr(one, name) != getattr(other, name)]
    if one.kind != other.kind:
        return not changed
    if len(changed) != 1:
        return not changed  # another number of stages
    low, high = sorted((getattr(one, changed[0]), getattr(other, changed[0])))
    return changed[0] == "stays" or high <= 2 * low


def guess(choice: Choice, shape: Shape, sms: int) -> float:
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


def code_of(choice: Choice) -> str:
    """The CUDA C++ of a choice's kernel, whose name is `choice.kernel`."""
    if choice.kind == "warps":
        knobs: dict[str, int | str] = {"ROWS": choice.rows, "COLUMNS": choice.columns, "DEPTH": choice.depth}
    else:
        sums = choice.columns // 2  # float32 that a thread keeps
        knobs = {
            "CONSUMERS": choice.rows // 64,
            "TILE_N": choice.columns,
            "CLUSTER": choice.together,
            "SUMS": sums,
            "REGISTERS": '"' + ", ".join(f"%{i}" for i in range(sums)) + '"',
            "OPERANDS": ", ".join(f'"+f"(d[{i}])' for i in range(sums)),
            "WIDTH": f'"{choice.columns}"',
            "INPUTS": f'"%{sums}, %{sums + 1}"',
            "FLAG": f'"%{sums + 2}"',
        }
    knobs |= {"STAGES": choice.stages, "SPLITS": choice.splits, "NAME": choice.kernel}
    lines = [f"#define {name} {value}" for name, value in knobs.items()]
    return "\n".join((*lines, (_HERE / f"{choice.kind}.cu").read_text(encoding="utf-8")))


_HEAD = """import cupy
import numpy as np

from warplab.ptx import tensor_map

"""
_KERNEL = '''{kernel} = cupy.RawKernel(r"""{code}""", "{kernel}", options=("-std=c++17", "-arch={architecture}"))
{kernel}.max_dynamic_shared_size_bytes = {shared}

'''
_FUNCTION = '''
def {name}(a, b, c):
    """c = a @ b, float16 with sums in float32; n and k are multiples of 8."""
    (m, k), n = a.shape, b.shape[1]
    units = -(-m // {height}) * -(-n // {columns})
    blocks = {blocks}
    sizes = np.int32(m), np.int32(n), np.int32(k)
    {kernel}((blocks,), ({threads},), ({arrays}, *sizes), shared_mem={shared})

'''


def boxes(choice: Choice) -> dict[str, tuple[int, int]]:
    """The box of each array's tensor map, in elements; none for mma.sync."""
    return {} if choice.kind == "warps" else {"a": (choice.rows, 64), "b": (64, 64), "c": (16, 64)}


def source_of(choices: Sequence[Choice], sms: int, architecture: str) -> str:
    """A submission with a host function (a, b, c) for each choice, for a GPU of so many SMs."""
    kernels = {choice.kernel: choice for choice in choices}
    text = _HEAD
    for kernel, choice in kernels.items():
        text += _KERNEL.format(
            kernel=kernel, code=code_of(choice), architecture=architecture, shared=choice.shared_bytes
        )
    for choice in choices:
        units, group = "units", choice.together * choice.splits
        if choice.stays:
            units = f"-(-units // -(-units // {sms // choice.together}))"
        maps = [f"tensor_map({name}, {box})" for name, box in boxes(choice).items()]
        text += _FUNCTION.format(
            name=f"{choice.name}_product",
            kernel=choice.kernel,
            height=choice.rows * choice.together,
            columns=choice.columns,
            blocks=units if group == 1 else f"{units} * {group}",
            threads=choice.threads,
            arrays=", ".join([*maps, "c"] if maps else ["a", "b", "c"]),
            shared=choice.shared_bytes,
        )
    return text
