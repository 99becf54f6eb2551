"""Runs axpy, a matrix product and a chase of pointers on the host's processor and on the GPU, in one run.

Run as `python -m benchmarks.beside_cpu` on a machine with a GPU. Writes benchmarks/results/beside_cpu.json, which
chapter 03b shows.
"""

from __future__ import annotations

import os
import re
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numba
import numpy as np

from course import results
from course.results import Record
from warplab.errors import WarplabError
from warplab.hardware.device import present

FILE = results.DIRECTORY / "beside_cpu.json"
COMMAND = "python -m benchmarks.beside_cpu"
ELEMENTS = 1 << 27  # of x and y: 1 GiB together, far beyond every cache
SIDE = 2048
CHAINS = (1, 2, 4, 8, 16, 32)  # pointers that one core follows at a time
WARPS = (1, 2, 4, 8, 16, 32)  # that one SM holds, each lane with one pointer
SLOTS = 1 << 25  # of 8 bytes that pointers lead through: 256 MiB
STEPS = 2000
TURNS = 7


@numba.njit(fastmath=True)
def axpy(a: np.float32, x: np.ndarray, y: np.ndarray) -> None:
    """y += a x on one thread; LLVM makes SIMD instructions of the loop."""
    for i in range(x.size):
        y[i] += a * x[i]


@numba.njit(parallel=True, fastmath=True)
def axpy_on_all_cores(a: np.float32, x: np.ndarray, y: np.ndarray) -> None:
    """The same, the range shared among all threads."""
    for i in numba.prange(x.size):
        y[i] += a * x[i]


@numba.njit(fastmath=True)
def product(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
    """c = a b: three loops, the innermost along rows of b and c."""
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            c[i, j] = 0
        for k in range(a.shape[1]):
            for j in range(b.shape[1]):
                c[i, j] += a[i, k] * b[k, j]


@numba.njit(parallel=True, fastmath=True)
def product_on_all_cores(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
    """The same, a row of c per turn of a thread."""
    for i in numba.prange(a.shape[0]):
        for j in range(b.shape[1]):
            c[i, j] = 0
        for k in range(a.shape[1]):
            for j in range(b.shape[1]):
                c[i, j] += a[i, k] * b[k, j]


@numba.njit
def chase(following: np.ndarray, places: np.ndarray, steps: int) -> int:
    """Follow one pointer per chain; the chains do not depend on each other."""
    for _ in range(steps):
        for chain in range(places.size):
            places[chain] = following[places[chain]]
    return places.sum()


_KERNELS = r"""
extern "C" __global__ void axpy(float a, const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}
extern "C" __global__ void product(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < n; ++k) sum += a[i * n + k] * b[k * n + j];
    c[i * n + j] = sum;
}
extern "C" __global__ void chase(const long long* following, long long* places, int steps) {
    long long place = places[blockIdx.x * blockDim.x + threadIdx.x];
    for (int step = 0; step < steps; ++step) place = following[place];
    places[blockIdx.x * blockDim.x + threadIdx.x] = place;
}
"""


def processor() -> tuple[str, int]:
    """The processor's name as the system gives it, and the cores that this process may use."""
    found = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    return (found[1] if found else "a processor"), len(os.sched_getaffinity(0))


def seconds(work: Callable[[], Any], wait: Callable[[], Any] = lambda: None) -> float:
    """The median of TURNS by the host's clock, after one run that does not count."""
    work()
    wait()
    taken = []
    for _ in range(TURNS):
        begin = time.perf_counter()
        work()
        wait()
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken)


def measure() -> list[Record]:
    """All records."""
    import cupy

    name, cores = processor()
    wait = cupy.cuda.Device().synchronize
    kernel = cupy.RawModule(code=_KERNELS).get_function
    host = f"{name}, {cores} cores"
    found = []

    def add(what: str, how: str, taken: float, work: float, unit: str, on: str, shape: tuple[int, ...]) -> None:
        found.append(Record(what, "rate", work / taken, unit, variant=how, shape=shape, dtype="float32", conditions=on))
        print(f"{what:8} {how:28} {work / taken:.4g} {unit}", flush=True)

    x, y = np.ones(ELEMENTS, np.float32), np.zeros(ELEMENTS, np.float32)
    there = cupy.asarray(x), cupy.asarray(y)
    moved, scale = 12.0 * ELEMENTS, np.float32(2)
    blocks = (ELEMENTS // 256,)
    ways: list[tuple[str, Callable[[], Any], str]] = [
        ("NumPy", lambda: np.add(y, scale * x, out=y), host),
        ("Numba, one core", lambda: axpy(scale, x, y), host),
        ("Numba, all cores", lambda: axpy_on_all_cores(scale, x, y), host),
        ("GPU", lambda: kernel("axpy")(blocks, (256,), (scale, *there, np.int32(ELEMENTS))), "GPU"),
    ]
    for how, work, on in ways:
        add("axpy", how, seconds(work, wait), moved, "B/s", on, (ELEMENTS,))

    rng = np.random.default_rng(3)
    a, b = (rng.random((SIDE, SIDE), np.float32) for _ in range(2))
    c, on_gpu = np.empty_like(a), [cupy.asarray(each) for each in (a, b, a)]
    grid = (SIDE // 16, SIDE // 16)
    ways = [
        ("three loops, one core", lambda: product(a, b, c), host),
        ("three loops, all cores", lambda: product_on_all_cores(a, b, c), host),
        ("NumPy (BLAS), all cores", lambda: np.matmul(a, b, out=c), host),
        ("GPU, a thread per element", lambda: kernel("product")(grid, (16, 16), (*on_gpu, np.int32(SIDE))), "GPU"),
        ("GPU, cuBLAS", lambda: cupy.matmul(on_gpu[0], on_gpu[1], out=on_gpu[2]), "GPU"),
    ]
    for how, work, on in ways:
        add("product", how, seconds(work, wait), 2.0 * SIDE**3, "FLOP/s", on, (SIDE, SIDE, SIDE))

    order = rng.permutation(SLOTS)
    following = np.empty(SLOTS, np.int64)
    following[order] = np.roll(order, -1)
    device = cupy.asarray(following)
    for chains in CHAINS:
        places = rng.integers(0, SLOTS, chains)
        taken = seconds(partial(chase, following, places, STEPS))
        add("chase", "one core", taken, float(chains * STEPS), "1/s", host, (chains,))
    for warps in WARPS:
        start = cupy.asarray(rng.integers(0, SLOTS, 32 * warps))
        threads = min(1024, 32 * warps)
        shape = (32 * warps // threads,), (threads,)
        work = partial(kernel("chase"), *shape, (device, start, np.int32(STEPS)))
        taken = seconds(work, wait)
        add("chase", "one SM", taken, 32.0 * warps * STEPS, "1/s", "GPU", (32 * warps,))
    return found


def main() -> int:
    """Exit code 3 without a GPU."""
    if present() is None:
        raise WarplabError("This needs a GPU.")
    records = measure()
    print(f"Written: {results.write(FILE, results.make_header(COMMAND), records, merge=True).name}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except WarplabError as error:
        print(error, file=sys.stderr)
        sys.exit(3)
