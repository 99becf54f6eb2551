"""What well-known operators must compute and must move: their arithmetic intensity, before any kernel is written.

Bytes are compulsory: every input read once, every output written once, as if all the rest stayed on the chip. FLOP
are those of the definition, a multiply-add two, any other operation on an element one (an exponential too, although
it costs the machine more).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from warplab.hardware.records import Math

_SOFTMAX_FLOPS = 5  # an element: compare, subtract, exponential, add, multiply
_LAYERNORM_FLOPS = 7  # an element: add, subtract, square and add, scale, weight and bias


@dataclass(frozen=True)
class Operator:
    """One operator at one size. `math` names the peak that bounds it; `flops` and `bytes` are of one call."""

    name: str
    definition: str
    dimensions: Mapping[str, int]
    dtype: str  # of the operands
    math: Math
    flops: float
    bytes: float

    @property
    def intensity(self) -> float:
        """FLOP per byte; 0 for an operator that only moves."""
        return self.flops / self.bytes


def _size(dtype: str) -> int:
    return {"float32": 4, "float16": 2, "bfloat16": 2}[dtype]


def axpy(n: int, dtype: str = "float32") -> Operator:
    """y = a x + y on vectors of n elements."""
    return Operator("axpy", "y = a·x + y", {"n": n}, dtype, Math.FP32, 2.0 * n, 3.0 * n * _size(dtype))


def dot(n: int, dtype: str = "float32") -> Operator:
    """The scalar product of two vectors of n elements."""
    return Operator("dot", "s = Σ xᵢ·yᵢ", {"n": n}, dtype, Math.FP32, 2.0 * n, 2.0 * n * _size(dtype))


def transpose(rows: int, columns: int, dtype: str = "float32") -> Operator:
    """out[j, i] = in[i, j]: no arithmetic at all."""
    d = {"rows": rows, "columns": columns}
    return Operator("transpose", "out[j, i] = in[i, j]", d, dtype, Math.FP32, 0.0, 2.0 * rows * columns * _size(dtype))


def stencil(rows: int, columns: int, dtype: str = "float32") -> Operator:
    """out = a centre + b (north + south + east + west): 3 additions, a multiplication, a multiply-add."""
    d, n = {"rows": rows, "columns": columns}, rows * columns
    return Operator("stencil", "five points of a grid", d, dtype, Math.FP32, 6.0 * n, 2.0 * n * _size(dtype))


def softmax(rows: int, columns: int, dtype: str = "bfloat16") -> Operator:
    """Softmax of each row, read once and written once."""
    d, n = {"rows": rows, "columns": columns}, float(rows * columns)
    return Operator(
        "softmax", "rows of exp(x - max) / Σ", d, dtype, Math.FP32, _SOFTMAX_FLOPS * n, 2 * n * _size(dtype)
    )


def layernorm(rows: int, columns: int, dtype: str = "bfloat16") -> Operator:
    """Layer norm of each row with weights and biases, read once and written once."""
    d, n = {"rows": rows, "columns": columns}, float(rows * columns)
    moved = (2 * n + 2 * columns) * _size(dtype)
    return Operator("layernorm", "rows of (x - mean) / deviation", d, dtype, Math.FP32, _LAYERNORM_FLOPS * n, moved)


def embedding(tokens: int, width: int, dtype: str = "bfloat16") -> Operator:
    """Rows of a table, looked up by 8-byte indices: each row read and written, no arithmetic."""
    moved = tokens * (2.0 * width * _size(dtype) + 8)
    return Operator("embedding", "out = table[index]", {"tokens": tokens, "width": width}, dtype, Math.FP32, 0.0, moved)


def gemm(name: str, m: int, n: int, k: int, dtype: str = "float16", math: Math = Math.FP16_TENSOR) -> Operator:
    """The product of m x k and k x n matrices, the result in the same type. `name`: gemv for n = 1, and so on."""
    moved = float(m * k + k * n + m * n) * _size(dtype)
    return Operator(name, "c = a b", {"m": m, "n": n, "k": k}, dtype, math, 2.0 * m * n * k, moved)


def convolution(
    images: int, height: int, width: int, channels: int, filters: int, side: int, dtype: str = "float16"
) -> Operator:
    """A convolution with stride 1 and same padding; each tap of each filter is a multiply-add."""
    d = dict(images=images, height=height, width=width, channels=channels, filters=filters, side=side)
    pixels = images * height * width
    moved = float(pixels * (channels + filters) + filters * channels * side * side) * _size(dtype)
    flops = 2.0 * pixels * filters * channels * side * side
    return Operator("convolution", f"{side} x {side} taps", d, dtype, Math.FP16_TENSOR, flops, moved)


def attention(
    name: str, batch: int, heads: int, kv_heads: int, queries: int, keys: int, width: int, dtype: str = "bfloat16"
) -> Operator:
    """softmax(q kᵀ) v, without a mask, in one kernel. `heads` query heads share `kv_heads` heads of keys and values."""
    d = dict(batch=batch, heads=heads, kv_heads=kv_heads, queries=queries, keys=keys, width=width)
    scores = float(batch * heads * queries * keys)
    flops = scores * (4.0 * width + _SOFTMAX_FLOPS)
    moved = float(batch * width * (2 * heads * queries + 2 * kv_heads * keys)) * _size(dtype)
    return Operator(name, "softmax(q kᵀ) v", d, dtype, Math.BF16_TENSOR, flops, moved)


# The sizes of a model with 8 billion parameters, where an operator has one there (4,096 wide, 32 heads that share 8).
OPERATORS: tuple[Operator, ...] = (
    axpy(1 << 26),
    dot(1 << 26),
    transpose(8192, 8192),
    stencil(8192, 8192),
    softmax(16384, 4096),
    layernorm(16384, 4096),
    embedding(16384, 4096),
    gemm("gemv", 16384, 1, 16384),
    gemm("linear, 16 tokens", 16, 14336, 4096),
    gemm("linear, 256 tokens", 256, 14336, 4096),
    gemm("matrix product", 8192, 8192, 8192),
    convolution(32, 56, 56, 256, 256, 3),
    attention("attention, prefill", 4, 32, 8, 4096, 4096, 128),
    attention("attention, decode", 64, 32, 8, 1, 4096, 128),
)
