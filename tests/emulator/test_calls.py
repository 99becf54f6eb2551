"""Recursion, calls through pointers, virtual functions, and the ways in which calls end badly."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.plans import cuda_plan, plan_of
from warplab.emulator import execute
from warplab.plan.execution import Execution, FindingKind
from warplab.plan.model import Role

pytestmark = pytest.mark.stored

SOURCE = r"""
__device__ __noinline__ int binomial(int n, int k)
{
    if (k == 0 || k == n) return 1;
    return binomial(n - 1, k - 1) + binomial(n - 1, k);
}

__device__ __noinline__ bool odd(int n);
__device__ __noinline__ bool even(int n) { return n == 0 ? true : odd(n - 1); }
__device__ __noinline__ bool odd(int n) { return n == 0 ? false : even(n - 1); }

// Each level keeps an array of its own, which the next level writes through a pointer.
__device__ __noinline__ void digits(int n, int base, int* sum)
{
    int own[4] = {n % base, base, 0, 0};
    if (n >= base) digits(n / base, base, own + 2);
    own[3] = own[n & 1];
    *sum = own[0] + own[2] + 0 * own[3];
}

extern "C" __global__ void recursive(const int* a, int* out)
{
    int i = threadIdx.x, total = 0;
    out[i] = binomial(8, a[i] & 7);
    out[i + 64] = even(a[i] & 31);
    digits(a[i], 10, &total);
    out[i + 128] = total;
    if (i % 3 == 0) out[i] += binomial(i % 5 + 2, 2) * 1000;
}

struct Shape {
    __device__ virtual int area(int scale) const { return scale; }
    __device__ virtual ~Shape() {}
};
struct Square : Shape {
    int side;
    __device__ Square(int side) : side(side) {}
    __device__ int area(int scale) const override { return side * side * scale; }
};
struct Oblong : Shape {
    int a; short b;
    __device__ Oblong(int a, short b) : a(a), b(b) {}
    __device__ int area(int scale) const override { return a * b * scale; }
};

struct Triple { double x; int y; short z; };
typedef Triple (*Change)(Triple, char);
__device__ __noinline__ Triple grow(Triple t, char c) { t.x += c; t.y += 1; return t; }
__device__ __noinline__ Triple flip(Triple t, char c) { t.x = -t.x; t.z = c; return t; }
__device__ Change changes[2] = {grow, flip};

extern "C" __global__ void pointers(const int* a, int* out)
{
    int i = threadIdx.x;
    Shape plain; Square square(a[i] & 15); Oblong oblong(i, 3);
    Shape* shapes[3] = {&plain, &square, &oblong};
    out[i] = shapes[a[i] % 3]->area(i + 1);
    Triple t = {a[i] * 0.5, i, 7};
    t = changes[a[i] >> 3 & 1](t, 4);
    out[i + 64] = (int)(t.x * 2) + t.y * 3 + t.z * 5;
}

extern "C" __global__ void checked(const int* a, int* out)
{
    int i = threadIdx.x;
    assert(a[i] < 100 && "small");
    out[i] = a[i];
}
"""


def run(kernel: str, a: np.ndarray, size: int) -> Execution:
    arrays = {"a": (a, Role.INPUT), "out": (np.zeros(size, np.int32), Role.OUTPUT)}
    return execute(cuda_plan(SOURCE, kernel, arrays, ("a", "out"), (1,), (a.size,)), {"a": a})


def test_recursion_with_diverging_depths_and_arrays_on_the_stack() -> None:
    from math import comb

    a = np.random.default_rng(1).integers(0, 1 << 30, 64).astype(np.int32)
    result = run("recursive", a, 192)
    assert not result.findings
    first, second, third = result.outputs["out"].reshape(3, 64)
    wanted = [comb(8, int(v) & 7) + (comb(i % 5 + 2, 2) * 1000 if i % 3 == 0 else 0) for i, v in enumerate(a)]
    assert first.tolist() == wanted
    assert second.tolist() == [int(v & 31) % 2 == 0 for v in a]
    assert third.tolist() == [sum(int(d) for d in str(v)) for v in a]


def test_virtual_functions_and_pointers_that_differ_between_lanes() -> None:
    a = np.random.default_rng(2).integers(0, 1000, 64).astype(np.int32)
    result = run("pointers", a, 128)
    assert not result.findings
    first, second = result.outputs["out"].reshape(2, 64)
    for i, v in enumerate(a.tolist()):
        assert first[i] == (i + 1) * (1, (v & 15) ** 2, 3 * i)[v % 3]
        x, y, z = (v * 0.5 + 4, i + 1, 7) if not v >> 3 & 1 else (-v * 0.5, i, 4)
        assert second[i] == int(x * 2) + y * 3 + z * 5


def test_a_failed_assertion_says_which() -> None:
    a = np.arange(64, dtype=np.int32) * 3
    (finding,) = run("checked", a, 64).findings
    assert finding.kind is FindingKind.TRAP
    assert "a[i] < 100" in finding.message and "small" in finding.message
    assert finding.thread == (34, 0, 0)
    assert finding.line == 1 + SOURCE.splitlines().index('    assert(a[i] < 100 && "small");')


def ptx_finding(functions: str, body: str) -> tuple[FindingKind, str]:
    text = f""".version 9.0
    .target sm_90a
    .address_size 64
    {functions}
    .visible .entry test() {{ .reg .b64 %rd<4>; .reg .b32 %r<4>; .reg .pred %p<4>; {body} ret; }}"""
    (finding,) = execute(plan_of(text, "test", {}, (), (1,), (32,)), {}).findings
    return finding.kind, finding.message


def test_endless_recursion_runs_out_of_stack() -> None:
    functions = ".func deeper() { .local .align 8 .b8 room[256]; call deeper; ret; }"
    kind, message = ptx_finding(functions, "call deeper;")
    assert kind is FindingKind.TRAP and "16 KiB of stack" in message


def test_a_pointer_to_nothing_is_not_called() -> None:
    functions = ".func other(.param .b32 x) { ret; }\n.func fits() { ret; }"
    body = "kind: .callprototype _ (); mov.u64 %rd0, other; mov.u64 %rd1, fits; call %rd0, (), kind;"
    kind, message = ptx_finding(functions, body)
    assert kind is FindingKind.TRAP and "address of no function" in message


def test_traps_and_impossible_register_counts() -> None:
    assert "stopped the kernel by a trap" in ptx_finding("", "trap;")[1]
    kind, message = ptx_finding("", "setmaxnreg.inc.sync.aligned.u32 100;")
    assert kind is FindingKind.UNSUPPORTED and "setmaxnreg" in message
    assert "a cluster of one" in ptx_finding("", "mov.u32 %r0, 1; mapa.u64 %rd0, %rd1, %r0;")[1].replace(
        "its cluster of one", "a cluster of one"
    )


HEAP = """extern "C" __global__ void lists(int* out, int rounds, unsigned long long bytes)
{
    // Each thread builds a list of its own and adds it up; `bytes` more are asked for with each element.
    struct Node { int value; Node* next; };
    Node* first = nullptr;
    int lost = 0;
    for (int i = 0; i < rounds; ++i) {
        Node* node = (Node*)malloc(sizeof(Node) + bytes);
        if (!node) { ++lost; continue; }
        node->value = threadIdx.x * 100 + i;
        node->next = first;
        first = node;
    }
    int sum = 0, misaligned = 0;
    for (Node* node = first; node; ) {
        Node* next = node->next;
        sum += node->value;
        misaligned += (unsigned long long)node % 16 != 0;
        free(node);
        node = next;
    }
    int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    out[i] = sum;
    out[n + i] = lost;
    out[2 * n + i] = misaligned;
}
"""


def heap(rounds: int, extra: int) -> np.ndarray:
    """Sums, lost elements and misaligned ones of 2 blocks of 64 threads."""
    arrays = {"out": (np.zeros(3 * 128, np.int32), Role.OUTPUT)}
    arguments = ("out", np.int32(rounds), np.uint64(extra))
    result = execute(cuda_plan(HEAP, "lists", arrays, arguments, (2,), (64,)), {})
    assert result.findings == () and "heap" in result.notes["malloc"]
    return result.outputs["out"].reshape(3, 128)


def test_a_kernel_allocates_memory() -> None:
    sums, lost, misaligned = heap(10, 3)
    assert sums.tolist() == [1000 * (i % 64) + 45 for i in range(128)]
    assert not lost.any() and not misaligned.any()


def test_a_heap_that_is_used_up_gives_null_pointers() -> None:
    _, lost, _ = heap(4, 1 << 20)
    assert lost.sum() == 4 * 128 - 15  # of 16 MiB
    _, lost, _ = heap(4, 1 << 40)
    assert lost.sum() == 4 * 128
    assert not heap(1, 0)[1].any()
