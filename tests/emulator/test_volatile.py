"""What volatile accesses order, nothing, and what waits for the lanes of a warp, beside code that is right.

Each faulty kernel has a twin that differs in what orders the two accesses. Truth is the PTX ISA, "Memory Consistency
Model": volatile is relaxed, with the scope of the system; and the CUDA C++ Programming Guide on `__syncwarp`.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.plans import cuda_plan
from warplab.emulator import execute
from warplab.plan.execution import FindingKind
from warplab.plan.model import Role

pytestmark = pytest.mark.stored

SHARED = "__shared__ volatile int s[64]; __shared__ volatile unsigned c; __shared__ int w[64]; __shared__ unsigned u;"
SWAP = "do {{ seen = old; old = atomicCAS({0}, seen, seen + t); }} while (old != seen);"
ZERO = "if (!t) { c = 0; u = 0; } __syncthreads();"
ORDINARY = (
    "volatile int* f = o + 256; if (!t) {{ *o = b + 7; __threadfence(); *f = 1; }}"
    " if (t == 32) {{ while (!*f); {} o[512] = *o; }}"
)
# (blocks, threads, what is wrong, what is right)
PAIRS = {
    "a barrier is missing": (1, 64, "s[t] = t; o[t] = s[63 - t];", "s[t] = t; __syncthreads(); o[t] = s[63 - t];"),
    "a count of warps": (1, 128, f"{ZERO} c = c + 1;", f"{ZERO} atomicAdd((unsigned*)&c, 1);"),
    "a count of lanes": (1, 32, f"{ZERO} c = c + 1;", f"{ZERO} if (!t) c = c + 1;"),
    "a sum of blocks": (8, 1, "volatile int* v = o; *v = *v + 1;", "atomicAdd(o, 1);"),
    "a sum of one warp": (1, 32, "volatile int* v = o; *v = *v + 1;", "volatile int* v = o + t; *v = *v + 1;"),
    "a message without fences": (
        2,
        64,
        "volatile int *d = o, *f = o + 256; if (!b) { d[t] = t; __syncthreads(); if (!t) *f = 1; }"
        " else { if (!t) while (!*f); __syncthreads(); o[512 + t] = d[t]; }",
        "volatile int *d = o, *f = o + 256; if (!b) { d[t] = t; __syncthreads(); if (!t) { __threadfence(); *f = 1; } }"
        " else { if (!t) { while (!*f); __threadfence(); } __syncthreads(); o[512 + t] = d[t]; }",
    ),
    "a message between warps": (
        1,
        64,
        "volatile int *d = o, *f = o + 256; if (!t) { *d = 7; *f = 1; } if (t == 32) { while (!*f); o[512] = *d; }",
        "volatile int *d = o, *f = o + 256; if (!t) { *d = 7; __threadfence(); *f = 1; }"
        " if (t == 32) { while (!*f); o[512] = *d; }",
    ),
    "the same in shared memory": (
        1,
        64,
        f"{ZERO} if (!t) {{ s[0] = 7; c = 1; }} if (t == 32) {{ while (!c); o[t] = s[0]; }}",
        f"{ZERO} if (!t) {{ s[0] = 7; __threadfence_block(); c = 1; }} if (t == 32) {{ while (!c); o[t] = s[0]; }}",
    ),
    "an ordinary message between warps": (1, 64, ORDINARY.format(""), ORDINARY.format("__threadfence();")),
    "a lock in shared memory without fences": (
        1,
        128,
        f"if (!t) w[0] = 0; {ZERO} if (t % 32 == 0) {{ while (atomicCAS(&u, 0, 1)); w[0] += t; atomicExch(&u, 0); }}"
        " __syncthreads(); o[t] = w[0];",
        f"if (!t) w[0] = 0; {ZERO} if (t % 32 == 0) {{ while (atomicCAS(&u, 0, 1)); __threadfence_block(); w[0] += t;"
        " __threadfence_block(); atomicExch(&u, 0); } __syncthreads(); o[t] = w[0];",
    ),
    "a tree of one warp": (
        1,
        32,
        "s[t] = t; for (int d = 16; d; d >>= 1) if (t < d) s[t] = s[t] + s[t + d]; o[t] = s[0];",
        "s[t] = t; __syncwarp(); for (int d = 16; d; d >>= 1) { int v = s[(t + d) & 31]; __syncwarp();"
        " if (t < d) s[t] = s[t] + v; __syncwarp(); } o[t] = s[0];",
    ),
    "half of the warp waits": (
        1,
        32,
        "w[t] = t; if (t < 16) { __syncwarp(0xffff); o[t] = w[t + 16]; }",
        "w[t] = t; if (t < 16) { __syncwarp(0xffff); o[t] = w[t ^ 1]; }",
    ),
    "halves that never meet": (
        1,
        32,
        "w[t] = t; __syncwarp(t < 16 ? 0xffff : 0xffff0000); o[t] = w[31 - t];",
        "w[t] = t; __syncwarp(t < 16 ? 0xffff : 0xffff0000); __syncwarp(); o[t] = w[31 - t];",
    ),
    "a neighbour's element, then its own": (
        1,
        32,
        "w[t] = t; __syncwarp(); int v = w[(t + 16) & 31]; v += w[t]; w[t] = v;",
        "w[t] = t; __syncwarp(); int v = w[(t + 16) & 31]; v += w[t]; __syncwarp(); w[t] = v;",
    ),
    "its own element, then a neighbour's": (
        1,
        32,
        "w[t] = t; __syncwarp(); int v = w[t]; v += w[(t + 16) & 31]; w[t] = v;",
        "w[t] = t; __syncwarp(); int v = w[t]; if (t < 16) v += w[t + 16]; if (t < 16) w[t] = v;",
    ),
    "bytes of a word": (
        1,
        32,
        "char* p = (char*)w; p[t] = t; __syncwarp(); int v = p[t ^ 1]; v += p[t]; p[t] = v;",
        "char* p = (char*)w; p[t] = t; __syncwarp(); int v = p[t]; if (t & 1) v += p[t]; p[t] = v;",
    ),
    "the same in global memory": (
        1,
        32,
        "int v = o[t + 1]; v += o[t]; o[t] = v;",
        "int v = o[t + 1]; v += o[t]; __syncwarp(); o[t] = v;",
    ),
    "a shuffle in place of a barrier": (
        1,
        32,
        "w[t] = 0; int v = __shfl_xor_sync(~0u, t, 1); atomicAdd(w + (v & 7), 1);",
        "w[t] = 0; __syncwarp(); int v = __shfl_xor_sync(~0u, t, 1); atomicAdd(w + (v & 7), 1);",
    ),
    "a vote in place of a barrier": (
        1,
        32,
        "o[t] = t; if (__any_sync(~0u, o[64])) return; o[128 + t] = o[31 - t];",
        "o[t] = t; if (__any_sync(~0u, o[64])) return; __syncwarp(); o[128 + t] = o[31 - t];",
    ),
    "a constant that is written": (
        1,
        64,
        "o[t] = t; __syncthreads(); o[128 + t] = __ldg(o + 63 - t);",
        "o[t] = t; __syncthreads(); o[128 + t] = o[63 - t] + __ldg(o + 512 + t);",
    ),
}
RIGHT = {
    "a lock": (
        8,
        32,
        "if (!t) { while (atomicCAS(o, 0, 1)); __threadfence(); o[1] += 1; __threadfence(); *(volatile int*)o = 0; }",
    ),
    "a lock in shared memory": (
        1,
        128,
        f"if (!t) w[0] = 0; {ZERO} if (t % 32 == 0) {{ while (atomicCAS(&u, 0, 1)); __threadfence_block(); w[0] += t;"
        " w[1] = w[0]; __threadfence_block(); atomicExch(&u, 0); } __syncthreads(); o[t] = w[0] + w[1];",
    ),
    "a flag in shared memory, set by an atomic": (
        1,
        64,
        f"{ZERO} if (!t) {{ w[0] = b; __threadfence_block(); atomicExch(&u, 1); }}"
        " if (t == 32) { while (!atomicAdd(&u, 0)); __threadfence_block(); o[0] = w[0]; }",
    ),
    "a lock in shared memory that acquires and releases": (
        1,
        128,
        f"if (!t) w[0] = 0; {ZERO} if (t % 32 == 0) {{ unsigned a = (unsigned)__cvta_generic_to_shared(&u), old;"
        " do asm volatile("
        '"atom.acquire.cta.shared.exch.b32 %0, [%1], 1;" : "=r"(old) : "r"(a) : "memory"); while (old); w[0] += t;'
        ' asm volatile("atom.release.cta.shared.exch.b32 %0, [%1], 0;" : "=r"(old) : "r"(a) : "memory"); }'
        " __syncthreads(); o[t] = w[0];",
    ),
    "turns of blocks": (
        8,
        32,
        "volatile int* f = o; if (!t) { while (*f != b); __threadfence(); o[1] += 1; __threadfence(); *f = b + 1; }",
    ),
    "turns of warps": (
        1,
        64,
        f"{ZERO} if (t % 32 == 0) {{ while (c != t / 32); __threadfence_block(); w[0] = t; __threadfence_block();"
        " c = t / 32 + 1; }",
    ),
    "a flag that is read again": (1, 64, f"{ZERO} if (t == 32) c = 7; if (t < 32) {{ while (!c); o[t] = c; }}"),
    "a look that only decides": (
        8,
        32,
        "volatile int* f = o; if (!t && *f == 0) *f = 1; if (!t && f[1] < b) atomicMax(o + 1, b);",
    ),
    "a value with its own flag": (
        8,
        32,
        "volatile long long* p = (volatile long long*)o; long long v = 1; if (!t) { if (b) while (!(v = p[b - 1]));"
        " p[b] = v + 1; }",
    ),
    "a swap that is tried again": (8, 32, "int old = *o, seen; " + SWAP.format("o")),
    "the same in shared memory": (1, 64, f"{ZERO} unsigned old = u, seen; " + SWAP.format("&u")),
    "reads before a shuffle": (
        1,
        32,
        "w[t] = t; __syncwarp(); int v = w[t ^ 1]; v += __shfl_xor_sync(~0u, v, 1); w[t] = v; o[t] = w[t];",
    ),
}


def findings(blocks: int, threads: int, body: str, **order: int) -> list[tuple[FindingKind, str]]:
    """What is found in a kernel of one array, `o`, of 1,024 zeros."""
    source = f'extern "C" __global__ void k(int* o)\n{{\n    int t = threadIdx.x, b = blockIdx.x;\n{SHARED}\n{body}\n}}'
    out = np.zeros(1024, np.int32)
    plan = cuda_plan(source, "k", {"o": (out, Role.INOUT)}, ("o",), (blocks,), (threads,))
    return [(f.kind, f.message) for f in execute(plan, {"o": out}, **order).findings]


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_what_nothing_orders_is_found_and_its_twin_is_clean(pair: tuple[int, int, str, str]) -> None:
    blocks, threads, wrong, right = pair
    for order in ({}, {"seed": 1}, {"seed": 2}):
        found = findings(blocks, threads, wrong, **order)
        assert any(kind is FindingKind.RACE for kind, _ in found), order
        assert findings(blocks, threads, right, **order) == []


@pytest.mark.parametrize("case", RIGHT.values(), ids=RIGHT)
def test_what_real_code_does_with_volatile_is_clean(case: tuple[int, int, str]) -> None:
    for order in ({}, {"seed": 1}, {"seed": 2}, {"seed": 3}):
        assert findings(*case, **order) == []


def test_advice_fits_the_fault() -> None:
    (_, message), *_ = findings(*PAIRS["a sum of blocks"][:3])
    assert "volatile does not order" in message and "has to be atomic" in message and "__syncthreads" not in message
    (_, message), *_ = findings(*PAIRS["an ordinary message between warps"][:3])
    assert "missing fence" in message and "has seen the flag needs __threadfence()" in message
    body = "if (!t) atomicAdd(o, 1); if (t == 40) o[2] = o[0];"
    assert all("__syncthreads" not in message for _, message in findings(8, 64, body))
