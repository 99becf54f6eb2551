"""One mma.sp for each tile, on a real GPU: by which rule it sums the products of a sparse matrix."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from corpus.tensor.probe import BITS, COLUMNS
from warplab.emulator.core.tensor.numerics import Kind

ROWS = 16


@dataclass(frozen=True)
class SparseInstruction:
    """mma.sp::ordered_metadata of 16 x 8 x k with one type of a and b; `row_bytes` are stored of each row of A."""

    operand: Kind
    accumulator: Kind
    row_bytes: int

    @property
    def stored(self) -> int:
        """Elements that are stored of a row."""
        return self.row_bytes // np.dtype(BITS[self.operand]).itemsize

    @property
    def k(self) -> int:
        return 2 * self.stored

    def __str__(self) -> str:
        return f"{self.operand.name.lower()}_{self.accumulator.name.lower()}_k{self.k}"


def instructions() -> list[SparseInstruction]:
    """Every variant of floats that Hopper has an instruction for."""
    kinds = ((Kind.F16, Kind.F32), (Kind.F16, Kind.F16), (Kind.BF16, Kind.F32), (Kind.TF32, Kind.F32))
    return [SparseInstruction(*pair, size) for pair in kinds for size in (16, 32)]


def places(instruction: SparseInstruction, tiles: int, generator: np.random.Generator) -> np.ndarray:
    """Which columns the stored elements are from, ascending: (tiles, 16, k / 2)."""
    width = 2 if instruction.operand is Kind.TF32 else 4  # of which half is stored
    groups = instruction.k // width
    order = np.argsort(generator.random((tiles, ROWS, groups, width)), axis=3)[..., : width // 2]
    columns = np.sort(order, axis=3) + width * np.arange(groups)[:, None]
    return columns.reshape(tiles, ROWS, instruction.stored)


def metadata(instruction: SparseInstruction, columns: np.ndarray) -> np.ndarray:
    """The lanes' registers for `places`, with selector 0: (tiles, 32)."""
    if instruction.operand is Kind.TF32:  # each half of an element has a place among the four halves of two
        halves = np.stack([2 * (columns % 2), 2 * (columns % 2) + 1], axis=3).reshape(len(columns), ROWS, -1)
    else:
        halves = columns % 4
    words = (halves.reshape(len(columns), ROWS, -1, 8) << 2 * np.arange(8)).sum(axis=3).astype(np.uint32)
    lanes = np.zeros((len(columns), 8, 4), np.uint32)
    lanes[:, :, : words.shape[2]] = words[:, :8] | words[:, 8:] << 16
    return lanes.reshape(-1, 32)


def source(instruction: SparseInstruction) -> str:
    """CUDA C++ of `probe(a, b, c, e, d)` with one block for each tile; rows are read as 32-bit words."""
    words, single = instruction.row_bytes // 4, instruction.accumulator is Kind.F32
    operand, result = instruction.operand.name.lower(), instruction.accumulator.name.lower()
    count, sums = words // 2, 4 if single else 2
    groups, first = [], 0
    for size in (sums, count, count):
        groups.append("{" + ", ".join(f"%{first + i}" for i in range(size)) + "}")
        first += size
    opcode = (
        f"mma.sp::ordered_metadata.sync.aligned.m16n8k{instruction.k}.row.col.{result}.{operand}.{operand}.{result}"
    )
    outputs = ", ".join(f'"+r"(f[{i}])' for i in range(sums))
    inputs = ", ".join(f'"r"({name}[{i}])' for name in "xy" for i in range(count))
    columns = COLUMNS if single else COLUMNS // 2
    cells = [(row, column) for row in (0, 8) for column in ((0, 1) if single else (0,))]
    places = [f"(g + {row}) * {columns} + {2 if single else 1} * q + {column}" for row, column in cells]
    return f"""
extern "C" __global__ void probe(const unsigned* a, const unsigned* b, const unsigned* c, const unsigned* e,
                                 unsigned* d) {{
  int t = threadIdx.x, g = t / 4, q = t % 4;
  a += blockIdx.x * {ROWS * words};
  b += blockIdx.x * {COLUMNS * 2 * words};
  c += blockIdx.x * {ROWS * columns};
  d += blockIdx.x * {ROWS * columns};
  unsigned x[4], y[4], f[4];
  for (int i = 0; i < {count}; i++) x[i] = a[(g + i % 2 * 8) * {words} + q + i / 2 * 4];
  for (int i = 0; i < {count}; i++) y[i] = b[g * {2 * words} + q + i * 4];
  {" ".join(f"f[{i}] = c[{place}];" for i, place in enumerate(places))}
  asm volatile("{opcode} {groups[0]}, {groups[1]}, {groups[2]}, {groups[0]}, %{first}, 0;"
               : {outputs} : {inputs}, "r"(e[blockIdx.x * 32 + t]));
  {" ".join(f"d[{place}] = f[{i}];" for i, place in enumerate(places))}
}}"""


@cache
def kernel(instruction: SparseInstruction):
    """The compiled kernel of an instruction."""
    import cupy

    return cupy.RawModule(code=source(instruction), backend="nvrtc", options=("-arch=sm_90a",)).get_function("probe")


def run(instruction: SparseInstruction, a: np.ndarray, b: np.ndarray, c: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """D of every tile, as bit patterns: `a` (tiles, 16, k / 2), `b` transposed (tiles, 8, k), `c` (tiles, 16, 8)."""
    import cupy

    d = cupy.zeros(c.shape, c.dtype)
    arrays = (a, b, c, metadata(instruction, columns))
    words = [cupy.asarray(np.ascontiguousarray(array).view(np.uint32)) for array in arrays]
    kernel(instruction)((len(a),), (32,), (*words, d))
    return cupy.asnumpy(d)
