"""A matrix product as a template: the tile of a block, its depth, and what each thread computes, are to be chosen.

`source_of` writes the kernels as a submission in CUDA C++ through CuPy: c = a b, float32, sums in float32, any size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product


@dataclass(frozen=True, order=True)
class Choice:
    """One kernel: a block has a tile of `rows` x `columns` outputs, takes `depth` of the sum at a time, and each of
    its threads computes `each` x `each` outputs."""

    rows: int
    columns: int
    depth: int
    each: int

    @property
    def threads(self) -> int:
        """Of a block."""
        return self.rows * self.columns // self.each**2


AXES = {"rows": (16, 32, 64), "columns": (16, 32, 64), "depth": (8, 16, 32), "each": (1, 2, 4)}


def is_possible(choice: Choice) -> bool:
    """Whether a block has whole warps, and no more threads than a block may have."""
    return 32 <= choice.threads <= 1024 and choice.threads % 32 == 0


CHOICES = tuple(one for one in (Choice(*values) for values in product(*AXES.values())) if is_possible(one))


def neighbours(choice: Choice) -> list[Choice]:
    """The possible choices that are one step along one axis away."""
    found = []
    for name, values in AXES.items():
        here = values.index(getattr(choice, name))
        for there in (here - 1, here + 1):
            if 0 <= there < len(values):
                other = Choice(**{**vars(choice), name: values[there]})
                found += [other] if is_possible(other) else []
    return found


def name_of(choice: Choice) -> str:
    """The host function of a choice."""
    return f"product_{choice.rows}_{choice.columns}_{choice.depth}_{choice.each}"


def guess(choice: Choice, shape: tuple[int, int, int], sms: int) -> float:
    """What arithmetic on paper expects of a choice, in units of its own: small is good.

    Each output of a thread reads 2 / each values of shared memory a multiply-add; blocks work in waves over the SMs,
    and a wave is as long as one block's share of the sum, at the rate at which its threads fill an SM.
    """
    m, n, k = shape
    blocks = -(-m // choice.rows) * -(-n // choice.columns)
    waves = -(-blocks // sms)
    work = choice.rows * choice.columns * k * (1 + 2 / choice.each)
    return waves * work / min(choice.threads, 512)


_TEMPLATE = r"""
extern "C" __global__ void __launch_bounds__(THREADS) NAME(
    const float* a, const float* b, float* c, int m, int n, int k)
{
    __shared__ float tile_a[DEPTH][ROWS + 1];
    __shared__ float tile_b[DEPTH][COLUMNS];
    const int t = threadIdx.x, x = t % (COLUMNS / EACH), y = t / (COLUMNS / EACH);
    const int row0 = blockIdx.y * ROWS, column0 = blockIdx.x * COLUMNS;
    float total[EACH][EACH] = {};
    for (int p0 = 0; p0 < k; p0 += DEPTH) {
        for (int i = t; i < ROWS * DEPTH; i += THREADS) {
            const int row = i / DEPTH, p = i % DEPTH;
            tile_a[p][row] = row0 + row < m && p0 + p < k ? a[(row0 + row) * k + p0 + p] : 0.0f;
        }
        for (int i = t; i < DEPTH * COLUMNS; i += THREADS) {
            const int p = i / COLUMNS, column = i % COLUMNS;
            tile_b[p][column] = p0 + p < k && column0 + column < n ? b[(p0 + p) * n + column0 + column] : 0.0f;
        }
        __syncthreads();
        #pragma unroll 4
        for (int p = 0; p < DEPTH; ++p)
            for (int i = 0; i < EACH; ++i)
                for (int j = 0; j < EACH; ++j)
                    total[i][j] += tile_a[p][y + i * (ROWS / EACH)] * tile_b[p][x + j * (COLUMNS / EACH)];
        __syncthreads();
    }
    for (int i = 0; i < EACH; ++i)
        for (int j = 0; j < EACH; ++j) {
            const int row = row0 + y + i * (ROWS / EACH), column = column0 + x + j * (COLUMNS / EACH);
            if (row < m && column < n) c[row * n + column] = total[i][j];
        }
}
"""


def kernel_of(choice: Choice) -> str:
    """The CUDA C++ of a choice."""
    text = _TEMPLATE.replace("NAME", f"{name_of(choice)}_kernel").replace("THREADS", str(choice.threads))
    for name in AXES:
        text = text.replace(name.upper(), str(getattr(choice, name)))
    return text


def source_of(choices: Sequence[Choice]) -> str:
    """A submission with a host function (a, b, c) for each choice."""
    lines = ["import cupy", "import numpy as np", ""]
    for choice in choices:
        name = name_of(choice)
        lines += [
            f"{name}_kernel = cupy.RawKernel(r'''{kernel_of(choice)}''', '{name}_kernel')",
            f"def {name}(a, b, c):",
            "    (m, k), n = a.shape, b.shape[1]",
            f"    blocks = (-(-n // {choice.columns}), -(-m // {choice.rows}))",
            "    sizes = tuple(np.int32(size) for size in (m, n, k))",
            f"    {name}_kernel(blocks, ({choice.threads},), (a, b, c, *sizes))",
            "",
        ]
    return "\n".join(lines)
