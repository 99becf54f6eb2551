"""Times lab 20's reference, tiles of other sizes, CUB's DeviceSelect and torch.masked_select beside a copy.

Run as `python -m benchmarks.compaction` on a machine with a GPU; nvcc adds CUB, PyTorch adds masked_select. Writes
benchmarks/results/compaction.json, and the same file into the folder $OUT where that is set. Exit code 1 where a
candidate or a size was left out, 3 without a GPU.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from warplab.gpu.statistics import median_interval

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "solutions" / "20_compaction" / "submission_cuda.py"
COMMAND = "python -m benchmarks.compaction"
SIZES = tuple(1 << power for power in range(20, 29, 2))  # elements, of which half are kept
SECONDS = 75.0  # in all: sizes that do not fit are left out
TURNS = 15
QUEUED = 2e-3  # seconds of work in one graph, about
REFERENCE_NAME, CUB, COPY, TORCH = "reference", "cub::DeviceSelect::If", "copy", "torch.masked_select"
MEMCPY = "cudaMemcpyAsync"  # no baseline: of 2^28 elements it ran at two thirds of the ceiling on an H200
TILES = ((256, 4), (960, 1))  # the variants' threads, and blocks per SM that registers must allow
APART = (1, 16)  # words from tile to tile
# A copy as the ceilings have it (warplab.gpu.trusted): 16 bytes per thread.
COPY_SOURCE = """
extern "C" __global__ void copy(const float4* x, float4* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i];
}
"""
_CUB = r"""
#include <cub/cub.cuh>
struct Above {
    float limit;
    __host__ __device__ bool operator()(float value) const { return value > limit; }
};
extern "C" int compact(void* work, size_t* bytes, const float* x, float* out, int* count, int n, float limit,
                       cudaStream_t stream)
{
    return (int)cub::DeviceSelect::If(work, *bytes, x, out, count, n, Above{limit}, stream);
}
"""
Work = Callable[[Any, Any, Any], None]  # (x, out, count): queues one compaction on the current stream


def edited(text: str, *edits: tuple[str, str]) -> str:
    """The text with each edit made once. Raises ValueError for one that does not fit."""
    for old, new in edits:
        if text.count(old) != 1:
            raise ValueError(f"{old!r} is there {text.count(old)} times.")
        text = text.replace(old, new)
    return text


def of_source(text: str) -> Work:
    """The compaction that a submission's text defines, with a limit of 0."""
    module = types.ModuleType("submission")
    exec(compile(text, str(REFERENCE), "exec"), module.__dict__)
    return lambda x, out, count: module.compact(x, 0, out, count)


def variants() -> dict[str, str]:
    """Texts of the reference as it is, with other tiles, and without tickets, by name."""
    text = REFERENCE.read_text(encoding="utf-8")
    found = {"": text}
    for block, resident in TILES:
        found[f"{block} threads, {resident} blocks"] = edited(
            text,
            ("BLOCK = 512\n", f"BLOCK = {block}\n"),
            ("BLOCK = 512, WARPS", f"BLOCK = {block}, WARPS"),
            ("BLOCKS = 2 * 132", f"BLOCKS = {resident} * 132"),
            ("__launch_bounds__(BLOCK + 32, 2)", f"__launch_bounds__(BLOCK + 32, {resident})"),
        )
    found["no ticket"] = edited(
        text,
        ("tickets[0] = atomicAdd(ticket, 1);", "tickets[0] = blockIdx.x;"),
        ("tickets[(turn + 1) % 2] = atomicAdd(ticket, 1);", "tickets[(turn + 1) % 2] = tile + gridDim.x;"),
    )
    for apart in APART:
        words = f"words of neighbouring tiles {8 * apart} bytes apart"
        found[words] = edited(text, ("APART = 4;", f"APART = {apart};"), ("APART = 4 ", f"APART = {apart} "))
    return found


def _nvcc() -> str | None:
    toolkit = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "bin" / "nvcc"
    return shutil.which("nvcc") or (str(toolkit) if toolkit.exists() else None)


class Cub:
    """cub::DeviceSelect::If, compiled by nvcc. Raises RuntimeError with nvcc's words where that fails."""

    def __init__(self, nvcc: str, folder: Path) -> None:
        source, library = folder / "select.cu", folder / "select.so"
        source.write_text(_CUB)
        flags = ["-O3", "-std=c++17", "-arch=native", "-shared", "-Xcompiler", "-fPIC"]
        made = subprocess.run([nvcc, *flags, str(source), "-o", str(library)], capture_output=True, text=True)
        if made.returncode:
            raise RuntimeError(f"nvcc cannot compile CUB: {made.stderr}")
        self._select = ctypes.CDLL(str(library)).compact
        self._select.restype = ctypes.c_int
        self._work: Any = None

    def __call__(self, x: Any, out: Any, count: Any) -> None:
        """Queue one selection; the first call for a size makes its workspace."""
        import cupy

        need = ctypes.c_size_t(0)
        self._call(None, need, x, out, count)
        if self._work is None or self._work.nbytes < need.value:
            self._work = cupy.empty(max(1, need.value), cupy.uint8)
        self._call(self._work.data.ptr, need, x, out, count)

    def _call(self, work: int | None, need: ctypes.c_size_t, x: Any, out: Any, count: Any) -> None:
        import cupy

        status = self._select(
            ctypes.c_void_p(work), ctypes.byref(need), ctypes.c_void_p(x.data.ptr), ctypes.c_void_p(out.data.ptr),
            ctypes.c_void_p(count.data.ptr), ctypes.c_int(x.size), ctypes.c_float(0),
            ctypes.c_void_p(cupy.cuda.get_current_stream().ptr),
        )  # fmt: skip
        if status:
            raise OSError(f"DeviceSelect failed with {status}.")


class Bench:
    """One size: arrays, and the seconds of each candidate, all in turns."""

    def __init__(self, n: int, stream: Any) -> None:
        import cupy

        self.cupy, self.stream, self.n = cupy, stream, n
        with stream:
            self.x = cupy.random.default_rng(n).standard_normal(n, dtype=cupy.float32)
            self.out = cupy.empty_like(self.x)
            self.count = cupy.zeros(1, cupy.int32)
            self.right = self.x[self.x > 0]
        stream.synchronize()
        self.graphs: dict[str, tuple[Any, int]] = {}
        self._copy = cupy.RawKernel(COPY_SOURCE, "copy")

    def add(self, name: str, work: Callable[[], None], check: bool = True) -> None:
        """Capture so many calls as take QUEUED seconds. Raises ValueError if the first gives something wrong."""
        with self.stream:
            self.out.fill(0)
            self.count.fill(0)
            work()
            work()
            self.stream.synchronize()
            if check:
                kept = int(self.count[0])
                if kept != self.right.size or not bool((self.out[:kept] == self.right).all()):
                    raise ValueError(f"{name} is wrong for n = {self.n}: {kept} kept instead of {self.right.size}.")
            begin, end = self.cupy.cuda.Event(), self.cupy.cuda.Event()
            begin.record()
            work()
            end.record()
            end.synchronize()
            calls = max(1, min(200, math.ceil(QUEUED / (self.cupy.cuda.get_elapsed_time(begin, end) / 1e3))))
            self.stream.begin_capture()
            for _ in range(calls):
                work()
            graph = self.stream.end_capture()
        graph.upload(self.stream)
        self.graphs[name] = (graph, calls)

    def copy(self) -> None:
        """Queue a copy of x to out by a kernel."""
        fours = self.n // 4
        self._copy(((fours + 255) // 256,), (256,), (self.x, self.out, self.cupy.int32(fours)))

    def memcpy(self) -> None:
        """Queue the driver's copy of x to out."""
        self.out.data.copy_from_device_async(self.x.data, self.x.nbytes, self.stream)

    def seconds(self) -> dict[str, list[float]]:
        """Seconds of one call in each of TURNS turns, by name."""
        taken: dict[str, list[float]] = {name: [] for name in self.graphs}
        begin, end = self.cupy.cuda.Event(), self.cupy.cuda.Event()
        for _ in range(TURNS):
            for name, (graph, calls) in self.graphs.items():
                begin.record(self.stream)
                graph.launch(self.stream)
                end.record(self.stream)
                end.synchronize()
                taken[name].append(self.cupy.cuda.get_elapsed_time(begin, end) / 1e3 / calls)
        return taken

    def masked_select(self) -> list[float]:
        """Seconds of torch.masked_select, which waits on the host for the number: by the host's clock."""
        import torch

        x = torch.from_dlpack(self.x)
        taken = []
        for _ in range(TURNS + 2):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            torch.masked_select(x, x > 0)
            torch.cuda.synchronize()
            taken.append(time.perf_counter() - begin)
        return taken[2:]


def _bytes(name: str) -> int:
    """Bytes that move per element: a copy moves all, a compaction writes half."""
    return 8 if name in (COPY, MEMCPY) else 6


def records(n: int, taken: dict[str, list[float]]) -> list[dict[str, Any]]:
    """Rates in bytes per second, 4 read per element and 4 written per kept one, beside the copy's and CUB's."""
    intervals = {name: median_interval(seconds) for name, seconds in taken.items()}
    rate = {name: _bytes(name) * n / interval.value for name, interval in intervals.items()}
    found = []
    for name, interval in intervals.items():
        kind, _, variant = name.partition("/")
        extra: dict[str, Any] = {"seconds": interval.value}
        if CUB in intervals and _bytes(name) != 8:
            extra["beside_cub"] = intervals[CUB].value / interval.value
        found.append(
            {
                "name": kind,
                "variant": variant,
                "metric": "rate",
                "value": rate[name],
                "unit": "B/s",
                "shape": (n,),
                "dtype": "float32",
                "interval": (_bytes(name) * n / interval.high, _bytes(name) * n / interval.low),
                "baseline": COPY,
                "baseline_value": rate[COPY],
                "ratio": rate[name] / rate[COPY],
                "conditions": "median of turns; half of the elements are kept; up to 2^22 they stay in the L2 cache",
                "extra": extra,
            }
        )
    return found


def measured(say: Callable[[str], None]) -> tuple[list[dict[str, Any]], list[str]]:
    """The records of all sizes, the largest first, as far as SECONDS last; and what was left out, and why.

    Raises whatever the reference or CUB raises, and ValueError where one of them is wrong.
    """
    import cupy

    began, stream = time.monotonic(), cupy.cuda.Stream(non_blocking=True)
    found, left_out = list[dict[str, Any]](), list[str]()
    candidates: dict[str, Work] = {}
    with tempfile.TemporaryDirectory() as folder:
        if nvcc := _nvcc():
            candidates[CUB] = Cub(nvcc, Path(folder))
        else:
            left_out.append("CUB: nvcc is not on the PATH.")
        if not importlib.util.find_spec("torch"):
            left_out.append(f"{TORCH}: PyTorch is not installed.")
        for variant, text in variants().items():
            candidates[f"{REFERENCE_NAME}/{variant}" if variant else REFERENCE_NAME] = of_source(text)
        say(f"{time.monotonic() - began:.1f} s: compiled")
        for n in sorted(SIZES, reverse=True):
            if time.monotonic() - began > SECONDS:
                left_out.append(f"n = {n}: {SECONDS:.0f} s were over.")
                continue
            bench = Bench(n, stream)
            bench.add(COPY, bench.copy, check=False)
            bench.add(MEMCPY, bench.memcpy, check=False)
            for name, work in candidates.items():
                bench.add(name, partial(work, bench.x, bench.out, bench.count))
            taken = bench.seconds()
            if importlib.util.find_spec("torch"):
                taken[TORCH] = bench.masked_select()
            found += records(n, taken)
            say(f"{time.monotonic() - began:.1f} s: n = {n}")
            for one in found[-len(taken) :]:
                beside = one["extra"].get("beside_cub", math.nan)
                label = f"{one['name']} {one['variant']}"
                say(f"  {label:58} {one['value'] / 1e12:6.3f} TB/s {one['ratio']:6.3f} of copy {beside:6.3f} of CUB")
            del bench
            cupy.get_default_memory_pool().free_all_blocks()
    return found, left_out


def main() -> int:
    """Exit code 1 where something was left out, 3 without a GPU."""
    try:
        import cupy

        cupy.cuda.Device().synchronize()
    except Exception:
        print("This needs a GPU and CuPy.", file=sys.stderr)
        return 3
    found, left_out = measured(partial(print, flush=True))
    folder = os.environ.get("OUT")
    if folder:  # first as it is: the results' own form needs more packages
        (Path(folder) / "compaction_records.json").write_text(json.dumps(found, indent=1))
    from course import results

    path = results.DIRECTORY / "compaction.json"
    written = results.write(path, results.make_header(COMMAND), [results.Record(**one) for one in found], merge=True)
    if folder:
        shutil.copy(written, folder)
    print(f"Written: {written.name}")
    print("\n".join(f"Left out: {one}" for one in left_out), end="\n" * bool(left_out), file=sys.stderr)
    return 1 if left_out else 0


if __name__ == "__main__":
    sys.exit(main())
