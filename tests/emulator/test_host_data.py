"""What the host function itself brings along: arrays with contents, structures, records, tuples; captured, then run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.emulator.captured import N, grab, run
from warplab.emulator import execute
from warplab.plan.capture.failure import CaptureFailure, CaptureStatus

pytestmark = pytest.mark.stored

NUMBA = """
@cuda.jit
def add(a, y):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = a[i % a.size]

def f(y):
    MAKE
    add[2, 32](a, y)
"""
ARRAYS = {
    "to_device": ("a = cuda.to_device(np.arange(5, dtype=np.int16) * 3)", np.arange(5) * 3),
    "list": ("a = cuda.to_device([1.5, 2.5])", [1.5, 2.5]),
    "host array": ("a = np.linspace(0, 1, 64)", np.linspace(0, 1, N)),
    "strided": ("a = np.arange(12.)[::3]", np.arange(12)[::3]),
    "columns": ("a = cuda.to_device(np.asfortranarray(np.arange(12.).reshape(3, 4)))[1]", [4, 5, 6, 7]),
    "device_array filled": ("a = cuda.device_array(3, np.float32); a[:] = 7", [7]),
    "copy_to_device": ("a = cuda.device_array(2, np.uint8); a.copy_to_device(np.array([3, 250], np.uint8))", [3, 250]),
    "pinned": ("a = cuda.pinned_array(2); a[:] = 1.25; a = cuda.to_device(a, stream=cuda.stream())", [1.25]),
    "ones": ("a = cp.ones((2, 2), cp.float16).ravel()", [1]),
    "full": ("a = cp.full(3, -2.5)", [-2.5]),
    "full_like": ("a = cp.full_like(y, 3)", [3]),
    "arange": ("a = cp.arange(2, 9, 3)", [2, 5, 8]),
    "array": ("a = cp.array([[1, 2], [3, 4]], dtype=cp.float32).T[1]", [2, 4]),
    "asarray": ("a = cp.asarray(np.float64(0.5)).reshape(1)", [0.5]),
    "set": ("a = cp.empty(2, cp.int64); a.set(np.array([1, -1]))", [1, -1]),
    "fill": ("a = cp.zeros(4, cp.float32); a.fill(np.pi)", [np.float32(np.pi)]),
}


@pytest.mark.parametrize("way", list(ARRAYS))
def test_an_array_starts_with_what_the_host_says(way: str, tmp_path: Path) -> None:
    make, values = ARRAYS[way]
    found = run(NUMBA.replace("MAKE", make), tmp_path).outputs["y"]
    assert np.array_equal(found, np.resize(np.float32(values), N))


def test_each_execution_starts_with_the_original(tmp_path: Path) -> None:
    text = """
@cuda.jit
def take(a, y):
    i = cuda.grid(1)
    y[i] = a[i]
    a[i] = -1

def f(y):
    a = np.arange(64.0)
    take[2, 32](a, y)
    take[1, 32](a, y)
"""
    plan = grab(text, tmp_path)
    for _ in range(2):
        found = execute(plan, {}).outputs["y"]
        assert np.array_equal(found, np.where(np.arange(N) < 32, -1, np.arange(N)))  # the second launch sees the first


def test_a_host_array_that_changes_between_launches_is_copied_again(tmp_path: Path) -> None:
    text = """
@cuda.jit
def put(a, y, at):
    y[at + cuda.threadIdx.x] = a[0]

def f(y):
    a = np.zeros(1)
    for at in (0, 32):
        a[0] = at + 1
        put[1, 32](a, y, at)
"""
    found = run(text, tmp_path).outputs["y"]
    assert np.array_equal(found, np.repeat(np.float32([1, 33]), 32))


@pytest.mark.processes  # padding is not zeroed
def test_records_tuples_and_random_states(tmp_path: Path) -> None:
    text = """
from numba.cuda.random import create_xoroshiro128p_states, xoroshiro128p_uniform_float32
R = np.dtype([("a", np.int32), ("b", np.float64)], align=True)

@cuda.jit
def k(records, record, arrays, empty, states, y):
    i = cuda.grid(1)
    y[i] = records[i % 3]["b"] + record["a"] + arrays[0][i] + arrays[1][0][1] + len(empty)
    y[i] += xoroshiro128p_uniform_float32(states, i)

def f(y):
    records = cuda.to_device(np.array([(1, 2.5), (3, 4.5), (5, 6.5)], R))
    arrays = (cp.full(64, 3, cp.float32), (np.array([7.0, 1000.0]),))
    k[2, 32](records, np.array([(100, 0.0)], R)[0], arrays, ((), ()), create_xoroshiro128p_states(64, 7), y)
"""
    found = run(text, tmp_path).outputs["y"]
    from numba.cuda.random import init_xoroshiro128p_states_cpu, xoroshiro128p_dtype, xoroshiro128p_uniform_float32

    states = np.empty(N, xoroshiro128p_dtype)
    init_xoroshiro128p_states_cpu(states, 7, 0)
    drawn = np.array([xoroshiro128p_uniform_float32(states, i) for i in range(N)])
    expected = np.array([2.5, 4.5, 6.5])[np.arange(N) % 3] + 100 + 3 + 1000 + 2 + drawn
    assert np.allclose(found, expected, rtol=1e-6)


def test_linked_sources_are_part_of_the_kernel(tmp_path: Path) -> None:
    text = """
code = cuda.CUSource('extern "C" __device__ int thrice(int* result, int v) { *result = 3 * v; return 0; }')
thrice = cuda.declare_device("thrice", "int32(int32)", link=code)
half = cuda.declare_device("half", "float32(float32)")
other = cuda.CUSource('extern "C" __device__ int half(float* result, float v) { *result = v / 2; return 0; }')

@cuda.jit(link=[other])
def k(y):
    i = cuda.grid(1)
    y[i] = thrice(i) + half(i)

def f(y):
    k[2, 32](y)
"""
    assert np.array_equal(run(text, tmp_path).outputs["y"], np.arange(N) * 3.5)


@pytest.mark.processes  # padding is not zeroed
def test_structures_and_complex_numbers_by_value(tmp_path: Path) -> None:
    text = """
k = cp.RawKernel(r'''
#include <cupy/complex.cuh>
struct S { int n; double d; float v[3]; };
extern "C" __global__ void k(float* y, S s, complex<float> z, complex<double> w, float4 f, const S* table) {
    int i = threadIdx.x;
    y[i] = s.n + s.d * 8 + s.v[2] * 64 + z.imag() * 512 + w.real() * 4096 + f.w * 32768 + table[1].d;
}
''', "k")
S = np.dtype([("n", np.int32), ("d", np.float64), ("v", np.float32, 3)], align=True)

def f(y):
    table = np.zeros(2, S)
    table[1]["d"] = 0.25
    s = np.array((1, 2.0, (0, 0, 3)), S)
    k((1,), (64,), (y, s, np.complex64(4j), 5 + 0j, np.array([0, 0, 0, 6], np.float32), cp.asarray(table)))
"""
    expected = 1 + 2 * 8 + 3 * 64 + 4 * 512 + 5 * 4096 + 6 * 32768 + 0.25
    assert np.all(run(text, tmp_path).outputs["y"] == np.float32(expected))


GLOBALS = """
module = cp.RawModule(code=r'''
__constant__ float c[64];
__device__ int n = 3;
__device__ double table[2] = {5, 6};
struct S { int a; float b; };
__constant__ S s;
extern "C" __global__ void k(float* y) { y[threadIdx.x] = c[threadIdx.x] + n + table[1] + s.b; }
extern "C" __global__ void other(float* y) { y[threadIdx.x] += 1000 * n; }
''')
BEFORE
def f(y):
    FIRST
    module.get_function("k")((1,), (64,), (y,))
    LATER
"""


def test_variables_of_a_module_are_filled_by_the_host(tmp_path: Path) -> None:
    first = """c = cp.ndarray(64, np.float32, module.get_global("c"))
    c[...] = cp.arange(64, dtype=cp.float32)
    cp.ndarray(1, np.int32, memptr=module.get_global("n"))[:] = 100
    s = cp.ndarray(1, np.dtype([("a", "i4"), ("b", "f4")]), module.get_global("s"))
    s.set(np.array([(1, 0.5)], s.dtype))"""
    later = 'module.get_function("other")((1,), (64,), (y,))'
    text = GLOBALS.replace("BEFORE", "").replace("FIRST", first).replace("LATER", later)
    assert np.array_equal(run(text, tmp_path).outputs["y"], np.arange(64) + 100 + 6 + 0.5 + 1000 * 100)
    before = 'cp.ndarray(64, np.float32, module.get_global("c")).fill(2)'
    text = GLOBALS.replace("BEFORE", before).replace("FIRST", "").replace("LATER", "")
    assert np.all(run(text, tmp_path).outputs["y"] == 2 + 3 + 6)


@pytest.mark.parametrize(
    ("later", "words"),
    [
        ("cp.ndarray(64, np.float32, module.get_global('c')).fill(1)", "before the first one"),
        ("module.get_function('k')((1,), (1,), (cp.ndarray(1, np.int32, module.get_global('n')),))", "by its name"),
        ("cp.ndarray(3, np.float32, module.get_global('c'))", "has 256 bytes"),
        ("module.get_global('nothing')", "defines no variable 'nothing'"),
    ],
)
def test_what_cannot_be_done_with_variables_is_said(later: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(CaptureFailure, match=words):
        grab(GLOBALS.replace("BEFORE", "").replace("FIRST", "").replace("LATER", later), tmp_path)


def test_streams_and_events_change_nothing(tmp_path: Path) -> None:
    text = """
@cuda.jit
def put(y, value):
    y[cuda.grid(1)] = value

k = cp.RawKernel('extern "C" __global__ void k(float* y) { y[threadIdx.x] *= 2; }', "k")

def f(y):
    one, two = cuda.stream(), cp.cuda.Stream(non_blocking=True)
    done = cuda.event()
    with one.auto_synchronize():
        put[2, 32, one](y, 3)
    done.record(one)
    done.wait(one)
    event = cp.cuda.Event()
    with two:
        event.record(two)
        two.wait_event(event)
        k((1,), (32,), (y,), stream=two)
    two.synchronize()
    cp.cuda.get_current_stream().synchronize()
"""
    found = run(text, tmp_path).outputs["y"]
    assert np.array_equal(found, np.where(np.arange(N) < 32, 6, 3))


REFUSED = {
    "too much": ("a = cuda.to_device(np.zeros(300_000, np.float32))", CaptureStatus.RESOURCES, "1.14 MiB"),
    "after a launch": (
        "add[1, 1](y, y); a = cp.zeros(2); add[1, 1](a, y); a.fill(1)",
        CaptureStatus.UNSUPPORTED,
        "first",
    ),
    "a part": ("a = cp.zeros(4); a[1:].fill(1)", CaptureStatus.UNSUPPORTED, "part"),
    "objects": ("a = cuda.to_device(np.array([None]))", CaptureStatus.UNSUPPORTED, "dtype object"),
    "a copy": ("a = cp.array(y)", CaptureStatus.UNSUPPORTED, "cupy.asarray"),
    "an argument": ("y.fill(0)", CaptureStatus.UNSUPPORTED, "kernel"),
    "time": ("cuda.event().elapsed_time(cuda.event())", CaptureStatus.UNSUPPORTED, "timing"),
    "a foreign stream": ("add[1, 1, 12345](y, y)", CaptureStatus.UNSUPPORTED, "cuda.stream()"),
}


@pytest.mark.parametrize("what", list(REFUSED))
def test_what_a_plan_cannot_hold_is_refused_in_words(what: str, tmp_path: Path) -> None:
    make, status, words = REFUSED[what]
    with pytest.raises(CaptureFailure) as caught:
        grab(NUMBA.replace("MAKE", make), tmp_path)
    assert caught.value.status is status and words in caught.value.message
    assert "\n" not in caught.value.message


def test_a_structure_of_another_size_is_refused(tmp_path: Path) -> None:
    text = """
k = cp.RawKernel('struct S { int n; double d; }; extern "C" __global__ void k(float* y, S s) { y[0] = s.d; }', "k")
def f(y):
    k((1,), (1,), (y, np.zeros((), [("n", np.int32), ("d", np.float64)])))
"""
    with pytest.raises(CaptureFailure) as caught:
        grab(text, tmp_path)
    assert caught.value.status is CaptureStatus.LAUNCH_ERROR
    assert "a structure of 16 bytes" in caught.value.message and "align=True" in caught.value.message
