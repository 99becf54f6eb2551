"""The Triton kernels. Only `record` imports this module: it needs Triton."""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def softmax(a, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(a + row * columns + at, mask=at < columns, other=-float("inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(out + row * columns + at, e / tl.sum(e, 0), mask=at < columns)


@triton.jit
def layer_norm(a, gain, bias, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros([BLOCK], tl.float32)
    squares = tl.zeros([BLOCK], tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(a + row * columns + at, mask=at < columns, other=0).to(tl.float32)
        total += x
        squares += x * x
    mean = tl.sum(total, 0) / columns
    scale = tl.rsqrt(tl.sum(squares, 0) / columns - mean * mean + 1e-5)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = at < columns
        x = tl.load(a + row * columns + at, mask=inside, other=0).to(tl.float32)
        y = (x - mean) * scale * tl.load(gain + at, mask=inside) + tl.load(bias + at, mask=inside)
        tl.store(out + row * columns + at, y.to(tl.float16), mask=inside)


@triton.jit
def matmul(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros([BM, BN], tl.float32)
    for start in range(0, k, BK):
        depth = start + tl.arange(0, BK)
        x = tl.load(a + rows[:, None] * k + depth[None, :], mask=(rows[:, None] < m) & (depth[None, :] < k), other=0.0)
        y = tl.load(
            b + depth[:, None] * n + columns[None, :], mask=(depth[:, None] < k) & (columns[None, :] < n), other=0.0
        )
        total = tl.dot(x, y, total)
    tl.store(c + rows[:, None] * n + columns[None, :], total, mask=(rows[:, None] < m) & (columns[None, :] < n))


@triton.jit
def matmul_transposed(a, b, c, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, KIND: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros([BM, BN], KIND)
    for start in range(0, k, BK):
        depth = start + tl.arange(0, BK)
        x = tl.load(a + rows[:, None] * k + depth[None, :])
        y = tl.load(b + columns[None, :] * k + depth[:, None])
        total = tl.dot(x, y, total, out_dtype=KIND)
    tl.store(c + rows[:, None] * n + columns[None, :], total)


@triton.jit
def attention(q, k, v, out, length, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    queries = tl.load(q + rows[:, None] * D + d[None, :])
    best = tl.full([BM], -float("inf"), tl.float32)
    weight = tl.zeros([BM], tl.float32)
    total = tl.zeros([BM, D], tl.float32)
    for start in range(0, (tl.program_id(0) + 1) * BM, BN):
        at = start + tl.arange(0, BN)
        keys = tl.load(k + at[None, :] * D + d[:, None])
        scores = tl.dot(queries, keys) * scale
        scores = tl.where(rows[:, None] >= at[None, :], scores, -float("inf"))
        new = tl.maximum(best, tl.max(scores, 1))
        e = tl.math.exp2(scores - new[:, None])
        shrink = tl.math.exp2(best - new)
        weight = weight * shrink + tl.sum(e, 1)
        total = total * shrink[:, None]
        values = tl.load(v + at[:, None] * D + d[None, :])
        total = tl.dot(e.to(tl.float16), values, total)
        best = new
    tl.store(out + rows[:, None] * D + d[None, :], (total / weight[:, None]).to(tl.float16))


@triton.jit
def sum_atomic(a, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(a + at, mask=at < n, other=0)
    tl.atomic_add(out, tl.sum(x, 0))
    tl.atomic_max(out + 1, tl.max(x, 0))


@triton.jit
def integers(a, sorted_, sums, counts, largest, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(a + at)
    tl.store(sorted_ + at, tl.sort(x))
    tl.store(sums + at, tl.cumsum(x, 0))
    tl.store(counts + tl.arange(0, 64), tl.histogram(x & 63, 64))
    tl.store(largest, tl.argmax(x, 0))
    tl.store(largest + 1, tl.xor_sum(x, 0))


@triton.jit
def functions(a, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(a + at, mask=at < n, other=0.5)
    gelu = 0.5 * x * (1 + tl.erf(x * 0.70710678))
    size = tl.abs(x) + 0.25
    y = gelu + tl.sigmoid(x) + tl.log(size) + tl.sqrt(size) + tl.sin(x) * tl.cos(x) + libdevice.tanh(x)
    tl.store(out + at, y, mask=at < n)


@triton.jit
def dropout(a, out, n, seed, chance, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(a + at, mask=at < n)
    keep = tl.rand(seed, at) > chance
    tl.store(out + at, tl.where(keep, x / (1 - chance), 0.0), mask=at < n)


@triton.jit
def transpose(a, out, m, n, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(a + rows[:, None] * n + columns[None, :], mask=(rows[:, None] < m) & (columns[None, :] < n))
    at = columns[:, None] * m + rows[None, :]
    tl.store(out + at, tl.trans(x), mask=(columns[:, None] < n) & (rows[None, :] < m))


@triton.jit
def gather_rows(table, index, out, WIDTH: tl.constexpr, COUNT: tl.constexpr):
    i = tl.load(index + tl.program_id(0) * COUNT + tl.arange(0, COUNT))
    d = tl.arange(0, WIDTH)
    x = tl.load(table + i[:, None] * WIDTH + d[None, :], eviction_policy="evict_last")
    tl.store(out + (tl.program_id(0) * COUNT + tl.arange(0, COUNT))[:, None] * WIDTH + d[None, :], x.to(tl.float32))


@triton.jit
def associative(a, b, out, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK
    at = row + tl.arange(0, BLOCK)
    decay, value = tl.associative_scan((tl.load(a + at), tl.load(b + at)), 0, _recurrence)
    tl.store(out + at, value)


@triton.jit
def _recurrence(a, x, b, y):
    return a * b, x * b + y


@triton.jit
def matmul_tma(a, b, c, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros([BM, BN], tl.float32)
    for start in range(0, k, BK):
        total = tl.dot(a.load([row, start]), b.load([start, column]), total)
    c.store([row, column], total.to(tl.float16))
